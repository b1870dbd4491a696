/* SPDX-License-Identifier: Apache-2.0 */
#include "view/viewer.h"

#include "recover/evidence.h"

const char *const role_names[] = {"none", "viewer", "operator", "admin", NULL};

bool viewer_sees_all(enum role role)
{
	return role >= ROLE_OPERATOR;
}

static void viewer_add_names(struct text_list *to, const struct text_list *more)
{
	for (int i = 0; i < more->n; i++)
		to->items[to->n++] = more->items[i];
}

const struct watch *viewer_watch(const struct watch *w, const struct text_list *mask,
                                 enum role role, struct arena *a)
{
	if (viewer_sees_all(role))
		return w;
	struct watch *copy = ARENA_NEW(a, struct watch);
	*copy = w ? *w : (struct watch){.owner = {.text = "owner"}};
	struct text_list all = {0, ARENA_ARRAY(a, const char *, copy->mask.n + mask->n + 1)};
	viewer_add_names(&all, &copy->mask);
	viewer_add_names(&all, mask);
	if (copy->owner.text)
		all.items[all.n++] =
			text_starts(copy->owner.text, "t.") ? copy->owner.text + 2 : copy->owner.text;
	copy->mask = all;
	return copy;
}

/*
 * Any column may repeat a masked value, which is masked there too; a search would still find it.
 * An owner is always masked.
 */
static bool masks_anything(const struct watch *w, const struct text_list *mask)
{
	return w->mask.n > 0 || mask->n > 0 || w->owner.text;
}

bool viewer_hides(const struct watch *w, const struct text_list *mask, enum role role,
                  const struct term *t)
{
	if (viewer_sees_all(role))
		return false;
	if (t->what == TERM_OWNER)
		return true;
	return (t->what == TERM_TEXT || t->what == TERM_COLUMN) && masks_anything(w, mask);
}

enum term_reach viewer_reach(const struct watch *w, const struct text_list *mask, enum role role)
{
	if (viewer_sees_all(role))
		return REACH_ALL;
	return masks_anything(w, mask) ? REACH_NAMING : REACH_SHOWN;
}

struct viewer viewer_local(const struct watch *w, const char *database)
{
	return (struct viewer){.watch = w, .database = database, .role = ROLE_ADMIN};
}

void viewer_text(const char *text, enum role role, struct buf *out)
{
	const char *name = "text";
	const struct watch masking = {.mask = {1, &name}};
	if (viewer_sees_all(role))
		buf_add(out, text);
	else
		mask_value(&masking, name, text, out);
}

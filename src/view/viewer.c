/* SPDX-License-Identifier: Apache-2.0 */
#include "view/viewer.h"

#include "recover/evidence.h"

const char *const role_names[] = {"none", "viewer", "operator", "admin", NULL};

static bool sees_all(enum role role)
{
	return role >= ROLE_OPERATOR;
}

static void add_names(struct text_list *to, const struct text_list *more)
{
	for (int i = 0; i < more->n; i++)
		to->items[to->n++] = more->items[i];
}

const struct watch *viewer_watch(const struct watch *w, const struct text_list *mask,
                                 enum role role, struct arena *a)
{
	if (sees_all(role))
		return w;
	struct watch *copy = ARENA_NEW(a, struct watch);
	*copy = w ? *w : (struct watch){.owner = {.text = "owner"}};
	struct text_list all = {0, ARENA_ARRAY(a, const char *, copy->mask.n + mask->n + 1)};
	add_names(&all, &copy->mask);
	add_names(&all, mask);
	if (copy->owner.text)
		all.items[all.n++] =
			text_starts(copy->owner.text, "t.") ? copy->owner.text + 2 : copy->owner.text;
	copy->mask = all;
	return copy;
}

static bool has_name(const struct text_list *list, const char *name)
{
	bool has = false;
	for (int i = 0; i < list->n; i++)
		has = has || text_eq(list->items[i], name);
	return has;
}

bool viewer_hides(const struct watch *w, const struct text_list *mask, enum role role,
                  const struct term *t)
{
	if (sees_all(role))
		return false;
	if (t->what == TERM_OWNER)
		return true;
	if (t->what == TERM_TEXT)
		return w->mask.n > 0 || mask->n > 0;
	if (t->what != TERM_COLUMN)
		return false;
	const char *column = w->show.items[t->column];
	return has_name(&w->mask, column) || has_name(mask, column) ||
	       (t->op == TERM_HAS && mask->n > 0);
}

enum term_reach viewer_reach(const struct watch *w, const struct text_list *mask, enum role role)
{
	if (sees_all(role))
		return REACH_ALL;
	return w->mask.n > 0 || mask->n > 0 ? REACH_NAMING : REACH_SHOWN;
}

const char *viewer_text(const char *text, enum role role, struct arena *a)
{
	const char *name = "text";
	const struct watch masking = {.mask = {1, &name}};
	AUTO_BUF shown = BUF_INIT;
	if (!text || sees_all(role))
		return text;
	mask_value(&masking, name, text, &shown);
	return arena_strdup(a, buf_text(&shown));
}

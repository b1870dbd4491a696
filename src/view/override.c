/* SPDX-License-Identifier: Apache-2.0 */
/* override.c: see override.h. */
#include "view/override.h"

#include "base/clock.h"
#include "base/text.h"
#include "view/output.h"

#include <assert.h>

defib_err override_set(struct store *s, const struct override *said, int64_t for_us,
                       struct arena *a, struct override_answer *out, struct failure *f)
{
	struct override *all = NULL;
	int n = 0;
	bool there;
	*out = (struct override_answer){.watch = said->watch, .name = said->name};
	defib_err err = told_open(s, "setting", true, &there, f);
	if (!err)
		err = override_say(s, said, for_us, f);
	if (!err)
		err = override_read(s, a, &all, &n, f);
	for (int i = 0; !err && i < n; i++)
		if (text_eq(all[i].watch, said->watch) && text_eq(all[i].name, said->name))
			out->in_force = &all[i];
	return err;
}

static const struct override *set_for_all(const struct override *all, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (text_eq(all[i].name, name) && text_eq(all[i].watch, "*"))
			return &all[i];
	return NULL;
}

static defib_err clear_one(struct store *s, struct override_answer *w, const char *watch,
                           const char *name, struct failure *f)
{
	*w = (struct override_answer){.watch = watch, .name = name};
	return override_take_back(s, watch, name, &w->was, f);
}

defib_err override_clear(struct store *s, const char *watch, const char *name, struct arena *a,
                         struct override_answer **out, int *n, const struct override **still,
                         struct failure *f)
{
	struct override *all = NULL;
	int nall = 0;
	bool there, every = text_eq(watch, "*");
	*still = NULL;
	*n = 1;
	defib_err err = told_open(s, "setting", false, &there, f);
	if (!err && there)
		err = override_read(s, a, &all, &nall, f);
	*out = ARENA_ARRAY(a, struct override_answer, nall + 1);
	(*out)[0] = (struct override_answer){.watch = watch, .name = name};
	if (err || !there)
		return err;
	err = clear_one(s, *out, watch, name, f);
	if (!every)
		*still = set_for_all(all, nall, name);
	for (int i = 0; !err && every && i < nall; i++)
		if (text_eq(all[i].name, name) && !text_eq(all[i].watch, "*"))
			err = clear_one(s, &(*out)[(*n)++], all[i].watch, name, f);
	return err;
}

void override_answer_json(const struct database *d, const struct override_answer *w,
                          struct buf *out)
{
	buf_add(out, "{\"database\":");
	buf_add_json(out, d->name);
	if (w->in_force) {
		struct buf override = BUF_INIT;
		override_json(w->in_force, &override);
		/* `told` is the old name of `override`. */
		buf_addf(out, ",\"in_force\":true,\"override\":%s,\"told\":%s", buf_text(&override),
		         buf_text(&override));
		buf_release(&override);
	} else {
		json_text(out, "watch", w->watch);
		json_text(out, "name", w->name);
		json_text(out, "word", w->name); /* its old name */
		json_bool(out, "in_force", false);
		json_bool(out, "was", w->was);
	}
	buf_add(out, "}");
}

void override_answers_json(const char *answers, struct buf *out)
{
	/* `words` is the old name of `overrides`. */
	buf_addf(out, "{\"overrides\":[%s],\"words\":[%s]}\n", answers, answers);
}

void moment_text(int64_t us, struct buf *out)
{
	struct buf iso = BUF_INIT;
	time_iso(us, &iso);
	assert(iso.len >= 19);
	buf_addf(out, "%.19sZ", buf_text(&iso));
	buf_release(&iso);
}

void override_text(const struct override *t, struct buf *out)
{
	buf_addf(out, "by %s at ", t->actor);
	moment_text(t->at_us, out);
	buf_add(out, text_eq(t->watch, "*") ? ", for all watches" : "");
	if (t->until_us) {
		buf_add(out, ", until ");
		moment_text(t->until_us, out);
	} else {
		buf_add(out, ", until it is cleared");
	}
	if (t->reason)
		buf_addf(out, ", because: %s", t->reason);
}

static void add_pause_line(const struct override *t, const char *watch, struct buf *out)
{
	struct buf text = BUF_INIT;
	buf_addf(&text, "recovery of %s is paused ", watch);
	override_text(t, &text);
	out_padded(out, buf_text(&text), 0);
	buf_add(out, "\n");
	buf_release(&text);
}

void pause_line(struct store *s, const char *watch, struct buf *out)
{
	struct arena a = ARENA_INIT;
	struct failure ignored = {0};
	struct override *all = NULL;
	bool there = false;
	int n = 0;
	if (told_open(s, "setting", false, &there, &ignored) == DEFIB_OK && there &&
	    override_read(s, &a, &all, &n, &ignored) == DEFIB_OK)
		for (int i = 0; i < n; i++)
			if (text_eq(all[i].name, "pause") &&
			    (text_eq(all[i].watch, watch) || text_eq(all[i].watch, "*")))
				add_pause_line(&all[i], watch, out);
	arena_release(&a);
}

void override_json(const struct override *t, struct buf *out)
{
	buf_add(out, "{\"name\":");
	buf_add_json(out, t->name);
	json_text(out, "word", t->name); /* its old name */
	json_text(out, "watch", t->watch);
	json_text(out, "value", t->value);
	json_text(out, "actor", t->actor);
	json_text(out, "reason", t->reason);
	json_time(out, "at", t->at_us != 0, t->at_us);
	json_time(out, "until", t->until_us != 0, t->until_us);
	buf_add(out, "}");
}

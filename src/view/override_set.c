/* override_set.c: see override_set.h. */
#include "view/override_set.h"

#include "base/text.h"
#include "view/json.h"
#include "view/json_watch_status.h"

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
			out->told = &all[i];
	return err;
}

static const struct override *said_of_all(const struct override *all, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (text_eq(all[i].name, name) && text_eq(all[i].watch, "*"))
			return &all[i];
	return NULL;
}

static defib_err take_back_one(struct store *s, struct override_answer *w, const char *watch,
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
	err = take_back_one(s, *out, watch, name, f);
	if (!every)
		*still = said_of_all(all, nall, name);
	for (int i = 0; !err && every && i < nall; i++)
		if (text_eq(all[i].name, name) && !text_eq(all[i].watch, "*"))
			err = take_back_one(s, &(*out)[(*n)++], all[i].watch, name, f);
	return err;
}

void override_answer_json(const struct database *d, const struct override_answer *w,
                          struct buf *out)
{
	buf_add(out, "{\"database\":");
	buf_add_json(out, d->name);
	if (w->told) {
		buf_add(out, ",\"in_force\":true,\"told\":");
		override_json(w->told, out);
	} else {
		json_text(out, "watch", w->watch);
		json_text(out, "word", w->name);
		json_bool(out, "in_force", false);
		json_bool(out, "was", w->was);
	}
	buf_add(out, "}");
}

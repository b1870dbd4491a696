/*
 * pick.c: one watch by name, its database opened, the watch bound to it.
 */
#include "cli/pick.h"

#include "base/text.h"

static const struct watch *named_watch(struct cli *c, const char *name)
{
	const struct settings *s = &c->settings;
	const struct watch *w = name ? settings_watch(s, name) : NULL;
	if (!w && !name && s->nwatches == 1)
		return &s->watches[0];
	if (w)
		return w;
	const char **names = ARENA_ARRAY(&c->arena, const char *, s->nwatches + 1);
	for (int i = 0; i < s->nwatches; i++)
		names[i] = s->watches[i].name;
	const char *near = name ? text_nearest(name, names) : NULL;
	if (name)
		cli_usage("there is no watch \"%s\"%s%s%s", name, near ? "; did you mean \"" : "",
		          near ? near : "", near ? "\"?" : "");
	else
		cli_usage("name one of the %d watches", s->nwatches);
	return NULL;
}

int pick_watch(struct cli *c, const char *name, struct picked *out)
{
	struct failure f = {0};
	*out = (struct picked){0};
	out->watch = named_watch(c, name);
	if (!out->watch)
		return EXIT_USAGE;
	out->database = settings_database(&c->settings, out->watch);
	struct store_options o = cli_store_options(out->database, out->watch, true);
	defib_err err = store_open(&o, &out->store, &f);
	if (!err)
		err = watch_bind(out->watch, out->store, &c->arena, &out->binding, &f);
	if (!err)
		err = watch_compile(&out->binding, &c->arena, &out->sql, &f);
	if (err) {
		store_close(out->store);
		out->store = NULL;
		return cli_fail(&f);
	}
	return EXIT_CLEAN;
}

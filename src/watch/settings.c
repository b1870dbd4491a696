/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/settings.h"

#include "base/clock.h"
#include "embedded.h"
#include "store/dialect.h"
#include "store/url.h"
#include "watch/check.h"
#include "watch/options.h"

#include <assert.h>

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

#define D(member) offsetof(struct database, member)
const struct opt_row database_rows[] = {
	OPTION(TEXT, "name", D(name), "the database's name in watches and reports", .standard = "main"),
	OPTION(TEXT, "url", D(url),
           "postgres://…, postgresql://… or sqlite:PATH; preferably from the environment: "
           "${DATABASE_URL}",
           .required = true),
	{.name = NULL},
};
#undef D

struct database_list {
	int n;
	struct database *items;
};
struct watch_list {
	int n;
	struct watch *items;
};
_Static_assert(offsetof(struct settings, databases) - offsetof(struct settings, ndatabases) ==
                   offsetof(struct database_list, items),
               "read as a struct database_list");
_Static_assert(offsetof(struct settings, watches) - offsetof(struct settings, nwatches) ==
                   offsetof(struct watch_list, items),
               "read as a struct watch_list");

static bool is_list(struct cfg_reader *r, const struct cfg_node *node, const char *of)
{
	if (!node)
		return false;
	if (node->kind == CFG_LIST)
		return true;
	cfg_problem(r, node->at, "expects a list of %s, each starting with \"- name:\"", of);
	return false;
}

static bool is_map(struct cfg_reader *r, const struct cfg_node *node, const char *what)
{
	if (node->kind == CFG_MAP)
		return true;
	cfg_problem(r, node->at, "%s is a map of keys and values, starting with name:", what);
	return false;
}

static const char *entry_name(const struct cfg_node *map)
{
	const struct cfg_node *name = cfg_get(map, "name");
	return name && name->kind == CFG_SCALAR ? name->text : "?";
}

/* An application's URL is accepted as it is; parts without a meaning here are reported. */
static void settings_read_url(struct cfg_reader *r, struct database *d)
{
	struct failure f = {0};
	AUTO_BUF url = BUF_INIT, notes = BUF_INIT;
	if (store_url_read(d->url, &url, &notes, &f) &&
	    store_engine_of(buf_text(&url), &d->engine, &f)) {
		d->url = arena_strdup(r->arena, buf_text(&url));
		if (notes.len)
			cfg_warning(r, d->at, "database %s: %s", d->name ? d->name : "?", buf_text(&notes));
	} else {
		cfg_problem(r, d->at, "%s%s%s", f.what, f.next[0] ? "; " : "", f.next);
	}
}

static void read_databases(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct database_list *list = target;
	if (!is_list(r, node, "databases"))
		return;
	list->items = ARENA_ARRAY(r->arena, struct database, node->n);
	for (int i = 0; i < node->n; i++) {
		struct database *d = &list->items[list->n];
		if (!is_map(r, node->items[i], "a database"))
			continue;
		size_t mark = cfg_enter(r, entry_name(node->items[i]));
		cfg_read(r, database_rows, node->items[i], d);
		d->at = node->items[i]->at;
		if (d->url)
			settings_read_url(r, d);
		for (int j = 0; j < list->n; j++)
			if (d->name && text_eq(list->items[j].name, d->name))
				cfg_problem(r, d->at, "two databases are named \"%s\"", d->name);
		cfg_leave(r, mark);
		list->n++;
	}
}

static void refuse_preset(struct cfg_reader *r, struct cfg_mark at, const char *name)
{
	int n = 0, shipped = 0;
	while (embedded_files[shipped].name)
		shipped++;
	const char **names = ARENA_ARRAY(r->arena, const char *, shipped + 1);
	for (int i = 0; i < shipped; i++) {
		const char *file = embedded_files[i].name;
		if (text_starts(file, "presets/"))
			names[n++] = arena_strndup(r->arena, file + strlen("presets/"),
			                           strlen(file) - strlen("presets/.yaml"));
	}
	cfg_problem(r, at, "there is no preset \"%s\"%s", name, text_hint(name, names).text);
}

/* A watch based on a preset: its own keys override the preset's. */
static const struct cfg_node *with_preset(struct cfg_reader *r, const struct cfg_node *map)
{
	struct cfg_node *preset = cfg_get(map, "preset"), *base = NULL;
	struct failure f = {0};
	const char *name;
	if (!preset || !cfg_text(r, preset, &name))
		return map;
	const char *path = arena_printf(r->arena, "presets/%s.yaml", name);
	const char *text = embedded_text(path);
	if (!text) {
		refuse_preset(r, preset->at, name);
		return map;
	}
	if (cfg_parse(text, arena_printf(r->arena, "preset %s", name), r->arena, &base, &f)) {
		cfg_problem(r, preset->at, "%s", f.what);
		return map;
	}
	for (int i = 0; i < map->n; i++)
		cfg_put(r->arena, base, map->keys[i], map->items[i]);
	base->at = map->at;
	return base;
}

static void settings_read_watches(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct watch_list *list = target;
	if (!is_list(r, node, "watches"))
		return;
	list->items = ARENA_ARRAY(r->arena, struct watch, node->n);
	for (int i = 0; i < node->n; i++) {
		struct watch *w = &list->items[list->n];
		if (!is_map(r, node->items[i], "a watch"))
			continue;
		size_t mark = cfg_enter(r, entry_name(node->items[i]));
		watch_read(r, with_preset(r, node->items[i]), w);
		for (int j = 0; j < list->n; j++)
			if (w->name && text_eq(list->items[j].name, w->name))
				cfg_problem(r, w->at, "two watches are named \"%s\"", w->name);
		cfg_leave(r, mark);
		list->n++;
	}
}

static const char *const ledger_modes[] = {"auto", "off", NULL};

#define S(member) offsetof(struct settings, member)
static const struct opt_row own_rows[] = {
	OPTION(CUSTOM, "databases", S(ndatabases), "the databases; a list of name and url",
           .read = read_databases),
	OPTION(CUSTOM, "watches", S(nwatches), "the watches; a list", .read = settings_read_watches),
	OPTION(CUSTOM, "workflows", S(workflows), "the workflows of the built-in queue; a list",
           .read = read_workflows),
	OPTION(CHOICE, "ledger", S(ledger),
           "auto: created if the role may create it; off: never (no hold, undo, crash budget)",
           .choices = ledger_modes, .standard = "auto"),
	OPTION(MAP, "retention", S(retention),
           "how long defib keeps old rows in its own tables; it never prunes users' tables",
           .rows = retention_rows),
};

static const char *const section_names[] = {
	[SECTION_HTTP] = "http",   [SECTION_ENVIRONMENT] = "environment", [SECTION_METRICS] = "metrics",
	[SECTION_SINKS] = "sinks", [SECTION_ALERTS] = "alerts",           [SECTION_REPORTS] = "reports",
};
_Static_assert(COUNT(section_names) == SECTION_COUNT, "one name per entry");

const struct opt_row *settings_rows(const struct section *const *sections, struct arena *a)
{
	size_t n = COUNT(own_rows);
	struct opt_row *rows = ARENA_ARRAY(a, struct opt_row, n + SECTION_COUNT + 1);
	memcpy(rows, own_rows, sizeof own_rows);
	for (int i = 0; i < SECTION_COUNT; i++)
		rows[n + (size_t)i] = (struct opt_row){.name = section_names[i], .type = OPT_CUSTOM};
	for (; *sections; sections++) {
		struct opt_row *row = &rows[n + (*sections)->id];
		assert(text_eq(row->name, (*sections)->row.name));
		*row = (*sections)->row;
		row->offset = S(sections) + (*sections)->id * sizeof(void *);
	}
	return rows;
}
#undef S

const struct database *settings_database(const struct settings *s, const struct watch *w)
{
	if (!w->database)
		return s->ndatabases ? &s->databases[0] : NULL;
	for (int i = 0; i < s->ndatabases; i++)
		if (text_eq(s->databases[i].name, w->database))
			return &s->databases[i];
	return NULL;
}

struct watch *settings_watch(const struct settings *s, const char *name)
{
	for (int i = 0; i < s->nwatches; i++)
		if (text_eq(s->watches[i].name, name))
			return &s->watches[i];
	return NULL;
}

const char *const *settings_watch_names(const struct settings *s, const char *more, struct arena *a)
{
	const char **names = ARENA_ARRAY(a, const char *, s->nwatches + 2);
	for (int i = 0; i < s->nwatches; i++)
		names[i] = s->watches[i].name;
	names[s->nwatches] = more;
	return names;
}

/* A name that must be one of several; `names` ends with NULL. */
static void refuse_name(struct cfg_reader *r, const struct watch *w, const char *what,
                        const char *name, const char **names)
{
	cfg_problem(r, w->at, "watch %s: there is no %s \"%s\"%s", w->name, what, name,
	            text_hint(name, names).text);
}

static void check_workflow(struct cfg_reader *r, const struct settings *s, const struct watch *w)
{
	const struct workflow_list *all = &s->workflows;
	const char **names = ARENA_ARRAY(r->arena, const char *, all->n + 1);
	for (int i = 0; i < all->n; i++)
		names[i] = all->items[i].name;
	if (w->work.workflow && !workflow_named(all, w->work.workflow))
		refuse_name(r, w, "workflow", w->work.workflow, names);
}

static void check_watch(struct cfg_reader *r, const struct settings *s, const struct watch *w)
{
	const struct database *d = settings_database(s, w);
	check_workflow(r, s, w);
	if (d) {
		watch_check(r, w, d->engine);
	} else if (w->database) {
		const char **names = ARENA_ARRAY(r->arena, const char *, s->ndatabases + 1);
		for (int i = 0; i < s->ndatabases; i++)
			names[i] = s->databases[i].name;
		refuse_name(r, w, "database", w->database, names);
	}
}

static void check_retention(struct cfg_reader *r, const struct cfg_node *root,
                            const struct settings *s)
{
	const struct cfg_node *node = root ? cfg_get(root, "retention") : NULL;
	int64_t budget_us = 0;
	for (int i = 0; i < s->nwatches; i++)
		if (s->watches[i].crash_budget.max && s->watches[i].crash_budget.within_us > budget_us)
			budget_us = s->watches[i].crash_budget.within_us;
	retention_check(r, &s->retention, budget_us, node ? node->at : (struct cfg_mark){0});
}

void settings_read(struct cfg_reader *r, const struct cfg_node *root,
                   const struct section *const *sections, struct settings *out)
{
	*out = (struct settings){0};
	if (root && root->kind != CFG_MAP && root->kind != CFG_NULL) {
		cfg_problem(r, root->at, "expects databases: and watches:");
		return;
	}
	cfg_read(r, settings_rows(sections, r->arena), root, out);
	for (int i = 0; i < out->nwatches; i++)
		out->watches[i].work.workflows = out->workflows;
	out->shown = r->shown;
	out->nshown = r->nshown;
	if (r->nerrors)
		return;
	if (out->ndatabases == 0)
		cfg_problem(r, root ? root->at : (struct cfg_mark){0},
		            "no database: add databases: with a name and a url");
	for (; *sections; sections++)
		if ((*sections)->check)
			(*sections)->check(r, out);
	check_retention(r, root, out);
	for (int i = 0; i < out->nwatches && out->ndatabases > 0; i++)
		check_watch(r, out, &out->watches[i]);
}

/* ---- the option table of `retention:` ---- */

#define LEAST_US                                                                                   \
	(60 * 60 * US_PER_S) /* a settlement whose reply was lost is repeated within this time */

#define R(member) offsetof(struct retention, member)
const struct opt_row retention_rows[] = {
	OPTION(BOOL, "enabled", R(enabled),
           "false: daemons and workers remove nothing by themselves; a prune by hand still does",
           .standard = "true"),
	OPTION(DURATION, "every", R(every_us), "how often to look for old rows", .standard = "1m"),
	OPTION(DURATION, "done", R(done_us),
           "jobs of the built-in queue that are done, with payload, result, steps and progress; "
           "here and below 0s: forever",
           .standard = "7d"),
	OPTION(DURATION, "failed", R(failed_us),
           "jobs that failed, timed out, were cancelled or rolled back; held ones always stay",
           .standard = "30d"),
	OPTION(DURATION, "workers", R(workers_us),
           "ended workers, and ended programs that were watched, that hold nothing any more",
           .standard = "30d"),
	OPTION(DURATION, "leases", R(leases_us),
           "leases and steps of jobs in other tables that were not claimed since",
           .standard = "90d"),
	OPTION(DURATION, "tokens", R(tokens_us),
           "tokens that keep spooled jobs from being enqueued twice", .standard = "7d"),
	OPTION(DURATION, "messages", R(messages_us),
           "alerts and reports that were sent, refused or abandoned", .standard = "30d"),
	OPTION(DURATION, "learned", R(learned_us), "run times of kinds that have not run since",
           .standard = "180d"),
	OPTION(DURATION, "ledger", R(ledger_us),
           "ledger entries; at least as long as a crash budget counts", .standard = "400d"),
	{.name = NULL},
};
#undef R

static void at_least(struct cfg_reader *r, const char *name, int64_t value_us, int64_t least_us,
                     struct cfg_mark at, const char *why)
{
	AUTO_BUF least = BUF_INIT;
	duration_text(least_us, &least);
	if (value_us > 0 && value_us < least_us)
		cfg_problem(r, at, "retention: %s is at least %s: %s", name, buf_text(&least), why);
}

void retention_check(struct cfg_reader *r, const struct retention *p, int64_t budget_us,
                     struct cfg_mark at)
{
	static const char why[] = "a worker that lost an answer may still ask for it";
	at_least(r, "done", p->done_us, LEAST_US, at, why);
	at_least(r, "failed", p->failed_us, LEAST_US, at, why);
	at_least(r, "workers", p->workers_us, LEAST_US, at, why);
	at_least(r, "leases", p->leases_us, LEAST_US, at, why);
	at_least(r, "tokens", p->tokens_us, LEAST_US, at, "a spool may offer the same job again");
	at_least(r, "ledger", p->ledger_us, budget_us, at, "a crash budget counts that far back");
	at_least(r, "every", p->every_us ? p->every_us : 1, US_PER_S, at, "each check costs time");
}

/* ---- the built-in queue ---- */

/*
 * The preset is written for timestamps in a schema; on engines without time types our times are
 * milliseconds.
 */
static const char *without_time_types(const char *text, const struct dialect *d, struct arena *a)
{
	struct buf out = BUF_INIT;
	for (const char *at; (at = strstr(text, "defib.")) != NULL; text = at + strlen("defib.")) {
		buf_addn(&out, text, (size_t)(at - text));
		buf_add(&out, d->own);
	}
	buf_addf(&out, "%s\ntime_type: epoch_ms\n", text);
	return buf_to_arena(&out, a);
}

struct watch *builtin_watch(enum store_engine engine, struct arena *a)
{
	const char *text = embedded_text("presets/queue.yaml");
	struct watch *w = ARENA_NEW(a, struct watch);
	struct cfg_node *map = NULL;
	struct cfg_reader reader;
	struct failure f = {0};
	assert(text != NULL);
	if (!dialect_of(engine)->has_time_types)
		text = without_time_types(text, dialect_of(engine), a);
	cfg_reader_init(&reader, a);
	if (cfg_parse(text, "preset queue", a, &map, &f) == DEFIB_OK) {
		watch_read(&reader, map, w);
		watch_check(&reader, w, engine);
	}
	/* It is part of the program: a problem in it is a bug that every test would show. */
	assert(map != NULL && reader.nerrors == 0);
	cfg_reader_release(&reader);
	return w;
}

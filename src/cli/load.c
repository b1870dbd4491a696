/* SPDX-License-Identifier: Apache-2.0
 * load.c: from files, environment and options to settings.
 */
#include "cli/load.h"

#include "alert/options.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "daemon/scheduled_reports.h"
#include "daemon/settings.h"
#include "ledger/schema.h"
#include "lib/advice.h"
#include "store/url.h"

#include <errno.h>
#include <pwd.h>
#include <unistd.h>

const struct section *const program_sections[] = {&http_section,
                                                  &environment_section,
                                                  &metrics_section,
                                                  &sinks_section,
                                                  &alerts_section,
                                                  &reports_section,
                                                  NULL};

int exit_code_of(defib_err err)
{
	switch (err) {
	case DEFIB_OK:
		return EXIT_CLEAN;
	case DEFIB_USAGE:
	case DEFIB_NOT_FOUND:
		return EXIT_USAGE;
	case DEFIB_CONFIG:
		return EXIT_CONFIG;
	case DEFIB_REFUSED:
		return EXIT_REFUSED;
	default:
		return EXIT_DATABASE;
	}
}

int cli_fail(struct failure *f)
{
	cli_message(f->what, failure_next(f));
	return exit_code_of(f->code);
}

int cli_key_fail(const struct cli *c, const struct watch *w, struct failure *f)
{
	if (f->code != DEFIB_BAD_VALUE)
		return cli_fail(f);
	f->code = DEFIB_USAGE;
	if (c->nwords == 0)
		return cli_fail(f);
	AUTO_BUF key = BUF_INIT;
	for (int k = 0; k < w->key.n; k++)
		buf_addf(&key, "%s%s", k ? ", " : "", w->key.items[k]);
	fail_prefix(f, "\"%s\" is not a key of watch %s (%s)", c->words[0], w->name, buf_text(&key));
	if (settings_watch(&c->settings, c->words[0]))
		fail_next(f, "to name the watch, write --watch %s", c->words[0]);
	else
		fail_next(f, "see defib list --watch %s", w->name);
	return cli_fail(f);
}

void cli_queue_hint(struct failure *f)
{
	/* Our own statements are correct: the tables, or their whole schema, are missing. */
	if (f->code == DEFIB_BAD_SQL && !failure_next(f)[0])
		fail_advise(f, ADVISE_CREATE_QUEUE, NULL);
	if (f->code == DEFIB_PERMISSION && !failure_next(f)[0])
		schema_refused(f, "the role may not use the queue's tables");
}

int cli_queue_fail(struct failure *f)
{
	cli_queue_hint(f);
	return cli_fail(f);
}

defib_err cli_override_threshold(struct watch *w, int64_t us, struct failure *f)
{
	AUTO_BUF beat = BUF_INIT, warning = BUF_INIT;
	duration_text(w->beat_us, &beat);
	if (us < 2 * w->beat_us)
		return fail(
			f, DEFIB_REFUSED,
			"watch %s: a threshold under twice its beat of %s would declare live workers dead",
			w->name, buf_text(&beat));
	bool measures_age = false;
	for (enum sign s = 0; s < SIGN_COUNT; s++)
		measures_age = measures_age || (watch_sign(w, s)->text && !sign_kinds[s].deadline);
	if (us == 0 && measures_age)
		return fail(f, DEFIB_REFUSED,
		            "watch %s: a threshold of 0s would make every running row stuck", w->name);
	if (w->beat_us && us == 2 * w->beat_us) {
		buf_addf(&warning, "watch %s: the threshold is just twice its beat of %s; leave more room",
		         w->name, buf_text(&beat));
		log_event(LOG_WARN, buf_text(&warning));
	}
	for (enum sign s = 0; s < SIGN_COUNT; s++)
		if (watch_limit(w, s)->given)
			*watch_limit_to_change(w, s) = (struct threshold){.given = true, .standard_us = us};
	return DEFIB_OK;
}

static bool is_url(const char *text)
{
	AUTO_BUF url = BUF_INIT, notes = BUF_INIT;
	struct failure ignored = {0};
	bool is = store_url_read(text, &url, &notes, &ignored);
	/* A URL that is rejected for its form is not a name of a database either. */
	return is || strstr(text, "://") || text_starts(text, "jdbc:");
}

/* A list of one map, instead of the file's. */
static void put_only(struct cli *c, struct cfg_node *root, const char *key, struct cfg_node *map)
{
	struct cfg_node *list = cfg_map(&c->arena);
	list->kind = CFG_LIST;
	list->n = 1;
	list->items = ARENA_ARRAY(&c->arena, struct cfg_node *, 1);
	list->items[0] = map;
	cfg_put(&c->arena, root, key, list);
}

/* --db URL replaces the first database; with a file that has several it must be a name. */
static defib_err load_put_database(struct cli *c, struct cfg_node *root, struct failure *f)
{
	struct cfg_node *list = cfg_get(root, "databases");
	enum store_engine engine;
	if (!is_url(c->db)) {
		if (list)
			return DEFIB_OK; /* a name: keep_database picks it after reading */
		store_engine_of(c->db, &engine, f);
		f->code = DEFIB_USAGE;
		fail_prefix(f, "--db");
		return f->code;
	}
	if (list && list->kind == CFG_LIST && list->n > 1)
		return fail(f, DEFIB_USAGE,
		            "--db URL, but the configuration has %d databases; name one of them", list->n);
	struct cfg_node *map = cfg_map(&c->arena);
	const struct cfg_node *old = list && list->kind == CFG_LIST && list->n ? list->items[0] : NULL;
	for (int i = 0; old && old->kind == CFG_MAP && i < old->n; i++)
		cfg_put(&c->arena, map, old->keys[i], old->items[i]);
	cfg_put(&c->arena, map, "url", cfg_scalar(&c->arena, c->db));
	put_only(c, root, "databases", map);
	return DEFIB_OK;
}

/*
 * Watch options on the command line define a watch of their own; the file's watches are ignored
 * then.
 */
static defib_err put_watch(struct cli *c, struct cfg_node *root, struct failure *f)
{
	struct cfg_node *map = cfg_map(&c->arena);
	const char *table = cli_value(c, "table");
	if (!c->command->watch_options)
		return DEFIB_OK;
	for (int i = 0; i < c->ngiven; i++) {
		bool own = false;
		for (const struct cli_option *o = c->command->options; o && o->name; o++)
			own = own || text_eq(o->name, c->given[i].name);
		if (own && !(table && text_eq(c->given[i].name, "reason")))
			continue;
		char *key = arena_strdup(&c->arena, c->given[i].name);
		for (char *p = key; *p; p++)
			*p = *p == '-' ? '_' : *p;
		cfg_put(&c->arena, map, key, cfg_scalar(&c->arena, c->given[i].value));
	}
	if (map->n == 0)
		return DEFIB_OK;
	if (!table && !cfg_get(map, "preset"))
		return fail(f, DEFIB_USAGE, "--%s describes a watch, which needs --table too",
		            c->given[0].name);
	if (!cfg_get(map, "name"))
		cfg_put(&c->arena, map, "name", cfg_scalar(&c->arena, table ? table : "adhoc"));
	put_only(c, root, "watches", map);
	return DEFIB_OK;
}

const char *cli_config_path(const struct cli *c)
{
	const char *env = getenv("DEFIB_CONFIG");
	if (c->config)
		return c->config;
	if (env && *env)
		return env;
	return access("defib.yaml", F_OK) == 0 ? "defib.yaml" : NULL;
}

static defib_err no_such_database(struct cli *c, struct failure *f)
{
	const struct settings *s = &c->settings;
	const char **names = ARENA_ARRAY(&c->arena, const char *, s->ndatabases + 1);
	for (int i = 0; i < s->ndatabases; i++)
		names[i] = s->databases[i].name;
	fail(f, DEFIB_USAGE, "--db: there is no database \"%s\" in the configuration", c->db);
	(void)fail_nearest(f, c->db, names);
	return DEFIB_USAGE;
}

/* --db NAME: only that database and its watches. */
static defib_err keep_database(struct cli *c, struct failure *f)
{
	struct settings *s = &c->settings;
	int kept = 0, found = -1;
	for (int i = 0; i < s->ndatabases; i++)
		if (text_eq(s->databases[i].name, c->db))
			found = i;
	if (found < 0)
		return no_such_database(c, f);
	struct database only = s->databases[found];
	for (int i = 0; i < s->nwatches; i++)
		if (text_eq(settings_database(s, &s->watches[i])->name, only.name))
			s->watches[kept++] = s->watches[i];
	s->nwatches = kept;
	s->databases[0] = only;
	s->ndatabases = 1;
	return DEFIB_OK;
}

/* The first problem of a reader, with its position, as a failure. */
static defib_err load_first_problem(const struct cfg_reader *r, struct failure *f)
{
	AUTO_BUF place = BUF_INIT;
	int i = 0;
	while (i < r->nproblems && r->problems[i].warning)
		i++;
	if (i < r->nproblems)
		cfg_mark_text(r->problems[i].at, &place);
	fail(f, DEFIB_CONFIG, "%s: %s", buf_text(&place), i < r->nproblems ? r->problems[i].text : "");
	if (r->nerrors > 1)
		fail_next(f, "%d problems in all: defib config check lists them", r->nerrors);
	return DEFIB_CONFIG;
}

static defib_err load_tree(struct cli *c, struct cfg_node **root, struct failure *f)
{
	struct cfg_node *file = NULL;
	const char *path = cli_config_path(c);
	if (path && cfg_load(path, &c->arena, &file, f))
		return f->code = DEFIB_CONFIG;
	if (!path && !c->db) {
		fail(f, DEFIB_CONFIG, "no configuration: there is no defib.yaml here");
		fail_next(f, "write one, name one with -c FILE, or give --db URL and --table …");
		return DEFIB_CONFIG;
	}
	*root = file && file->kind != CFG_NULL ? file : cfg_map(&c->arena);
	return DEFIB_OK;
}

const char *cli_db(const struct cli *c)
{
	const char *env = getenv("DEFIB_DB");
	return c->db || !env || !*env ? c->db : env;
}

defib_err cli_read(struct cli *c, struct failure *f)
{
	struct cfg_node *root = NULL;
	cfg_reader_init(&c->reader, &c->arena);
	c->db = cli_db(c);
	defib_err err = load_tree(c, &root, f);
	if (!err && root->kind == CFG_MAP && c->db)
		err = load_put_database(c, root, f);
	if (!err && root->kind == CFG_MAP)
		err = put_watch(c, root, f);
	if (err)
		return err;
	settings_read(&c->reader, root, program_sections, &c->settings);
	if (c->reader.nerrors)
		return load_first_problem(&c->reader, f);
	return c->db && !is_url(c->db) ? keep_database(c, f) : DEFIB_OK;
}

int cli_load(struct cli *c)
{
	struct failure f = {0};
	if (c->settings.ndatabases > 0)
		return EXIT_CLEAN; /* already read */
	defib_err err = cli_read(c, &f);
	cli_problems(c);
	if (c->reader.nerrors)
		return EXIT_CONFIG; /* each was printed, with its position */
	return err ? cli_fail(&f) : EXIT_CLEAN;
}

void cli_say_off(const struct cli *c, const struct watch *w)
{
	if (!c->quiet)
		fprintf(stderr, "watch %s is off: %s\n", w->name, w->off_because);
}

struct store_options cli_store_options(const struct database *d, const struct watch *w,
                                       bool read_only)
{
	return (struct store_options){
		.url = d->url,
		.name = d->name,
		.read_only = read_only,
		.statement_ms = w ? w->statement_timeout_us / 1000 : 0,
	};
}

int cli_write_file(const char *path, const struct buf *text)
{
	AUTO_BUF beside = BUF_INIT;
	buf_addf(&beside, "%s.%ld", path, (long)getpid());
	FILE *file = fopen(buf_text(&beside), "w");
	bool written = file && fwrite(text->data, 1, text->len, file) == text->len;
	int why = errno;
	if (file && fclose(file) != 0)
		written = false;
	if (written && rename(buf_text(&beside), path) != 0) {
		why = errno;
		written = false;
	}
	if (!written)
		unlink(buf_text(&beside));
	return written ? EXIT_CLEAN : cli_usage("--output: cannot write %s: %s", path, strerror(why));
}

struct session cli_session(const struct database *d, const struct watch *w, bool read_only)
{
	return (struct session){.options = cli_store_options(d, w, read_only), .open = store_open};
}

const char *cli_actor(struct cli *c)
{
	const struct passwd *user = getpwuid(geteuid());
	return arena_printf(&c->arena, "cli:%s", user ? user->pw_name : "?");
}

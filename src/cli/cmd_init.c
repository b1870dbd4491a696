/* SPDX-License-Identifier: Apache-2.0
 * cmd_init.c: `defib init`: creates defib's own tables; and helps with the first configuration:
 * `init --table T` proposes a watch for a table, `init --detect` lists the queues of a database.
 * Both only read.
 */

#include "cli/cli.h"
#include "cli/load.h"
#include "config/source.h"
#include "ledger/schema.h"
#include "setup/detect.h"
#include "setup/doctor_rights.h"
#include "setup/propose.h"
#include "setup/propose_try.h"
#include "store/dialect.h"
#include "store/postgres_connect.h"
#include "store/sql.h"
#include "watch/grants.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* How a group uses the tables of watches. */
static const enum watch_use uses[RIGHTS_GROUPS] = {
	[RIGHTS_VIEW] = WATCH_READ, [RIGHTS_ACT] = WATCH_RECOVER, [RIGHTS_DAEMON] = WATCH_RECOVER,
	[RIGHTS_WORK] = WATCH_WORK, [RIGHTS_RUN] = WATCH_RECOVER,
};

static bool is_watch_of(const struct cli *c, const struct watch *w, const struct database *d)
{
	return w->enabled && settings_database(&c->settings, w) == d;
}

static bool has_work(const struct cli *c, const struct database *d)
{
	for (int i = 0; i < c->settings.nwatches; i++)
		if (is_watch_of(c, &c->settings.watches[i], d) && c->settings.watches[i].work.given)
			return true;
	return false;
}

/* --for view,act: which groups; without it those that the configuration needs. */
static bool chosen_groups(struct cli *c, const struct database *d, bool *chosen, const char **wrong)
{
	const char *given = cli_value(c, "for");
	if (!given) {
		chosen[RIGHTS_ACT] = chosen[RIGHTS_DAEMON] = true;
		chosen[RIGHTS_WORK] = has_work(c, d);
		return true;
	}
	char *at = arena_strdup(&c->arena, given), *rest = NULL;
	for (const char *word = strtok_r(at, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest)) {
		int group = word_index(rights_names, word);
		*wrong = word;
		if (group < 0)
			return false;
		chosen[group] = true;
	}
	return true;
}

static void init_print_group(struct cli *c, const struct database *d, enum rights_group group,
                             const char *role, struct buf *out)
{
	buf_addf(out, "\n-- %s: defib %s\n", rights_names[group], doctor_commands_of[group]);
	rights_grants(group, role, out);
	for (int i = 0; i < c->settings.nwatches; i++) {
		const struct watch *w = &c->settings.watches[i];
		if (!is_watch_of(c, w, d))
			continue;
		buf_addf(out, "-- the watch %s\n", w->name);
		watch_grants(w, uses[group], role, &c->arena, out);
	}
}

/* --role, or the user of the URL. */
static bool role_name(const struct cli *c, const struct database *d, struct buf *out)
{
	AUTO_BUF user = BUF_INIT;
	const char *given = cli_value(c, "role");
	if (!given)
		store_user(d->url, &user);
	if (given || user.len)
		sql_ident(out, given ? given : buf_text(&user));
	return out->len > 0;
}

/*
 * The SQL of defib's tables, then the grants of a role for this configuration; returns the exit
 * code.
 */
static int init_print(struct cli *c, const struct database *d)
{
	AUTO_BUF out = BUF_INIT, role = BUF_INIT;
	bool chosen[RIGHTS_GROUPS] = {false};
	const char *wrong = NULL;
	for (int part = 0; part < SCHEMA_PARTS; part++)
		buf_addf(&out, "%s\n", schema_script((enum schema_part)part, d->engine));
	if (!dialect_of(d->engine)->has_grants) {
		buf_add(&out,
		        "-- No grants are needed: a user who can write the file has all rights in it.\n");
	} else if (!chosen_groups(c, d, chosen, &wrong)) {
		return cli_usage("--for takes view, act, daemon, work and run, not \"%s\"", wrong);
	} else if (!role_name(c, d, &role)) {
		return cli_usage("the URL of %s names no user; give the role for the grants with --role",
		                 d->name);
	}
	if (role.len)
		buf_addf(&out,
		         "-- Grants for %s. --for selects the commands, --role the role. If statements "
		         "of\n-- a watch use functions or sequences, run defib doctor as that role: it "
		         "lists the missing rights.\n",
		         buf_text(&role));
	for (int group = 0; group < RIGHTS_GROUPS; group++)
		if (chosen[group])
			init_print_group(c, d, (enum rights_group)group, buf_text(&role), &out);
	out_print(&out);
	return EXIT_CLEAN;
}

/*
 * A password must not be in a file that is shown to people: then the URL comes from the
 * environment.
 */
static void database_entry(const struct database *d, struct buf *out)
{
	AUTO_BUF shown = BUF_INIT;
	url_redact(d->url, &shown);
	bool secret = !text_eq(buf_text(&shown), d->url);
	buf_add(out, "databases:\n  - name: ");
	yaml_scalar(d->name, out);
	buf_add(out, "\n");
	if (secret)
		buf_add(out, "    # it contains a password: export DATABASE_URL=…\n"
		             "    url: ${DATABASE_URL}\n");
	else
		buf_add(out, "    url: ");
	if (!secret) {
		yaml_scalar(d->url, out);
		buf_add(out, "\n");
	}
}

static void whole(const struct cli *c, const char *entries, const char *about, struct buf *out)
{
	buf_addf(
		out,
		"# %s\n# Lines marked CHECK are guesses: verify them before defib changes anything.\n# "
		"Next: defib config check; defib doctor; defib scan, which changes nothing.\n",
		about);
	database_entry(&c->settings.databases[0], out);
	buf_addf(out, "\nwatches:\n%s", entries);
}

static int init_refuse(const char *path, const char *why)
{
	return cli_refuse("omit --write, and paste the output under watches:",
	                  "%s: nothing was written: %s", path, why);
}

static int write_all(int fd, const char *path, const char *text)
{
	size_t left = strlen(text);
	while (fd >= 0 && left > 0) {
		ssize_t n = write(fd, text, left);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		text += n;
		left -= (size_t)n;
	}
	int error = errno;
	if (fd >= 0 && close(fd) == 0 && left == 0)
		return EXIT_CLEAN;
	return cli_refuse(NULL, "%s cannot be written: %s", path, strerror(error));
}

/* How many watches a configuration has; -1: it cannot be read, or `watches` is not its last key. */
static int watches_at_end(const char *text, struct arena *a, bool *none)
{
	struct cfg_node *root = NULL;
	struct failure f = {0};
	if (cfg_parse(text, "configuration", a, &root, &f))
		return -1;
	const struct cfg_node *list = cfg_get(root, "watches");
	*none = list == NULL;
	if (root->kind == CFG_NULL || !list)
		return root->kind == CFG_MAP || root->kind == CFG_NULL ? 0 : -1;
	if (list->kind != CFG_LIST || !text_eq(root->keys[root->n - 1], "watches"))
		return -1;
	return list->n;
}

/* The old text followed by the entries, if that is a valid configuration; else why not. */
static const char *init_added(struct cli *c, const char *path, const char *old, const char *entries,
                              struct buf *out)
{
	struct cfg_node *root = NULL;
	struct cfg_reader reader;
	struct settings settings = {0};
	struct failure f = {0};
	bool none = false;
	int before = watches_at_end(old, &c->arena, &none);
	if (before < 0)
		return "watches: is not the last key of the file";
	buf_addf(out, "%s%s%s", *old && old[strlen(old) - 1] != '\n' ? "\n" : "",
	         none ? "\nwatches:\n" : "", entries);
	const char *text = arena_printf(&c->arena, "%s%s", old, buf_text(out));
	if (cfg_parse(text, path, &c->arena, &root, &f) ||
	    watches_at_end(text, &c->arena, &none) <= before)
		return "its watches are indented differently";
	cfg_reader_init(&reader, &c->arena);
	settings_read(&reader, root, program_sections, &settings);
	const char *why = NULL;
	for (int i = 0; i < reader.nproblems && !why; i++)
		if (!reader.problems[i].warning)
			why = arena_strdup(&c->arena, reader.problems[i].text);
	cfg_reader_release(&reader);
	return why;
}

static int init_append(struct cli *c, const char *path, const char *entries)
{
	AUTO_BUF old = BUF_INIT, more = BUF_INIT;
	struct failure f = {0};
	if (source_load(path, &old, &f))
		return init_refuse(path, "it cannot be read");
	const char *why = init_added(c, path, buf_text(&old), entries, &more);
	if (!why && !cli_flag(c, "yes") && !isatty(STDIN_FILENO))
		why = "it exists, and this is not a terminal; pass --yes to add to the file";
	int code = why ? init_refuse(path, why)
	               : cli_confirm(c, arena_printf(&c->arena, "add to %s", path), false);
	if (code == EXIT_CLEAN)
		code = write_all(open(path, O_WRONLY | O_APPEND | O_CLOEXEC), path, buf_text(&more));
	return code;
}

/*
 * `entries` are list entries of `watches:`; `about` is one line about what was examined. With
 * --write FILE nothing is ever overwritten: a new file gets a complete configuration; an existing
 * one is extended after confirmation, and only if the result can be read. Returns the exit code,
 * after printing what failed.
 */
static int init_write(struct cli *c, const char *entries, const char *about)
{
	const char *path = cli_value(c, "write");
	AUTO_BUF text = BUF_INIT;
	int code = EXIT_CLEAN;
	whole(c, entries, about, &text);
	if (!path) {
		fputs(buf_text(&text), stdout);
	} else {
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		code = fd < 0 && errno == EEXIST ? init_append(c, path, entries)
		                                 : write_all(fd, path, buf_text(&text));
		if (code == EXIT_CLEAN && !c->quiet)
			printf("written to %s; next: defib -c %s config check\n", path, path);
	}
	return code;
}

static const struct cli_option init_options[] = {
	{"print", NULL, "print the SQL of defib's own tables, and the grants, for a DBA to run"},
	{"role", "ROLE", "with --print: who gets the grants (the user of the URL)"},
	{"for", "GROUPS",
     "with --print: what to allow: view,act,daemon,work,run (what the file needs)"},
	{"table", "TABLE", "examine a table and propose a watch for it, with the reasons"},
	{"detect", NULL, "find known queues, and tables that look like one"},
	{"write", "FILE",
     "with --table or --detect: write it to this file; an existing file is extended"},
	{"yes", NULL, "do not ask before adding to a file"},
	{NULL, NULL, NULL},
};

/* A watch names its database if that is not the first one of the configuration. */
static const char *named_database(const struct cli *c)
{
	return c->settings.ndatabases == 1 && c->db && cli_config_path(c) && !strchr(c->db, ':')
	           ? c->settings.databases[0].name
	           : NULL;
}

static int init_make_tables(struct cli *c, const struct database *d)
{
	struct failure f = {0};
	AUTO_STORE s = NULL;
	struct store_options o = cli_store_options(d, NULL, false);
	o.create = true;
	defib_err err = store_open(&o, &s, &f);
	if (!err)
		err = schema_install(s, SCHEMA_QUEUE, &f);
	if (err)
		return cli_fail(&f);
	if (!c->quiet)
		printf("defib's tables are ready in %s\n", d->name);
	return EXIT_CLEAN;
}

/* ---- one table ---- */

/* An incomplete watch is shown, as comments, and never written. */
static int print_missing(const struct proposal *p)
{
	struct buf draft = BUF_INIT;
	proposal_yaml(p, NULL, &draft);
	out_print(&draft);
	return cli_refuse(NULL, "table %s: no watch is proposed: %s", p->table, p->missing[0]);
}

/* A preset knows more about its queue than the examination of one table can find. */
static void print_known(struct cli *c, struct store *s, const char *table)
{
	struct detection known;
	struct failure f = {0};
	if (c->quiet || detect_known(s, &c->arena, &known, &f))
		return; /* a hint that is not available is left out */
	for (int i = 0; i < known.n; i++)
		if (text_eq(known.items[i].table, table))
			fprintf(stderr,
			        "this table belongs to a known queue: preset %s fits it better; defib init "
			        "--detect writes it\n",
			        known.items[i].preset);
}

static int propose_table(struct cli *c, struct store *s, const char *table)
{
	struct failure f = {0};
	struct table_facts facts;
	struct proposal_seen seen;
	struct proposal *p = ARENA_NEW(&c->arena, struct proposal);
	if (table_facts_read(s, table, &c->arena, &facts, &f))
		return cli_fail(&f);
	print_known(c, s, table);
	propose_seen(s, &facts, &c->arena, p);
	if (p->nmissing)
		return print_missing(p);
	if (proposal_try(s, p, &c->arena, &seen, &f)) {
		fail_prefix(&f, "table %s: the proposal does not work", table);
		return cli_fail(&f);
	}
	AUTO_BUF entry = BUF_INIT;
	proposal_yaml(p, named_database(c), &entry);
	int code =
		init_write(c, buf_text(&entry),
	               arena_printf(&c->arena, "Proposed by defib init for the table %s.", table));
	if (code == EXIT_CLEAN && p->nchecks && !c->quiet)
		fprintf(stderr, "%d line%s marked CHECK: until %s right the watch only reports\n",
		        p->nchecks, p->nchecks == 1 ? " is" : "s are",
		        p->nchecks == 1 ? "it is" : "they are");
	return code;
}

/* ---- a whole database ---- */

static void print_detected(const struct detected *d)
{
	AUTO_BUF numbers = BUF_INIT, line = BUF_INIT, shown = BUF_INIT;
	detected_numbers(d, &numbers);
	if (d->preset)
		buf_addf(&line, "found: %s in %s (preset %s): ", d->name, d->table, d->preset);
	else
		buf_addf(&line, "looks like a queue: %s: ", d->table);
	buf_add(&line, buf_text(&numbers));
	out_padded(&shown, buf_text(&line), 0);
	fprintf(stderr, "%s\n", buf_text(&shown));
}

static int detect(struct cli *c, struct store *s, const struct database *d)
{
	struct failure f = {0};
	struct detection found;
	AUTO_BUF entries = BUF_INIT;
	if (detect_queues(s, &c->arena, &found, &f))
		return cli_fail(&f);
	for (int i = 0; i < found.n; i++) {
		if (!c->quiet)
			print_detected(&found.items[i]);
		detected_yaml(&found.items[i], named_database(c), &entries);
	}
	if (found.nleft_out)
		fprintf(stderr, "%d table%s left out: %s; defib init --table TABLE reads one\n",
		        found.nleft_out, found.nleft_out == 1 ? " was" : "s were", found.left_out);
	if (found.n == 0)
		return cli_refuse(
			"defib init --table TABLE examines one",
			"%s: no known queue, and none of %d tables looks like one; nothing is written", d->name,
			found.ntables);
	int code = init_write(c, buf_text(&entries),
	                      "Found by defib init --detect: the queues of this database.");
	int waiting = 0;
	for (int i = 0; i < found.n; i++)
		waiting += detected_only_reports(&found.items[i]);
	if (code == EXIT_CLEAN && waiting && !c->quiet)
		fprintf(stderr, "%d of %d only report%s until the lines marked CHECK are right\n", waiting,
		        found.n, waiting == 1 ? "s" : "");
	return code;
}

static int cmd_init(struct cli *c)
{
	const char *table = cli_value(c, "table");
	bool look = cli_flag(c, "detect");
	if (table && look)
		return cli_usage("--table examines one table, --detect all: give one of them");
	if ((cli_value(c, "role") || cli_value(c, "for")) && !cli_flag(c, "print"))
		return cli_usage("--role and --for require --print");
	if (cli_flag(c, "write") && !table && !look)
		return cli_usage("--write requires --table or --detect");
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	const struct database *d = &c->settings.databases[0];
	if (!table && !look)
		return cli_flag(c, "print") ? init_print(c, d) : init_make_tables(c, d);
	struct failure f = {0};
	AUTO_STORE s = NULL;
	struct store_options o = cli_store_options(d, NULL, true);
	if (store_open(&o, &s, &f))
		return cli_fail(&f);
	return look ? detect(c, s, d) : propose_table(c, s, table);
}

COMMAND(init, cmd_init, "", "create defib's tables; or propose a configuration (--detect)",
        .options = init_options,
        .examples = {{"defib init", "its own tables, in the configured database"},
                     {"defib init --print", "the SQL, for a DBA to run"},
                     {"defib init --table pages", "a watch for a table, with the reasons"},
                     {"defib init --detect", "which queues are in the database"}});

/*
 * cmd_init.c: `defib init`: defib's own tables; and the first configuration:
 * `init --table T` proposes a watch for a table, `init --detect` says which queues
 * live in a database. Both only look at it.
 */
#include "cli/cli.h"
#include "cli/init_print.h"
#include "cli/init_write.h"

#include "base/text.h"
#include "ledger/schema.h"
#include "setup/detect.h"

const struct cli_option init_options[] = {
	{"print", NULL, "print the SQL of defib's own tables, and the grants, for a DBA to run"},
	{"role", "ROLE", "with --print: who gets the grants (the user of the URL)"},
	{"for", "GROUPS", "with --print: for what: view,act,daemon,work,run (what the file needs)"},
	{"table", "TABLE", "look at a table and propose a watch for it, with the reasons"},
	{"detect", NULL, "look for known queues, and for tables that look like one"},
	{"write", "FILE", "with these two: write it there; a file that exists is added to"},
	{"yes", NULL, "do not ask before adding to a file"},
	{NULL, NULL, NULL},
};

/* A watch names its database where that is not the first one of the configuration. */
static const char *named_database(const struct cli *c)
{
	return c->settings.ndatabases == 1 && c->db && cli_config_path(c) && !strchr(c->db, ':')
	           ? c->settings.databases[0].name
	           : NULL;
}

static int make_tables(struct cli *c, const struct database *d)
{
	struct failure f = {0};
	struct store *s = NULL;
	struct store_options o = cli_store_options(d, NULL, false);
	o.create = true;
	defib_err err = store_open(&o, &s, &f);
	if (!err)
		err = schema_install(s, SCHEMA_QUEUE, &f);
	store_close(s);
	if (err)
		return cli_fail(&f);
	if (!c->quiet)
		printf("defib's tables are ready in %s\n", d->name);
	return EXIT_CLEAN;
}

/* ---- one table ---- */

/* What lacks something is shown, as comments, and never written. */
static int tell_missing(const struct proposal *p)
{
	struct failure f = {0};
	struct buf draft = BUF_INIT;
	proposal_yaml(p, NULL, &draft);
	out_print(&draft);
	fail(&f, DEFIB_REFUSED, "table %s: no watch is proposed: %s", p->table, p->missing[0]);
	return cli_fail(&f);
}

/* A preset knows more of its queue than a look at one table can tell. */
static void tell_known(struct cli *c, struct store *s, const char *table)
{
	struct detection known;
	struct failure f = {0};
	if (c->quiet || detect_known(s, &c->arena, &known, &f))
		return; /* a hint that cannot be had is none */
	for (int i = 0; i < known.n; i++)
		if (text_eq(known.items[i].table, table))
			fprintf(stderr,
			        "this table is one of a known queue: the preset %s says more of it; defib init "
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
	tell_known(c, s, table);
	propose_seen(s, &facts, &c->arena, p);
	if (p->nmissing)
		return tell_missing(p);
	if (proposal_try(s, p, &c->arena, &seen, &f)) {
		fail_prefix(&f, "table %s: the proposal does not hold", table);
		return cli_fail(&f);
	}
	struct buf entry = BUF_INIT;
	proposal_yaml(p, named_database(c), &entry);
	int code =
		init_write(c, buf_text(&entry),
	               arena_printf(&c->arena, "Proposed by defib init for the table %s.", table));
	buf_release(&entry);
	if (code == EXIT_CLEAN && p->nchecks && !c->quiet)
		fprintf(stderr, "%d line%s marked CHECK: until %s right the watch only reports\n",
		        p->nchecks, p->nchecks == 1 ? " is" : "s are",
		        p->nchecks == 1 ? "it is" : "they are");
	return code;
}

/* ---- a whole database ---- */

static void tell_detected(const struct detected *d)
{
	struct buf numbers = BUF_INIT, line = BUF_INIT, shown = BUF_INIT;
	detected_numbers(d, &numbers);
	if (d->preset)
		buf_addf(&line, "found: %s in %s (preset %s): ", d->name, d->table, d->preset);
	else
		buf_addf(&line, "looks like a queue: %s: ", d->table);
	buf_add(&line, buf_text(&numbers));
	out_padded(&shown, buf_text(&line), 0);
	fprintf(stderr, "%s\n", buf_text(&shown));
	buf_release(&shown);
	buf_release(&numbers);
	buf_release(&line);
}

static int detect(struct cli *c, struct store *s, const struct database *d)
{
	struct failure f = {0};
	struct detection found;
	struct buf entries = BUF_INIT;
	if (detect_queues(s, &c->arena, &found, &f))
		return cli_fail(&f);
	for (int i = 0; i < found.n; i++) {
		if (!c->quiet)
			tell_detected(&found.items[i]);
		detected_yaml(&found.items[i], named_database(c), &entries);
	}
	if (found.n == 0) {
		fail(&f, DEFIB_REFUSED,
		     "%s: no known queue, and none of %d tables looks like one; nothing is written",
		     d->name, found.ntables);
		fail_next(&f, "defib init --table TABLE looks closer at one");
		return cli_fail(&f);
	}
	int code = init_write(c, buf_text(&entries),
	                      "Found by defib init --detect: the queues of this database.");
	int waiting = 0;
	for (int i = 0; i < found.n; i++)
		waiting += detected_only_reports(&found.items[i]);
	if (code == EXIT_CLEAN && waiting && !c->quiet)
		fprintf(stderr, "%d of %d only report%s until the lines marked CHECK are right\n", waiting,
		        found.n, waiting == 1 ? "s" : "");
	buf_release(&entries);
	return code;
}

int cmd_init(struct cli *c)
{
	const char *table = cli_value(c, "table");
	bool look = cli_flag(c, "detect");
	if (table && look)
		return cli_usage("--table looks at one table, --detect at all: give one of them");
	if ((cli_value(c, "role") || cli_value(c, "for")) && !cli_flag(c, "print"))
		return cli_usage("--role and --for go with --print");
	if (cli_flag(c, "write") && !table && !look)
		return cli_usage("--write goes with --table or --detect");
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	const struct database *d = &c->settings.databases[0];
	if (!table && !look)
		return cli_flag(c, "print") ? init_print(c, d) : make_tables(c, d);
	struct failure f = {0};
	struct store *s = NULL;
	struct store_options o = cli_store_options(d, NULL, true);
	if (store_open(&o, &s, &f))
		return cli_fail(&f);
	code = look ? detect(c, s, d) : propose_table(c, s, table);
	store_close(s);
	return code;
}

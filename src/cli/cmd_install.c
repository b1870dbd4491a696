/* SPDX-License-Identifier: Apache-2.0
 * cmd_install.c: `defib db install WATCH` and `defib db uninstall WATCH`: recovery inside the
 * database, scheduled by pg_cron if it exists.
 *
 * Creating and scheduling the function is one transaction, and replaces an earlier installation:
 * running it again changes nothing.
 */
#include "base/clock.h"
#include "cli/load.h"
#include "cli/select.h"
#include "ledger/schema.h"
#include "recover/apply.h"
#include "setup/install_sql.h"
#include "setup/trust.h"
#include "store/sql.h"
#include "watch/compile_write.h"

#include <ctype.h>

/* ---- "every 15m" in the form of pg_cron, cron and systemd ---- */

#define MINUTE_US (60 * US_PER_S)

struct schedule {
	char cron[24];    /* "*\/15 * * * *", or "5 seconds" */
	int64_t every_us; /* the resulting interval */
};

/* The next interval that cron supports; `seconds`: pg_cron 1.5 and later support those too. */
static struct schedule schedule_for(int64_t every_us, bool seconds)
{
	/* Steps that divide an hour or a day: with others the last one of each would be shorter. */
	static const int minutes[] = {1,  2,  3,   4,   5,   6,   10,  12,  15,  20,
	                              30, 60, 120, 180, 240, 360, 480, 720, 1440};
	enum { STEPS = sizeof minutes / sizeof *minutes };
	struct schedule s = {0};
	int64_t whole_s = (every_us + US_PER_S - 1) / US_PER_S;
	if (seconds && whole_s < 60) {
		s.every_us = (whole_s ? whole_s : 1) * US_PER_S;
		snprintf(s.cron, sizeof s.cron, "%d seconds", (int)(s.every_us / US_PER_S));
		return s;
	}
	int i = 0;
	while (i < STEPS - 1 && minutes[i] * MINUTE_US < every_us)
		i++;
	s.every_us = minutes[i] * MINUTE_US;
	if (minutes[i] == 1)
		snprintf(s.cron, sizeof s.cron, "* * * * *");
	else if (minutes[i] < 60)
		snprintf(s.cron, sizeof s.cron, "*/%d * * * *", minutes[i]);
	else if (minutes[i] == 60)
		snprintf(s.cron, sizeof s.cron, "0 * * * *");
	else if (minutes[i] < 1440)
		snprintf(s.cron, sizeof s.cron, "0 */%d * * *", minutes[i] / 60);
	else
		snprintf(s.cron, sizeof s.cron, "0 0 * * *");
	return s;
}

/* What to do, in the database's terms. */
struct plan {
	const struct watch *watch;
	const struct database *database;
	const char *function; /* defib."recover_pages" */
	const char *call;     /* SELECT defib."recover_pages"(NULL::integer) */
	const char *task;     /* its name in pg_cron */
	const char *search_path;
	bool cron, cron_seconds;
	int64_t every_us;
	struct schedule schedule;
};

/* The URL without its password, which belongs in ~/.pgpass; a service if that is not possible. */
static void add_connection(const char *url, struct buf *out)
{
	AUTO_BUF redacted = BUF_INIT;
	url_redact(url, &redacted);
	const char *text = buf_text(&redacted), *hidden = strstr(text, ":***@");
	if (hidden) {
		buf_addn(out, text, (size_t)(hidden - text));
		buf_add(out, hidden + strlen(":***"));
	} else {
		buf_add(out, strstr(text, "***") ? "service=defib" : text);
	}
}

/* A word in single quotes for a shell. */
static void add_shell_word(const char *text, struct buf *out)
{
	buf_addch(out, '\'');
	for (; *text; text++)
		if (*text == '\'')
			buf_add(out, "'\\''");
		else
			buf_addch(out, *text);
	buf_addch(out, '\'');
}

/* A word in double quotes for systemd, which reads no shell. */
static void add_unit_word(const char *text, struct buf *out)
{
	buf_addch(out, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_addch(out, '\\');
		buf_addch(out, *text);
		if (*text == '%' || *text == '$') /* doubled, they are literal */
			buf_addch(out, *text);
	}
	buf_addch(out, '"');
}

/* A line for crontab(5). */
static void schedule_cron_line(const struct plan *p, struct buf *out)
{
	AUTO_BUF url = BUF_INIT, command = BUF_INIT;
	add_connection(p->database->url, &url);
	buf_add(&command, "psql -Xq -o /dev/null -d ");
	add_shell_word(buf_text(&url), &command);
	buf_add(&command, " -c ");
	add_shell_word(p->call, &command);
	buf_addf(out, "%s ", schedule_for(p->every_us, false).cron);
	for (const char *c = buf_text(&command); *c; c++) {
		if (*c == '%') /* crontab treats it as a newline */
			buf_addch(out, '\\');
		buf_addch(out, *c);
	}
	buf_add(out, "\n");
}

/* Letters and digits of the name; other characters have a meaning to systemd or a shell. */
static void add_unit_name(const char *name, struct buf *out)
{
	buf_add(out, "defib-recover-");
	for (; *name; name++)
		buf_addch(out, isalnum((unsigned char)*name) ? *name : '-');
}

/* A service and a timer for systemd. */
static void schedule_systemd(const struct plan *p, struct buf *out)
{
	AUTO_BUF unit = BUF_INIT, url = BUF_INIT;
	add_unit_name(p->watch->name, &unit);
	add_connection(p->database->url, &url);
	buf_addf(out,
	         "# /etc/systemd/system/%s.service\n"
	         "[Unit]\nDescription=%s\n\n"
	         "[Service]\nType=oneshot\nUser=nobody\n"
	         "Environment=PGPASSFILE=/etc/defib/pgpass\n"
	         "ExecStart=/usr/bin/psql -Xq -o /dev/null -d ",
	         buf_text(&unit), buf_text(&unit));
	add_unit_word(buf_text(&url), out);
	buf_add(out, " -c ");
	add_unit_word(p->call, out);
	buf_addf(out,
	         "\n\n# /etc/systemd/system/%s.timer\n"
	         "[Timer]\nOnBootSec=1min\nOnUnitActiveSec=%llds\nAccuracySec=1s\n\n"
	         "[Install]\nWantedBy=timers.target\n\n"
	         "# systemctl enable --now %s.timer\n",
	         buf_text(&unit), (long long)((p->every_us + US_PER_S - 1) / US_PER_S),
	         buf_text(&unit));
}

static const struct cli_option install_options[] = {
	{"every", "DURATION", "how often; default: the watch's every"},
	{"dry-run", NULL, "print the SQL, for psql, and change nothing"},
	{"yes", NULL, "do not ask"},
	{NULL, NULL, NULL},
};
static const struct cli_option uninstall_options[] = {
	{"dry-run", NULL, "print the SQL, for psql, and change nothing"},
	{"yes", NULL, "do not ask"},
	{NULL, NULL, NULL},
};

static void install_name_things(struct cli *c, struct plan *p)
{
	AUTO_BUF name = BUF_INIT;
	install_name(p->watch, &name);
	p->function = arena_strdup(&c->arena, buf_text(&name));
	p->call = arena_printf(&c->arena, "SELECT %s(NULL::integer)", p->function);
	p->task = arena_printf(&c->arena, "defib recover %s", p->watch->name);
}

/* What the database has: the search path for unqualified names, and whether pg_cron exists. */
static defib_err install_ask_database(struct cli *c, struct store *s, struct plan *p,
                                      struct failure *f)
{
	struct store_rows rows;
	defib_err err = store_exec(
		s,
		"SELECT (SELECT coalesce(string_agg(quote_ident(s.name), ', ' ORDER BY s.place), '') FROM "
		"unnest(current_schemas(false)) WITH ORDINALITY AS s(name, place) WHERE s.name NOT LIKE "
		"'pg\\_%'), e.extname IS NOT NULL, coalesce(string_to_array("
		"substring(e.extversion FROM '^[0-9]+[.][0-9]+'), '.')::int[] >= '{1,5}', false) "
		"FROM (SELECT 1) AS one LEFT JOIN pg_extension AS e ON e.extname = 'pg_cron'",
		NULL, 0, &c->arena, &rows, f);
	if (err)
		return err;
	p->search_path = row_text(&rows, 0, 0);
	p->cron = row_bool(&rows, 0, 1);
	p->cron_seconds = row_bool(&rows, 0, 2);
	return DEFIB_OK;
}

/* SQLite has no scheduler of its own; says what to use instead. */
static int refuse_sqlite(struct cli *c, const struct plan *p)
{
	struct failure f = {0};
	fail(&f, DEFIB_REFUSED,
	     "watch %s is in an SQLite database, which has no functions and no scheduler",
	     p->watch->name);
	fail_next(&f, "use cron: %s defib -c %s scan %s --fix -q",
	          schedule_for(p->every_us, false).cron, c->config ? c->config : "defib.yaml",
	          p->watch->name);
	return cli_fail(&f);
}

/* ---- install ---- */

static void add_schedule(const struct plan *p, struct buf *out)
{
	buf_add(out, "SELECT cron.schedule(");
	sql_literal(out, p->task);
	buf_add(out, ", ");
	sql_literal(out, p->schedule.cron);
	buf_add(out, ", ");
	sql_literal(out, p->call);
	buf_add(out, ")");
}

static void add_comment(const struct plan *p, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	buf_addf(&text, "Recovers stuck jobs of the watch %s on table %s; created by defib install.",
	         p->watch->name, p->watch->table);
	buf_addf(out, "COMMENT ON FUNCTION %s(integer) IS ", p->function);
	sql_literal(out, buf_text(&text));
}

static void print_install(const struct plan *p, const char *function)
{
	AUTO_BUF rest = BUF_INIT;
	printf("-- Recovery of the watch %s inside PostgreSQL. Running it again changes nothing.\n"
	       "BEGIN;\n%s\n%s;\n",
	       p->watch->name, schema_script(SCHEMA_LEDGER, p->database->engine), function);
	add_comment(p, &rest);
	buf_add(&rest, ";\n");
	if (p->cron) {
		add_schedule(p, &rest);
		buf_add(&rest, ";\n");
	} else {
		buf_add(&rest, "-- pg_cron is not installed in this database: nothing is scheduled.\n");
	}
	printf("%sCOMMIT;\n", buf_text(&rest));
}

/* The ledger, and the leases if our own workers may have the rows: both must be visible. */
static defib_err install_need_tables(struct store *s, const struct plan *p, struct failure *f)
{
	struct ledger ledger;
	defib_err err = ledger_open(s, true, &ledger, f);
	if (!err && ledger.ready && p->watch->work.given)
		err = schema_install(s, SCHEMA_QUEUE, f);
	if (!err && ledger.ready)
		return DEFIB_OK;
	if (!err)
		fail(f, DEFIB_PERMISSION, "%s", ledger.off_because);
	else if (err != DEFIB_PERMISSION)
		return err;
	fail_prefix(f, "watch %s: the function needs defib's own tables", p->watch->name);
	fail_next(f, "run defib init as a role that may create the schema defib");
	return DEFIB_PERMISSION;
}

/* Only in a dry run can the leases be missing. */
static defib_err check_leases(const struct binding *b, struct failure *f)
{
	if (b->leases || !b->watch->work.given)
		return DEFIB_OK;
	fail(f, DEFIB_REFUSED,
	     "watch %s: defib's workers may hold its rows, but the tables with their leases do not "
	     "exist",
	     b->watch->name);
	fail_next(f, "run defib init first");
	return DEFIB_REFUSED;
}

static defib_err install_make_function(struct store *s, const struct plan *p, const char *function,
                                       struct arena *a, struct failure *f)
{
	AUTO_BUF sql = BUF_INIT;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = schema_lock(s, f);
	if (!err) {
		err = store_exec(s, function, NULL, 0, a, NULL, f);
		if (err == DEFIB_PERMISSION)
			fail_next(f, "run install as the role that owns schema defib");
	}
	if (!err) {
		add_comment(p, &sql);
		err = store_exec(s, buf_text(&sql), NULL, 0, a, NULL, f);
	}
	if (!err && p->cron) {
		buf_clear(&sql);
		add_schedule(p, &sql);
		err = store_exec(s, buf_text(&sql), NULL, 0, a, NULL, f);
		if (err == DEFIB_PERMISSION)
			fail_next(f, "grant this role USAGE on schema cron, for pg_cron");
	}
	if (!err)
		return store_commit(s, f);
	store_rollback(s);
	return err;
}

static void every_text(const struct plan *p, struct buf *out)
{
	buf_addf(out, "%s (every ", p->schedule.cron);
	duration_text(p->schedule.every_us, out);
	if (p->schedule.every_us != p->every_us) {
		buf_add(out, "; ");
		duration_text(p->every_us, out);
		buf_add(out, " is not an interval that it supports");
	}
	buf_add(out, ")");
}

/* The function is not scheduled yet: print that, with everything needed. */
static void print_unscheduled(const struct cli *c, const struct plan *p)
{
	AUTO_BUF out = BUF_INIT;
	buf_add(&out,
	        "nothing is scheduled yet: the extension pg_cron is not in this database. Install "
	        "it and run this again, or\nuse one of these. Put a password into the password file of "
	        "the user that runs it.\n\n# crontab -e\n");
	schedule_cron_line(p, &out);
	buf_add(&out, "\n");
	schedule_systemd(p, &out);
	cli_print(c, "%s", buf_text(&out));
}

static void print_installed(const struct cli *c, const struct plan *p)
{
	AUTO_BUF every = BUF_INIT;
	cli_print(c, "installed %s() in %s\n", p->function, p->database->name);
	every_text(p, &every);
	if (p->cron)
		cli_print(c, "scheduled by pg_cron as \"%s\": %s\n", p->task, buf_text(&every));
	else
		print_unscheduled(c, p);
}

static int confirm_install(struct cli *c, const struct plan *p)
{
	AUTO_BUF question = BUF_INIT;
	buf_addf(&question, "create the function %s() in database %s", p->function, p->database->name);
	if (p->cron) {
		buf_add(&question, " and schedule it with pg_cron, ");
		every_text(p, &question);
	} else {
		buf_add(&question, ", without a schedule (there is no pg_cron)");
	}
	return cli_confirm(c, buf_text(&question), false);
}

/*
 * After the ledger's tables exist, the watch is bound again: they may be new. A dry run writes
 * nothing, but its session may: what the role may lock is found out by locking no rows.
 */
static defib_err write_install(struct cli *c, const struct plan *p, bool dry_run, struct failure *f)
{
	struct store_options o = cli_store_options(p->database, p->watch, false);
	struct binding binding;
	struct watch_sql sql;
	AUTO_STORE s = NULL;
	AUTO_BUF function = BUF_INIT;
	defib_err err = store_open(&o, &s, f);
	if (!err && !dry_run)
		err = install_need_tables(s, p, f);
	if (!err)
		err = watch_bind(p->watch, s, &c->arena, &binding, f);
	if (!err)
		err = check_leases(&binding, f);
	if (!err)
		err = watch_compile(&binding, &c->arena, &sql, f);
	if (!err)
		err = watch_prepare(&sql, s, &c->arena, f);
	bool lock_signs = false;
	if (!err)
		err = apply_may_lock(s, &sql, &lock_signs, f);
	if (!err) {
		struct install_options io = {p->search_path, lock_signs};
		install_function(&sql, &io, &function);
		if (dry_run)
			print_install(p, buf_text(&function));
		else
			err = install_make_function(s, p, buf_text(&function), &c->arena, f);
	}
	return err;
}

static int cmd_install(struct cli *c)
{
	struct failure f = {0};
	struct picked picked;
	/* Binding and compiling the watch read a row, and ask what may be locked. */
	int code = pick_unread(c, &picked);
	if (code != EXIT_CLEAN)
		return code;
	if (trust_watch(picked.store, picked.watch, true, &f)) {
		store_close(picked.store);
		return cli_fail(&f);
	}
	struct plan p = {
		.watch = picked.watch, .database = picked.database, .every_us = picked.watch->every_us};
	defib_err err = DEFIB_OK;
	if (!cli_duration(c, "every", &p.every_us))
		code = EXIT_USAGE;
	else if (!dialect_of(picked.binding.engine)->can_install)
		code = refuse_sqlite(c, &p);
	else if (!(err = install_refusal(p.watch, &f)))
		err = install_ask_database(c, picked.store, &p, &f);
	store_close(picked.store);
	if (err)
		return cli_fail(&f);
	if (code != EXIT_CLEAN)
		return code;
	install_name_things(c, &p);
	p.schedule = schedule_for(p.every_us, p.cron_seconds);
	code = confirm_install(c, &p);
	if (code != EXIT_CLEAN)
		return code;
	bool dry_run = cli_flag(c, "dry-run");
	if (write_install(c, &p, dry_run, &f))
		return cli_fail(&f);
	if (!dry_run)
		print_installed(c, &p);
	return EXIT_CLEAN;
}

COMMAND(install, cmd_install, "WATCH", "let PostgreSQL itself recover jobs, by pg_cron or a timer",
        .options = install_options,
        .examples = {{"defib db install pages --dry-run", "the SQL, for psql"},
                     {"defib db install pages --every 1m --yes", "without a daemon"}});

/* ---- uninstall ---- */

static void print_uninstall(const struct plan *p)
{
	struct buf out = BUF_INIT;
	buf_add(&out, "BEGIN;\n");
	if (p->cron) {
		buf_add(&out, "SELECT cron.unschedule(jobid) FROM cron.job WHERE jobname = ");
		sql_literal(&out, p->task);
		buf_add(&out, ";\n");
	}
	buf_addf(&out, "DROP FUNCTION IF EXISTS %s(integer);\nCOMMIT;\n", p->function);
	out_print(&out);
}

static defib_err install_remove_all(struct cli *c, struct store *s, const struct plan *p,
                                    bool *had_task, bool *had_function, struct failure *f)
{
	struct store_param task = P_TEXT(p->task), function = P_TEXT(p->function);
	struct store_rows rows;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	if (p->cron) {
		err = store_exec(s, "SELECT cron.unschedule(jobid) FROM cron.job WHERE jobname = $1", &task,
		                 1, &c->arena, &rows, f);
		*had_task = !err && rows.nrows > 0;
	}
	if (!err)
		err = store_exec(s, "SELECT to_regprocedure($1 || '(integer)') IS NOT NULL", &function, 1,
		                 &c->arena, &rows, f);
	*had_function = !err && row_bool(&rows, 0, 0);
	if (*had_function)
		err = store_exec(s, arena_printf(&c->arena, "DROP FUNCTION %s(integer)", p->function), NULL,
		                 0, &c->arena, NULL, f);
	if (!err)
		return store_commit(s, f);
	store_rollback(s);
	return err;
}

static int do_uninstall(struct cli *c, struct store *s, const struct plan *p, struct failure *f)
{
	bool had_task = false, had_function = false;
	const char *question =
		arena_printf(&c->arena, "remove the function %s() and its schedule from database %s",
	                 p->function, p->database->name);
	int code = cli_confirm(c, question, false);
	if (code != EXIT_CLEAN)
		return code;
	if (cli_flag(c, "dry-run")) {
		print_uninstall(p);
		return EXIT_CLEAN;
	}
	if (install_remove_all(c, s, p, &had_task, &had_function, f))
		return cli_fail(f);
	if (had_task)
		cli_print(c, "unscheduled \"%s\"\n", p->task);
	if (had_function)
		cli_print(c, "removed %s()\n", p->function);
	else
		cli_print(c, "nothing to remove: there is no %s()\n", p->function);
	return EXIT_CLEAN;
}

static int cmd_uninstall(struct cli *c)
{
	struct failure f = {0};
	AUTO_STORE s = NULL;
	struct plan p = {0};
	int code = pick_former(c, &p.watch, &p.database);
	if (code != EXIT_CLEAN)
		return code;
	if (!dialect_of(p.database->engine)->can_install) {
		cli_print(c, "nothing to remove: SQLite has no functions of defib\n");
		return EXIT_CLEAN;
	}
	install_name_things(c, &p);
	struct store_options o = cli_store_options(p.database, NULL, cli_flag(c, "dry-run"));
	defib_err err = store_open(&o, &s, &f);
	if (!err)
		err = install_ask_database(c, s, &p, &f);
	return err ? cli_fail(&f) : do_uninstall(c, s, &p, &f);
}

COMMAND(uninstall, cmd_uninstall, "WATCH", "remove from the database what install added",
        .options = uninstall_options,
        .examples = {{"defib db uninstall pages --dry-run", "the SQL, for psql"},
                     {"defib db uninstall pages --yes", "remove it"}});

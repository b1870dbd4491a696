/* SPDX-License-Identifier: Apache-2.0
 * cmd_status.c: the daemons.
 *
 * `defib status`: their state, from what they store in the databases: it works from any host, needs
 * no connection to their processes, and also shows a daemon that is gone. Beside it what the
 * watch's table has now, counted where an index makes it fast; with --numbers all that `defib
 * stats` counts. Exit code 1: a watch has no leader, its scans do not finish, a guard holds stuck
 * jobs back, or a worker keeps results that the database refuses to record.
 *
 * `defib pause`, `defib resume`, `defib tune raise`: operator overrides. An override is stored in
 * the database; the daemon that leads the watch, now or after a restart, reads it within about a
 * second. The one-shot scan ignores all of them.
 */
#include "base/clock.h"
#include "cli/load.h"
#include "cli/select.h"
#include "insight/tally.h"
#include "ledger/retention.h"
#include "ledger/schema.h"
#include "life/roster.h"
#include "view/installation.h"
#include "view/stats.h"
#include "view/status.h"

struct status_run {
	struct cli *cli;
	struct selection selection;
	struct buf out, retention, workers;
	int printed, failed;
	bool trouble;
	int code; /* of the first failure */
};

/* What the watch's table has now; if it cannot be counted, why. Nothing as JSON in that case. */
static void count_now(struct status_run *x, const struct selected *g, struct buf *out)
{
	struct cli *c = x->cli;
	bool all = cli_flag(c, "numbers");
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	const struct viewer v = viewer_local(g->watch, g->database->name);
	struct failure f = {0};
	struct tally tally;
	AUTO_BUF text = BUF_INIT;
	defib_err err = selected_bind(c, g, b, &f);
	if (!err)
		err = tally_watch(b->store, &b->sql, &b->ledger, all ? TALLY_ALL : TALLY_BRIEF, &c->arena,
		                  &tally, &f);
	if (c->json) {
		if (err)
			buf_add(out, "null");
		else
			record_json(&tally_record, &tally, &v, out);
		return;
	}
	if (err)
		not_counted_words(&f, &text);
	else
		tally_words(&tally, &text);
	out_line(out, "now", 12, buf_text(&text));
	if (all && !err) {
		buf_addf(out, "\nNumbers of %s\n", g->watch->name);
		tally_lines(g->watch, &tally, out);
	}
}

static void print_watch(struct status_run *x, const struct selected *g,
                        const struct stored_status *stored)
{
	struct watch_status st;
	struct viewer v = viewer_local(NULL, g->database->name);
	AUTO_BUF numbers = BUF_INIT;
	watch_status_init(&st, g->database, g->watch->name, stored);
	if (x->cli->json) {
		count_now(x, g, &numbers);
		buf_add(&x->out, x->printed ? ",\n" : "\n");
		st.numbers = buf_text(&numbers);
		record_json(&watch_status_record, &st, &v, &x->out);
	} else {
		/* What is stored appears before a table that may be slow is counted. */
		buf_add(&x->out, x->printed ? "\n" : "");
		watch_status_text(&st, x->cli->color_out, &x->out);
		out_print(&x->out);
		(void)fflush(stdout);
		count_now(x, g, &x->out);
	}
	x->trouble = x->trouble || watch_status_trouble(&st);
	x->printed++;
	watch_status_release(&st);
}

/* The built-in queue is not in the file: it is shown if a daemon has it. */
static bool shows_queue(const struct status_run *x, const struct database *d,
                        const struct stored_status *stored)
{
	for (int i = 0; i < x->selection.n; i++)
		if (x->selection.groups[i].database == d &&
		    text_eq(x->selection.groups[i].watch->name, BUILTIN_NAME))
			return false;
	return x->cli->nwords == 0 && leader_known(&stored->led, BUILTIN_NAME);
}

static struct session *status_session_of(struct status_run *x, const struct database *d)
{
	struct session *session = &x->selection.sessions[d - x->cli->settings.databases];
	if (!session->open)
		*session = cli_session(d, NULL, true);
	return session;
}

static bool is_named(const struct status_run *x, const struct database *d)
{
	bool named = x->cli->nwords == 0;
	for (int i = 0; i < x->selection.n; i++)
		named = named || x->selection.groups[i].database == d;
	return named;
}

/* If this role could not have created the tables, a daemon with this role may work without them. */
static void print_unseen(const struct status_run *x, const struct database *d, struct store *s)
{
	struct failure ignored = {0};
	bool may = true;
	if (!x->cli->quiet && !schema_may_install(s, &may, &ignored) && !may)
		fprintf(stderr,
		        "database %s: defib's own tables do not exist: a daemon that runs without them is "
		        "not visible here\n",
		        d->name);
}

static defib_err status_print_kept(struct status_run *x, const struct database *d, struct store *s,
                                   struct failure *f)
{
	const struct viewer v = viewer_local(NULL, d->name);
	struct retention_state st;
	defib_err err = retention_read(s, &st, f);
	if (err == DEFIB_PERMISSION) {
		fail_clear(f); /* this role may not see it */
		return DEFIB_OK;
	}
	if (err || !st.known)
		return err;
	if (x->cli->json) {
		buf_add(&x->retention, x->retention.len ? ",\n" : "\n");
		record_json(&retention_record, &st, &v, &x->retention);
	} else {
		retention_text(d, &st, &x->retention);
	}
	return DEFIB_OK;
}

/* ---- workers that keep results on disk because the database refuses them ---- */

#define WORKERS_MAX 1000

static void print_worker(struct status_run *x, const struct database *d, const struct roster_row *w)
{
	json_auto_t *info = text_eq(w->state, "alive") && w->info ? json_loads(w->info, 0, NULL) : NULL;
	const json_t *spool = json_object_get(info, "spool");
	bool trouble = json_integer_value(json_object_get(spool, "set_aside")) > 0 ||
	               json_object_get(spool, "unserved");
	if (trouble && x->cli->json) {
		buf_add(&x->workers, x->workers.len ? ",\n" : "\n");
		AUTO_BUF text = BUF_INIT;
		const struct viewer v = viewer_local(NULL, d->name);
		(void)json_write(&text, spool, JSON_COMPACT);
		record_json(&worker_spool_record, &(struct worker_spool){w->name, buf_text(&text)}, &v,
		            &x->workers);
	} else if (trouble) {
		worker_spool_text(d, w->name, spool, &x->workers);
	}
	x->trouble = x->trouble || trouble;
}

static defib_err print_workers(struct status_run *x, const struct database *d, struct store *s,
                               struct failure *f)
{
	struct roster_row *rows;
	int n = 0;
	defib_err err = roster_recent(s, 0, WORKERS_MAX, &x->cli->arena, &rows, &n, f);
	if (err == DEFIB_PERMISSION) {
		fail_clear(f); /* this role may not see it */
		return DEFIB_OK;
	}
	for (int i = 0; !err && i < n; i++)
		print_worker(x, d, &rows[i]);
	return err;
}

static void status_ask_database(struct status_run *x, const struct database *d)
{
	struct session *session = status_session_of(x, d);
	struct failure f = {0};
	struct stored_status stored;
	defib_err err = session_ready(session, &f);
	if (!err)
		err = stored_status_read(session->store, &x->cli->arena, &stored, &f);
	if (!err)
		err = stored_status_attachments(session->store, &x->cli->arena, &stored, &f);
	if (!err && x->cli->nwords == 0)
		err = status_print_kept(x, d, session->store, &f);
	if (!err && x->cli->nwords == 0)
		err = print_workers(x, d, session->store, &f);
	if (err) {
		int code = cli_fail(&f);
		x->code = x->failed++ ? x->code : code;
		return;
	}
	if (!stored.there)
		print_unseen(x, d, session->store);
	for (int i = 0; i < x->selection.n; i++)
		if (x->selection.groups[i].database == d)
			print_watch(x, &x->selection.groups[i], &stored);
	const struct selected queue = {
		.watch = builtin_watch(d->engine, &x->cli->arena), .database = d, .session = session};
	if (shows_queue(x, d, &stored))
		print_watch(x, &queue, &stored);
}

static const struct cli_option status_options[] = {
	{"numbers", NULL, "all counts: by state, by event, how long jobs take; this may take longer"},
	{NULL, NULL, NULL},
};

static int cmd_status(struct cli *c)
{
	struct status_run x = {.cli = c};
	int code = select_watches(c, &x.selection);
	if (code != EXIT_CLEAN)
		return code;
	for (int i = 0; i < c->settings.ndatabases; i++)
		if (is_named(&x, &c->settings.databases[i]))
			status_ask_database(&x, &c->settings.databases[i]);
	if (c->json)
		printf("{\"watches\":[%s\n],\"retention\":[%s\n],\"results_kept\":[%s\n]}\n",
		       buf_text(&x.out), buf_text(&x.retention), buf_text(&x.workers));
	else
		printf("%s%s%s", buf_text(&x.out), buf_text(&x.retention), buf_text(&x.workers));
	buf_release(&x.out);
	buf_release(&x.retention);
	buf_release(&x.workers);
	selection_release(&x.selection);
	if (x.failed)
		return x.printed ? EXIT_PARTLY : x.code;
	return x.trouble ? EXIT_STUCK : EXIT_CLEAN;
}

COMMAND(status, cmd_status, "[WATCH…]",
        "show whether all is well: leaders, counts, what is held back", .options = status_options,
        .examples = {{"defib status", "every watch"},
                     {"defib status pages --numbers", "one watch, with all that can be counted"},
                     {"defib status pages --json", "the same for programs, in brief"}});

static const struct cli_option pause_options[] = {
	{"all", NULL, "all watches of every configured database"},
	{"for", "DURATION", "recovery resumes by itself after this time"},
	{"reason", "TEXT", "the reason, shown by status"},
	{NULL, NULL, NULL},
};
static const struct cli_option resume_options[] = {
	{"all", NULL, "clear every pause, including those of single watches"},
	{NULL, NULL, NULL},
};
static const struct cli_option raise_options[] = {
	{"by", "FACTOR", "multiply the thresholds by this, 1 to 100"},
	{"off", NULL, "restore the configured thresholds"},
	{"all", NULL, "all watches of every configured database"},
	{"for", "DURATION", "restore them after this time"},
	{"reason", "TEXT", "the reason, shown by status"},
	{NULL, NULL, NULL},
};

/* Which watch, in which database; "*": all of it. */
struct status_target {
	const char *watch;
	const struct database *database;
	struct session *session;
};

struct status_request {
	struct cli *cli;
	struct selection selection;
	struct status_target *targets;
	int n;
	const char *name; /* of the override */
	const char *value;
	int64_t for_us;
	bool clear;
	struct buf out;
	int printed;
	int code;
};

/* ---- which watches ---- */

static void target_all(struct status_request *x)
{
	const struct settings *s = &x->cli->settings;
	for (int i = 0; i < s->ndatabases; i++) {
		const struct database *d = &s->databases[i];
		struct session *session = &x->selection.sessions[i];
		if (!session->open)
			*session = cli_session(d, NULL, false);
		x->targets[x->n++] = (struct status_target){"*", d, session};
	}
}

static int status_choose(struct status_request *x)
{
	struct cli *c = x->cli;
	bool all = cli_flag(c, "all");
	if (all && c->nwords)
		return cli_usage("%s: name watches, or give --all, not both", c->called);
	if (!all && !c->nwords)
		return cli_usage("%s: name watches, or give --all", c->called);
	int code = select_watches(c, &x->selection);
	if (code != EXIT_CLEAN)
		return code;
	int room = x->selection.n + c->settings.ndatabases;
	x->targets = ARENA_ARRAY(&c->arena, struct status_target, room);
	for (int i = 0; !all && i < x->selection.n; i++) {
		const struct selected *g = &x->selection.groups[i];
		x->targets[x->n++] = (struct status_target){g->watch->name, g->database, g->session};
	}
	if (all)
		target_all(x);
	/* Selecting watches only reads; these sessions are not open yet, and write. */
	for (int i = 0; i < x->selection.nsessions; i++)
		x->selection.sessions[i].options.read_only = false;
	return EXIT_CLEAN;
}

/* ---- setting ---- */

static void status_print_line(struct status_request *x, const char *watch, const struct database *d,
                              const char *text)
{
	buf_addf(&x->out, "%s/%s: ", d->name, text_eq(watch, "*") ? "all watches" : watch);
	out_padded(&x->out, text, 0);
	buf_add(&x->out, "\n");
}

static void in_force_text(const struct override *o, struct buf *text)
{
	if (text_eq(o->name, "pause"))
		buf_add(text, "recovery is paused ");
	else
		buf_addf(text, "thresholds are raised by %s, ", o->value);
	override_text(o, text);
}

static void cleared_text(const struct override_answer *w, struct buf *text)
{
	static const struct {
		const char *name, *was, *was_not;
	} texts[] = {
		{"pause", "recovery is resumed", "recovery was not paused"},
		{"raise", "thresholds are as configured", "thresholds were not raised"},
	};
	const size_t i = text_eq(w->name, "pause") ? 0 : 1;
	buf_add(text, w->was ? texts[i].was : texts[i].was_not);
}

static void status_print_answer(struct status_request *x, const struct status_target *t,
                                const struct override_answer *w)
{
	AUTO_BUF text = BUF_INIT;
	struct viewer v = viewer_local(NULL, t->database->name);
	if (x->cli->json) {
		buf_add(&x->out, x->printed ? ",\n" : "\n");
		record_json(&override_answer_record, w, &v, &x->out);
	} else {
		if (w->in_force)
			in_force_text(w->in_force, &text);
		else
			cleared_text(w, &text);
		status_print_line(x, w->watch, t->database, buf_text(&text));
	}
	x->printed++;
}

static defib_err status_set_override(struct status_request *x, const struct status_target *t,
                                     struct failure *f)
{
	struct cli *c = x->cli;
	const struct override wanted = {.watch = t->watch,
	                                .name = x->name,
	                                .value = x->value,
	                                .actor = cli_actor(c),
	                                .reason = cli_value(c, "reason")};
	struct override_answer answer;
	defib_err err = override_set(t->session->store, &wanted, x->for_us, &c->arena, &answer, f);
	if (!err)
		status_print_answer(x, t, &answer);
	return err;
}

/* ---- clearing ---- */

/* An override for all watches cannot be cleared for one. */
static int still_in_force(struct status_request *x, const struct status_target *t,
                          const struct override *o)
{
	struct failure f = {0};
	AUTO_BUF text = BUF_INIT;
	override_text(o, &text);
	fail(&f, DEFIB_REFUSED, "\"%s\" of %s is in force, set %s", x->name, t->watch, buf_text(&text));
	fail_next(&f, "clear it for all: defib %s --all%s", x->cli->called,
	          text_eq(x->name, "raise") ? " --off" : "");
	return cli_fail(&f);
}

static defib_err clear_override(struct status_request *x, const struct status_target *t,
                                struct failure *f)
{
	const struct override *still;
	struct override_answer *answers;
	int n;
	defib_err err = override_clear(t->session->store, t->watch, x->name, &x->cli->arena, &answers,
	                               &n, &still, f);
	if (!err && still)
		x->code = still_in_force(x, t, still);
	for (int i = 0; !err && !still && i < n; i++)
		status_print_answer(x, t, &answers[i]);
	return err;
}

/* ---- the whole ---- */

static int run_request(struct status_request *x)
{
	AUTO_BUF json = BUF_INIT;
	int code = status_choose(x), failed = 0;
	if (code != EXIT_CLEAN)
		return code;
	for (int i = 0; i < x->n; i++) {
		struct failure f = {0};
		defib_err err = session_ready(x->targets[i].session, &f);
		if (!err)
			err = x->clear ? clear_override(x, &x->targets[i], &f)
			               : status_set_override(x, &x->targets[i], &f);
		if (err) {
			x->code = cli_fail(&f);
			failed++;
		}
	}
	if (x->cli->json)
		override_answers_json(buf_text(&x->out), &json);
	fputs(buf_text(x->cli->json ? &json : &x->out), stdout);
	buf_release(&x->out);
	selection_release(&x->selection);
	return failed && failed < x->n ? EXIT_PARTLY : x->code;
}

static int status_read_span(struct status_request *x)
{
	if (!cli_duration(x->cli, "for", &x->for_us))
		return EXIT_USAGE;
	if (cli_flag(x->cli, "for") && x->for_us < US_PER_S)
		return cli_usage("--for must be at least a second; to clear the override: defib %s",
		                 text_eq(x->name, "pause") ? "resume" : "tune raise --off");
	return EXIT_CLEAN;
}

static int cmd_pause(struct cli *c)
{
	bool resume = text_eq(c->command->name, "resume");
	struct status_request x = {.cli = c, .name = "pause", .value = "on", .clear = resume};
	int code = resume ? EXIT_CLEAN : status_read_span(&x);
	return code == EXIT_CLEAN ? run_request(&x) : code;
}

COMMAND(pause, cmd_pause, "WATCH…|--all", "stop the daemons from recovering, until defib resume",
        .options = pause_options,
        .examples = {{"defib pause pages --for 1h --reason 'migration'", "one watch, for an hour"},
                     {"defib pause --all", "everything, until resumed"}});

COMMAND(resume, cmd_pause, "WATCH…|--all", "let the daemons recover again",
        .options = resume_options,
        .examples = {{"defib resume pages", "one watch"}, {"defib resume --all", "everything"}});

static int status_read_factor(struct cli *c, const char **value)
{
	const char *text = cli_value(c, "by");
	char *end = NULL;
	if (!text)
		return cli_usage("give --by FACTOR, such as --by 2.5, or --off");
	double factor = strtod(text, &end);
	if (end == text || *end)
		return cli_usage("--by expects a number such as 2.5, not \"%s\"", text);
	if (!raise_factor_ok(factor))
		return cli_usage("--by must be from 1 to %d: thresholds can only be raised; a shorter one "
		                 "belongs in the configuration",
		                 RAISE_MOST);
	*value = arena_printf(&c->arena, "%g", factor);
	return EXIT_CLEAN;
}

static int cmd_raise(struct cli *c)
{
	struct status_request x = {.cli = c, .name = "raise", .clear = cli_flag(c, "off")};
	if (x.clear && (cli_flag(c, "by") || cli_flag(c, "for") || cli_flag(c, "reason")))
		return cli_usage(
			"--off clears the override and cannot be combined with --by, --for or --reason");
	int code = x.clear ? EXIT_CLEAN : status_read_factor(c, &x.value);
	if (code == EXIT_CLEAN && !x.clear)
		code = status_read_span(&x);
	return code == EXIT_CLEAN ? run_request(&x) : code;
}

COMMAND(raise, cmd_raise, "WATCH…|--all --by FACTOR",
        "raise the thresholds of the daemons, while load is high", .options = raise_options,
        .examples = {{"defib tune raise pages --by 3 --for 2h --reason 'sale'",
                      "three times the thresholds, for two hours"},
                     {"defib tune raise --all --off", "as configured again"}});

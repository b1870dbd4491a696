/* SPDX-License-Identifier: Apache-2.0
 * cmd_scan.c: `defib scan`: finds stuck jobs, and recovers them with --fix.
 *
 * An operator's scan has no guard: it acts after one look, is not paced, and ignores a pause. But
 * if the brake of a daemon holds a watch, most of its workers fell silent at once and are probably
 * cut off rather than dead; recovering those anyway requires an option, and the ledger records it.
 */
#include "cli/load.h"
#include "cli/progress.h"
#include "lib/advice.h"
#include "recover/announce.h"
#include "recover/census.h"
#include "recover/leader_status.h"
#include "view/scan.h"

static const struct cli_option scan_options[] = {
	{"fix", NULL, "recover them; without it nothing is changed"},
	{"threshold", "DURATION", "instead of the limits of the watch"},
	{"limit", "N", "find at most N jobs in each watch"},
	{"remedy", "REMEDY", "this remedy for all of them, instead of the rules"},
	{"reason", "TEXT", "instead of the watch's reason"},
	{"override-guard", NULL, "also jobs that a daemon's brake holds back; recorded in the ledger"},
	{NULL, NULL, NULL},
};

/* ---- the report ---- */

/*
 * The output: JSON as a stream, or text. JSON jobs are written as they come, so that a million of
 * them need no memory; totals therefore follow.
 */
struct scan_report {
	struct cli *cli;
	int nwatches;                                                            /* started so far */
	int64_t njobs;                                                           /* of this watch */
	struct scan_rows rows;                                                   /* of this watch */
	int64_t found, running, held_before, unstarted, outcomes[OUTCOME_COUNT]; /* over all watches */
	struct progress progress;                                                /* of this watch */
	bool undoable; /* of this watch, something that `defib undo` can take back was done */
};

static void report_watch_begin(struct scan_report *r, const struct watch *w,
                               const struct database *d)
{
	AUTO_BUF out = BUF_INIT;
	r->njobs = 0;
	r->undoable = false;
	r->rows.n = 0;
	r->rows.seen = 0;
	r->progress = progress_begin(r->cli, w->name, r->rows.fix ? "recovered" : "found", 0);
	arena_clear(&r->rows.arena);
	if (r->cli->json) {
		buf_add(&out, r->nwatches ? ",\n" : "\n");
		scan_begin_json(w, d, &out);
		fputs(buf_text(&out), stdout);
	}
	r->nwatches++;
}

static void report_job(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct scan_report *r = ctx;
	struct buf out = BUF_INIT;
	if (r->cli->json) {
		buf_add(&out, r->njobs ? ",\n  " : "\n  ");
		scan_job_json(w, c, &out);
		out_print(&out);
	} else {
		scan_job_row(&r->rows, w, c);
	}
	r->undoable = r->undoable || (c->outcome == OUTCOME_RECOVERED && watch_can_undo(w, c->does));
	r->njobs++;
}

static void report_progress(void *ctx, const struct watch *w, const struct scan_result *s)
{
	struct scan_report *r = ctx;
	(void)w;
	r->progress.of.total = s->goal;
	progress_at(&r->progress, r->rows.fix ? s->outcomes[OUTCOME_RECOVERED] : s->found);
}

static void report_notes(const struct scan_report *r, const struct watch *w,
                         const struct scan_result *s)
{
	struct failure failure = s->failure;
	if (failure.code)
		cli_fail(&failure);
	if (r->cli->quiet || failure.code)
		return;
	if (r->rows.fix && !s->ledger)
		fprintf(stderr, "defib: %s: no ledger (%s%s%s): hold, undo and crash budget are off\n",
		        w->name, s->ledger_off, s->ledger_advice ? "; " : "",
		        advice_text(s->ledger_advice));
	if (s->ledger_made)
		fprintf(stderr, "defib: created the ledger in the database\n");
	if (s->never_seen) {
		AUTO_BUF hint = BUF_INIT;
		unseen_hint(s->row_security, &hint);
		fprintf(stderr, "defib: %s: no row is running, and %s\n", w->name, buf_text(&hint));
	}
	if (s->seen.asked) {
		AUTO_BUF seen = BUF_INIT;
		scan_seen_text(&s->seen, r->rows.fix, &seen);
		if (seen.len)
			fprintf(stderr, "defib: %s: %s\n", w->name, buf_text(&seen));
	}
	if (s->limited) {
		AUTO_BUF more = BUF_INIT;
		buf_add_count(&more, s->stuck - s->found);
		fprintf(stderr, "defib: %s: stopped at the limit; %s%s more %s stuck\n", w->name,
		        buf_text(&more), s->stuck >= ROWS_COUNT_MAX ? " or" : "",
		        s->stuck - s->found == 1 ? "is" : "are");
	}
}

static void report_watch_end(struct scan_report *r, const struct watch *w, const struct database *d,
                             const struct scan_result *s)
{
	progress_clear(&r->progress);
	struct buf out = BUF_INIT;
	if (r->cli->json) {
		scan_end_json(s, &out);
	} else if (!s->failure.code || s->found) {
		scan_head_text(w, d, s, r->rows.fix, r->cli->color_out, &out);
		scan_rows_text(&r->rows, r->cli->color_out, &out);
		if (r->rows.fix && s->ledger && s->batch[0] && s->outcomes[OUTCOME_RECOVERED])
			undo_line(r->undoable, s->batch, &out);
	}
	out_print(&out);
	fflush(stdout);
	report_notes(r, w, s);
	r->running += s->running;
	r->found += s->found;
	r->held_before += s->held_before;
	r->unstarted += s->waiting.unstarted;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		r->outcomes[i] += s->outcomes[i];
}

static void scan_report_end(struct scan_report *r)
{
	AUTO_BUF out = BUF_INIT;
	if (r->cli->json) {
		buf_add(&out, "\n]");
		scan_counts_json(r->running, r->found, r->outcomes, &out);
		buf_add(&out, "}\n");
		fputs(buf_text(&out), stdout);
	} else if (!r->rows.fix && r->found && !r->cli->quiet) {
		fprintf(stderr, "Nothing was changed. To recover them, run the same command with --fix\n");
	}
	arena_release(&r->rows.arena);
}

/* ---- the run ---- */

/* A database of this run: one session, and why it is down, once known. */
struct scan_source {
	struct session session;
	struct failure down;
};

struct scan_run {
	struct cli *cli;
	struct scan_options options;
	struct scan_report report;
	struct scan_source *sources; /* one per database */
	bool *chosen;                /* per watch */
	struct scan_result *results;
	int scanned, failed;
	defib_err first_failure;
};

static int scan_choose(struct scan_run *run)
{
	struct cli *c = run->cli;
	const struct settings *s = &c->settings;
	for (int i = 0; i < s->nwatches; i++)
		run->chosen[i] = c->nwords == 0 && s->watches[i].enabled;
	for (int i = 0; i < c->nwords; i++) {
		struct watch *w = settings_watch(s, c->words[i]);
		if (!w)
			return cli_no_watch(c, c->words[i], NULL);
		run->chosen[w - s->watches] = true;
	}
	if (s->nwatches == 0)
		return cli_usage("no watches: add some to the configuration, or give --table …");
	return EXIT_CLEAN;
}

static int override_threshold(struct scan_run *run)
{
	struct settings *s = &run->cli->settings;
	struct failure f = {0};
	int64_t us = -1;
	if (!cli_duration(run->cli, "threshold", &us))
		return EXIT_USAGE;
	for (int i = 0; us >= 0 && i < s->nwatches; i++)
		if (run->chosen[i] && cli_override_threshold(&s->watches[i], us, &f))
			return cli_fail(&f);
	return EXIT_CLEAN;
}

static int scan_read_options(struct scan_run *run)
{
	struct cli *c = run->cli;
	const char *remedy = cli_value(c, "remedy");
	int index = remedy ? word_index(remedy_names, remedy) : REMEDY_REPORT;
	if (index < 0)
		return cli_unknown("remedy", remedy, remedy_names);
	run->options = (struct scan_options){
		.fix = cli_flag(c, "fix"),
		.forced = remedy != NULL,
		.remedy = (enum remedy)index,
		.reason = cli_value(c, "reason"),
		.actor = cli_actor(c),
		.ledger_off = c->settings.ledger == LEDGER_OFF,
		.override_guard = cli_flag(c, "override-guard"),
		.expects = c->tty_err && !c->quiet,
		.observer = {report_job, report_progress, &run->report},
	};
	if (!cli_int(c, "limit", &run->options.limit))
		return EXIT_USAGE;
	if (cli_value(c, "limit") && run->options.limit < 1)
		return cli_usage("--limit must be at least 1");
	return EXIT_CLEAN;
}

static void prepare_sources(struct scan_run *run)
{
	const struct settings *s = &run->cli->settings;
	for (int i = 0; i < s->ndatabases; i++)
		run->sources[i].session = cli_session(&s->databases[i], NULL, !run->options.fix);
	/* All watches of a database share one session, so it has their longest time-out. */
	for (int i = 0; i < s->nwatches; i++) {
		const struct database *d = settings_database(s, &s->watches[i]);
		struct store_options *o = &run->sources[d - s->databases].session.options;
		int64_t ms = s->watches[i].statement_timeout_us / 1000;
		if (run->chosen[i] && ms > o->statement_ms)
			o->statement_ms = ms;
	}
}

static defib_err scan_ask_brake(const struct scan_run *run, struct session *session,
                                const struct watch *w, struct failure *f)
{
	if (!run->options.fix || run->options.override_guard)
		return DEFIB_OK;
	defib_err err = session_ready(session, f);
	return err ? err : brake_allows(session->store, w->name, "add --override-guard", f);
}

static void scan_one(struct scan_run *run, int i)
{
	const struct settings *s = &run->cli->settings;
	const struct watch *w = &s->watches[i];
	const struct database *d = settings_database(s, w);
	struct scan_source *source = &run->sources[d - s->databases];
	struct scan_result *result = &run->results[i];

	report_watch_begin(&run->report, w, d);
	if (source->down.code)
		result->failure = source->down; /* it would only time out again */
	else if (!scan_ask_brake(run, &source->session, w, &result->failure))
		scan_watch(&source->session, w, &run->options, result);
	if (result->failure.code && !source->session.store)
		source->down = result->failure;
	report_watch_end(&run->report, w, d, result);
	run->scanned++;
	if (result->failure.code) {
		run->failed++;
		if (!run->first_failure)
			run->first_failure = result->failure.code;
	}
}

static void print_groups(const struct scan_run *run)
{
	const struct settings *s = &run->cli->settings;
	struct group_part *parts = ARENA_ARRAY(&run->cli->arena, struct group_part, s->nwatches + 1);
	int n = 0;
	for (int i = 0; i < s->nwatches; i++)
		if (run->chosen[i])
			parts[n++] =
				(struct group_part){&s->watches[i], run->results[i].outcomes[OUTCOME_RECOVERED]};
	groups_tell(parts, n);
}

static int exit_code(const struct scan_run *run)
{
	const int64_t *n = run->report.outcomes;
	if (run->failed == run->scanned && run->failed > 0)
		return n[OUTCOME_RECOVERED] ? EXIT_PARTLY : exit_code_of(run->first_failure);
	if (run->failed || n[OUTCOME_REFUSED])
		return EXIT_PARTLY;
	/* Jobs that were already on hold are shown, but are not news. */
	int64_t held_before = run->report.held_before;
	if (!run->options.fix)
		return run->report.found > held_before || run->report.unstarted ? EXIT_STUCK : EXIT_CLEAN;
	bool left = n[OUTCOME_LEFT] || n[OUTCOME_HELD] > held_before || n[OUTCOME_LOCKED];
	return left ? EXIT_STUCK : EXIT_CLEAN;
}

static int scan_all(struct scan_run *run)
{
	const struct settings *s = &run->cli->settings;
	run->report = (struct scan_report){.cli = run->cli, .rows = {.fix = run->options.fix}};
	if (run->cli->json)
		fputs("{\"watches\":[", stdout);
	for (int i = 0; i < s->nwatches; i++)
		if (run->chosen[i])
			scan_one(run, i);
		else if (!s->watches[i].enabled)
			cli_say_off(run->cli, &s->watches[i]);
	scan_report_end(&run->report);
	if (run->options.fix)
		print_groups(run);
	for (int i = 0; i < s->ndatabases; i++)
		store_close(run->sources[i].session.store);
	return exit_code(run);
}

static int cmd_scan(struct cli *c)
{
	struct scan_run run = {.cli = c};
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	run.sources = ARENA_ARRAY(&c->arena, struct scan_source, c->settings.ndatabases);
	run.chosen = ARENA_ARRAY(&c->arena, bool, c->settings.nwatches + 1);
	run.results = ARENA_ARRAY(&c->arena, struct scan_result, c->settings.nwatches + 1);
	code = scan_choose(&run);
	if (code == EXIT_CLEAN)
		code = override_threshold(&run);
	if (code == EXIT_CLEAN)
		code = scan_read_options(&run);
	if (code != EXIT_CLEAN)
		return code;
	prepare_sources(&run);
	return scan_all(&run);
}

COMMAND(scan, cmd_scan, "[WATCH…]", "find stuck jobs; with --fix, recover them",
        .options = scan_options, .watch_options = true,
        .examples = {
			{"defib scan",
             "what is stuck in every watch, and what would be done; exit code 1 if any is new"},
			{"defib scan pages --fix --limit 10",
             "recover the ten oldest, by the rules of the watch"},
			{"defib scan --db sqlite:app.db --table pages --key id \\\n"
             "--running \"status = 'running'\" --alive-at updated_at --stuck-after 1h",
             "without a configuration, on any table"}});

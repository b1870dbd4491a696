/* SPDX-License-Identifier: Apache-2.0
 * cmd_undo.c: `defib undo BATCH|JOB…`: undo what a scan or an operator did,
 * as far as nobody has claimed or changed the jobs since.
 *
 * A batch names itself; which watches and databases it is about stands in their
 * ledgers.
 */
#include "cli/act.h"

#include "base/text.h"
#include "ledger/ledger.h"
#include "watch/builtin.h"

#include <ctype.h>

const struct cli_option undo_options[] = {
	{"watch", "WATCH", "the job's watch; a batch knows its own"},
	ACT_OPTIONS,
	{NULL, NULL, NULL},
};

/* What is undone in one database for one watch: a batch, or some jobs. */
struct undo_part {
	const struct watch *watch;
	const struct database *database;
	struct session *session;
	const char *batch;
	const char *const *jobs;
	int64_t n; /* of jobs */
};

struct undo_run {
	struct cli *cli;
	struct session *sessions; /* one a database, of a batch */
	struct undo_part *parts;
	int nparts;
	int down; /* databases that could not be asked */
	int code; /* of the first of them */
};

/* 20261115-084500-1a2b3c4d, or a part of it with .2 behind. */
static bool is_batch(const char *word)
{
	static const char form[] = "dddddddd-dddddd-xxxxxxxx";
	size_t n = sizeof form - 1;
	if (strlen(word) < n)
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned char ch = (unsigned char)word[i];
		if (form[i] == 'd' ? !isdigit(ch) : (form[i] == 'x' ? !isxdigit(ch) : ch != '-'))
			return false;
	}
	return word[n] == '\0' || (word[n] == '.' && isdigit((unsigned char)word[n + 1]));
}

/* ---- a batch ---- */

/* The part of a batch that is about this watch; NULL: there is no such watch here. */
static struct undo_part *part_of(struct undo_run *r, const struct database *d, const char *watch,
                                 const char *batch)
{
	struct cli *c = r->cli;
	for (int i = 0; i < r->nparts; i++)
		if (text_eq(r->parts[i].watch->name, watch) && r->parts[i].database == d)
			return &r->parts[i];
	const struct watch *w = settings_watch(&c->settings, watch);
	if (!w && text_eq(watch, BUILTIN_NAME))
		w = builtin_watch(d->engine, &c->arena);
	if (!w)
		return NULL;
	struct undo_part *p = &r->parts[r->nparts++];
	*p = (struct undo_part){.watch = w, .database = d, .batch = batch};
	p->session = &r->sessions[d - c->settings.databases];
	return p;
}

/* Count the entries of each watch. */
static void add_parts(struct undo_run *r, const struct database *d, const char *batch,
                      const struct ledger_row *rows, int n)
{
	const char *stranger = NULL;
	for (int i = 0; i < n; i++) {
		struct undo_part *p = part_of(r, d, rows[i].watch, batch);
		if (p)
			p->n++;
		else
			stranger = rows[i].watch;
	}
	if (stranger)
		fprintf(stderr,
		        "defib: the batch also has jobs of watch %s, which is not configured here\n",
		        stranger);
}

static defib_err read_batch(struct undo_run *r, const struct database *d, const char *batch,
                            struct failure *f)
{
	struct session *session = &r->sessions[d - r->cli->settings.databases];
	struct ledger_filter filter = {.batch = batch};
	struct ledger_row *rows = NULL;
	struct ledger ledger = {0};
	int n = 0;
	*session = (struct session){.options = cli_store_options(d, NULL, false), .open = store_open};
	defib_err err = session_ready(session, f);
	if (!err)
		err = ledger_open(session->store, false, &ledger, f);
	do {
		n = 0;
		if (!err && ledger.ready)
			err = ledger_read(session->store, &filter, &r->cli->arena, &rows, &n, f);
		add_parts(r, d, batch, rows, err ? 0 : n);
		filter.after_id = n > 0 ? rows[n - 1].id : 0;
	} while (!err && n == LEDGER_READ_MAX);
	return err;
}

static int find_batch(struct undo_run *r, const char *batch)
{
	const struct settings *s = &r->cli->settings;
	r->sessions = ARENA_ARRAY(&r->cli->arena, struct session, s->ndatabases);
	/* In each database any watch, and the built-in queue. */
	r->parts = ARENA_ARRAY(&r->cli->arena, struct undo_part, s->ndatabases * (s->nwatches + 1));
	for (int i = 0; i < s->ndatabases; i++) {
		struct failure f = {0};
		if (read_batch(r, &s->databases[i], batch, &f)) {
			int code = cli_fail(&f);
			r->code = r->down++ ? r->code : code;
		}
	}
	if (r->nparts == 0 && !r->down) {
		struct failure f = {0};
		fail(&f, DEFIB_NOT_FOUND, "no ledger contains batch %s", batch);
		fail_next(&f, "defib ledger lists what was done, with its batches");
		return cli_fail(&f);
	}
	return r->nparts ? EXIT_CLEAN : r->code;
}

/* ---- jobs ---- */

static int find_jobs(struct undo_run *r, struct selection *s)
{
	const struct select_rules rules = {.changes = true};
	int code = select_jobs(r->cli, &rules, s);
	if (code != EXIT_CLEAN)
		return code;
	r->parts = ARENA_ARRAY(&r->cli->arena, struct undo_part, s->n + 1);
	for (int i = 0; i < s->n; i++) {
		const struct selected *g = &s->groups[i];
		if (g->njobs)
			r->parts[r->nparts++] = (struct undo_part){
				g->watch, g->database, g->session, NULL, (const char *const *)g->jobs, g->njobs};
	}
	return EXIT_CLEAN;
}

/* ---- both ---- */

static int ask(struct undo_run *r)
{
	struct buf question = BUF_INIT;
	for (int i = 0; i < r->nparts; i++)
		act_question(&question, "undo what was done to", r->parts[i].n, r->parts[i].watch,
		             r->parts[i].database);
	int code = cli_confirm(r->cli, buf_text(&question), act_reads_stdin(r->cli));
	buf_release(&question);
	return code;
}

/* The newest change of a job, or the batch; where there is none, that is said. */
static void undo_one(const struct undo_part *p, const struct undo_options *o,
                     struct by_hand_result *sum)
{
	struct by_hand_result one = {0};
	int64_t found = 0;
	undo(p->session, p->watch, o, &one);
	for (int i = 0; i < OUTCOME_COUNT; i++) {
		sum->outcomes[i] += one.outcomes[i];
		found += one.outcomes[i];
	}
	if (found == 0 && !one.failure.code) {
		fail(&one.failure, DEFIB_REFUSED, "there is nothing to undo%s%s",
		     o->job ? " for job " : " in this batch", o->job ? o->job : "");
		fail_next(&one.failure, "defib ledger --watch %s lists what was done", p->watch->name);
	}
	sum->ledger = one.ledger;
	if (one.failure.code && !sum->failure.code)
		sum->failure = one.failure;
}

static int carry_out(struct undo_run *r)
{
	struct cli *c = r->cli;
	struct act_report report = {.cli = c,
	                            .words = {.verb = "undo",
	                                      .done = "put back",
	                                      .good = OUTCOME_RECOVERED,
	                                      .dry_run = cli_flag(c, "dry-run")}};
	act_report_begin(&report);
	for (int i = 0; i < r->nparts; i++) {
		const struct undo_part *p = &r->parts[i];
		struct by_hand_result sum = {0};
		struct undo_options o = {.batch = p->batch,
		                         .reason = cli_value(c, "reason"),
		                         .actor = cli_actor(c),
		                         .dry_run = report.words.dry_run,
		                         .done = act_job,
		                         .ctx = &report};
		act_group_begin(&report, p->watch, p->database);
		if (p->batch)
			undo_one(p, &o, &sum);
		for (int k = 0; p->jobs && k < p->n; k++) {
			o.job = p->jobs[k];
			undo_one(p, &o, &sum);
		}
		act_group_end(&report, p->watch, p->database, &sum);
	}
	int code = act_report_end(&report);
	return code == EXIT_CLEAN && r->down ? EXIT_PARTLY : code;
}

int cmd_undo(struct cli *c)
{
	struct undo_run r = {.cli = c};
	struct selection s = {0};
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->nwords == 0)
		return cli_usage(
			"give what to undo: a batch, as printed by the command that made it, or a job");
	bool batch = is_batch(c->words[0]);
	if (batch && c->nwords > 1)
		return cli_usage("one batch at a time: defib undo %s", c->words[0]);
	code = batch ? find_batch(&r, c->words[0]) : find_jobs(&r, &s);
	if (code == EXIT_CLEAN)
		code = ask(&r);
	if (code == EXIT_CLEAN)
		code = carry_out(&r);
	for (int i = 0; r.sessions && i < c->settings.ndatabases; i++)
		session_close(&r.sessions[i]);
	selection_release(&s);
	return code;
}

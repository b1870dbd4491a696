/* SPDX-License-Identifier: Apache-2.0
 * cmd_act.c: operators' acts on jobs (select.h), and `defib undo BATCH|JOB…`, which undoes what a
 * scan or an operator did, except for jobs that were claimed or changed since.
 *
 * A batch needs no watch: the ledgers show which watches and databases it concerns.
 */
#include "cli/load.h"
#include "cli/progress.h"
#include "cli/select.h"
#include "recover/undo.h"
#include "worker/queue.h"
#include "worker/wake.h"

#include <ctype.h>

/* The output: a row per job, then counts by outcome; with --json one document. */
struct act_report {
	struct cli *cli;
	struct act_words words;
	int ngroups;
	int64_t njobs;                   /* of this group */
	struct act_rows rows;            /* of this group, as text */
	int64_t outcomes[OUTCOME_COUNT]; /* over all groups */
	int64_t still_held;              /* restored by an undo, and held … */
	const char *still_held_in;       /* … in this watch, the last of them */
	int64_t lifted;                  /* holds that an undo ended, or would end */
	int failed;
	defib_err first_failure;
	struct progress progress; /* of this group */
	bool undoable; /* in this group, something that `defib undo` can take back was done */
};

bool act_reads_stdin(const struct cli *c)
{
	bool reads = false;
	for (int i = 0; i < c->nwords; i++)
		reads = reads || text_eq(c->words[i], "-");
	return reads;
}

static void act_report_begin(struct act_report *r)
{
	struct buf out = BUF_INIT;
	if (r->cli->json)
		act_begin_json(r->words.verb, r->words.dry_run, &out);
	out_print(&out);
}

static void act_group_begin(struct act_report *r, const struct watch *w, const struct database *d,
                            int64_t total)
{
	struct buf out = BUF_INIT;
	r->progress = progress_begin(r->cli, w->name, r->words.done, total);
	r->njobs = 0;
	r->undoable = false;
	act_rows_init(&r->rows, ACT_ROWS_MAX);
	if (r->cli->json) {
		buf_add(&out, r->ngroups ? ",\n" : "\n");
		act_group_begin_json(w, d, &out);
	}
	r->ngroups++;
	out_print(&out);
}

/* As text: a row per job while they are few; problems are always shown. */
static void act_job(void *report, const struct watch *w, const struct candidate *c)
{
	struct act_report *r = report;
	struct buf out = BUF_INIT;
	if (r->cli->json) {
		buf_add(&out, r->njobs ? ",\n  " : "\n  ");
		act_job_json(w, c, act_good(&r->words), CALLER_COMMAND, &out);
	} else {
		act_job_row(&r->rows, &r->words, w, c);
	}
	out_print(&out);
	progress_at(&r->progress, ++r->njobs);
	bool good = c->outcome == (r->words.dry_run ? OUTCOME_LEFT : OUTCOME_RECOVERED);
	r->lifted += good && c->does == ACT_LIFT && text_eq(r->words.verb, "undo");
	bool done = c->outcome == OUTCOME_RECOVERED || c->outcome == OUTCOME_HELD;
	r->undoable = r->undoable || (done && watch_can_undo(w, c->does));
	if (!r->words.dry_run && c->does == ACT_UNDO && c->outcome == OUTCOME_RECOVERED) {
		r->still_held++;
		r->still_held_in = w->name;
	}
}

static void group_end_text(const struct act_report *r, const struct watch *w,
                           const struct database *d, const struct by_hand_result *result,
                           struct buf *out)
{
	act_rows_text(&r->rows, " (--json lists all)", r->cli->color_out, out);
	act_counts_text(&r->words, w, d, result, out);
	if (result->batch[0] && !text_eq(r->words.verb, "undo"))
		undo_line(r->undoable, result->batch, out);
}

static void act_group_end(struct act_report *r, const struct watch *w, const struct database *d,
                          const struct by_hand_result *result)
{
	struct buf out = BUF_INIT;
	progress_clear(&r->progress);
	if (r->cli->json)
		act_group_end_json(result, &out);
	else
		group_end_text(r, w, d, result, &out);
	act_rows_release(&r->rows);
	out_print(&out);
	fflush(stdout);
	if (result->failure.code) {
		struct failure f = result->failure;
		/* A word that the key's type does not accept is a usage error. */
		if (f.reason == REASON_NOT_OF_TYPE)
			f.code = DEFIB_USAGE;
		cli_fail(&f);
		r->failed++;
		r->first_failure = r->first_failure ? r->first_failure : f.code;
	} else if (!r->words.dry_run && !result->ledger && !r->cli->quiet) {
		fprintf(stderr, "defib: %s: there is no ledger, so this cannot be undone\n", w->name);
	}
	for (int i = 0; i < OUTCOME_COUNT; i++)
		r->outcomes[i] += result->outcomes[i];
}

static int act_report_end(struct act_report *r)
{
	int64_t done = r->outcomes[act_good(&r->words)], other = -done;
	if (r->cli->json)
		fputs("\n]}\n", stdout);
	else if (r->words.dry_run && done && !r->cli->quiet)
		fprintf(
			stderr,
			"Nothing was changed. To make the change, run the same command without --dry-run\n");
	else if (r->still_held && !r->cli->quiet)
		fprintf(stderr,
		        "Reverted jobs are on hold, so that no scan repeats the change. "
		        "To release them: defib release --watch %s --where held\n",
		        r->still_held_in);
	if (r->lifted && !r->cli->quiet)
		fprintf(stderr,
		        "%lld of them %s only put on hold. The hold %s, and the next scan decides as "
		        "it did before\n",
		        (long long)r->lifted, r->lifted == 1 ? "was" : "were",
		        r->words.dry_run ? "would end" : "ended");
	for (int i = 0; i < OUTCOME_COUNT; i++)
		other += r->outcomes[i];
	/* Jobs that were left unchanged needed nothing. */
	other -= r->words.dry_run ? 0 : r->outcomes[OUTCOME_LEFT];
	if (r->failed)
		return done ? EXIT_PARTLY : exit_code_of(r->first_failure);
	if (other == 0)
		return EXIT_CLEAN;
	return done ? EXIT_PARTLY : EXIT_REFUSED;
}

/* ---- the act ---- */

static int check_groups(const struct act_kind *kind, const struct selection *s)
{
	struct failure f = {0};
	for (int i = 0; i < s->n; i++)
		if (act_configured(kind, s->groups[i].watch, &f))
			return cli_fail(&f);
	return EXIT_CLEAN;
}

/* Warnings of a dry run, shown before the confirmation. */
struct warnings {
	int64_t n;
	char first[256];
};

static void count_warning(void *ctx, const struct watch *w, const struct candidate *cand)
{
	struct warnings *found = ctx;
	(void)w;
	if (!cand->warning)
		return;
	if (found->n++ == 0)
		snprintf(found->first, sizeof found->first, "%s", cand->warning);
}

static void add_warnings(struct cli *c, const struct act_kind *kind, const struct selected *g,
                         struct buf *out)
{
	struct warnings found = {0};
	struct by_hand_result ignored = {0};
	const struct by_hand_options o = {.act = kind->act,
	                                  .actor = cli_actor(c),
	                                  .dry_run = true,
	                                  .ledger_off = c->settings.ledger == LEDGER_OFF,
	                                  .job = count_warning,
	                                  .ctx = &found};
	by_hand(g->session, g->watch, &o, (const char *const *)g->jobs, g->njobs, &ignored);
	if (found.n == 1)
		buf_addf(out, "; warning about one: %s", found.first);
	else if (found.n > 1)
		buf_addf(out, "; warning about %lld of them: %s", (long long)found.n, found.first);
}

static int act_ask(struct cli *c, const struct act_kind *kind, const struct selection *s)
{
	AUTO_BUF question = BUF_INIT;
	bool asks = !cli_flag(c, "yes") && !cli_flag(c, "dry-run");
	for (int i = 0; i < s->n; i++) {
		act_question(&question, kind->verb, s->groups[i].njobs, s->groups[i].watch,
		             s->groups[i].database);
		if (asks && kind->act == ACT_RELEASE)
			add_warnings(c, kind, &s->groups[i], &question);
	}
	return cli_confirm(c, buf_text(&question), act_reads_stdin(c));
}

/* Of the built-in queue: its workers are woken; or what it needs, if its tables are missing. */
static void after_queue(const struct selected *g, struct by_hand_result *result)
{
	struct failure *f = &result->failure, missing = {0};
	if (!text_eq(g->watch->name, BUILTIN_NAME))
		return;
	if (result->batch[0])
		wake_send(g->session->store, g->database->url);
	if (f->code != DEFIB_CONFIG)
		return;
	/* The watch is our own and correct: the tables are missing. */
	fail(&missing, DEFIB_BAD_SQL, "%s", f->what);
	cli_queue_hint(&missing);
	*f = missing;
}

int act_carry_out(struct cli *c, const struct act_kind *kind, const struct selection *s)
{
	struct act_report report = {.cli = c,
	                            .words = {.verb = kind->verb,
	                                      .done = kind->done,
	                                      .good = act_outcome(kind->act),
	                                      .dry_run = cli_flag(c, "dry-run")}};
	const struct by_hand_options o = {
		.act = kind->act,
		.reason = cli_value(c, "reason"),
		.actor = cli_actor(c),
		.step = cli_value(c, "from-step"),
		.dry_run = report.words.dry_run,
		.override_guard = cli_flag(c, "override-guard"),
		.running_only = cli_flag(c, "running-only"),
		.ledger_off = c->settings.ledger == LEDGER_OFF,
		.job = act_job,
		.ctx = &report,
	};
	act_report_begin(&report);
	for (int i = 0; i < s->n; i++) {
		const struct selected *g = &s->groups[i];
		struct by_hand_result result = {0};
		act_group_begin(&report, g->watch, g->database, g->njobs);
		by_hand(g->session, g->watch, &o, (const char *const *)g->jobs, g->njobs, &result);
		after_queue(g, &result);
		act_group_end(&report, g->watch, g->database, &result);
	}
	if (s->limited && !c->quiet)
		fprintf(stderr, "defib: stopped at --limit; there are more such jobs\n");
	return act_report_end(&report);
}

static int nothing_to_do(const struct cli *c, const struct act_kind *kind)
{
	if (c->json)
		printf("{\"act\":\"%s\",\"watches\":[]}\n", kind->verb);
	else
		printf("no jobs match: nothing to %s\n", kind->verb);
	return EXIT_CLEAN;
}

int act_selected(struct cli *c, const struct act_kind *kind, const struct selection *s)
{
	if (s->total == 0)
		return nothing_to_do(c, kind);
	int code = check_groups(kind, s);
	if (code == EXIT_CLEAN)
		code = act_ask(c, kind, s);
	return code == EXIT_CLEAN ? act_carry_out(c, kind, s) : code;
}

static const struct cli_option act_options[] = {
	SELECTOR_OPTIONS, SELECTOR_ALL, ACT_OPTIONS, ACT_OVERRIDE, ACT_BACKGROUND, {NULL, NULL, NULL},
};

static const struct cli_option retry_options[] = {
	SELECTOR_OPTIONS,   SELECTOR_ALL,
	ACT_OPTIONS,        ACT_OVERRIDE,
	ACT_BACKGROUND,     {"from-step", "STEP", "begin at this step, not where it failed"},
	{NULL, NULL, NULL},
};

static int cmd_act(struct cli *c)
{
	const struct act_kind *kind = act_kind_named(c->command->name);
	const struct select_rules rules = {.changes = true};
	AUTO(selection_release) struct selection s = {0};
	if (cli_flag(c, "background"))
		return act_in_background(c, kind);
	int code = select_jobs(c, &rules, &s);
	if (code == EXIT_CLEAN)
		code = act_selected(c, kind, &s);
	return code;
}

COMMAND(requeue, cmd_act, "JOB…", "make jobs available to any worker again", .options = act_options,
        .examples = {
			{"defib requeue pages/4711 --dry-run", "what would be done, and what to be aware of"},
			{"defib requeue --watch pages --where stuck --limit 10 --reason lost --yes",
             "ten that are stuck, without asking"}});

COMMAND(retry, cmd_act, "JOB…", "run jobs again at once, from where they failed",
        .options = retry_options,
        .examples = {{"defib retry queue/42 --yes", "a job that failed or is held"},
                     {"defib retry --watch queue --where state=failed --limit 100 --dry-run",
                      "which jobs it would change"}});

COMMAND(fail, cmd_act, "JOB…", "end jobs as failed", .options = act_options,
        .examples = {{"defib fail pages/4711 --reason 'the source is gone' --yes",
                      "the row and the ledger say why"},
                     {"defib fail --watch pages --where stuck --where 'age>1d' --dry-run",
                      "which jobs it would change"}});

COMMAND(hold, cmd_act, "JOB…", "keep automation away from jobs until an operator releases them",
        .options = act_options,
        .examples = {
			{"defib hold pages/4711 --reason 'looking into it' --yes",
             "no scan touches it from now on"},
			{"defib hold --watch pages --where stuck --dry-run", "which jobs it would change"}});

COMMAND(excuse, cmd_act, "JOB…", "say that stuck jobs are not stuck, until they change",
        .options = act_options,
        .examples = {{"defib excuse pages/4711 --reason 'a large import' --yes",
                      "not stuck for as long as what was judged stays the same"},
                     {"defib list --watch pages --where excused", "what is excused, by whom"}});

COMMAND(release, cmd_act, "JOB…", "let held or excused jobs go on", .options = act_options,
        .examples = {{"defib release queue/43 --yes", "one job"},
                     {"defib release --watch queue --where held --yes", "all that are held"}});

COMMAND(rollback, cmd_act, "JOB…", "undo what jobs have done so far", .options = act_options,
        .examples = {{"defib rollback queue/45 --yes", "the steps of a workflow, backwards"},
                     {"defib rollback --watch queue --where kind=order --dry-run",
                      "which jobs it would change"}});

static const struct cli_option undo_options[] = {
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
	struct session *sessions; /* one per database, for a batch */
	struct undo_part *parts;
	int nparts;
	int down; /* databases that could not be queried */
	int code; /* of the first of them */
};

/* 20261115-084500-1a2b3c4d, or a part of it with .2 at the end. */
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

/* The part of a batch for this watch; NULL: there is no such watch here. */
static struct undo_part *act_part_of(struct undo_run *r, const struct database *d,
                                     const char *watch, const char *batch)
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
		struct undo_part *p = act_part_of(r, d, rows[i].watch, batch);
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

static defib_err act_read_batch(struct undo_run *r, const struct database *d, const char *batch,
                                struct failure *f)
{
	struct session *session = &r->sessions[d - r->cli->settings.databases];
	struct ledger_filter filter = {.batch = batch};
	struct ledger_row *rows = NULL;
	struct ledger ledger = {0};
	int n = 0;
	*session = cli_session(d, NULL, false);
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
		if (act_read_batch(r, &s->databases[i], batch, &f)) {
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

static int act_find_jobs(struct undo_run *r, struct selection *s)
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

static int ask_undo(struct undo_run *r)
{
	AUTO_BUF question = BUF_INIT;
	for (int i = 0; i < r->nparts; i++)
		act_question(&question, "undo what was done to", r->parts[i].n, r->parts[i].watch,
		             r->parts[i].database);
	return cli_confirm(r->cli, buf_text(&question), act_reads_stdin(r->cli));
}

/* Undo the newest change of a job, or the batch; if there is none, that is reported. */
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

static int act_undo_all(struct undo_run *r)
{
	struct cli *c = r->cli;
	struct act_report report = {.cli = c,
	                            .words = {.verb = "undo",
	                                      .done = "reverted",
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
		act_group_begin(&report, p->watch, p->database, p->n);
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

static int cmd_undo(struct cli *c)
{
	struct undo_run r = {.cli = c};
	AUTO(selection_release) struct selection s = {0};
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->nwords == 0)
		return cli_usage(
			"give what to undo: a batch, as printed by the command that made it, or a job");
	bool batch = is_batch(c->words[0]);
	if (batch && c->nwords > 1)
		return cli_usage("one batch at a time: defib undo %s", c->words[0]);
	code = batch ? find_batch(&r, c->words[0]) : act_find_jobs(&r, &s);
	if (code == EXIT_CLEAN)
		code = ask_undo(&r);
	if (code == EXIT_CLEAN)
		code = act_undo_all(&r);
	for (int i = 0; r.sessions && i < c->settings.ndatabases; i++)
		session_close(&r.sessions[i]);
	return code;
}

COMMAND(undo, cmd_undo, "BATCH|JOB…", "take back what a scan or an operator did",
        .options = undo_options,
        .examples = {
			{"defib undo pages/4712 --dry-run", "whether it can be undone, and if not, why"},
			{"defib undo pages/4712 --reason 'the host is still down' --yes", "put it back"}});

/* SPDX-License-Identifier: Apache-2.0
 * cmd_force.c: `defib force [WATCH] --action force|fail`: the emergency command. It takes the
 * oldest jobs that no worker handles, and either runs the watch's own command for them here and
 * now, or fails them.
 *
 * `force` is an ordinary worker for exactly these jobs: they are claimed, leased and settled like
 * any other, so that a worker that comes back meanwhile does no harm.
 */
#include "base/clock.h"
#include "cli/load.h"
#include "cli/select.h"
#include "worker/source.h"
#include "worker/source_chosen.h"
#include "worker/worker.h"

#include <assert.h>
#include <pthread.h>
#include <unistd.h>

const char *const force_actions[] = {"force", "fail", NULL};

static const struct cli_option force_options[] = {
	{"action", "ACTION", "force: run the watch's command for them now; fail: apply its fail: list"},
	{"older-than", "DURATION", "only jobs whose sign of life is older than this; default 10m"},
	{"max", "N", "at most N jobs, the oldest; default 10"},
	ACT_OPTIONS,
	{NULL, NULL, NULL},
};

struct force_run {
	struct cli *cli;
	struct picked picked;
	struct aged *jobs;
	int n;
	int64_t older_us, max;
	/* of --action force: */
	struct worker *worker;
	pthread_mutex_t lock; /* for output and counts: two threads claim and settle */
	int done, failed, left;
	int width; /* of the longest name; 0: no row has been printed */
};

static int force_read_options(struct force_run *r, bool *fail_them)
{
	const char *action = cli_value(r->cli, "action");
	r->older_us = 10 * 60 * US_PER_S;
	r->max = 10;
	if (action && word_index(force_actions, action) < 0)
		return cli_unknown("--action", action, force_actions);
	if (!action)
		return cli_usage("give an action: --action force runs the watch's command, --action fail "
		                 "applies its fail: list");
	*fail_them = text_eq(action, "fail");
	if (!cli_duration(r->cli, "older-than", &r->older_us) || !cli_int(r->cli, "max", &r->max))
		return EXIT_USAGE;
	if (r->max < 1 || r->max > 10000)
		return cli_usage("--max must be from 1 to 10000");
	return EXIT_CLEAN;
}

static int force_find_jobs(struct force_run *r)
{
	struct failure f = {0};
	struct picked *p = &r->picked;
	const char *name = r->cli->dashes > 0 ? r->cli->words[0] : NULL;
	if (r->cli->dashes > 1)
		return cli_usage("one watch at a time; a program comes after --");
	int code = pick_watch(r->cli, name, p);
	if (code != EXIT_CLEAN)
		return code;
	if (aged_jobs(&p->binding, p->store, r->older_us, r->max, &r->cli->arena, &r->jobs, &r->n, &f))
		return cli_fail(&f);
	return EXIT_CLEAN;
}

/* ---- fail ---- */

static int fail_jobs(struct force_run *r)
{
	struct picked *p = &r->picked;
	AUTO_SESSION session = cli_session(p->database, p->watch, false);
	const char **jobs = ARENA_ARRAY(&r->cli->arena, const char *, r->n);
	struct selected group = {.watch = p->watch,
	                         .database = p->database,
	                         .session = &session,
	                         .named = true,
	                         .jobs = jobs,
	                         .njobs = r->n};
	const struct selection s = {.groups = &group, .n = 1, .total = r->n};
	for (int i = 0; i < r->n; i++)
		jobs[i] = r->jobs[i].job;
	return act_selected(r->cli, act_kind_named("fail"), &s);
}

/* ---- force ---- */

static int outcome_width(const struct force_run *r)
{
	return (int)strlen(cli_flag(r->cli, "dry-run") ? "would be skipped" : "timed_out");
}

/* Rows come one by one, while jobs run. */
static void print_head(struct force_run *r)
{
	AUTO_BUF out = BUF_INIT, name = BUF_INIT;
	for (int i = 0; i < r->n; i++) {
		buf_clear(&name);
		job_qualified(r->picked.watch, r->jobs[i].job, &name);
		int width = out_width(buf_text(&name));
		r->width = width > r->width ? width : r->width;
	}
	out_padded(&out, "JOB", r->width);
	buf_addf(&out, "  %-*s  DETAIL", outcome_width(r), "OUTCOME");
	puts(buf_text(&out));
}

struct forced_job {
	const char *job, *outcome, *detail;
};

static const struct field forced_fields[] = {
	{"job", FIELD_AT(struct forced_job, job)},
	{"outcome", FIELD_AT(struct forced_job, outcome)},
	{"detail", FIELD_AT(struct forced_job, detail), .null = true},
	{0},
};
static const struct record forced_record = {.fields = forced_fields};

static void force_print_line(struct force_run *r, const char *job, const char *what,
                             const char *detail)
{
	const struct viewer v = viewer_local(r->picked.watch, NULL);
	AUTO_BUF out = BUF_INIT, name = BUF_INIT;
	if (!r->width && !r->cli->json)
		print_head(r);
	job_qualified(r->picked.watch, job, &name);
	if (r->cli->json) {
		record_json(&forced_record, &(struct forced_job){buf_text(&name), what, detail}, &v, &out);
	} else {
		out_padded(&out, buf_text(&name), r->width);
		buf_addf(&out, "  %-*s  ", outcome_width(r), what);
		out_padded(&out, detail, 0);
	}
	puts(buf_text(&out));
	fflush(stdout);
}

static void on_left(void *ctx, const char *job)
{
	struct force_run *r = ctx;
	const char *why = "it changed, waits for its retry, or has no attempts left";
	for (int i = 0; i < r->n; i++)
		if (r->jobs[i].alive && text_eq(r->jobs[i].job, job))
			why = "a live worker has it";
	pthread_mutex_lock(&r->lock);
	r->left++;
	force_print_line(r, job, "skipped", why);
	pthread_mutex_unlock(&r->lock);
}

static void on_ended(void *ctx, const struct settlement *end, int64_t took_ms)
{
	struct force_run *r = ctx;
	AUTO_BUF detail = BUF_INIT;
	buf_add(&detail, "in ");
	duration_text(took_ms * 1000, &detail);
	if (!end->accepted)
		buf_add(&detail,
		        "; another worker took the job in the meantime: this result does not count");
	else if (end->error)
		buf_addf(&detail, ": %s", end->error);
	pthread_mutex_lock(&r->lock);
	*(end->accepted && end->as == SETTLE_DONE ? &r->done : &r->failed) += 1;
	force_print_line(r, end->key, end->accepted ? settle_names[end->as] : "lost",
	                 buf_text(&detail));
	pthread_mutex_unlock(&r->lock);
}

/* The first signal lets jobs finish within their grace, the second releases them at once. */
static void force_on_signal(void *ctx, int signal)
{
	const struct force_run *r = ctx;
	(void)signal;
	worker_stop(r->worker);
}

static int force_run_worker(struct force_run *r, struct worker_options *o)
{
	struct failure f = {0};
	sigset_t set;
	cli_block_signals(&set, WORKER_ENDED);
	if (worker_open(o, &r->worker, &f))
		return cli_queue_fail(&f);
	if (!cli_run_worker(r->worker, force_on_signal, r))
		return EXIT_USAGE;
	worker_close(r->worker);
	if (!r->cli->json)
		printf("%s/%s: %d done, %d failed, %d skipped\n", r->picked.database->name,
		       r->picked.watch->name, r->done, r->failed, r->left);
	if (r->done == r->n)
		return EXIT_CLEAN;
	return r->done ? EXIT_PARTLY : EXIT_REFUSED;
}

static char *const *command_of(struct cli *c, const struct watch *w)
{
	int n = c->nwords - c->dashes;
	char **argv = ARENA_ARRAY(&c->arena, char *, n + 1);
	for (int i = 0; i < n; i++)
		argv[i] = arena_strdup(&c->arena, c->words[c->dashes + i]);
	if (n == 0 && w->work.command.n == 0)
		return NULL;
	return n ? argv : (char *const *)w->work.command.items;
}

static const char *force_worker_name(struct cli *c)
{
	char host[65] = "host";
	(void)gethostname(host, sizeof host - 1);
	return arena_printf(&c->arena, "%s-force-%d", host, (int)getpid());
}

static int force_jobs(struct force_run *r)
{
	struct cli *c = r->cli;
	const struct watch *w = r->picked.watch;
	const struct watch *builtin = builtin_watch(r->picked.database->engine, &c->arena);
	const struct chosen_options chosen = {.watch = w,
	                                      .jobs = r->jobs,
	                                      .n = r->n,
	                                      .not_claimed = on_left,
	                                      .ended = on_ended,
	                                      .ctx = r};
	struct failure f = {0};
	struct worker_pool pool = {
		.concurrency = w->work.concurrency > 0 ? w->work.concurrency : 1,
		.command = command_of(c, w),
		.pass_environment = w->work.pass_environment,
		.no_session_error = w->work.no_session_error,
		.unrecorded_message = w->work.unrecorded_message,
		.poll_ms = 1000,
		.timeout_ms = ms_from_us(w->work.timeout_us),
		.grace_ms = ms_from_us(w->work.grace_us),
		.exclusive = w->work.exclusive,
		.own_grace = true,
	};
	struct worker_options o = {
		.name = force_worker_name(c),
		.store = cli_store_options(r->picked.database, NULL, false),
		.pools = &pool,
		.npools = 1,
		.watches = &builtin,
		.nwatches = 1,
		.lease = lease_rules_of(LEASE_USUAL_MS),
		.grace_ms = pool.grace_ms,
		.drain = true,
	};
	if (source_chosen(&chosen, r->picked.store, &pool.source, &f))
		return cli_fail(&f);
	int code = force_run_worker(r, &o);
	pool.source->ops->free(pool.source);
	return code;
}

static int check_force(struct force_run *r, bool fail_them)
{
	const struct watch *w = r->picked.watch;
	struct failure f = {0};
	assert(w != NULL);
	if (fail_them)
		f.code = act_configured(act_kind_named("fail"), w, &f);
	else if (!w->work.given)
		fail(&f, DEFIB_CONFIG, "watch %s has no work: section", w->name);
	else if (!command_of(r->cli, w)) {
		fail(&f, DEFIB_CONFIG, "watch %s has no work.command to run", w->name);
		fail_next(&f, "give a program after --");
	}
	return f.code ? cli_fail(&f) : EXIT_CLEAN;
}

static int ask_force(struct force_run *r)
{
	AUTO_BUF question = BUF_INIT;
	act_question(&question, "run the command of", r->n, r->picked.watch, r->picked.database);
	return cli_confirm(r->cli, buf_text(&question), false);
}

static int dry_force(struct force_run *r)
{
	for (int i = 0; i < r->n; i++) {
		AUTO_BUF age = BUF_INIT;
		duration_text(r->jobs[i].age_us, &age);
		buf_add(&age, " old");
		force_print_line(r, r->jobs[i].job, r->jobs[i].alive ? "would be skipped" : "would be run",
		                 r->jobs[i].alive ? "a live worker has it" : buf_text(&age));
	}
	if (!r->cli->quiet)
		fprintf(
			stderr,
			"Nothing was changed. To make the change, run the same command without --dry-run\n");
	return EXIT_CLEAN;
}

static int force_found(struct force_run *r, bool fail_them)
{
	AUTO_BUF age = BUF_INIT;
	int code = check_force(r, fail_them);
	if (code != EXIT_CLEAN)
		return code;
	if (r->n == 0) {
		duration_text(r->older_us, &age);
		printf("watch %s has no open job older than %s: nothing to do\n", r->picked.watch->name,
		       buf_text(&age));
		return EXIT_CLEAN;
	}
	if (fail_them)
		return fail_jobs(r);
	if (cli_flag(r->cli, "dry-run"))
		return dry_force(r);
	code = ask_force(r);
	return code == EXIT_CLEAN ? force_jobs(r) : code;
}

static int cmd_force(struct cli *c)
{
	struct force_run r = {.cli = c, .lock = PTHREAD_MUTEX_INITIALIZER};
	bool fail_them = false;
	int code = force_read_options(&r, &fail_them);
	if (code == EXIT_CLEAN)
		code = cli_load(c);
	if (code == EXIT_CLEAN)
		code = force_find_jobs(&r);
	if (code == EXIT_CLEAN)
		code = force_found(&r, fail_them);
	store_close(r.picked.store);
	return code;
}

COMMAND(force, cmd_force, "[WATCH] --action force|fail",
        "emergency: run, or fail, the oldest jobs now", .options = force_options,
        .examples = {
			{"defib force pages --action force --max 5 --yes",
             "run the watch's command for five, now"},
			{"defib force pages --action fail --older-than 1d --dry-run", "what would be ended"}});

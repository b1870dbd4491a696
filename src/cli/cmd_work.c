/* SPDX-License-Identifier: Apache-2.0
 * cmd_work.c: `defib work`: runs a program for every job of a queue, or of the named watches, by
 * their `work` section. Jobs of a queue whose kind is a workflow of the configuration run its
 * steps; a worker without a program takes no others.
 *
 * Signals are blocked in all threads and handled by one: TERM and INT stop the worker (a second one
 * at once), HUP reloads the configuration. The worker itself installs no handler.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "base/program_env.h"
#include "cli/cli.h"
#include "cli/load.h"
#include "lib/advice.h"
#include "store/spool_folder.h"
#include "worker/source.h"
#include "worker/source_queue.h"
#include "worker/source_table.h"
#include "worker/stored_jobs.h"
#include "worker/worker.h"

#include <ctype.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct cli_option work_options[] = {
	{"queue", "QUEUE", "the queue; default: default"},
	{"kind", "KIND", "only jobs of this kind"},
	{"concurrency", "N", "how many jobs run at the same time; default 1"},
	{"pass-environment", "VARIABLE",
     "NAME or NAME=value for the program, besides PATH and similar; may be repeated"},
	{"name", "NAME", "the worker's stable name; default: host and queue"},
	{"poll", "DURATION", "how often to look for jobs when nothing wakes it; default 1s"},
	{"timeout", "DURATION", "time limit of jobs that have none of their own"},
	{"grace", "DURATION",
     "time between TERM and KILL, and for jobs to finish at shutdown; default 30s"},
	{"spool", "DIR",
     "directory for results and new jobs while the database is unavailable, or off"},
	{"lease", "DURATION", "how long the lease lasts, renewed three times within it; default 15s"},
	{"crash-budget", "N", "recoveries of a job within 72h before it is held; default 3, or off"},
	{"brake", "DURATION",
     "how long workers are not declared dead when most fall silent at once; default 10m, or off"},
	{"lines", NULL,
     "a program beside this one runs the jobs: one JSON line each on stdout, and back on stdin"},
	{"client-timeout", "DURATION",
     "with --lines: how long that program may be silent with jobs in hand; default 1m, or off"},
	{"no-startup", NULL, "skip the cleanup after dead instances"},
	{"drain", NULL, "exit when there is nothing left to claim"},
	{"log", "FORM", "logfmt, json or plain; default: plain"},
	{NULL, NULL, NULL},
};

#define POOLS_MAX 64

struct work_run {
	struct cli *cli;
	const struct database *database;
	struct worker_pool pools[POOLS_MAX];
	const char *kinds[POOLS_MAX]; /* of pools of a watch */
	const struct watch *of[POOLS_MAX];
	int npools;
	const struct watch *watches[POOLS_MAX + 1];
	int nwatches;
	int64_t lease_us, grace_us, brake_us, client_us;
	bool lines;
	struct worker *worker;
};

/* ---- signals, also for cmd_force.c ---- */

struct signals {
	void (*take)(void *ctx, int signal);
	void *ctx;
	sigset_t set;
};

void cli_block_signals(sigset_t *set, int also)
{
	const int ours[] = {SIGTERM, SIGINT, SIGHUP, also};
	sigemptyset(set);
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		sigaddset(set, ours[i]);
	pthread_sigmask(SIG_BLOCK, set, NULL);
}

static void *signal_main(void *arg)
{
	const struct signals *s = arg;
	int signal = 0;
	while (sigwait(&s->set, &signal) == 0 && signal != WORKER_ENDED)
		s->take(s->ctx, signal);
	return NULL;
}

bool cli_run_worker(struct worker *w, void (*on_signal)(void *ctx, int signal), void *ctx)
{
	struct signals s = {.take = on_signal, .ctx = ctx};
	pthread_t thread;
	cli_block_signals(&s.set, WORKER_ENDED);
	if (pthread_create(&thread, NULL, signal_main, &s) != 0) {
		cli_usage("cannot start a thread for signals");
		worker_close(w);
		return false;
	}
	worker_run(w);
	pthread_kill(thread, WORKER_ENDED);
	pthread_join(thread, NULL);
	return true;
}

/* ---- what to work on ---- */

static char **command_argv(struct cli *c)
{
	int n = c->nwords - c->dashes;
	char **argv = ARENA_ARRAY(&c->arena, char *, n + 1);
	for (int i = 0; i < n; i++)
		argv[i] = arena_strdup(&c->arena, c->words[c->dashes + i]);
	return n ? argv : NULL;
}

/* The watch's entries, then those of the command line. */
static int passed_on(struct cli *c, const struct text_list *of_watch, struct text_list *out)
{
	*out = (struct text_list){0, ARENA_ARRAY(&c->arena, const char *, of_watch->n + c->ngiven + 1)};
	for (int i = 0; i < of_watch->n; i++)
		out->items[out->n++] = of_watch->items[i];
	for (int i = 0; i < c->ngiven; i++) {
		if (!text_eq(c->given[i].name, "pass-environment"))
			continue;
		if (!program_env_entry_ok(c->given[i].value))
			return cli_usage("--pass-environment takes NAME or NAME=value, not \"%.*s\"",
			                 (int)strcspn(c->given[i].value, "="), c->given[i].value);
		out->items[out->n++] = c->given[i].value;
	}
	for (int i = 0; i < out->n; i++)
		if (!strchr(out->items[i], '=') && !getenv(out->items[i]))
			log_event(LOG_WARN, "a variable for programs is not set",
			          LOG_STR("name", out->items[i]));
	return EXIT_CLEAN;
}

/* Options for every pool, which override those of a watch. */
static int override_pool(const struct cli *c, struct worker_pool *p)
{
	int64_t poll_us = p->poll_ms * 1000, timeout_us = p->timeout_ms * 1000;
	int64_t grace_us = p->grace_ms * 1000;
	if (!cli_int_within(c, "concurrency", 1, 10000, &p->concurrency) ||
	    !cli_duration_within(c, "poll", POLL_LEAST_US, DURATION_MOST_US, &poll_us) ||
	    !cli_duration(c, "timeout", &timeout_us) || !cli_duration(c, "grace", &grace_us))
		return EXIT_USAGE;
	p->poll_ms = ms_from_us(poll_us);
	p->timeout_ms = ms_from_us(timeout_us);
	p->grace_ms = ms_from_us(grace_us);
	return EXIT_CLEAN;
}

static int work_add_pool(struct work_run *r, const struct worker_pool *pool, const struct watch *w,
                         const char *kind)
{
	if (r->npools == POOLS_MAX)
		return cli_usage("a worker has at most %d pools", POOLS_MAX);
	r->pools[r->npools] = *pool;
	r->of[r->npools] = w;
	r->kinds[r->npools] = kind;
	struct worker_pool *p = &r->pools[r->npools++];
	int code = passed_on(r->cli, &pool->pass_environment, &p->pass_environment);
	return code == EXIT_CLEAN ? override_pool(r->cli, p) : code;
}

/* Without a program, only workflows can be run. */
static int workflow_kinds(struct cli *c, const char *kind, struct text_list *out)
{
	const struct workflow_list *all = &c->settings.workflows;
	if (kind && !workflow_named(all, kind))
		return cli_usage("kind %s is not a workflow of the configuration: give a program after --",
		                 kind);
	out->items = ARENA_ARRAY(&c->arena, const char *, all->n);
	for (int i = 0; i < all->n; i++)
		if (!kind || text_eq(kind, all->items[i].name))
			out->items[out->n++] = all->items[i].name;
	return EXIT_CLEAN;
}

static int add_queue(struct work_run *r)
{
	const char *queue = cli_value(r->cli, "queue"), *kind = cli_value(r->cli, "kind");
	struct text_list kinds = {kind ? 1 : 0, &kind};
	struct worker_pool pool = {
		.concurrency = 1,
		.command = command_argv(r->cli),
		.lines = r->lines,
		.workflows = &r->cli->settings.workflows,
		.poll_ms = 1000,
		.grace_ms = 30000,
	};
	bool any_kind = pool.command || pool.lines;
	int code = any_kind ? EXIT_CLEAN : workflow_kinds(r->cli, kind, &kinds);
	if (code != EXIT_CLEAN)
		return code;
	pool.source = source_queue_kinds(queue ? queue : "default", kinds.items, kinds.n);
	return work_add_pool(r, &pool, NULL, any_kind || kind ? kind : "workflows");
}

static int add_watch_pool(struct work_run *r, const struct watch *w, const char *kind,
                          int64_t concurrency, struct store *s)
{
	struct failure f = {0};
	struct worker_pool pool = {
		.concurrency = concurrency,
		.command = command_argv(r->cli),
		.lines = r->lines,
		.pass_environment = w->work.pass_environment,
		.workflows = &r->cli->settings.workflows,
		.no_session_error = w->work.no_session_error,
		.unrecorded_message = w->work.unrecorded_message,
		.poll_ms = ms_from_us(w->work.poll_us),
		.batch = w->work.batch,
		.timeout_ms = ms_from_us(w->work.timeout_us),
		.grace_ms = ms_from_us(w->work.grace_us),
		.stagger_ms = w->work.stagger_us / 1000,
		.burst_limit = w->work.burst_limit,
		.burst_ms = w->work.burst_window_us / 1000,
		.exclusive = w->work.exclusive,
		.own_grace = true,
		.noted = true,
		.wait_first = !w->work.startup_tick,
	};
	if (!pool.command && !pool.lines && w->work.command.n)
		pool.command = (char *const *)w->work.command.items;
	if (!pool.command && !pool.lines && !w->work.workflow && !(w->kind.text && w->work.workflows.n))
		return cli_usage("watch %s has no work.command: give a program after --", w->name);
	if (source_table(w, kind, s, &pool.source, &f))
		return cli_fail(&f);
	return work_add_pool(r, &pool, w, kind);
}

static int work_add_watch(struct work_run *r, const struct watch *w, struct store *s)
{
	int code = EXIT_CLEAN;
	if (!w->work.given)
		return cli_usage("watch %s has no work: section", w->name);
	if (!w->work.enabled) {
		log_event(LOG_INFO, "work on this watch is off", LOG_STR("watch", w->name));
		return EXIT_CLEAN;
	}
	for (int i = 0; i < w->work.npools && code == EXIT_CLEAN; i++)
		code = add_watch_pool(r, w, w->work.pools[i].kind, w->work.pools[i].concurrency, s);
	if (w->work.npools == 0)
		code = add_watch_pool(r, w, cli_value(r->cli, "kind"), w->work.concurrency, s);
	r->watches[r->nwatches++] = w;
	return code;
}

/* A worker works in one database: that of the first watch. */
static const struct watch *work_named_watch(struct work_run *r, const char *name)
{
	const struct settings *all = &r->cli->settings;
	const struct watch *w = settings_watch(all, name);
	if (!w) {
		const char *const *names = settings_watch_names(all, NULL, &r->cli->arena);
		cli_usage("there is no watch \"%s\"%s (a program comes after --)", name,
		          text_hint(name, names).text);
		return NULL;
	}
	const struct database *d = settings_database(all, w);
	if (r->nwatches > 1 && d != r->database) {
		cli_usage("a worker works in one database, and watch %s is in another", name);
		return NULL;
	}
	r->database = d;
	return w;
}

static int work_add_watches(struct work_run *r)
{
	struct cli *c = r->cli;
	struct failure f = {0};
	AUTO_STORE s = NULL;
	int code = EXIT_CLEAN;
	for (int i = 0; i < c->dashes && code == EXIT_CLEAN; i++) {
		const struct watch *w = work_named_watch(r, c->words[i]);
		if (!w) {
			code = EXIT_USAGE;
			break;
		}
		struct store_options o = cli_store_options(r->database, w, false);
		if (!s && store_open(&o, &s, &f))
			return cli_fail(&f);
		code = work_add_watch(r, w, s);
	}
	return code;
}

/* ---- its name and spool ---- */

/* Create the directories above a path. */
static void make_folders(const char *path)
{
	char part[512];
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
		(void)mkdir(part, 0700);
	}
}

/* From the command line, else from the first watch that has it. */
static const char *spool_given(const struct work_run *r)
{
	const char *base = cli_value(r->cli, "spool");
	for (int i = 0; !base && i < r->npools; i++)
		base = r->of[i] ? r->of[i]->work.spool : NULL;
	return base;
}

#define FOLDER_NAME_MOST 60

/* The address of the database as the name of a directory. */
static const char *database_folder(const struct work_run *r)
{
	AUTO_BUF target = BUF_INIT, name = BUF_INIT;
	store_target(r->database->url, &target);
	for (const char *c = buf_text(&target); *c && name.len < FOLDER_NAME_MOST; c++)
		buf_addch(&name, isalnum((unsigned char)*c) || *c == '_' ? *c : '-');
	buf_addf(&name, "-%016llx",
	         (unsigned long long)fnv1a(FNV_START, buf_text(&target), target.len));
	return buf_to_arena(&name, &r->cli->arena);
}

/*
 * The directory of all spools: as given, else under systemd's or the user's state, one for each
 * database; NULL: off.
 */
static const char *spool_base(const struct work_run *r)
{
	struct cli *c = r->cli;
	const char *base = spool_given(r), *state = getenv("STATE_DIRECTORY");
	const char *home = getenv("HOME");
	bool on;
	if (base && bool_parse(base, &on) && !on)
		return NULL;
	if (base)
		return base;
	base = state ? arena_printf(&c->arena, "%s/spool", state)
	             : arena_printf(&c->arena, "%s/.local/state/defib/spool", home ? home : "/tmp");
	return arena_printf(&c->arena, "%s/%s", base, database_folder(r));
}

static const char *spool_folder(const struct work_run *r, const char *name)
{
	const char *base = spool_base(r);
	if (!base)
		return NULL;
	const char *folder = arena_printf(&r->cli->arena, "%s/%s", base, name);
	make_folders(folder);
	return folder;
}

static const char *work_worker_name(struct cli *c, const char *source, int n)
{
	char host[65] = "host";
	(void)gethostname(host, sizeof host - 1);
	const char *base = cli_value(c, "name");
	if (!base)
		base = arena_printf(&c->arena, "%s-%s", host, source);
	return n > 1 ? arena_printf(&c->arena, "%s-%d", base, n) : base;
}

/* If another process owns the spool of a name, the name is taken: the next one is tried. */
static defib_err work_open_named(struct work_run *r, struct worker_options *o, struct failure *f)
{
	defib_err err = DEFIB_REFUSED;
	const char *base = spool_base(r);
	o->stored_jobs = base ? arena_printf(&r->cli->arena, "%s/" STORED_JOBS_FOLDER, base) : NULL;
	if (base && folder_ours(base, o->stored_jobs, f))
		return f->code;
	for (int n = 1; n <= 1000 && err == DEFIB_REFUSED; n++) {
		fail_clear(f);
		o->name = work_worker_name(r->cli, o->pools[0].source->name, n);
		o->spool = spool_folder(r, o->name);
		err = worker_open(o, &r->worker, f);
	}
	if (err == DEFIB_BAD_SQL)
		fail_next(f, "create defib's tables first: defib init");
	return err;
}

/* ---- signals ---- */

/* The command line still overrides the file. */
static void resize_pool(struct work_run *r, int i, const struct watch *w)
{
	struct worker_pool p = {.concurrency = w->work.concurrency,
	                        .poll_ms = ms_from_us(w->work.poll_us)};
	for (int k = 0; k < w->work.npools; k++)
		if (text_eq(w->work.pools[k].kind, r->kinds[i]))
			p.concurrency = w->work.pools[k].concurrency;
	if (override_pool(r->cli, &p) == EXIT_CLEAN)
		worker_resize(r->worker, i, p.concurrency, p.poll_ms);
}

/* Pool sizes and poll intervals from the current file; an invalid file changes nothing. */
static void work_reload(struct work_run *r)
{
	struct cli fresh = {.config = r->cli->config, .db = r->cli->db, .quiet = r->cli->quiet};
	struct failure f = {0};
	fresh.command = r->cli->command;
	if (cli_read(&fresh, &f)) {
		log_event(LOG_ERROR, "the configuration is invalid; the previous one stays in force",
		          LOG_STR("because", f.what), LOG_STR("next", failure_next(&f)));
	} else {
		for (int i = 0; i < r->npools; i++) {
			const struct watch *w =
				r->of[i] ? settings_watch(&fresh.settings, r->of[i]->name) : NULL;
			if (w && w->work.given)
				resize_pool(r, i, w);
		}
		log_event(LOG_INFO, "configuration reloaded");
	}
	cfg_reader_release(&fresh.reader);
	arena_release(&fresh.arena);
}

static void work_on_signal(void *ctx, int signal)
{
	struct work_run *r = ctx;
	if (signal == SIGHUP) {
		work_reload(r);
		return;
	}
	log_event(LOG_INFO, "stopping: no new claims; a second signal releases the jobs at once");
	worker_stop(r->worker);
}

/* ---- running ---- */

static int work_run_worker(struct work_run *r, struct worker_options *o)
{
	struct failure f = {0};
	struct worker_counts counts;
	sigset_t set;
	cli_block_signals(&set, WORKER_ENDED);
	if (work_open_named(r, o, &f))
		return cli_queue_fail(&f);
	worker_log_started(o, r->kinds);
	if (!cli_run_worker(r->worker, work_on_signal, r))
		return EXIT_USAGE;
	worker_counts(r->worker, &counts);
	worker_close(r->worker);
	worker_log_ended(&counts);
	return counts.abandoned ? EXIT_PARTLY : EXIT_CLEAN;
}

/* --crash-budget changes the shipped watch for this worker. */
static int read_limits(struct work_run *r, struct watch *builtin)
{
	const char *budget = cli_value(r->cli, "crash-budget");
	bool on = true;
	r->lease_us = LEASE_USUAL_MS * INT64_C(1000);
	r->grace_us = 30 * US_PER_S;
	if (!cli_duration_within(r->cli, "lease", LEASE_LEAST_MS * INT64_C(1000),
	                         LEASE_MOST_MS * INT64_C(1000), &r->lease_us) ||
	    !cli_duration(r->cli, "grace", &r->grace_us))
		return EXIT_USAGE;
	r->brake_us = 0;
	const char *brake = cli_value(r->cli, "brake");
	bool brakes = true;
	if (brake && bool_parse(brake, &brakes) && !brakes)
		r->brake_us = -1000;
	else if (!cli_duration_within(r->cli, "brake", 1000, DURATION_MOST_US, &r->brake_us))
		return EXIT_USAGE;
	const char *client = cli_value(r->cli, "client-timeout");
	bool limited = true;
	r->client_us = 60 * US_PER_S;
	if (client && bool_parse(client, &limited) && !limited)
		r->client_us = 0;
	else if (!cli_duration(r->cli, "client-timeout", &r->client_us))
		return EXIT_USAGE;
	if (budget && bool_parse(budget, &on) && !on)
		builtin->crash_budget.max = 0;
	else if (!cli_int(r->cli, "crash-budget", &builtin->crash_budget.max))
		return EXIT_USAGE;
	return EXIT_CLEAN;
}

static int work(struct work_run *r)
{
	struct watch *builtin = builtin_watch(r->database->engine, &r->cli->arena);
	struct worker_options o = {
		.pools = r->pools, .watches = r->watches, .retention = &r->cli->settings.retention};
	int code = read_limits(r, builtin);
	r->watches[r->nwatches++] = builtin;
	if (code == EXIT_CLEAN)
		code = r->cli->dashes > 0 ? work_add_watches(r) : add_queue(r);
	if (code != EXIT_CLEAN || r->npools == 0)
		return code;
	o.npools = r->npools;
	o.nwatches = r->nwatches;
	o.store = cli_store_options(r->database, NULL, false);
	o.lease = lease_rules_of(r->lease_us / 1000);
	o.grace_ms = ms_from_us(r->grace_us);
	o.brake_ms = r->brake_us / 1000;
	o.no_startup = cli_flag(r->cli, "no-startup");
	o.drain = cli_flag(r->cli, "drain");
	o.lines_in = STDIN_FILENO;
	o.lines_out = STDOUT_FILENO;
	o.client_timeout_ms = ms_from_us(r->client_us);
	return work_run_worker(r, &o);
}

static int cmd_work(struct cli *c)
{
	struct work_run *r = ARENA_NEW(&c->arena, struct work_run);
	/* Started by a daemon as /proc/self/exe, it would be listed as "exe". */
	pthread_setname_np(pthread_self(), "defib");
	if (!cli_set_up_log(c, LOG_PLAIN))
		return EXIT_USAGE;
	if (text_eq(cli_value(c, "name"), STORED_JOBS_FOLDER))
		return cli_usage("--name " STORED_JOBS_FOLDER
		                 " is the directory of spooled new jobs; give the worker another name");
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	r->lines = cli_flag(c, "lines");
	if (r->lines && c->nwords > c->dashes)
		return cli_usage(
			"with --lines, the program beside this one runs the jobs: no program after "
			"--");
	if (!r->lines && c->dashes == 0 && c->nwords == 0 && c->settings.workflows.n == 0)
		return cli_usage("defib work needs a program, or workflows in the configuration: "
		                 "defib work --queue mail -- ./send-mail");
	r->cli = c;
	/* Of the first watch; if there is none of that name, work_add_watches() reports it. */
	const struct watch *first = c->dashes > 0 ? settings_watch(&c->settings, c->words[0]) : NULL;
	r->database = first ? settings_database(&c->settings, first) : &c->settings.databases[0];
	code = work(r);
	for (int i = 0; i < r->npools; i++)
		r->pools[i].source->ops->free(r->pools[i].source);
	return code;
}

COMMAND(work, cmd_work, "[WATCH…] -- PROGRAM [ARG…]",
        "run a program for every job of a queue, or of watches", .options = work_options,
        .examples = {
			{"defib work --queue mail --concurrency 4 -- ./send.sh", "the payload comes on stdin"},
			{"defib work pages --drain", "the watch's own command, until nothing is left"},
			{"sleep 1 | defib work --queue mail --lines --drain | cat",
             "jobs as lines for a program beside it (docs/lines.md)"}});

/*
 * cmd_work.c: `defib work`: run a program for every job.
 *
 * Signals are blocked in all threads and taken by one: TERM and INT stop the
 * worker (a second one at once). The worker itself installs no handler.
 */
#include "cli/cli.h"

#include "base/log.h"
#include "base/text.h"
#include "watch/builtin.h"
#include "worker/worker.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

const struct cli_option work_options[] = {
	{"queue", "NAME", "the queue; default: default"},
	{"kind", "NAME", "only jobs of this kind"},
	{"concurrency", "N", "jobs at once; default 1"},
	{"name", "NAME", "the worker's stable name; default: host and queue"},
	{"poll", "DURATION", "how often to look when nothing wakes us; default 1s"},
	{"timeout", "DURATION", "time limit of jobs that have none of their own"},
	{"grace", "DURATION", "between TERM and KILL, and at shutdown; default 30s"},
	{"spool", "DIR", "where results wait while the database is away, or off"},
	{"lease", "DURATION", "default 15s; renewed three times as often"},
	{"crash-budget", "N", "a job is held at its Nth lost worker within 72h; default 3; or off"},
	{"drain", NULL, "end when the queue is empty"},
	{NULL, NULL, NULL},
};

struct job_options {
	int64_t concurrency, poll_us, timeout_us, grace_us, lease_us;
};

static int read_options(struct cli *c, struct job_options *o)
{
	*o = (struct job_options){1, 1000000, 0, 30000000, 15000000};
	if (!cli_int(c, "concurrency", &o->concurrency) || !cli_duration(c, "poll", &o->poll_us) ||
	    !cli_duration(c, "timeout", &o->timeout_us) || !cli_duration(c, "grace", &o->grace_us) ||
	    !cli_duration(c, "lease", &o->lease_us))
		return EXIT_USAGE;
	if (o->concurrency < 1 || o->concurrency > 10000)
		return cli_usage("--concurrency is from 1 to 10000");
	if (o->lease_us < 600000)
		return cli_usage("--lease is 600ms at least");
	if (c->nwords == 0)
		return cli_usage("defib work needs a program: defib work --queue mail -- ./send-mail");
	return EXIT_CLEAN;
}

/* The built-in queue with this worker's lease and crash budget; NULL: wrong usage. */
static const struct watch *queue_watch(struct cli *c, const struct job_options *o)
{
	struct watch *w = builtin_watch(c->settings.databases[0].engine, &c->arena);
	const char *budget = cli_value(c, "crash-budget");
	bool on;
	/* Who renews less often than the watch expects would lose its jobs while it lives. */
	w->stuck_after.standard_us = o->lease_us;
	w->beat_us = o->lease_us / 3;
	if (budget && bool_parse(budget, &on) && !on)
		w->crash_budget.max = 0;
	else if (budget && (!int_parse(budget, &w->crash_budget.max) || w->crash_budget.max < 1)) {
		(void)cli_usage("--crash-budget is a number from 1, or off, not \"%s\"", budget);
		return NULL;
	}
	return w;
}

static char **command_argv(struct cli *c)
{
	char **argv = ARENA_ARRAY(&c->arena, char *, c->nwords + 1);
	for (int i = 0; i < c->nwords; i++)
		argv[i] = arena_strdup(&c->arena, c->words[i]);
	return argv;
}

/* Make a folder and those above it. */
static void make_folders(const char *path)
{
	char part[512];
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
		(void)mkdir(part, 0700);
	}
}

/* --spool DIR, else under systemd's or the user's state folder; NULL: off. */
static const char *spool_folder(struct cli *c, const char *name)
{
	const char *given = cli_value(c, "spool"), *state = getenv("STATE_DIRECTORY"),
			   *home = getenv("HOME");
	bool on;
	if (given && bool_parse(given, &on) && !on)
		return NULL;
	const char *base =
		given   ? given
		: state ? arena_printf(&c->arena, "%s/spool", state)
				: arena_printf(&c->arena, "%s/.local/state/defib/spool", home ? home : "/tmp");
	const char *folder = arena_printf(&c->arena, "%s/%s", base, name);
	make_folders(folder);
	return folder;
}

static const char *default_name(struct cli *c, const char *queue, int n)
{
	char host[65] = "host";
	(void)gethostname(host, sizeof host - 1);
	const char *base = cli_value(c, "name");
	if (!base)
		base = arena_printf(&c->arena, "%s-%s", host, queue);
	return n > 1 ? arena_printf(&c->arena, "%s-%d", base, n) : base;
}

/* A name whose spool another process owns is taken: the next one is tried. */
static defib_err open_named(struct cli *c, struct worker_options *o, struct worker **w,
                            struct failure *f)
{
	defib_err err = DEFIB_REFUSED;
	for (int n = 1; n <= 1000 && err == DEFIB_REFUSED; n++) {
		fail_clear(f);
		o->name = default_name(c, o->pools[0].source->name, n);
		o->spool = spool_folder(c, o->name);
		err = worker_open(o, w, f);
	}
	return err;
}

static void *signal_main(void *arg)
{
	sigset_t set;
	int signal = 0;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR2);
	while (sigwait(&set, &signal) == 0 && signal != SIGUSR2) {
		log_event(LOG_INFO, "stopping: no new claims; a second signal hands jobs back at once");
		worker_stop(arg);
	}
	return NULL;
}

static void block_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int run_worker(struct cli *c, struct worker_options *o)
{
	struct failure f = {0};
	struct worker *w = NULL;
	struct settler_counts counts;
	pthread_t signals;
	block_signals();
	if (open_named(c, o, &w, &f))
		return cli_fail(&f);
	log_event(LOG_INFO, "worker started", LOG_STR("name", o->name),
	          LOG_STR("source", o->pools[0].source->name),
	          LOG_INT("concurrency", o->pools[0].concurrency));
	if (pthread_create(&signals, NULL, signal_main, w) != 0) {
		worker_close(w);
		return cli_usage("cannot start a thread for signals");
	}
	worker_run(w);
	pthread_kill(signals, SIGUSR2);
	pthread_join(signals, NULL);
	worker_counts(w, &counts);
	worker_close(w);
	log_event(LOG_INFO, "worker ended", LOG_INT("settled", counts.settled),
	          LOG_INT("lease_lost", counts.refused), LOG_INT("spooled", counts.spooled),
	          LOG_INT("abandoned", counts.abandoned));
	return counts.abandoned ? EXIT_PARTLY : EXIT_CLEAN;
}

int cmd_work(struct cli *c)
{
	struct job_options jo;
	int code = read_options(c, &jo);
	if (code == EXIT_CLEAN)
		code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	const struct database *d = &c->settings.databases[0];
	const char *queue = cli_value(c, "queue");
	const struct watch *watches[] = {queue_watch(c, &jo)};
	if (!watches[0])
		return EXIT_USAGE;
	struct source *source = source_queue(queue ? queue : "default", cli_value(c, "kind"));
	struct worker_pool pool = {
		.source = source,
		.concurrency = jo.concurrency,
		.command = command_argv(c),
		.poll_ms = jo.poll_us / 1000,
		.timeout_ms = jo.timeout_us / 1000,
		.grace_ms = jo.grace_us / 1000,
	};
	struct worker_options o = {
		.store = cli_store_options(d, NULL, false),
		.pools = &pool,
		.npools = 1,
		.watches = watches,
		.nwatches = 1,
		.lease = {jo.lease_us / 1000, jo.lease_us / 3000, 250},
		.grace_ms = jo.grace_us / 1000,
		.drain = cli_flag(c, "drain"),
	};
	code = run_worker(c, &o);
	source->ops->free(source);
	return code;
}

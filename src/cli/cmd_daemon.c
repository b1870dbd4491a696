/* SPDX-License-Identifier: Apache-2.0
 * cmd_daemon.c: `defib daemon [WATCH…]`: scans every watch at its interval until it is stopped. Of
 * several daemons one leads each watch.
 *
 * Signals are waited for, not handled: no code of the daemon runs inside a signal handler. TERM and
 * INT stop it, HUP reloads the configuration.
 */
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/load.h"
#include "daemon/daemon.h"
#include "daemon/heartbeats.h"
#include "daemon/pools.h"
#include "daemon/watch_metrics.h"
#include "http/events.h"
#include "http/server.h"
#include "lib/advice.h"
#include "life/incarnation.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const struct cli_option daemon_options[] = {
	{"no-queue", NULL, "leave the built-in queue to its workers"},
	{"listen", "ADDR:PORT", "serve HTTP at this address; port 0: a free one, named in the log"},
	{"work", NULL, "also run the workers of its watches, each as a process"},
	{"interval", "DURATION",
     "scan interval of its watches, instead of every:; not for the built-in queue"},
	{"threshold", "DURATION", "threshold of its watches, instead of their limits; not with --work"},
	{"while-stdin-open", NULL,
     "stop when standard input is closed: for a program that starts the daemon as its child"},
	{"log", "FORM", "logfmt, json or plain; default: logfmt, on a terminal plain"},
	{NULL, NULL, NULL},
};

#define ROUND_MS 500 /* between checks of signals and progress */

/* After a start or a reload: by then the memory that is needed permanently is known. */
#define SETTLED_MS 10000

#define STOP_S 8 /* longest duration of a stop, once workers have ended */

/* A loop without a round for this long hangs; statements end long before. */
#define HANGS_MS 60000

/* Everything that runs, in the order of its start. */
struct daemon_run {
	struct cli *cli;
	char name[128];
	struct live_settings_box setups;
	struct overview *overview;
	struct heartbeats *beats;
	struct metrics *metrics;
	struct events *events;
	struct api api;
	struct http *http; /* NULL: not requested */
	_Atomic(struct daemon *) daemon;
	struct pools *pools;   /* NULL: without --work */
	const char *common[8]; /* arguments of workers */
	int64_t settled_ms;    /* when to release memory that only the start needed; 0: done */
};

/* ---- the configuration, at the start and again ---- */

static defib_err daemon_choose(const struct cli *c, struct live_settings *s, struct failure *f)
{
	const struct settings *all = &s->settings;
	s->chosen = ARENA_ARRAY(&s->arena, bool, all->nwatches + 1);
	s->queue = !cli_flag(c, "no-queue") && c->nwords == 0;
	for (int i = 0; i < all->nwatches; i++) {
		const struct watch *w = &all->watches[i];
		s->chosen[i] = c->nwords == 0 && w->enabled;
		if (!w->enabled && c->nwords == 0)
			log_event(LOG_INFO, "a watch is off", LOG_STR("watch", w->name),
			          LOG_STR("because", w->off_because));
	}
	for (int i = 0; i < c->nwords; i++) {
		struct watch *w = settings_watch(all, c->words[i]);
		if (!w) {
			fail(f, DEFIB_USAGE, "there is no watch \"%s\"", c->words[i]);
			(void)fail_nearest(f, c->words[i], settings_watch_names(all, NULL, &s->arena));
			return DEFIB_USAGE;
		}
		s->chosen[w - all->watches] = true;
	}
	return DEFIB_OK;
}

/* A value from the command line, among those that the API shows. */
static void show_override(struct cfg_reader *r, const struct watch *w, const char *key, int64_t us)
{
	AUTO_BUF text = BUF_INIT;
	const char *path = arena_printf(r->arena, "watches.%s.%s", w->name, key);
	duration_text(us, &text);
	for (int i = 0; i < r->nshown; i++)
		if (text_eq(r->shown[i].path, path)) {
			r->shown[i].value = arena_strdup(&r->shown_arena, buf_text(&text));
			r->shown[i].origin = "command line";
		}
}

/* --interval and --threshold, also after a reload. */
static defib_err override(const struct cli *c, struct live_settings *s, struct cfg_reader *r,
                          struct failure *f)
{
	int64_t interval = -1, threshold = -1;
	if (!cli_duration(c, "interval", &interval) || !cli_duration(c, "threshold", &threshold))
		return fail(f, DEFIB_USAGE, "--interval and --threshold expect durations");
	for (int i = 0; i < s->settings.nwatches; i++) {
		struct watch *w = &s->settings.watches[i];
		if (!s->chosen[i])
			continue;
		if (interval >= 0) {
			w->every_us = interval;
			show_override(r, w, "every", interval);
		}
		if (threshold < 0)
			continue;
		if (cli_override_threshold(w, threshold, f))
			return f->code;
		for (enum sign sign = 0; sign < SIGN_COUNT; sign++)
			if (sign_brings_limit(sign))
				show_override(r, w, sign_kinds[sign].limit, threshold);
	}
	return DEFIB_OK;
}

/* What they say is checked once, before anything starts. */
static int check_overrides(const struct cli *c)
{
	int64_t interval = 1, threshold = 1;
	if (!cli_duration(c, "interval", &interval) || !cli_duration(c, "threshold", &threshold))
		return EXIT_USAGE;
	if (interval == 0)
		return cli_usage("--interval of a daemon must be more than 0s");
	if (cli_flag(c, "threshold") && cli_flag(c, "work"))
		return cli_usage(
			"--threshold does not apply to the workers of --work, which recover jobs too; "
			"set stuck_after in the configuration");
	return EXIT_CLEAN;
}

/* The list of values that were read outlives its reader only if it can be requested. */
static void keep_shown(const struct cli *c, struct live_settings *s, struct cfg_reader *r)
{
	if (cli_value(c, "listen") || settings_http(&s->settings)->listen) {
		s->shown = r->shown_arena;
		r->shown_arena = (struct arena)ARENA_INIT;
	} else {
		s->settings.shown = NULL;
		s->settings.nshown = 0;
	}
}

/* From the same files and options, into memory of its own. NULL after a failure. */
static struct live_settings *read_setup(const struct cli *c, struct failure *f)
{
	struct cli *fresh = mem_alloc(sizeof *fresh);
	struct live_settings *s = live_settings_new();
	*fresh = *c;
	fresh->arena = (struct arena)ARENA_INIT;
	fresh->reader = (struct cfg_reader){0};
	fresh->settings = (struct settings){0};
	defib_err err = cli_read(fresh, f);
	s->settings = fresh->settings;
	s->arena = fresh->arena;
	if (!err)
		err = daemon_choose(c, s, f);
	if (!err)
		err = override(c, s, &fresh->reader, f);
	if (!err) {
		live_settings_shapes(s, &fresh->reader);
		cli_problems(fresh); /* warnings */
		keep_shown(c, s, &fresh->reader);
	}
	cfg_reader_release(&fresh->reader);
	free(fresh);
	if (!err)
		return s;
	live_settings_free(s);
	return NULL;
}

/* The address and the limits stay as they were at its start. */
static void print_restart(const struct daemon_run *r, const struct service *was,
                          const struct service *is)
{
	bool same = text_eq(was->tls.certificate, is->tls.certificate) &&
	            text_eq(was->tls.key, is->tls.key) && was->max_connections == is->max_connections &&
	            was->max_body == is->max_body &&
	            was->request_timeout_us == is->request_timeout_us &&
	            was->database_timeout_us == is->database_timeout_us &&
	            (cli_flag(r->cli, "listen") || text_eq(was->listen, is->listen));
	if (!same)
		log_event(LOG_WARN, "only tokens and hosts of http: change without a restart");
}

/* Only we replace the configuration, so it stays valid here. */
static void reload_http(struct daemon_run *r, const struct service *s)
{
	struct failure f = {0};
	if (r->http && http_reload(r->http, s, &f))
		log_event(LOG_ERROR, "http keeps its old tokens and hosts", LOG_STR("because", &f.what[0]));
}

/*
 * Tell systemd, if it started us: one datagram, as sd_notify(3) documents it for programs that do
 * without its library, which would load eight others at each start of any command.
 */
static void notify(const char *state)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t n = path ? strlen(path) : 0;
	if (!n || n >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(to.sun_path, path, n);
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* If it cannot be told, it notices what is missing and acts on that. */
	ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
	                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
	(void)sent;
	close(fd);
}

static void notify_reloading(void)
{
	char state[64];
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
	         (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000);
	notify(state);
}

static void cmd_daemon_reload(struct daemon_run *r)
{
	struct failure f = {0};
	notify_reloading();
	struct live_settings *next = read_setup(r->cli, &f);
	watch_metrics_reload(r->metrics, next != NULL);
	if (next) {
		log_event(LOG_INFO, "configuration reloaded",
		          LOG_INT("databases", next->settings.ndatabases),
		          LOG_INT("watches", next->settings.nwatches));
		print_restart(r, settings_http(&r->setups.now->settings), settings_http(&next->settings));
		live_settings_box_put(&r->setups, next);
		daemon_reload(r->daemon);
		reload_http(r, settings_http(&next->settings));
		if (r->pools)
			pools_reload(r->pools);
	} else {
		log_event(LOG_ERROR, "the configuration is invalid; the previous one stays in force",
		          LOG_STR("because", f.what), LOG_STR("next", failure_next(&f)));
	}
	r->settled_ms = clock_boot_ms() + SETTLED_MS;
	notify("READY=1");
}

/* ---- running ---- */

/* 0: none within that time. */
static int wait_for_signal(const sigset_t *set, int64_t ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
	int got = sigtimedwait(set, NULL, &t);
	return got > 0 ? got : 0;
}

/* The same file and log format; passwords are passed in the environment. */
static struct pools *start_pools(struct daemon_run *r)
{
	const struct cli *c = r->cli;
	const char *form = cli_value(c, "log");
	int n = 0;
	if (c->config) {
		r->common[n++] = "-c";
		r->common[n++] = c->config;
	}
	r->common[n++] = "--log";
	r->common[n++] = form ? form : (c->tty_err ? "plain" : "logfmt");
	if (c->verbose || c->quiet)
		r->common[n++] = c->verbose ? "--verbose" : "--quiet";
	return pools_new(&(struct pools_options){
		.setups = &r->setups, .program = "/proc/self/exe", .common = r->common, .db = cli_db(c)});
}

static int64_t idle_ms(void *ctx)
{
	struct daemon_run *r = ctx;
	struct daemon *d = r->daemon; /* none before it is started */
	return d ? daemon_idle_ms(d) : 0;
}

/* Before any database is queried: the service manager learns at once that we are alive. */
static defib_err start_http(struct daemon_run *r, struct failure *f)
{
	const struct service *s = settings_http(&r->setups.now->settings);
	const char *listen = cli_value(r->cli, "listen");
	r->api = (struct api){.setups = &r->setups,
	                      .overview = r->overview,
	                      .beats = r->beats,
	                      .metrics = r->metrics,
	                      .events = r->events,
	                      .name = r->name,
	                      .started_us = clock_wall_us(),
	                      .idle_ms = idle_ms,
	                      .idle_ctx = r};
	if (!listen && !s->listen)
		return DEFIB_OK;
	r->http = http_start(&(struct http_options){s, listen, &r->api}, f);
	return r->http ? DEFIB_OK : f->code;
}

static void cmd_daemon_start(struct daemon_run *r)
{
	struct daemon_options o = {.setups = &r->setups,
	                           .overview = r->overview,
	                           .beats = r->http ? r->beats : NULL,
	                           .metrics = r->metrics,
	                           .name = r->name,
	                           .actor = "daemon"};
	const struct settings *all = &r->setups.now->settings;
	int ndatabases = all->ndatabases, nwatches = all->nwatches;
	r->daemon = daemon_start(&o);
	if (cli_flag(r->cli, "work"))
		r->pools = start_pools(r);
	r->settled_ms = clock_boot_ms() + SETTLED_MS;
	notify("READY=1");
	log_event(LOG_INFO, "daemon started", LOG_STR("name", r->name),
	          LOG_INT("databases", ndatabases), LOG_INT("watches", nwatches));
}

/*
 * Everything that is due except scans, which have threads of their own; returns how long nothing
 * more is.
 */
static int64_t tend(struct daemon_run *r)
{
	int64_t wait = r->pools ? pools_tick(r->pools) : ROUND_MS;
	daemon_tidy(r->daemon);
	if (r->settled_ms && clock_boot_ms() >= r->settled_ms) {
		r->settled_ms = 0;
		resident_trim();
	}
	if (daemon_idle_ms(r->daemon) < HANGS_MS)
		notify("WATCHDOG=1");
	return wait < ROUND_MS ? wait : ROUND_MS;
}

/* The program that holds the other end of our standard input has ended, or wants us to. */
static void *wait_for_stdin(void *arg)
{
	char bytes[512];
	ssize_t n;
	(void)arg;
	do
		n = read(STDIN_FILENO, bytes, sizeof bytes);
	while (n > 0 || (n < 0 && errno == EINTR));
	log_event(LOG_INFO, "standard input was closed");
	kill(getpid(), SIGTERM);
	return NULL;
}

static void follow_stdin(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, wait_for_stdin, NULL) == 0)
		pthread_detach(thread);
	else
		log_event(LOG_ERROR, "cannot start a thread: standard input is not watched");
}

/* Runs until it is stopped; returns the signal. */
static int daemon_go_on(struct daemon_run *r, const sigset_t *set)
{
	for (;;) {
		int got = wait_for_signal(set, tend(r));
		if (got == SIGHUP)
			cmd_daemon_reload(r);
		else if (got == SIGTERM || got == SIGINT)
			return got;
	}
}

/* Workers have their grace, and scans continue meanwhile; a second signal shortens it. */
static void stop_pools(struct daemon_run *r, const sigset_t *set)
{
	pools_stop(r->pools);
	for (;;) {
		int64_t wait = tend(r);
		if (pools_over(r->pools))
			break;
		int got = wait_for_signal(set, wait);
		if (got == SIGTERM || got == SIGINT)
			pools_stop(r->pools);
	}
	pools_free(r->pools);
}

/*
 * A database call that hangs is waited for as long as a statement may take, but the process must
 * end in time. Everything durable is in a transaction, so work in progress may be abandoned.
 */
static void *leave_in_time(void *arg)
{
	struct timespec t = {.tv_sec = STOP_S};
	(void)arg;
	while (nanosleep(&t, &t) != 0)
		;
	log_event(LOG_WARN, "not everything stopped in time: exiting anyway");
	_exit(EXIT_CLEAN);
}

/* What threads shared, once there are none. */
static void release_all(struct daemon_run *r)
{
	metrics_free(r->metrics);
	events_free(r->events);
	overview_free(r->overview);
	heartbeats_free(r->beats);
	live_settings_box_release(&r->setups);
}

static void stop(struct daemon_run *r, const sigset_t *set, int signal)
{
	pthread_t timer;
	log_event(LOG_INFO, "daemon stopping", LOG_STR("signal", strsignal(signal)));
	notify("STOPPING=1");
	if (r->pools)
		stop_pools(r, set);
	if (pthread_create(&timer, NULL, leave_in_time, NULL) == 0)
		pthread_detach(timer);
	if (r->http)
		http_stop(r->http);
	daemon_stop(r->daemon);
	release_all(r);
}

static int cmd_daemon(struct cli *c)
{
	struct daemon_run *r = ARENA_NEW(&c->arena, struct daemon_run);
	struct incarnation self;
	struct failure f = {0};
	sigset_t set;
	r->cli = c;
	if (!cli_set_up_log(c, c->tty_err ? LOG_PLAIN : LOG_LOGFMT))
		return EXIT_USAGE;
	int code = check_overrides(c);
	if (code != EXIT_CLEAN)
		return code;
	struct live_settings *first = read_setup(c, &f);
	if (!first)
		return cli_fail(&f);
	if (incarnation_self(&self, &f)) {
		live_settings_free(first);
		return cli_fail(&f);
	}
	snprintf(r->name, sizeof r->name, "%s:%d:%.8s", self.host, (int)self.pid, self.nonce);
	cli_block_signals(&set, SIGCHLD);
	live_settings_box_init(&r->setups, first);
	r->overview = overview_new();
	r->beats = heartbeats_new();
	r->events = events_new(&r->setups, r->overview);
	r->metrics = metrics_new();
	watch_metrics_start(r->metrics, clock_wall_us());
	if (start_http(r, &f)) {
		release_all(r);
		return cli_fail(&f);
	}
	cmd_daemon_start(r);
	if (cli_flag(c, "while-stdin-open"))
		follow_stdin();
	stop(r, &set, daemon_go_on(r, &set));
	return EXIT_CLEAN;
}

COMMAND(daemon, cmd_daemon, "[WATCH…]",
        "scan every watch at its interval, and recover what is stuck", .options = daemon_options,
        .watch_options = true,
        .examples = {{"defib daemon", "all watches; run one on each of two hosts"},
                     {"defib daemon --listen 127.0.0.1:0",
                      "with the page, the API and the metrics; the log names the port"},
                     {"defib daemon --interval 60 --threshold 120",
                      "override the configured times; a number without a unit is in seconds"},
                     {"defib daemon --work", "and the workers of its watches"}});

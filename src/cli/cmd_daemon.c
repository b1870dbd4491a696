/*
 * cmd_daemon.c: `defib daemon [WATCH…]`: scan every watch at its interval until
 * told to stop. Of several daemons one leads each watch.
 *
 * Signals are waited for, not handled: nothing of the daemon runs inside a handler.
 * TERM and INT stop it, HUP has the configuration read again.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "life/incarnation.h"
#include "serve/daemon.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

const struct cli_option daemon_options[] = {
	{"no-queue", NULL, "leave the built-in queue to its workers"},
	{"log", "FORM", "logfmt, json or plain; default: logfmt, on a terminal plain"},
	{NULL, NULL, NULL},
};

#define ROUND_MS 500 /* between looks at signals and progress */

/* A loop that has not gone round for this long hangs; statements end long before. */
#define HANGS_MS 60000

/* Everything that runs, in the order in which it is started. */
struct run {
	struct cli *cli;
	char name[128];
	struct setup_box setups;
	struct board *board;
	struct daemon *daemon;
};

/* ---- the configuration, at the start and again ---- */

static defib_err choose(const struct cli *c, struct setup *s, struct failure *f)
{
	const struct settings *all = &s->settings;
	s->chosen = ARENA_ARRAY(&s->arena, bool, all->nwatches + 1);
	s->queue = !cli_flag(c, "no-queue") && c->nwords == 0;
	for (int i = 0; i < all->nwatches; i++)
		s->chosen[i] = c->nwords == 0 && all->watches[i].enabled;
	for (int i = 0; i < c->nwords; i++) {
		struct watch *w = settings_watch(all, c->words[i]);
		if (!w)
			return fail(f, DEFIB_USAGE, "there is no watch \"%s\"", c->words[i]);
		s->chosen[w - all->watches] = true;
	}
	return DEFIB_OK;
}

static void log_warnings(const struct cfg_reader *r)
{
	struct buf place = BUF_INIT;
	for (int i = 0; i < r->nproblems; i++) {
		if (!r->problems[i].warning)
			continue;
		buf_clear(&place);
		cfg_mark_text(r->problems[i].at, &place);
		log_event(LOG_WARN, "a doubtful setting", LOG_STR("at", buf_text(&place)),
		          LOG_STR("because", r->problems[i].text));
	}
	buf_release(&place);
}

/* By the same files and options as ever, into memory of its own. NULL after a failure. */
static struct setup *read_setup(const struct cli *c, struct failure *f)
{
	struct cli *fresh = mem_alloc(sizeof *fresh);
	struct setup *s = setup_new();
	*fresh = *c;
	fresh->arena = (struct arena)ARENA_INIT;
	fresh->reader = (struct cfg_reader){0};
	fresh->settings = (struct settings){0};
	defib_err err = cli_read(fresh, f);
	s->settings = fresh->settings;
	s->arena = fresh->arena;
	if (!err)
		err = choose(c, s, f);
	if (!err)
		log_warnings(&fresh->reader);
	cfg_reader_release(&fresh->reader);
	free(fresh);
	if (!err)
		return s;
	setup_free(s);
	return NULL;
}

static void reload(struct run *r)
{
	struct failure f = {0};
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
	           (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000);
	struct setup *next = read_setup(r->cli, &f);
	if (next) {
		log_event(LOG_INFO, "the configuration was read again",
		          LOG_INT("databases", next->settings.ndatabases),
		          LOG_INT("watches", next->settings.nwatches));
		setup_box_put(&r->setups, next);
		daemon_reload(r->daemon);
	} else {
		log_event(LOG_ERROR, "the configuration is wrong: what was in force stays in force",
		          LOG_STR("because", f.what), LOG_STR("next", f.next));
	}
	sd_notify(0, "READY=1");
}

/* ---- running ---- */

static int wait_for_signal(const sigset_t *set)
{
	struct timespec t = {.tv_nsec = ROUND_MS * 1000000L};
	return sigtimedwait(set, NULL, &t);
}

static void block_signals(sigset_t *set)
{
	static const int ours[] = {SIGTERM, SIGINT, SIGHUP};
	sigemptyset(set);
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		sigaddset(set, ours[i]);
	pthread_sigmask(SIG_BLOCK, set, NULL);
}

static void start(struct run *r)
{
	struct daemon_options o = {
		.setups = &r->setups, .board = r->board, .name = r->name, .actor = "daemon"};
	const struct settings *all = &r->setups.now->settings;
	int ndatabases = all->ndatabases, nwatches = all->nwatches;
	r->daemon = daemon_start(&o);
	sd_notify(0, "READY=1");
	log_event(LOG_INFO, "the daemon runs", LOG_STR("name", r->name),
	          LOG_INT("databases", ndatabases), LOG_INT("watches", nwatches));
}

/* Until it is told to stop; the signal. */
static int go_on(struct run *r, const sigset_t *set)
{
	for (;;) {
		int got = wait_for_signal(set);
		if (got == SIGHUP)
			reload(r);
		else if (got > 0)
			return got;
		daemon_tidy(r->daemon);
		if (daemon_idle_ms(r->daemon) < HANGS_MS)
			sd_notify(0, "WATCHDOG=1");
	}
}

static void stop(struct run *r, int signal)
{
	log_event(LOG_INFO, "the daemon stops", LOG_STR("signal", strsignal(signal)));
	sd_notify(0, "STOPPING=1");
	daemon_stop(r->daemon);
	board_free(r->board);
	setup_box_release(&r->setups);
}

static bool set_up_log(const struct cli *c)
{
	enum log_format format = c->tty_err ? LOG_PLAIN : LOG_LOGFMT;
	const char *form = cli_value(c, "log");
	if (form && !log_format_parse(form, &format)) {
		cli_usage("--log is logfmt, json or plain, not \"%s\"", form);
		return false;
	}
	log_setup(c->verbose ? LOG_DEBUG : (c->quiet ? LOG_ERROR : LOG_INFO), format);
	return true;
}

int cmd_daemon(struct cli *c)
{
	struct run *r = ARENA_NEW(&c->arena, struct run);
	struct incarnation self;
	struct failure f = {0};
	sigset_t set;
	r->cli = c;
	if (!set_up_log(c))
		return EXIT_USAGE;
	struct setup *first = read_setup(c, &f);
	if (!first)
		return cli_fail(&f);
	if (incarnation_self(&self, &f)) {
		setup_free(first);
		return cli_fail(&f);
	}
	snprintf(r->name, sizeof r->name, "%s:%d:%.8s", self.host, (int)self.pid, self.nonce);
	block_signals(&set);
	setup_box_init(&r->setups, first);
	r->board = board_new();
	start(r);
	stop(r, go_on(r, &set));
	return EXIT_CLEAN;
}

/*
 * cmd_daemon.c: `defib daemon [WATCH…]`: scan every watch at its interval until
 * told to stop. Of several daemons one leads each watch.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "life/incarnation.h"
#include "serve/daemon.h"

#include <signal.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

const struct cli_option daemon_options[] = {
	{"no-queue", NULL, "leave the built-in queue to its workers"},
	{NULL, NULL, NULL},
};

#define ROUND_MS 500 /* between looks at signals and progress */

/* A loop that has not gone round for this long hangs; statements end long before. */
#define HANGS_MS 60000

static int choose(struct cli *c, bool *chosen)
{
	const struct settings *s = &c->settings;
	for (int i = 0; i < s->nwatches; i++)
		chosen[i] = c->nwords == 0 && s->watches[i].enabled;
	for (int i = 0; i < c->nwords; i++) {
		struct watch *w = settings_watch(s, c->words[i]);
		if (!w)
			return cli_usage("there is no watch \"%s\"", c->words[i]);
		chosen[w - s->watches] = true;
	}
	return EXIT_CLEAN;
}

/* Signals are waited for, not handled: nothing of the daemon runs inside a handler. */
static bool wait_for_signal(const sigset_t *set, int *got)
{
	struct timespec t = {.tv_nsec = ROUND_MS * 1000000L};
	*got = sigtimedwait(set, NULL, &t);
	return *got > 0;
}

static void run(const struct daemon_options *o, const sigset_t *set)
{
	struct daemon *d = daemon_start(o);
	int got = 0;
	sd_notify(0, "READY=1");
	log_event(LOG_INFO, "the daemon runs", LOG_STR("name", o->name),
	          LOG_INT("databases", o->settings->ndatabases),
	          LOG_INT("watches", o->settings->nwatches));
	while (!wait_for_signal(set, &got))
		if (daemon_idle_ms(d) < HANGS_MS)
			sd_notify(0, "WATCHDOG=1");
	log_event(LOG_INFO, "the daemon stops", LOG_STR("signal", strsignal(got)));
	sd_notify(0, "STOPPING=1");
	daemon_stop(d);
}

int cmd_daemon(struct cli *c)
{
	struct incarnation self;
	struct failure f = {0};
	char name[128];
	sigset_t set;
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->settings.ndatabases == 0)
		return cli_usage("no database: give --db URL or a configuration");
	bool *chosen = ARENA_ARRAY(&c->arena, bool, c->settings.nwatches + 1);
	code = choose(c, chosen);
	if (code != EXIT_CLEAN)
		return code;
	if (!c->tty_err)
		log_setup(c->verbose ? LOG_DEBUG : (c->quiet ? LOG_ERROR : LOG_INFO), LOG_LOGFMT);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (incarnation_self(&self, &f))
		return cli_fail(&f);
	snprintf(name, sizeof name, "%s:%d:%.8s", self.host, (int)self.pid, self.nonce);
	struct daemon_options o = {.settings = &c->settings,
	                           .chosen = chosen,
	                           .queue = !cli_flag(c, "no-queue") && c->nwords == 0,
	                           .name = name,
	                           .actor = "daemon"};
	run(&o, &set);
	return EXIT_CLEAN;
}

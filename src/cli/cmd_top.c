/* SPDX-License-Identifier: Apache-2.0
 * cmd_top.c: `defib top`: watches, stuck jobs and workers on a full screen, live, with the acts
 * of the command line a key away (top/talk.h).
 */

#include "base/clock.h"
#include "cli/load.h"
#include "cli/top/model.h"
#include "cli/top/reader.h"
#include "cli/top/screen.h"
#include "cli/top/talk.h"
#include "daemon/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

static const struct cli_option top_options[] = {
	{"every", "DURATION", "how often the databases are queried; default 1s"},
	{NULL, NULL, NULL},
};

#define EVERY_LEAST_MS 200
/* How long a read may take to return at the end; an act may take as long as it needs. */
#define QUIT_MS 500
#define ACT_MS 120000

static volatile sig_atomic_t ended_by;
static int wake_pipe[2];

static void top_on_signal(int number)
{
	ssize_t n;
	ended_by = number;
	n = write(wake_pipe[1], "", 1);
	(void)n;
}

/* After curses, whose own handlers would exit while a reader writes. */
static void take_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction how = {.sa_handler = top_on_signal};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		sigaction(numbers[i], &how, NULL);
}

/* ---- places ---- */

/* One per database with a selected watch; each may also use the queue. */
static int find_places(struct cli *c, const struct selection *s, struct top_place **out)
{
	struct top_place *places = ARENA_ARRAY(&c->arena, struct top_place, s->n + 1);
	int n = 0;
	for (int i = 0; i < s->n; i++) {
		int at = 0;
		while (at < n && places[at].database != s->groups[i].database)
			at++;
		if (at == n)
			places[n++] = (struct top_place){
				.database = s->groups[i].database,
				.watches = ARENA_ARRAY(&c->arena, const struct watch *, s->n + 1)};
		places[at].watches[places[at].n++] = s->groups[i].watch;
	}
	for (int at = 0; at < n && select_takes_queues(c); at++)
		places[at].watches[places[at].n++] = builtin_watch(places[at].database->engine, &c->arena);
	*out = places;
	return n;
}

/* ---- the loop ---- */

static void top_draw(struct top_talk *t)
{
	AUTO_ARENA a = ARENA_INIT;
	struct top_size size = top_screen_size();
	struct top_line *lines = ARENA_ARRAY(&a, struct top_line, size.height + 1);
	int cursor = top_talk_lines(t, &size, &a, lines);
	top_screen_draw(lines, size.height, cursor);
}

static void drain_pipe(void)
{
	char bytes[64];
	while (read(wake_pipe[0], bytes, sizeof bytes) > 0)
		;
}

/* Everything that waits is handled before the next drawing. */
static void take_keys(struct top_talk *t)
{
	int key;
	while (!t->quit && (key = top_screen_key()) != TOP_KEY_NONE) {
		struct top_size size = top_screen_size();
		top_talk_key(t, key, &size);
	}
}

static void top_run(struct top_talk *t)
{
	struct pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {wake_pipe[0], POLLIN, 0}};
	while (!t->quit && !ended_by) {
		top_talk_read(t);
		top_draw(t);
		int n = poll(fds, 2, 1000);
		/* A terminal that is gone sends no more keys, and shows nothing. */
		if (n > 0 && (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)))
			return;
		drain_pipe();
		take_keys(t);
	}
}

/* Writes are waited for; a read from a database that hangs is not. */
static bool stop_readers(struct top_place *places, int n)
{
	bool all = true;
	for (int i = 0; i < n; i++)
		all = top_reader_stop(places[i].reader,
		                      top_reader_writes(places[i].reader) ? ACT_MS : QUIT_MS) &&
		      all;
	return all;
}

static void watch_and_talk(struct cli *c, struct top_place *places, int n, int64_t every_ms)
{
	const struct top_context ctx = {.actor = cli_actor(c),
	                                .ledger_off = c->settings.ledger == LEDGER_OFF,
	                                .workflows = &c->settings.workflows,
	                                .every_ms = every_ms,
	                                .ascii = top_screen_is_ascii(),
	                                .wake_fd = wake_pipe[1]};
	struct top_talk talk;
	take_signals();
	for (int i = 0; i < n; i++)
		places[i].reader =
			top_reader_start(&ctx, places[i].database, places[i].watches, places[i].n, i);
	top_talk_init(&talk, places, n);
	talk.environment = settings_environment(&c->settings)->name;
	top_run(&talk);
	top_screen_close();
	bool ended = stop_readers(places, n);
	if (!ended) {
		/* A thread still waits for its database: nothing that it uses may be freed. */
		fflush(NULL);
		_exit(ended_by ? 128 + ended_by : EXIT_CLEAN);
	}
	for (int i = 0; i < n; i++)
		top_reader_free(places[i].reader);
	top_talk_release(&talk);
}

/* If a signal ended us, the parent process must see that. */
static void end_by_signal(void)
{
	signal(ended_by, SIG_DFL);
	raise(ended_by);
}

static int cmd_top(struct cli *c)
{
	AUTO(selection_release) struct selection s = {0};
	struct top_place *places;
	int64_t every_us = US_PER_S;
	if (c->json)
		return cli_usage("top has no --json; use defib list or defib status");
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return cli_usage("top needs a terminal; without one: defib status, defib list --where "
		                 "stuck");
	if (!cli_duration(c, "every", &every_us))
		return EXIT_USAGE;
	if (every_us < EVERY_LEAST_MS * 1000)
		return cli_usage("--every must be at least %d ms", EVERY_LEAST_MS);
	int code = select_watches(c, &s);
	if (code != EXIT_CLEAN)
		return code;
	int n = find_places(c, &s, &places);
	if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
		return cli_usage("top cannot create a pipe: %s", strerror(errno));
	/* A line on stderr would spoil the screen; failures are shown on it. */
	log_setup(LOG_CRITICAL, LOG_PLAIN);
	if (!top_screen_open(c->color_out))
		return EXIT_USAGE;
	watch_and_talk(c, places, n, every_us / 1000);
	if (ended_by)
		end_by_signal();
	return EXIT_CLEAN;
}

COMMAND(top, cmd_top, "[WATCH…]", "watch jobs live on a full screen, and act on stuck ones",
        .options = top_options,
        .examples = {{"defib top", "everything, once a second; ? lists the keys"},
                     {"defib top pages --every 5s", "one watch, and less often"}});

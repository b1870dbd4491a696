/*
 * ledger_follow.c: `defib ledger --follow`: what comes, once each.
 *
 * Ids are committed in their order, so a cursor is all there is to remember.
 * It moves when lines have been printed, and a new session goes on from it:
 * an outage loses nothing and repeats nothing.
 */
#include "cli/cmd_ledger.h"

#include "view/ledger.h"

#include <poll.h>
#include <signal.h>
#include <stdio_ext.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define POLL_MS 500
#define PAGE 1000

/* One page behind the cursor; `more` when there may be another. */
static defib_err print_page(struct ledger_source *s, const struct ledger_filter *filter,
                            int64_t top, struct ledger_lines *lines, bool *more, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct ledger_filter page = *filter;
	struct ledger_row *rows;
	int n = 0;
	page.newest_first = false;
	page.limit = PAGE;
	page.after_id = s->cursor;
	page.up_to_id = top;
	defib_err err = ledger_read(s->session.store, &page, &a, &rows, &n, f);
	if (!err) {
		struct ledger_line *all = ARENA_ARRAY(&a, struct ledger_line, n);
		for (int i = 0; i < n; i++)
			all[i] = (struct ledger_line){&rows[i], s->database};
		struct buf out = BUF_INIT;
		ledger_lines_text(lines, all, n, &out);
		out_print(&out);
		*more = n == PAGE;
		s->cursor = *more ? rows[n - 1].id : top;
	}
	arena_release(&a);
	return err;
}

static defib_err print_new(struct ledger_source *s, const struct ledger_filter *filter,
                           struct ledger_lines *lines, struct failure *f)
{
	int64_t top = 0;
	bool more = true;
	defib_err err = session_ready(&s->session, f);
	if (!err && !s->exists)
		err = ledger_exists(s->session.store, &s->exists, f);
	if (err || !s->exists)
		return err;
	err = ledger_top(s->session.store, &top, f);
	while (!err && more && s->cursor < top && !ferror(stdout))
		err = print_page(s, filter, top, lines, &more, f);
	return err;
}

/* What passes by itself is waited for and said once; the rest ends the command. */
static bool passes(defib_err err)
{
	return err == DEFIB_CONNECTION || err == DEFIB_UNKNOWN_OUTCOME || err == DEFIB_TIMEOUT ||
	       err == DEFIB_LOCKED || err == DEFIB_FULL;
}

static bool look_again(const struct cli *c, struct ledger_source *s,
                       const struct ledger_filter *filter, struct ledger_lines *lines, int *code)
{
	struct failure f = {0};
	defib_err err = print_new(s, filter, lines, &f);
	if (err && !passes(err)) {
		*code = cli_fail(&f);
		return false;
	}
	if (err && !s->down && !c->quiet)
		fprintf(stderr, "defib: %s; trying again\n", f.what);
	else if (!err && s->down && !c->quiet)
		fprintf(stderr, "defib: %s is back; going on\n", s->database->name);
	s->down = err != DEFIB_OK;
	return true;
}

/* False when a signal came or nobody reads any more. */
static bool wait_a_moment(int signals)
{
	struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = STDOUT_FILENO}};
	return poll(fds, 2, POLL_MS) <= 0 && !fds[0].revents && !fds[1].revents;
}

int ledger_follow(struct cli *c, struct ledger_source *sources, int n,
                  const struct ledger_filter *filter)
{
	struct ledger_lines lines = {.settings = &c->settings, .json = c->json};
	sigset_t set;
	int code = EXIT_CLEAN;
	bool on = true;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	while (on) {
		for (int i = 0; i < n && on; i++)
			on = look_again(c, &sources[i], filter, &lines, &code);
		on = fflush(stdout) == 0 && on && wait_a_moment(signals);
	}
	if (ferror(stdout))
		__fpurge(stdout); /* nobody reads: that is how a follower ends, not a failure */
	close(signals);
	return code;
}

/* SPDX-License-Identifier: Apache-2.0
 * cmd_demo.c: `defib demo`: real workers on a few thousand jobs. They are killed, frozen and
 * disconnected while the terminal reports what happens; at the end the results are counted.
 *
 * One loop in one process: signals, ended processes, faults that are due, the ledger. Everything
 * that it starts ends with it, and everything that it creates is removed, however it ends.
 */
#include "cli/demo/acts.h"
#include "cli/demo/crew.h"
#include "cli/demo/demo.h"
#include "cli/demo/place.h"
#include "cli/demo/story.h"
#include "cli/demo/verdict.h"
#include "cli/load.h"

#include <errno.h>
#include <unistd.h>

static const struct cli_option demo_options[] = {
	{"seconds", "N", "approximate duration; default 40, at least 8"},
	{"keep", NULL, "keep running after the verdict, until Ctrl-C"},
	{"listen", "ADDR:PORT", "address of the page; default: 127.0.0.1, a free port"},
	{"record", "FILE", "record what the terminal shows, as an asciicast"},
	{"seed", "N", "selects which workers are killed; default: random"},
	{"yes", NULL, "use the database that --db names without asking"},
	{NULL, NULL, NULL},
};

#define TICK_MS 40
#define UP_MS 30000 /* by then everything must have started */
#define STILL_S 90  /* without another finished job, after the run's time: they are stuck */
#define EXIT_INTERRUPTED 130

/* ---- options ---- */

static int demo_read_options(struct demo *d)
{
	struct cli *c = d->cli;
	if (c->nwords)
		return cli_usage("defib demo takes options only; see defib demo --help");
	int64_t seed = 0;
	d->seconds = 40;
	chance_seed(&d->chance);
	d->listen = cli_value(c, "listen");
	if (!cli_int(c, "seconds", &d->seconds) || !cli_int(c, "seed", &seed))
		return EXIT_USAGE;
	if (cli_value(c, "seed"))
		d->chance.state = (uint64_t)seed;
	if (d->seconds < 8 || d->seconds > 3600)
		return cli_usage("--seconds must be from 8 to 3600");
	if (!d->listen)
		d->listen = "127.0.0.1:0";
	d->lease_ms = d->seconds < DEMO_SHORT_S ? 3000 : 4000;
	ssize_t n = readlink("/proc/self/exe", d->program, sizeof d->program - 1);
	return n > 0 ? EXIT_CLEAN : cli_usage("cannot find the program defib: %s", strerror(errno));
}

/* A user's database: nothing is done there without confirmation. $DEFIB_DB alone is no request. */
static int ask_for_database(struct demo *d)
{
	struct cli *c = d->cli;
	AUTO_BUF shown = BUF_INIT;
	struct failure f = {0};
	int code = EXIT_CLEAN;
	d->db = c->db;
	if (!d->db)
		return EXIT_CLEAN;
	if (!store_engine_of(d->db, &d->engine, &f)) {
		f.code = DEFIB_USAGE;
		return cli_fail(&f);
	}
	url_redact(d->db, &shown);
	if (!cli_flag(c, "yes") && !isatty(STDIN_FILENO)) {
		fail(&f, DEFIB_REFUSED, "nothing was done: not a terminal");
		fail_next(&f, "pass --yes to run the demonstration in %s", buf_text(&shown));
		code = cli_fail(&f);
	} else {
		code = cli_confirm(c,
		                   arena_printf(&c->arena,
		                                "Create a queue and a table of pages for the demonstration "
		                                "in %s, and remove them at its end",
		                                buf_text(&shown)),
		                   false);
	}
	return code;
}

/* ---- signals ---- */

/* Waits a moment; true if it must end. The end of a process only ends the wait. */
static bool signalled_to_end(const sigset_t *set)
{
	struct timespec t = {.tv_nsec = TICK_MS * 1000000L};
	int got = sigtimedwait(set, NULL, &t);
	return got > 0 && got != SIGCHLD;
}

/* ---- starting ---- */

/* The daemon logs its address. */
static bool find_address(const struct demo *d, char *out, size_t size)
{
	char path[320], line[1024];
	bool found = false;
	snprintf(path, sizeof path, "%s/daemon.log", d->folder);
	FILE *in = fopen(path, "re");
	while (in && !found && fgets(line, sizeof line, in)) {
		const char *url =
			strstr(line, "msg=\"http server started\"") ? strstr(line, " url=") : NULL;
		if (url) {
			url += strlen(" url=");
			snprintf(out, size, "%.*s", (int)strcspn(url, " \r\n"), url);
			found = true;
		}
	}
	if (in)
		(void)fclose(in);
	return found;
}

static int count_registered(struct demo *d)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	struct failure f = {0};
	struct store_param prefix = P_TEXT(d->db ? d->run : "w");
	int n = 0;
	if (demo_ask(d,
	             "SELECT count(*) FROM defib.worker WHERE state = 'alive' AND name LIKE $1 || '%'",
	             &prefix, 1, &a, &rows, &f) == DEFIB_OK)
		n = (int)row_int(&rows, 0, 0, 0);
	return n;
}

/* Until the page answers and every worker is registered. */
static int wait_until_up(struct demo *d, const sigset_t *set, char *address, size_t size,
                         struct failure *f)
{
	int64_t end = clock_boot_ms() + UP_MS;
	while (!find_address(d, address, size) || count_registered(d) < DEMO_WORKERS) {
		if (signalled_to_end(set))
			return EXIT_INTERRUPTED;
		if (demo_crew_tend(d, f))
			return cli_fail(f);
		if (clock_boot_ms() > end)
			return cli_usage("the demonstration's processes did not start within %d s; their logs "
			                 "were in %s",
			                 UP_MS / 1000, d->folder);
	}
	return EXIT_CLEAN;
}

static defib_err demo_start(struct demo *d, struct failure *f)
{
	defib_err err = demo_place_make(d, f);
	if (err)
		return err;
	demo_crew_init(d);
	err = demo_crew_start(d, DEMO_DAEMON, f);
	return err ? err : demo_crew_start(d, DEMO_WORKER, f);
}

static int demo_begin(struct demo *d, const sigset_t *set)
{
	struct failure f = {0};
	char address[256] = "";
	demo_tell_opening(d);
	if (demo_start(d, &f))
		return cli_fail(&f);
	int code = wait_until_up(d, set, address, sizeof address, &f);
	if (code != EXIT_CLEAN)
		return code;
	d->begun_ms = clock_boot_ms();
	if (demo_place_fill(d, &f) || demo_crew_start(d, DEMO_PAGES, &f))
		return cli_fail(&f);
	demo_tell_place(d, address);
	return EXIT_CLEAN;
}

/* ---- running ---- */

static void demo_read_progress(struct demo *d)
{
	static const char progress[] =
		"SELECT (SELECT count(*) FROM defib.job WHERE queue = $1 AND state NOT IN ('queued', "
		"'scheduled', 'running', 'cancelling')), (SELECT count(*) FROM %s WHERE status = "
		"'Complete')";
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	struct failure f = {0};
	struct store_param queue = P_TEXT(d->queue);
	const char *sql = arena_printf(&a, progress, d->pages);
	if (demo_ask(d, sql, &queue, 1, &a, &rows, &f) == DEFIB_OK) {
		d->finished = row_int(&rows, 0, 0, 0);
		d->pages_done = row_int(&rows, 0, 1, 0);
	}
}

/* One round: ended processes, faults that are due, what was done about them. */
static int demo_go_round(struct demo *d)
{
	struct failure f = {0};
	if (demo_crew_tend(d, &f))
		return cli_fail(&f);
	demo_acts_tick(d, clock_boot_ms());
	/* A database that is unavailable for a moment is queried again in the next round. */
	if (demo_ledger_follow(d, &f) == DEFIB_OK)
		demo_read_progress(d);
	demo_show_progress(d, clock_boot_ms());
	return EXIT_CLEAN;
}

/* A busy machine takes longer: it is given up only if nothing changes any more. */
static bool stands_still(struct demo *d, int64_t now_ms)
{
	int64_t over = d->finished + d->pages_done;
	if (over != d->moved_to || now_ms < d->begun_ms + d->seconds * 1000) {
		d->moved_to = over;
		d->moved_ms = now_ms;
	}
	return now_ms > d->moved_ms + STILL_S * 1000;
}

/* Until everything has ended, or nothing changes. */
static int demo_run(struct demo *d, const sigset_t *set)
{
	int code = EXIT_CLEAN;
	while (code == EXIT_CLEAN && !stands_still(d, clock_boot_ms())) {
		if (signalled_to_end(set))
			return EXIT_INTERRUPTED;
		code = demo_go_round(d);
		if (demo_acts_over(d) && d->finished == d->nids && d->pages_done == d->npages)
			break;
	}
	return code;
}

static int keep_running(struct demo *d, const sigset_t *set)
{
	demo_print(d, COLOR_BOLD, "still running; Ctrl-C ends it");
	demo_story_close(d);
	d->cli->quiet = true;
	for (;;) {
		if (signalled_to_end(set))
			return EXIT_CLEAN;
		int code = demo_go_round(d);
		if (code != EXIT_CLEAN)
			return code;
	}
}

static int give_verdict(struct demo *d, const sigset_t *set)
{
	struct demo_verdict v;
	struct failure f = {0};
	if (demo_judge(d, &v, &f))
		return cli_fail(&f);
	demo_show_verdict(d, &v);
	demo_tell_next(d);
	int code = cli_flag(d->cli, "keep") ? keep_running(d, set) : EXIT_CLEAN;
	return code == EXIT_CLEAN && !demo_passed(&v) ? EXIT_STUCK : code;
}

static int cmd_demo(struct cli *c)
{
	struct demo *d = ARENA_NEW(&c->arena, struct demo);
	sigset_t set;
	if (demo_pages_wanted())
		return demo_pages_run();
	d->cli = c;
	int code = demo_read_options(d);
	if (code == EXIT_CLEAN)
		code = ask_for_database(d);
	if (code != EXIT_CLEAN)
		return code;
	struct failure f = {0};
	if (demo_story_open(d, cli_value(c, "record"), &f))
		return cli_fail(&f);
	cli_block_signals(&set, SIGCHLD);
	code = demo_begin(d, &set);
	if (code == EXIT_CLEAN)
		code = demo_run(d, &set);
	if (code == EXIT_CLEAN)
		code = give_verdict(d, &set);
	demo_story_close(d);
	demo_crew_stop(d);
	demo_place_remove(d);
	if (code == EXIT_INTERRUPTED)
		demo_print(d, COLOR_YELLOW, "interrupted: everything was stopped and removed");
	return code;
}

COMMAND(demo, cmd_demo, "", "watch real workers die, and their jobs recovered",
        .options = demo_options,
        .examples = {{"defib demo", "on a database of its own, which is removed again"},
                     {"defib demo --seconds 8 --seed 7",
                      "a short run that kills the same workers each time"}});

/* SPDX-License-Identifier: Apache-2.0
 * cmd_ledger.c: `defib ledger`: reads, filters and follows the ledger.
 *
 * Without --after the newest entries are printed, newest last. With it, entries come in the order
 * of their ids from there on: the id of the last line is the cursor to continue with, and no lower
 * id is ever committed later.
 */
#include "cli/load.h"
#include "cli/progress.h"
#include "ledger/events.h"
#include "ledger/seal.h"
#include "view/ledger.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio_ext.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define SHOWN_BY_DEFAULT 50
#define SHOWN_MAX 100000

static const struct cli_option ledger_options[] = {
	{"watch", "WATCH", "only entries of this watch"},
	{"job", "JOB", "only entries of this job"},
	{"event", "EVENT", "only this event; --events lists them"},
	{"batch", "BATCH", "only this batch, or all batches of a scan"},
	{"actor", "ACTOR", "only entries of this actor, such as cli:root"},
	{"since", "DURATION", "only entries that are not older than this"},
	{"after", "ID", "only entries after this id, oldest first"},
	{"limit", "N", "at most N entries (50; with --after 10000)"},
	{"follow", NULL, "keep printing new entries"},
	{"events", NULL, "list the events and their meaning"},
	{"older-than", "DURATION", "prune: remove entries that are older than this"},
	{"dry-run", NULL, "prune: only show what would be removed"},
	{"yes", NULL, "prune: do not ask"},
	{"expect", "SEAL", "verify: this seal, saved earlier, must be in the chain"},
	{NULL, NULL, NULL},
};

/* The ledger of one database. */
struct ledger_source {
	const struct database *database;
	struct session session;
	bool exists;
	int64_t cursor;          /* everything up to this id was printed, or filtered out … */
	char of[LEDGER_OF_SIZE]; /* … of this ledger; "": not known */
	bool down;               /* it was reported as unreachable */
};

static const struct field event_fields[] = {
	{"event", FIELD_AT(struct event_name, name)},
	{"meaning", FIELD_AT(struct event_name, meaning)},
	{0},
};
static const struct record event_record = {.fields = event_fields};

static int ledger_print_events(const struct cli *c)
{
	const struct viewer v = viewer_local(NULL, NULL);
	AUTO_BUF line = BUF_INIT;
	for (const struct event_name *e = event_names; e->name; e++) {
		if (!c->json) {
			printf("%-18s %s\n", e->name, e->meaning);
			continue;
		}
		buf_clear(&line);
		record_json(&event_record, e, &v, &line);
		puts(buf_text(&line));
	}
	return EXIT_CLEAN;
}

/* ---- follow ---- */

#define POLL_MS 500
#define PAGE 1000

/* One page after the cursor; `more` if there may be another. */
static defib_err ledger_print_page(struct ledger_source *s, const struct ledger_filter *filter,
                                   int64_t top, struct ledger_lines *lines, bool *more,
                                   struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct ledger_filter page = *filter;
	struct ledger_row *rows;
	int n = 0;
	page.newest_first = false;
	page.limit = PAGE;
	page.after_id = s->cursor;
	page.up_to_id = top;
	defib_err err =
		ledger_search(s->session.store, &page, &(struct ledger_bound){0}, &a, &rows, &n, f);
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
	return err;
}

/* Its tables were made again, or restored from a backup: numbers below the cursor come again. */
static void ledger_begin_anew(struct ledger_source *s, const char *of, int64_t top)
{
	bool other = *of && *s->of && !text_eq(of, s->of);
	if (other || top < s->cursor) {
		fprintf(stderr, "defib: %s has another ledger now, with entries up to %" PRId64 "\n",
		        s->database->name, top);
		s->cursor = other ? 0 : top;
	}
	if (*of)
		snprintf(s->of, sizeof s->of, "%s", of);
}

static defib_err print_new(struct ledger_source *s, const struct ledger_filter *filter,
                           struct ledger_lines *lines, struct failure *f)
{
	char of[LEDGER_OF_SIZE] = "";
	int64_t top = 0;
	bool more = true;
	defib_err err = session_ready(&s->session, f);
	if (!err && !s->exists)
		err = ledger_exists(s->session.store, &s->exists, f);
	if (err || !s->exists)
		return err;
	err = ledger_end(s->session.store, &top, of, f);
	if (!err)
		ledger_begin_anew(s, of, top);
	while (!err && more && s->cursor < top && !ferror(stdout))
		err = ledger_print_page(s, filter, top, lines, &more, f);
	return err;
}

static bool ledger_look_again(const struct cli *c, struct ledger_source *s,
                              const struct ledger_filter *filter, struct ledger_lines *lines,
                              int *code)
{
	struct failure f = {0};
	defib_err err = print_new(s, filter, lines, &f);
	/* A temporary error is reported once and waited for; any other ends the command. */
	if (err && !store_unavailable(err)) {
		*code = cli_fail(&f);
		return false;
	}
	if (err && !s->down && !c->quiet)
		fprintf(stderr, "defib: %s; trying again\n", f.what);
	else if (!err && s->down && !c->quiet)
		fprintf(stderr, "defib: %s is back; continuing\n", s->database->name);
	s->down = err != DEFIB_OK;
	return true;
}

/* False if a signal arrived or the reader is gone. */
static bool wait_a_moment(int signals)
{
	struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = STDOUT_FILENO}};
	return poll(fds, 2, POLL_MS) <= 0 && !fds[0].revents && !fds[1].revents;
}

/*
 * Print new entries until a signal arrives or the reader is gone. `filter` has the conditions; the
 * cursors say where to begin. `begun`: the titles are on the screen.
 */
static int ledger_follow(struct cli *c, struct ledger_source *sources, int n,
                         const struct ledger_filter *filter, bool begun)
{
	struct ledger_lines lines = {.settings = &c->settings, .json = c->json, .begun = begun};
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
			on = ledger_look_again(c, &sources[i], filter, &lines, &code);
		on = fflush(stdout) == 0 && on && wait_a_moment(signals);
	}
	if (ferror(stdout))
		__fpurge(stdout); /* the reader is gone: the normal end of a follower, not a failure */
	close(signals);
	return code;
}

/* ---- verify ---- */

#define STATEMENT_MS 60000

static bool seal_is_whole(const void *row, int64_t *out)
{
	*out = !((const struct seal_report *)row)->broken;
	return true;
}

static const char *last_seal(const void *row)
{
	return ((const struct seal_report *)row)->seal;
}

#define AT(member) FIELD_AT(struct seal_report, member)
static const struct field seal_fields[] = {
	{"database", .words = field_database},  {"whole", FIELD_BOOL, .number = seal_is_whole},
	{"entries", FIELD_NUMBER, AT(entries)}, {"seals", FIELD_NUMBER, AT(seals)},
	{"last_id", FIELD_NUMBER, AT(last_id)}, {"seal", .text = last_seal},
	{"broken", AT(broken), .null = true},   {0},
};
#undef AT
static const struct record seal_record = {.fields = seal_fields};

static void ledger_print_json(const struct database *d, const struct seal_report *r)
{
	const struct viewer v = viewer_local(NULL, d->name);
	AUTO_BUF out = BUF_INIT;
	record_json(&seal_record, r, &v, &out);
	puts(buf_text(&out));
}

static void ledger_print_text(const struct database *d, const struct seal_report *r)
{
	AUTO_BUF out = BUF_INIT;
	buf_addf(&out, "%s: ", d->name);
	if (r->broken) {
		buf_addf(&out, "BROKEN at entry %" PRId64 ": %s", r->broken_at, r->broken);
	} else {
		buf_add_count(&out, r->entries);
		buf_addf(&out, " %s whole", r->entries == 1 ? "entry is" : "entries are");
		if (r->last_id)
			buf_addf(&out, ", %" PRId64 " to %" PRId64, r->first_id, r->last_id);
		buf_addf(&out, "\n  seal: %s", r->seal);
	}
	puts(buf_text(&out));
}

static int verify_one(struct cli *c, const struct database *d, struct seal_report *r)
{
	struct failure f = {0};
	AUTO_SESSION session = cli_session(d, NULL, true);
	bool exists = false;
	int64_t top = 0; /* the first entries may have been pruned: there are at most so many */
	session.options.statement_ms = STATEMENT_MS;
	defib_err err = session_ready(&session, &f);
	if (!err)
		err = ledger_exists(session.store, &exists, &f);
	if (!err && exists)
		err = ledger_top(session.store, &top, &f);
	struct progress bar = progress_begin(c, d->name, "checked", top);
	if (!err && exists)
		err = seal_verify(session.store, cli_value(c, "expect"), progress_on_count(&bar), &c->arena,
		                  r, &f);
	progress_clear(&bar);
	if (err)
		return cli_fail(&f);
	if (!exists) {
		fprintf(stderr, "defib: there is no ledger in %s\n", d->name);
		return EXIT_CLEAN;
	}
	if (c->json)
		ledger_print_json(d, r);
	else
		ledger_print_text(d, r);
	return r->broken ? EXIT_REFUSED : EXIT_CLEAN;
}

static int ledger_verify(struct cli *c)
{
	int worst = cli_load(c);
	if (worst != EXIT_CLEAN)
		return worst;
	if (cli_value(c, "expect") && c->settings.ndatabases > 1)
		return cli_usage("--expect is a seal of one ledger: name its database with --db");
	for (int i = 0; i < c->settings.ndatabases; i++) {
		struct seal_report r = {0};
		int code = verify_one(c, &c->settings.databases[i], &r);
		worst = code > worst ? code : worst;
	}
	return worst;
}

/* ---- reading ---- */

/* The subcommands of `defib ledger` and their options; the others belong to reading. */
static const struct shown_part {
	const char *word;
	int (*run)(struct cli *c);
	const char *takes[4];
} parts[] = {
	{"prune", ledger_prune, {"older-than", "dry-run", "yes"}},
	{"verify", ledger_verify, {"expect"}},
};
#define PARTS (sizeof parts / sizeof *parts)

static const struct shown_part *part_of_option(const char *name)
{
	for (size_t i = 0; i < PARTS; i++)
		for (const char *const *t = parts[i].takes; *t; t++)
			if (text_eq(*t, name))
				return &parts[i];
	return NULL;
}

/* *part is NULL for reading. */
static int ledger_check_words(const struct cli *c, const struct shown_part **part)
{
	static const char *const words[] = {"prune", "verify", NULL};
	*part = NULL;
	for (size_t i = 0; i < PARTS && c->nwords == 1; i++)
		if (text_eq(c->words[0], parts[i].word))
			*part = &parts[i];
	if (c->nwords > 0 && !*part)
		return cli_unknown("ledger command", c->words[0], words);
	for (int i = 0; i < c->ngiven; i++) {
		const char *name = c->given[i].name;
		const struct shown_part *of = part_of_option(name);
		if (of && of != *part)
			return cli_usage("--%s belongs to defib ledger %s", name, of->word);
		if (*part && !of)
			return cli_usage("--%s cannot be combined with defib ledger %s", name, (*part)->word);
	}
	return EXIT_CLEAN;
}

static int check_event(const char *event)
{
	const char *near = NULL;
	if (!event || event_known(event, &near))
		return EXIT_CLEAN;
	return cli_usage("there is no event \"%s\"%s (defib ledger --events lists them)", event,
	                 hint_of(near, "", "").text);
}

static int read_filter(struct cli *c, struct ledger_filter *out)
{
	int64_t after = -1, limit = -1;
	*out = (struct ledger_filter){
		.watch = cli_value(c, "watch"),
		.job = cli_value(c, "job"),
		.event = cli_value(c, "event"),
		.actor = cli_value(c, "actor"),
		.batch = cli_value(c, "batch"),
	};
	int code = check_event(out->event);
	if (code != EXIT_CLEAN)
		return code;
	if (!cli_int(c, "after", &after) || !cli_int(c, "limit", &limit) ||
	    !cli_duration(c, "since", &out->since_us))
		return EXIT_USAGE;
	if (limit > SHOWN_MAX || (limit == 0 && !cli_flag(c, "follow")))
		return cli_usage("--limit must be from %s to %d", cli_flag(c, "follow") ? "0" : "1",
		                 SHOWN_MAX);
	out->after_id = after > 0 ? after : 0;
	out->newest_first = after < 0;
	out->limit = limit >= 0 ? limit : out->newest_first ? SHOWN_BY_DEFAULT : LEDGER_READ_MAX;
	return EXIT_CLEAN;
}

/* All that is asked for, page by page. */
static defib_err read_pages(struct cli *c, const struct ledger_source *s,
                            const struct ledger_filter *filter, struct ledger_row **rows, int *n,
                            struct failure *f)
{
	struct progress bar = progress_begin(c, s->database->name, "read", 0);
	struct ledger_filter page = *filter;
	struct ledger_row *all = NULL, *more;
	defib_err err = DEFIB_OK;
	int got = 0, room = 0;
	do {
		int64_t left = filter->limit - *n;
		page.limit = left < PAGE ? left : PAGE;
		err = ledger_search(s->session.store, &page, &(struct ledger_bound){0}, &c->arena, &more,
		                    &got, f);
		if (err || got <= 0)
			break;
		if (*n + got > room) {
			room = 2 * (*n + got);
			struct ledger_row *larger = ARENA_ARRAY(&c->arena, struct ledger_row, room);
			if (*n)
				memcpy(larger, all, sizeof *all * (size_t)*n);
			all = larger;
		}
		memcpy(all + *n, more, sizeof *all * (size_t)got);
		*n += got;
		if (filter->newest_first)
			page.up_to_id = more[got - 1].id - 1;
		else
			page.after_id = more[got - 1].id;
		progress_at(&bar, *n);
	} while (got == page.limit && *n < filter->limit && page.up_to_id > 0);
	progress_clear(&bar);
	*rows = all;
	return err;
}

/* The requested entries of one database, and the cursor after them. */
static defib_err read_source(struct cli *c, struct ledger_source *s,
                             const struct ledger_filter *filter, struct ledger_row **rows, int *n,
                             struct failure *f)
{
	struct ledger_filter first = *filter;
	*n = 0;
	defib_err err = session_ready(&s->session, f);
	if (!err)
		err = ledger_exists(s->session.store, &s->exists, f);
	if (err || !s->exists)
		return err;
	/* After --after everything is followed; there is no first screen. */
	if (cli_flag(c, "follow") && !filter->newest_first) {
		s->cursor = filter->after_id;
		return DEFIB_OK;
	}
	err = ledger_end(s->session.store, &s->cursor, s->of, f);
	first.up_to_id = s->cursor;
	return err || filter->limit == 0 || s->cursor == 0 ? err : read_pages(c, s, &first, rows, n, f);
}

static int ledger_by_time(const void *a, const void *b)
{
	const struct ledger_line *x = a, *y = b;
	int order = strcmp(x->row->at, y->row->at);
	if (order == 0)
		order = (x->database > y->database) - (x->database < y->database);
	return order ? order : (x->row->id > y->row->id) - (x->row->id < y->row->id);
}

struct screen {
	struct ledger_line *lines;
	int n;
};

static void ledger_add_lines(struct cli *c, struct screen *screen, const struct ledger_source *s,
                             const struct ledger_row *rows, int n)
{
	struct ledger_line *all = ARENA_ARRAY(&c->arena, struct ledger_line, screen->n + n);
	if (screen->n)
		memcpy(all, screen->lines, sizeof *all * (size_t)screen->n);
	for (int i = 0; i < n; i++)
		all[screen->n + i] = (struct ledger_line){&rows[i], s->database};
	screen->lines = all;
	screen->n += n;
}

static void print_screen(struct cli *c, struct screen *screen, const struct ledger_filter *filter)
{
	struct ledger_lines lines = {.settings = &c->settings, .json = c->json};
	int skip = screen->n > filter->limit ? screen->n - (int)filter->limit : 0;
	/* A single ledger is in the order of its ids, even if a clock was set back. */
	if (c->settings.ndatabases > 1 && screen->n)
		qsort(screen->lines, (size_t)screen->n, sizeof *screen->lines, ledger_by_time);
	else if (filter->newest_first)
		for (int i = 0; i < screen->n / 2; i++) {
			struct ledger_line line = screen->lines[i];
			screen->lines[i] = screen->lines[screen->n - 1 - i];
			screen->lines[screen->n - 1 - i] = line;
		}
	struct progress bar = progress_begin(c, "ledger", "written", screen->n - skip);
	ledger_lines_measure(&lines, screen->lines + skip, screen->n - skip);
	for (int at = skip; at < screen->n && !ferror(stdout); at += PAGE) {
		struct buf out = BUF_INIT;
		ledger_lines_text(&lines, screen->lines + at, screen->n - at < PAGE ? screen->n - at : PAGE,
		                  &out);
		out_print(&out);
		if (!c->tty_out) /* there the lines themselves show it */
			progress_at(&bar, at - skip);
	}
	progress_clear(&bar);
}

static int ledger_show(struct cli *c, struct ledger_source *sources,
                       const struct ledger_filter *filter)
{
	struct screen screen = {0};
	bool exists = false;
	int code = EXIT_CLEAN, failed = 0, n = c->settings.ndatabases;
	for (int i = 0; i < n; i++) {
		struct ledger_source *s = &sources[i];
		struct ledger_row *rows = NULL;
		struct failure f = {0};
		int nrows = 0;
		if (read_source(c, s, filter, &rows, &nrows, &f)) {
			code = cli_fail(&f);
			failed++;
		} else if (!s->exists) {
			fprintf(stderr,
			        "defib: there is no ledger in %s yet; the first scan --fix, or defib init, "
			        "creates it\n",
			        s->database->name);
		}
		exists = exists || s->exists;
		ledger_add_lines(c, &screen, s, rows, nrows);
	}
	print_screen(c, &screen, filter);
	if (exists && !screen.n && !c->json && !c->quiet && !cli_flag(c, "follow"))
		fprintf(stderr, "defib: the ledger has no such entries\n");
	if (failed && failed < n)
		code = EXIT_PARTLY;
	/* A follower needs all databases: one that cannot be read at the start is a failure. */
	return failed || !cli_flag(c, "follow") ? code
	                                        : ledger_follow(c, sources, n, filter, screen.n > 0);
}

static int cmd_ledger(struct cli *c)
{
	struct ledger_filter filter;
	const struct shown_part *part;
	int code = ledger_check_words(c, &part);
	if (code != EXIT_CLEAN)
		return code;
	if (part)
		return part->run(c);
	if (cli_flag(c, "events"))
		return ledger_print_events(c);
	code = read_filter(c, &filter);
	if (code == EXIT_CLEAN)
		code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	int n = c->settings.ndatabases;
	if (!filter.newest_first && n > 1)
		return cli_usage("--after is a position in one ledger: name its database with --db");
	ledger_split_job(&c->settings, &c->arena, &filter);
	struct ledger_source *sources = ARENA_ARRAY(&c->arena, struct ledger_source, n);
	for (int i = 0; i < n; i++)
		sources[i] = (struct ledger_source){
			.database = &c->settings.databases[i],
			.session = cli_session(&c->settings.databases[i], NULL, true),
		};
	code = ledger_show(c, sources, &filter);
	for (int i = 0; i < n; i++)
		session_close(&sources[i].session);
	return code;
}

COMMAND(ledger, cmd_ledger, "[prune|verify]",
        "read, filter, follow and verify what was decided and done", .options = ledger_options,
        .examples = {
			{"defib ledger --watch pages --since 24h", "what happened to a watch since yesterday"},
			{"defib ledger --job pages/4711", "everything that was done to one job"},
			{"defib ledger verify", "check that no entry was changed or removed"},
			{"defib ledger prune --older-than 90d --dry-run", "how much a clean-up would remove"}});

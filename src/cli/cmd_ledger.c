/*
 * cmd_ledger.c: `defib ledger`: what was decided and done, read, filtered and
 * followed.
 *
 * Without --after the newest entries are printed, newest last. With it,
 * entries come in the order of their ids from there on: the id of the last
 * line is the cursor to go on with, and nothing is ever committed below it.
 */
#include "cli/cmd_ledger.h"

#include "base/text.h"
#include "ledger/events.h"
#include "view/ledger.h"

#define SHOWN_BY_DEFAULT 50
#define SHOWN_MAX 100000

const struct cli_option ledger_options[] = {
	{"watch", "WATCH", "only entries of this watch"},
	{"job", "JOB", "only entries of this job"},
	{"event", "EVENT", "only this event; --events lists them"},
	{"batch", "BATCH", "only this batch, or all batches of a scan"},
	{"actor", "ACTOR", "only what this one did, such as cli:root"},
	{"since", "DURATION", "only entries that are not older"},
	{"after", "ID", "the entries behind this one, in their order"},
	{"limit", "N", "at most N entries (50; with --after 10000)"},
	{"follow", NULL, "go on printing what comes"},
	{"events", NULL, "list the events and their meaning"},
	{"older-than", "DURATION", "prune: remove entries that are older"},
	{"dry-run", NULL, "prune: only say what would be removed"},
	{"yes", NULL, "prune: do not ask"},
	{"expect", "SEAL", "verify: this seal, kept from an earlier time, must be in the chain"},
	{NULL, NULL, NULL},
};

static int print_events(const struct cli *c)
{
	struct buf line = BUF_INIT;
	for (const struct event_name *e = event_names; e->name; e++) {
		if (!c->json) {
			printf("%-18s %s\n", e->name, e->meaning);
			continue;
		}
		buf_clear(&line);
		buf_addf(&line, "{\"event\":\"%s\",\"meaning\":", e->name);
		buf_add_json(&line, e->meaning);
		printf("%s}\n", buf_text(&line));
	}
	buf_release(&line);
	return EXIT_CLEAN;
}

/* What each word behind `defib ledger` takes; the rest belongs to reading. */
static const struct part {
	const char *word;
	int (*run)(struct cli *c);
	const char *takes[4];
} parts[] = {
	{"prune", ledger_prune, {"older-than", "dry-run", "yes"}},
	{"verify", ledger_verify, {"expect"}},
};
#define PARTS (sizeof parts / sizeof *parts)

static const struct part *part_of_option(const char *name)
{
	for (size_t i = 0; i < PARTS; i++)
		for (const char *const *t = parts[i].takes; *t; t++)
			if (text_eq(*t, name))
				return &parts[i];
	return NULL;
}

/* *part is NULL for reading. */
static int check_words(const struct cli *c, const struct part **part)
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
		const struct part *of = part_of_option(name);
		if (of && of != *part)
			return cli_usage("--%s belongs to defib ledger %s", name, of->word);
		if (*part && !of)
			return cli_usage("--%s does not go with defib ledger %s", name, (*part)->word);
	}
	return EXIT_CLEAN;
}

static int check_event(const char *event)
{
	const char *near = NULL;
	if (!event || event_known(event, &near))
		return EXIT_CLEAN;
	return cli_usage("there is no event \"%s\"%s%s%s; defib ledger --events lists them", event,
	                 near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
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
		return cli_usage("--limit is from %s to %d", cli_flag(c, "follow") ? "0" : "1", SHOWN_MAX);
	out->after_id = after > 0 ? after : 0;
	out->newest_first = after < 0;
	out->limit = limit >= 0 ? limit : out->newest_first ? SHOWN_BY_DEFAULT : LEDGER_READ_MAX;
	return EXIT_CLEAN;
}

/* The entries asked for, of one database, and the cursor behind them. */
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
	/* Behind --after everything is followed; there is no first screen that ends somewhere. */
	if (cli_flag(c, "follow") && !filter->newest_first) {
		s->cursor = filter->after_id;
		return DEFIB_OK;
	}
	err = ledger_top(s->session.store, &s->cursor, f);
	first.up_to_id = s->cursor;
	return err || filter->limit == 0 || s->cursor == 0
	           ? err
	           : ledger_read(s->session.store, &first, &c->arena, rows, n, f);
}

static int by_time(const void *a, const void *b)
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

static void add_lines(struct cli *c, struct screen *screen, const struct ledger_source *s,
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
	struct buf out = BUF_INIT;
	int skip = screen->n > filter->limit ? screen->n - (int)filter->limit : 0;
	/* One ledger is in the order of its ids, also when a clock was set back. */
	if (c->settings.ndatabases > 1 && screen->n)
		qsort(screen->lines, (size_t)screen->n, sizeof *screen->lines, by_time);
	else if (filter->newest_first)
		for (int i = 0; i < screen->n / 2; i++) {
			struct ledger_line line = screen->lines[i];
			screen->lines[i] = screen->lines[screen->n - 1 - i];
			screen->lines[screen->n - 1 - i] = line;
		}
	ledger_lines_text(&lines, screen->lines + skip, screen->n - skip, &out);
	out_print(&out);
}

static int show(struct cli *c, struct ledger_source *sources, const struct ledger_filter *filter)
{
	struct screen screen = {0};
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
			        "makes it\n",
			        s->database->name);
		}
		add_lines(c, &screen, s, rows, nrows);
	}
	print_screen(c, &screen, filter);
	if (failed && failed < n)
		code = EXIT_PARTLY;
	/* Who follows wants all of it: what cannot be read at the start is no outage. */
	return failed || !cli_flag(c, "follow") ? code : ledger_follow(c, sources, n, filter);
}

int cmd_ledger(struct cli *c)
{
	struct ledger_filter filter;
	const struct part *part;
	int code = check_words(c, &part);
	if (code != EXIT_CLEAN)
		return code;
	if (part)
		return part->run(c);
	if (cli_flag(c, "events"))
		return print_events(c);
	code = read_filter(c, &filter);
	if (code == EXIT_CLEAN)
		code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	int n = c->settings.ndatabases;
	if (!filter.newest_first && n > 1)
		return cli_usage("--after is a place in one ledger: name its database with --db");
	ledger_split_job(&c->settings, &c->arena, &filter);
	struct ledger_source *sources = ARENA_ARRAY(&c->arena, struct ledger_source, n);
	for (int i = 0; i < n; i++)
		sources[i] = (struct ledger_source){
			.database = &c->settings.databases[i],
			.session = {.options = cli_store_options(&c->settings.databases[i], NULL, true),
		                .open = store_open},
		};
	code = show(c, sources, &filter);
	for (int i = 0; i < n; i++)
		session_close(&sources[i].session);
	return code;
}

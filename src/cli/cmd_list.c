/* SPDX-License-Identifier: Apache-2.0
 * cmd_list.c: `defib list`: the jobs that a person asks for, a page at a time,
 * as a table, as JSON lines, or as ids for the next command.
 */
#include "cli/select.h"
#include "view/output.h"
#include "view/status.h"

#include "base/clock.h"
#include "base/text.h"
#include "recover/evidence.h"
#include "view/job.h"

const struct cli_option list_options[] = {
	SELECTOR_OPTIONS,
	{"sort", "ORDER", "key, age (oldest first) or state; default: age of running jobs, else key"},
	{"desc", NULL, "in reverse order"},
	{"after", "CURSOR", "the next page: the cursor printed below a page"},
	{"ids", NULL, "ids only, one per line, for commands that take - as a job"},
	{NULL, NULL, NULL},
};

#define LIST_LIMIT 50

/* What is printed, and how far it is. */
struct listing {
	struct cli *cli;
	struct selection selection;
	int sort; /* enum list_sort; -1: by what is asked for */
	bool desc, ids;
	const char *after;
	struct cursor begin, last;
	int64_t shown;
	bool more;
	int tables, failed;
	defib_err first_failure;
};

/* ---- as a table */

static void print_table(struct listing *l, const struct watch *w, const struct browsed *rows, int n)
{
	struct table t;
	struct buf out = BUF_INIT;
	if (n == 0)
		return;
	table_init(&t);
	list_head(&t, w);
	for (int i = 0; i < n; i++)
		list_job_row(&t, w, &rows[i]);
	if (l->tables++)
		buf_add(&out, "\n");
	table_print(&t, l->cli->color_out, &out);
	out_print(&out);
	table_release(&t);
}

/* ---- as ids and as JSON lines */

/* One line each, whatever the key holds: an odd one is written as WATCH/["key"]. */
static void id_of(const struct watch *w, const char *job, struct buf *out)
{
	bool odd = job[0] == '[' || strpbrk(job, " \t") == job;
	for (const char *p = job; *p; p += utf8_len(p) ? utf8_len(p) : 1)
		odd = odd || utf8_steers(p) || (p[0] == ' ' && !p[1]);
	if (w->key.n > 1 || !odd) {
		job_qualified(w, job, out);
		return;
	}
	buf_addf(out, "%s/[", w->name);
	buf_add_json(out, job);
	buf_add(out, "]");
}

static void print_ids(const struct watch *w, const struct browsed *rows, int n)
{
	struct buf id = BUF_INIT;
	for (int i = 0; i < n; i++) {
		buf_clear(&id);
		id_of(w, rows[i].job, &id);
		puts(buf_text(&id));
	}
	buf_release(&id);
}

static void remember(struct listing *l, const struct watch *w, enum list_sort sort,
                     const struct browsed *row)
{
	l->last = (struct cursor){
		.watch = w->name, .sort = sort, .desc = l->desc, .nkeys = w->key.n, .at = row->at};
}

static void print_json(struct listing *l, const struct selected *g, enum list_sort sort,
                       const struct browsed *rows, int n)
{
	struct buf out = BUF_INIT, cursor = BUF_INIT;
	for (int i = 0; i < n; i++) {
		buf_clear(&out);
		buf_clear(&cursor);
		browsed_json(g->watch, g->database, &rows[i], &out);
		remember(l, g->watch, sort, &rows[i]);
		cursor_text(&l->last, &cursor);
		buf_addf(&out, ",\"cursor\":\"%s\"}", buf_text(&cursor));
		puts(buf_text(&out));
	}
	buf_release(&out);
	buf_release(&cursor);
}

/* ---- the whole */

static void print_pause(struct store *s, const struct watch *w)
{
	struct buf out = BUF_INIT;
	pause_line(s, w->name, &out);
	out_print(&out);
}

static void print_page(struct listing *l, const struct selected *g, struct store *s,
                       enum list_sort sort, const struct browsed *rows, int n)
{
	if (l->cli->json)
		print_json(l, g, sort, rows, n);
	else if (l->ids)
		print_ids(g->watch, rows, n);
	else
		print_table(l, g->watch, rows, n);
	if (n > 0 && !l->cli->json && !l->ids)
		print_pause(s, g->watch);
	if (n > 0)
		remember(l, g->watch, sort, &rows[n - 1]);
	l->shown += n;
}

static int list_group(struct listing *l, const struct selected *g, bool begins)
{
	struct cli *c = l->cli;
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	struct failure f = {0};
	struct browsed *rows = NULL;
	int n = 0;
	enum list_sort sort = l->sort < 0 ? browse_sort(g->terms, g->nterms) : (enum list_sort)l->sort;
	struct browse ask = {
		.terms = g->terms,
		.nterms = g->nterms,
		.jobs = g->named ? g->jobs : NULL,
		.njobs = g->njobs,
		.sort = sort,
		.desc = l->desc,
		.after = begins ? &l->begin.at : NULL,
		.limit = l->selection.limit - l->shown,
		.facts = !l->ids,
	};
	if (begins &&
	    (l->begin.sort != sort || l->begin.desc != l->desc || l->begin.nkeys != g->watch->key.n))
		return cli_usage("--after: this cursor belongs to a list in another order");
	defib_err err = selected_bind(c, g, b, &f);
	if (!err)
		err = browse_jobs(b->store, &b->sql, &b->ledger, &ask, &c->arena, &rows, &n, &l->more, &f);
	if (!err) {
		print_page(l, g, b->store, sort, rows, n);
		return EXIT_CLEAN;
	}
	/* A word that the key's type cannot take is the caller's slip, not the database's trouble. */
	if (strncmp(f.sqlstate, "22", 2) == 0)
		f.code = DEFIB_USAGE;
	l->failed++;
	return cli_fail(&f);
}

/* Watch by watch until the page is full; one that fails does not keep the others. */
static int list_groups(struct listing *l)
{
	const struct selection *s = &l->selection;
	int first = 0, code = EXIT_CLEAN;
	while (l->after && first < s->n && !text_eq(s->groups[first].watch->name, l->begin.watch))
		first++;
	if (l->after && first == s->n)
		return cli_usage("--after: this list does not have watch %s", l->begin.watch);
	for (int i = first; i < s->n && !l->more; i++) {
		if (l->shown == s->limit) {
			l->more = true;
			break;
		}
		int one = list_group(l, &s->groups[i], l->after && i == first);
		code = code == EXIT_CLEAN ? one : code;
	}
	return l->failed && l->shown ? EXIT_PARTLY : code;
}

static void last_line(struct listing *l)
{
	struct buf cursor = BUF_INIT;
	FILE *to = l->cli->json || l->ids ? stderr : stdout;
	if (l->more) {
		cursor_text(&l->last, &cursor);
		fprintf(to, "%s%lld shown; next page: --after %s\n", to == stderr ? "defib: " : "",
		        (long long)l->shown, buf_text(&cursor));
	} else if (to == stdout && l->shown == 0) {
		fputs("no jobs match\n", to);
	} else if (to == stdout) {
		fprintf(to, "%lld shown\n", (long long)l->shown);
	}
	buf_release(&cursor);
}

static int read_order(struct listing *l)
{
	const char *sort = cli_value(l->cli, "sort");
	l->sort = sort ? word_index(list_sort_names, sort) : -1;
	if (sort && l->sort < 0)
		return cli_unknown("order", sort, list_sort_names);
	l->desc = cli_flag(l->cli, "desc");
	l->ids = cli_flag(l->cli, "ids");
	l->after = cli_value(l->cli, "after");
	if (l->after && l->cli->nwords > 0)
		return cli_usage("--after continues a list and cannot be combined with names of jobs");
	if (l->after && !cursor_parse(l->after, &l->cli->arena, &l->begin))
		return cli_usage("--after: \"%s\" is not a cursor; copy the one below a page", l->after);
	return EXIT_CLEAN;
}

int cmd_list(struct cli *c)
{
	struct listing l = {.cli = c};
	struct select_rules rules = {.limit = LIST_LIMIT};
	int code = read_order(&l);
	if (code == EXIT_CLEAN)
		code = select_read(c, &rules, &l.selection);
	if (code == EXIT_CLEAN && l.selection.limit == 0)
		code = cli_usage("--limit of a list must be at least 1");
	if (code != EXIT_CLEAN)
		return code;
	code = list_groups(&l);
	if (code == EXIT_CLEAN || l.shown)
		last_line(&l);
	selection_release(&l.selection);
	return code;
}

/* SPDX-License-Identifier: Apache-2.0
 * cmd_list.c: jobs, for people and programs.
 *
 * `defib list`: the selected jobs, one page at a time, as a table, as JSON lines, or as ids for the
 * next command.
 *
 * `defib show`: one job: a sentence about its state; the facts, and what they were compared with;
 * which rule fires or why none does, what holds it back, and what would happen next; its history in
 * order of time. With --state also the whole row, with --logs the evidence, with --raw everything
 * as one JSON document.
 *
 * `defib explain`: the facts and the verdict alone; it ends with 1 if the job is stuck.
 */
#include "cli/load.h"
#include "cli/progress.h"
#include "cli/select.h"
#include "view/status.h"
#include "view/story.h"

static const struct cli_option list_options[] = {
	SELECTOR_OPTIONS,
	{"status", "NAME", "only jobs in this state, as the table has it: --where state=NAME"},
	{"sort", "ORDER", "key, age (oldest first) or state; default: age of running jobs, else key"},
	{"desc", NULL, "in reverse order"},
	{"after", "CURSOR", "the next page: the cursor printed below a page"},
	{"ids", NULL, "ids only, one per line, for commands that take - as a job"},
	{NULL, NULL, NULL},
};

#define LIST_LIMIT 50

/* The output, and its progress. */
struct job_listing {
	struct cli *cli;
	struct selection selection;
	int sort; /* enum list_sort; -1: depends on the selection */
	bool desc, ids;
	const char *after;
	struct cursor begin, last;
	int64_t shown;
	bool more;
	int tables, failed;
	defib_err first_failure;
};

/* ---- as a table ---- */

static void print_table(struct job_listing *l, const struct watch *w, const struct browsed *rows,
                        int n)
{
	const struct viewer v = viewer_local(w, NULL);
	AUTO(table_release) struct table t = {0};
	struct buf out = BUF_INIT;
	if (n == 0)
		return;
	table_init(&t);
	record_columns(&browsed_record, &v, &t);
	for (int i = 0; i < n; i++)
		record_row(&browsed_record, &rows[i], &v, &t);
	if (l->tables++)
		buf_add(&out, "\n");
	table_print(&t, l->cli->color_out, &out);
	out_print(&out);
}

/* ---- as ids and as JSON lines ---- */

/* One line each, whatever the key contains: an unusual one is written as WATCH/["key"]. */
static void id_of(const struct watch *w, const char *job, struct buf *out)
{
	bool odd = job[0] == '[' || strpbrk(job, " \t") == job;
	for (const char *p = job; *p; p += utf8_len(p) ? utf8_len(p) : 1)
		odd = odd || utf8_is_control(p) || (p[0] == ' ' && !p[1]);
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
	AUTO_BUF id = BUF_INIT;
	for (int i = 0; i < n; i++) {
		buf_clear(&id);
		id_of(w, rows[i].job, &id);
		puts(buf_text(&id));
	}
}

static void remember(struct job_listing *l, const struct watch *w, enum list_sort sort,
                     const struct browsed *row)
{
	l->last = (struct cursor){
		.watch = w->name, .sort = sort, .desc = l->desc, .nkeys = w->key.n, .at = row->at};
}

static void list_print_json(struct job_listing *l, const struct selected *g, enum list_sort sort,
                            const struct browsed *rows, int n)
{
	const struct viewer v = viewer_local(g->watch, g->database->name);
	AUTO_BUF out = BUF_INIT, cursor = BUF_INIT;
	for (int i = 0; i < n; i++) {
		buf_clear(&out);
		buf_clear(&cursor);
		remember(l, g->watch, sort, &rows[i]);
		cursor_text(&l->last, &cursor);
		record_json(&job_record, &(struct listed_job){&rows[i], buf_text(&cursor), NULL}, &v, &out);
		puts(buf_text(&out));
	}
}

/* ---- the whole ---- */

/* Whether recovery is paused; nothing if that cannot be read. */
static void add_pause(struct store *s, const struct watch *w, struct buf *out)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure ignored = {0};
	struct override *all = NULL;
	bool there = false;
	int n = 0;
	if (!daemon_table_open(s, "setting", false, &there, &ignored) && there &&
	    !override_read(s, &a, &all, &n, &ignored))
		pause_text(all, n, w->name, out);
}

static void list_print_page(struct job_listing *l, const struct selected *g, struct store *s,
                            enum list_sort sort, const struct browsed *rows, int n)
{
	if (l->cli->json)
		list_print_json(l, g, sort, rows, n);
	else if (l->ids)
		print_ids(g->watch, rows, n);
	else
		print_table(l, g->watch, rows, n);
	if (n > 0 && !l->cli->json && !l->ids) {
		struct buf out = BUF_INIT;
		add_pause(s, g->watch, &out);
		out_print(&out);
	}
	if (n > 0)
		remember(l, g->watch, sort, &rows[n - 1]);
	l->shown += n;
}

static int list_group(struct job_listing *l, const struct selected *g, bool begins)
{
	struct cli *c = l->cli;
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	struct failure f = {0};
	struct browsed *rows = NULL;
	int n = 0;
	struct progress bar = progress_begin(c, g->watch->name, "read", 0);
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
		.on_count = progress_on_count(&bar),
	};
	if (begins &&
	    (l->begin.sort != sort || l->begin.desc != l->desc || l->begin.nkeys != g->watch->key.n))
		return cli_usage("--after: this cursor belongs to a list in another order");
	defib_err err = selected_bind(c, g, b, &f);
	if (!err)
		err = browse_jobs(&(struct look){b->store, &b->sql, &b->ledger, &c->arena}, &ask, &rows, &n,
		                  &l->more, &f);
	progress_clear(&bar);
	if (!err && n > 0 && rows[0].at.by_key)
		fprintf(stderr, "defib: %s is sorted by key: sorting it by %s takes too long\n",
		        g->watch->name, list_sort_names[sort]);
	if (!err) {
		list_print_page(l, g, b->store, sort, rows, n);
		return EXIT_CLEAN;
	}
	l->failed++;
	return cli_key_fail(c, g->watch, &f);
}

/* Watch by watch until the page is full; one that fails does not affect the others. */
static int list_groups(struct job_listing *l)
{
	const struct selection *s = &l->selection;
	int first = 0, code = EXIT_CLEAN;
	while (l->after && first < s->n && !text_eq(s->groups[first].watch->name, l->begin.watch))
		first++;
	if (l->after && first == s->n)
		return cli_usage("--after: this list does not contain watch %s", l->begin.watch);
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

static void last_line(struct job_listing *l)
{
	AUTO_BUF cursor = BUF_INIT;
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
}

static int read_order(struct job_listing *l)
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

/* --status NAME is the term state=NAME. */
static void status_as_term(struct cli *c)
{
	for (int i = 0; i < c->ngiven; i++)
		if (text_eq(c->given[i].name, "status")) {
			c->given[i].name = "where";
			c->given[i].value = arena_printf(&c->arena, "state=%s", c->given[i].value);
		}
}

static int cmd_list(struct cli *c)
{
	struct job_listing l = {.cli = c};
	struct select_rules rules = {.limit = LIST_LIMIT};
	int code = read_order(&l);
	status_as_term(c);
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

COMMAND(list, cmd_list, "[JOB…]", "list jobs: stuck, held, by state, age or text",
        .options = list_options, .watch_options = true,
        .examples = {{"defib list --where stuck", "in all watches, the oldest first"},
                     {"defib list --watch pages --where 'age>10m' --where verdict=silent",
                      "terms that must all hold"},
                     {"defib list --watch pages --where stuck --ids | defib requeue - --yes",
                      "pass the jobs found to a command that acts on them"}});

static const struct cli_option show_options[] = {
	{"watch", "WATCH", "jobs of this watch; the built-in queue is \"queue\""},
	{"logs", NULL, "with the evidence of each entry, and the row before and after it"},
	{"state", NULL, "with the whole row, and the outputs of recorded steps"},
	{"raw", NULL, "all of it as one JSON document"},
	{NULL, NULL, NULL},
};

struct shown {
	struct cli *cli;
	struct story_sheet sheet;
};

static void list_print_text(struct shown *x, struct store *s)
{
	struct buf out = BUF_INIT;
	x->sheet.color = x->cli->color_out;
	x->sheet.logs = cli_flag(x->cli, "logs");
	x->sheet.whole_row = cli_flag(x->cli, "state");
	story_text(&x->sheet, &out);
	add_pause(s, x->sheet.watch, &out);
	out_print(&out);
}

static void print_story_json(const struct story_sheet *x, const struct database *d)
{
	const struct viewer v = viewer_local(x->watch, d->name);
	AUTO_BUF out = BUF_INIT;
	record_json(&story_record, x, &v, &out);
	puts(buf_text(&out));
}

static int list_show(struct shown *x, const struct selected *g)
{
	struct cli *c = x->cli;
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	struct failure f = {0};
	bool found = false;
	defib_err err = selected_bind(c, g, b, &f);
	if (!err)
		err = story_read(b->store, &b->sql, &b->ledger, &c->settings.workflows, g->jobs[0],
		                 &c->arena, &x->sheet.story, &found, &f);
	if (err)
		return cli_key_fail(c, g->watch, &f);
	if (!found)
		return cli_usage("there is no job %s/%s: table %s of database %s has no such row; "
		                 "see defib list --watch %s",
		                 g->watch->name, g->jobs[0], g->watch->table, g->database->name,
		                 g->watch->name);
	x->sheet.watch = g->watch;
	x->sheet.explain = true;
	story_explain(&x->sheet, b->ledger.ready || c->settings.ledger != LEDGER_OFF);
	explain_guard(b->store, g->database, g->watch, &c->arena, &x->sheet.is);
	if (c->json || cli_flag(c, "raw"))
		print_story_json(&x->sheet, g->database);
	else
		list_print_text(x, b->store);
	return EXIT_CLEAN;
}

static int cmd_show(struct cli *c)
{
	struct shown x = {.cli = c, .sheet = {.arena = &c->arena}};
	AUTO(selection_release) struct selection selection = {0};
	if (c->nwords != 1)
		return cli_usage("defib show takes one job: WATCH/KEY");
	int code = select_read(c, &(struct select_rules){0}, &selection);
	if (code != EXIT_CLEAN)
		return code;
	if (selection.total != 1)
		code = cli_usage("defib show takes one job: WATCH/KEY");
	else
		code = list_show(&x, &selection.groups[0]);
	return code;
}

COMMAND(show, cmd_show, "JOB", "explain one job: is it stuck, why, what is next, what happened",
        .options = show_options, .watch_options = true,
        .examples = {
			{"defib show pages/4711", "why it is stuck, what would be done, and what was done"},
			{"defib show pages/4711 --logs", "with the evidence, and the row before and after"},
			{"defib show queue/42 --raw | jq .job", "one JSON document, for a program"}});

/* ---- defib explain ---- */

static const struct cli_option explain_options[] = {
	{"watch", "WATCH", "jobs of this watch; the built-in queue is \"queue\""},
	{NULL, NULL, NULL},
};

/* One job of a watch, and its state. */
struct explaining {
	struct cli *cli;
	const struct selected *group;
	struct selected_sql bound;
	struct explained is;
};

static int explain(struct explaining *x)
{
	struct cli *c = x->cli;
	const struct selected_sql *b = &x->bound;
	struct failure f = {0};
	bool found = false;
	defib_err err = selected_bind(c, x->group, &x->bound, &f);
	if (!err)
		err =
			explain_read(&(struct look){b->store, &b->sql, &b->ledger, &c->arena}, x->group->watch,
		                 x->group->jobs[0], c->settings.ledger != LEDGER_OFF, &x->is, &found, &f);
	if (err)
		return cli_key_fail(c, x->group->watch, &f);
	if (!found)
		return cli_usage("table %s has no row with that key; see defib list --watch %s",
		                 x->group->watch->table, x->group->watch->name);
	explain_guard(b->store, x->group->database, x->group->watch, &c->arena, &x->is);
	struct viewer v = viewer_local(x->group->watch, x->group->database->name);
	struct buf out = BUF_INIT;
	if (c->json)
		record_json(&explained_record, &x->is, &v, &out);
	else
		explained_text(x->group->watch, x->group->database, &x->is, &c->arena, c->color_out, &out);
	buf_add(&out, c->json ? "\n" : "");
	out_print(&out);
	return x->is.cand.judgement.verdict == VERDICT_NONE ? EXIT_CLEAN : EXIT_STUCK;
}

/* WATCH KEY…: the words are a watch and the parts of a key. */
static void take_parts(struct cli *c)
{
	c->given[c->ngiven++] = (struct cli_given){"watch", c->words[0]};
	c->words[0] = job_text(c->words + 1, c->nwords - 1, &c->arena);
	c->nwords = 1;
}

static int cmd_explain(struct cli *c)
{
	struct explaining x = {.cli = c};
	AUTO(selection_release) struct selection selection = {0};
	int parts = c->nwords - 1;
	if (parts > 0 && c->ngiven < CLI_GIVEN_MAX)
		take_parts(c);
	int code = select_read(c, &(struct select_rules){0}, &selection);
	if (code != EXIT_CLEAN)
		return code;
	if (parts < 0 || (parts == 0 && settings_watch(&c->settings, c->words[0])))
		code = cli_usage("defib explain takes a watch and the key of a job, or WATCH/KEY");
	else if (selection.total != 1)
		code = cli_usage("defib explain takes one job");
	else if (parts > 1 && parts != selection.groups[0].watch->key.n)
		code = cli_usage("the key of watch %s has %d parts", selection.groups[0].watch->name,
		                 selection.groups[0].watch->key.n);
	x.group = selection.groups;
	if (code == EXIT_CLEAN)
		code = explain(&x);
	return code;
}

COMMAND(explain, cmd_explain, "WATCH KEY…", "show the facts, the verdict and the remedy of one job",
        .options = explain_options, .watch_options = true,
        .examples = {
			{"defib explain pages 4711", "its facts, the verdict with its rule, the remedy"},
			{"defib explain pages 4711 --json", "the same, as JSON"}});

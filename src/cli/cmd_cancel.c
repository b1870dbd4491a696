/* SPDX-License-Identifier: Apache-2.0
 * cmd_cancel.c: `defib cancel`: a waiting job is cancelled, a running one is asked to stop and its
 * worker notified.
 *
 * Plain numbers are jobs of the built-in queue, and need no confirmation. For jobs of a watch, its
 * `cancel` list is written.
 */
#include "cli/select.h"

#include "base/text.h"
#include "recover/carry.h"
#include "watch/settings.h"
#include "worker/queue.h"

static const struct cli_option cancel_options[] = {
	SELECTOR_OPTIONS, SELECTOR_ALL, ACT_OPTIONS, ACT_OVERRIDE, ACT_BACKGROUND, {NULL, NULL, NULL},
};

struct canceller {
	struct cli *cli;
	struct session session;
	struct bound bound;
	struct carrier name; /* of the batch, in the ledger */
};

/* The outcome of one job, as a line; its state is what was written. */
static bool print_outcome(const struct candidate *c)
{
	if (c->outcome == OUTCOME_RECOVERED)
		printf("%s %s\n", c->facts.job,
		       strstr(c->after, "\"cancelling\"") ? "cancelling" : "cancelled");
	else
		fprintf(stderr, "defib: job %s does not exist, has ended, or is being rolled back\n",
		        c->facts.job);
	return c->outcome == OUTCOME_RECOVERED;
}

static int cancel_jobs(struct canceller *x, const char *const *jobs, int n)
{
	const struct queue_cancel q = {.session = &x->session,
	                               .bound = &x->bound,
	                               .actor = x->name.actor,
	                               .reason = cli_value(x->cli, "reason"),
	                               .batch = x->name.name};
	int done = 0;
	for (int i = 0; i < n; i++) {
		struct failure f = {0};
		struct candidate one;
		int64_t id;
		if (!int_parse(jobs[i], &id))
			return cli_usage("\"%s\" is not a job number", jobs[i]);
		if (queue_cancel(&q, jobs[i], &x->cli->arena, &one, &f))
			return cli_queue_fail(&f);
		done += print_outcome(&one);
	}
	if (done == n)
		return EXIT_CLEAN;
	return done ? EXIT_PARTLY : EXIT_REFUSED;
}

/* The watch is our own and correct: the tables are missing. */
static int no_queue(const struct failure *f)
{
	struct failure missing = {0};
	fail(&missing, f->code == DEFIB_CONFIG ? DEFIB_BAD_SQL : f->code, "%s", f->what);
	return cli_queue_fail(&missing);
}

/* As the service does it: with an entry in the ledger, in the same transaction. */
static int cancel_in_queue(struct cli *c, const struct database *d, const char *const *jobs, int n)
{
	struct canceller x = {.cli = c};
	struct failure f = {0};
	const struct watch *queue = builtin_watch(d->engine, &c->arena);
	enum bound_ledger ledger = c->settings.ledger == LEDGER_OFF ? LEDGER_NONE : LEDGER_CREATE;
	int code = EXIT_CLEAN;
	x.session = cli_session(d, queue, false);
	carrier_begin(&x.name, cli_actor(c));
	if (bound_open(&x.bound, &x.session, queue, ledger, &f)) {
		code = no_queue(&f);
	} else {
		code = cancel_jobs(&x, jobs, n);
		wake_send(x.session.store, d->url);
	}
	bound_release(&x.bound);
	session_close(&x.session);
	return code;
}

/* A number; any single word if there is no watch that it could be a key of. */
static bool may_be_of_queue(const struct cli *c, const char *word)
{
	int64_t id;
	if (c->settings.nwatches == 0)
		return !strchr(word, '/') && !text_eq(word, "-");
	return int_parse(word, &id);
}

/* Whether the words can only mean jobs of the queue. */
static bool means_queue(const struct cli *c)
{
	const struct settings *s = &c->settings;
	bool only_watch = s->nwatches == 1 && s->watches[0].actions[ACT_CANCEL].form != ACTION_NONE;
	bool all = !only_watch && c->nwords > 0;
	if (cli_value(c, "watch") || cli_value(c, "where"))
		return false;
	for (int i = 0; i < c->nwords; i++)
		all = all && may_be_of_queue(c, c->words[i]);
	return all;
}

/* The queue has its own cancel, which handles waiting jobs and notifies workers. */
static int cancel_group(struct cli *c, const struct selected *g)
{
	AUTO_BUF question = BUF_INIT;
	act_question(&question, "cancel", g->njobs, g->watch, g->database);
	int code = cli_confirm(c, buf_text(&question), act_reads_stdin(c));
	if (code != EXIT_CLEAN)
		return code;
	if (!cli_flag(c, "dry-run"))
		return cancel_in_queue(c, g->database, (const char *const *)g->jobs, g->njobs);
	for (int i = 0; i < g->njobs; i++)
		printf("%s would be cancelled\n", g->jobs[i]);
	return EXIT_CLEAN;
}

static int cancel_selected(struct cli *c, struct selection *s)
{
	int code = EXIT_CLEAN, others = 0;
	for (int i = 0; i < s->n && code == EXIT_CLEAN; i++) {
		if (!text_eq(s->groups[i].watch->name, BUILTIN_NAME)) {
			s->groups[others++] = s->groups[i];
			continue;
		}
		s->total -= s->groups[i].njobs;
		code = cancel_group(c, &s->groups[i]);
	}
	s->n = others;
	if (others == 0 || code != EXIT_CLEAN)
		return code;
	return act_selected(c, act_kind_named("cancel"), s);
}

static int cmd_cancel(struct cli *c)
{
	const struct select_rules rules = {.changes = true};
	AUTO(selection_release) struct selection s = {0};
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->nwords == 0 && !cli_value(c, "where") && !cli_flag(c, "all"))
		return cli_usage("name the jobs: their numbers, WATCH/KEY, or --where TERM");
	if (cli_flag(c, "background"))
		return act_in_background(c, act_kind_named("cancel"));
	if (means_queue(c))
		return cancel_in_queue(c, &c->settings.databases[0], c->words, c->nwords);
	code = select_jobs(c, &rules, &s);
	if (code == EXIT_CLEAN)
		code = cancel_selected(c, &s);
	return code;
}

COMMAND(cancel, cmd_cancel, "JOB…", "cancel waiting jobs, ask running ones to stop",
        .options = cancel_options,
        .examples = {{"defib cancel queue/44 --yes", "one job"},
                     {"defib cancel --watch queue --where kind=render --where state=queued --yes",
                      "all of a kind that nobody has begun"}});

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

/* The watch is our own and correct: the tables are missing. */
static void no_queue(struct failure *f)
{
	struct failure missing = {0};
	fail(&missing, f->code == DEFIB_CONFIG ? DEFIB_BAD_SQL : f->code, "%s", f->what);
	cli_queue_hint(&missing);
	*f = missing;
}

void cancel_in_queue(struct cli *c, const struct selected *g, const struct by_hand_options *o,
                     struct by_hand_result *result)
{
	struct bound bound = {0};
	struct carrier name;
	enum bound_ledger ledger = c->settings.ledger == LEDGER_OFF ? LEDGER_NONE : LEDGER_CREATE;
	struct failure *f = &result->failure;
	carrier_begin(&name, o->actor);
	const struct queue_cancel q = {.session = g->session,
	                               .bound = &bound,
	                               .actor = o->actor,
	                               .reason = o->reason,
	                               .batch = name.name,
	                               .dry_run = o->dry_run};
	defib_err err = bound_open(&bound, g->session, g->watch, o->dry_run ? LEDGER_NONE : ledger, f);
	if (err)
		no_queue(f);
	for (int i = 0; i < g->njobs && !err; i++) {
		AUTO_ARENA a = ARENA_INIT;
		struct candidate one;
		err = queue_cancel(&q, g->jobs[i], &a, &one, f);
		if (!err) {
			result->outcomes[one.outcome]++;
			o->job(o->ctx, g->watch, &one);
			if (one.outcome != OUTCOME_RECOVERED)
				fprintf(stderr,
				        "defib: job %s does not exist, has ended, or is being rolled back\n",
				        one.facts.job);
		}
	}
	result->ledger = bound.ledger.ready;
	if (result->ledger && result->outcomes[OUTCOME_RECOVERED])
		snprintf(result->batch, sizeof result->batch, "%s", name.name);
	if (result->outcomes[OUTCOME_RECOVERED])
		wake_send(g->session->store, g->database->url);
	bound_release(&bound);
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

/* Jobs that were named by their numbers alone: nothing is looked up, and nobody is asked. */
static int cancel_numbers(struct cli *c, const struct act_kind *kind)
{
	const struct database *d = &c->settings.databases[0];
	const struct watch *queue = builtin_watch(d->engine, &c->arena);
	AUTO_SESSION session = cli_session(d, queue, false);
	struct selected group = {.watch = queue,
	                         .database = d,
	                         .session = &session,
	                         .named = true,
	                         .jobs = c->words,
	                         .njobs = c->nwords};
	const struct selection s = {.groups = &group, .n = 1, .total = c->nwords};
	int64_t id;
	for (int i = 0; i < c->nwords; i++)
		if (!int_parse(c->words[i], &id))
			return cli_usage("\"%s\" is not a job number", c->words[i]);
	return act_carry_out(c, kind, &s);
}

static int cmd_cancel(struct cli *c)
{
	const struct act_kind *kind = act_kind_named("cancel");
	const struct select_rules rules = {.changes = true};
	AUTO(selection_release) struct selection s = {0};
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->nwords == 0 && !cli_value(c, "where") && !cli_flag(c, "all"))
		return cli_usage("name the jobs: their numbers, WATCH/KEY, or --where TERM");
	if (cli_flag(c, "background"))
		return act_in_background(c, kind);
	if (means_queue(c))
		return cancel_numbers(c, kind);
	code = select_jobs(c, &rules, &s);
	return code == EXIT_CLEAN ? act_selected(c, kind, &s) : code;
}

COMMAND(cancel, cmd_cancel, "JOB…", "cancel waiting jobs, ask running ones to stop",
        .options = cancel_options,
        .examples = {{"defib cancel queue/44 --yes", "one job"},
                     {"defib cancel --watch queue --where kind=render --where state=queued --yes",
                      "all waiting jobs of one kind"}});

/* SPDX-License-Identifier: Apache-2.0
 * options_work.c: the `work` part of a watch: how defib's workers use its table.
 */
#include "watch/options_values.h"

#define P(member) offsetof(struct pool, member)
static const struct opt_row pool_rows[] = {
	{.name = "kind", .type = OPT_TEXT, .offset = P(kind), .help = "the kind this pool works on"},
	{.name = "concurrency",
     .type = OPT_INT,
     .offset = P(concurrency),
     .standard = "1",
     .min = 1,
     .max = 10000,
     .help = "jobs at once in this pool"},
	{.name = NULL},
};
#undef P

struct pool_list {
	int n;
	struct pool *items;
};
_Static_assert(offsetof(struct work, pools) - offsetof(struct work, npools) ==
                   offsetof(struct pool_list, items) - offsetof(struct pool_list, n),
               "npools and pools are read as a struct pool_list");

static void read_pools(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct pool_list *list = target;
	*list = (struct pool_list){0};
	if (!node)
		return;
	if (node->kind != CFG_LIST) {
		cfg_problem(r, node->at, "expects a list of pools such as {kind: crawl, concurrency: 6}");
		return;
	}
	list->items = ARENA_ARRAY(r->arena, struct pool, node->n);
	for (int i = 0; i < node->n; i++)
		cfg_read(r, pool_rows, node->items[i], &list->items[list->n++]);
}

struct burst_options {
	int64_t limit, window_us;
};
_Static_assert(offsetof(struct work, burst_window_us) - offsetof(struct work, burst_limit) ==
                   offsetof(struct burst_options, window_us),
               "burst is read as a struct burst_options");
static const struct opt_row burst_rows[] = {
	{.name = "limit",
     .type = OPT_INT,
     .offset = offsetof(struct burst_options, limit),
     .help = "jobs a worker takes at most within the window after its start; 0: no limit"},
	{.name = "window",
     .type = OPT_DURATION,
     .offset = offsetof(struct burst_options, window_us),
     .standard = "60s",
     .help = "the window"},
	{.name = NULL},
};

#define W(member) offsetof(struct work, member)
const struct opt_row work_rows[] = {
	{.name = "enabled",
     .type = OPT_BOOL,
     .offset = W(enabled),
     .standard = "true",
     .help = "whether defib's workers take jobs from this table"},
	{.name = "ready",
     .type = OPT_SQL,
     .offset = W(ready),
     .required = true,
     .help = "which rows may be claimed"},
	{.name = "order", .type = OPT_SQL, .offset = W(order), .help = "the order of claiming"},
	{.name = "priority",
     .type = OPT_SQL,
     .offset = W(priority),
     .help = "a condition or number: rows where it is greater go first"},
	{.name = "claim", .type = OPT_SQL, .offset = W(claim), .help = "SET list of a claim"},
	{.name = "done", .type = OPT_SQL, .offset = W(done), .help = "SET list of a success"},
	{.name = "failed", .type = OPT_SQL, .offset = W(failed), .help = "SET list of an error"},
	{.name = "timed_out",
     .type = OPT_SQL,
     .offset = W(timed_out),
     .help = "SET list of a time-out"},
	{.name = "release",
     .type = OPT_SQL,
     .offset = W(release),
     .help = "SET list that hands an unfinished job back"},
	{.name = "workflow",
     .type = OPT_TEXT,
     .offset = W(workflow),
     .help = "run the steps of this workflow instead of a command"},
	{.name = "step",
     .type = OPT_SQL,
     .offset = W(step),
     .help = "SET list of a step that was done, when more follow; release if not given"},
	{.name = "rollback_ready",
     .type = OPT_SQL,
     .offset = W(rollback_ready),
     .help = "which rows to roll back, step by step"},
	{.name = "rolled_back",
     .type = OPT_SQL,
     .offset = W(rolled_back),
     .help = "SET list of a row whose steps were undone"},
	{.name = "beat",
     .type = OPT_CUSTOM,
     .offset = W(beat),
     .read = read_statements,
     .help = "statements at the claim and at every beat, over the relation work"},
	{.name = "after",
     .type = OPT_CUSTOM,
     .offset = W(after),
     .read = read_statements,
     .help = "statements when a row is settled or released, over the relation work"},
	{.name = "batch",
     .type = OPT_INT,
     .offset = W(batch),
     .standard = "0",
     .max = 10000,
     .help = "rows taken at most in a poll interval; 0: as many as there is room for"},
	{.name = "poll",
     .type = OPT_DURATION,
     .offset = W(poll_us),
     .standard = "1s",
     .help = "how often to look for work"},
	{.name = "startup_tick",
     .type = OPT_BOOL,
     .offset = W(startup_tick),
     .standard = "true",
     .help = "look for work at once at start"},
	{.name = "timeout",
     .type = OPT_DURATION,
     .offset = W(timeout_us),
     .help = "time limit of a job; none if not given"},
	{.name = "grace",
     .type = OPT_DURATION,
     .offset = W(grace_us),
     .standard = "30s",
     .help = "how long a job may continue after shutdown begins or its time limit ends"},
	{.name = "exclusive",
     .type = OPT_BOOL,
     .offset = W(exclusive),
     .standard = "false",
     .help = "kill the running program when the lease ends without contact to the database"},
	{.name = "command", .type = OPT_TEXT_LIST, .offset = W(command), .help = "the program to run"},
	{.name = "pass_environment",
     .type = OPT_CUSTOM,
     .offset = W(pass_environment),
     .read = read_pass_environment,
     .help = PASS_ENVIRONMENT_HELP},
	{.name = "spool",
     .type = OPT_TEXT,
     .offset = W(spool),
     .help = "where results wait while the database is away: a folder, or off; the state folder if "
             "not given"},
	{.name = "no_session_error",
     .type = OPT_TEXT,
     .offset = W(no_session_error),
     .standard = NO_SESSION_ERROR,
     .help = "the error of a job whose program got no session (exit code 69), three times"},
	{.name = "unrecorded_message",
     .type = OPT_TEXT,
     .offset = W(unrecorded_message),
     .standard = UNRECORDED_MESSAGE,
     .help = "start of the critical log line that names a job whose result could not be recorded"},
	{.name = "concurrency",
     .type = OPT_INT,
     .offset = W(concurrency),
     .standard = "1",
     .min = 1,
     .max = 10000,
     .help = "jobs at once"},
	{.name = "pools",
     .type = OPT_CUSTOM,
     .offset = W(npools),
     .read = read_pools,
     .help = "instead of concurrency: pools by kind"},
	{.name = "stagger",
     .type = OPT_DURATION,
     .offset = W(stagger_us),
     .standard = "0s",
     .help = "pause between the start of one worker and the next"},
	{.name = "burst",
     .type = OPT_MAP,
     .offset = W(burst_limit),
     .rows = burst_rows,
     .help = "limit on what a worker takes just after its start"},
	{.name = NULL},
};
#undef W

void read_work(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct work *w = target;
	*w = (struct work){0};
	if (!node)
		return;
	cfg_read(r, work_rows, node, w);
	w->given = true;
}

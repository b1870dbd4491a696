/* SPDX-License-Identifier: Apache-2.0 */
/* retention.c: the option table of `retention:`. */
#include "watch/retention.h"

#include "base/clock.h"

#define LEAST_US                                                                                   \
	(60 * 60 * US_PER_S) /* a settlement whose answer was lost is repeated within this */

#define R(member) offsetof(struct retention, member)
const struct opt_row retention_rows[] = {
	{.name = "enabled",
     .type = OPT_BOOL,
     .offset = R(enabled),
     .standard = "true",
     .help = "false: daemons and workers remove nothing by themselves; defib prune still does"},
	{.name = "every",
     .type = OPT_DURATION,
     .offset = R(every_us),
     .standard = "1m",
     .help = "how often to look for old rows"},
	{.name = "done",
     .type = OPT_DURATION,
     .offset = R(done_us),
     .standard = "7d",
     .help = "jobs of the built-in queue that are done, with payload, result, steps and progress; "
             "here and below 0s: for ever"},
	{.name = "failed",
     .type = OPT_DURATION,
     .offset = R(failed_us),
     .standard = "30d",
     .help = "jobs that failed, timed out, were cancelled or rolled back; held ones always stay"},
	{.name = "workers",
     .type = OPT_DURATION,
     .offset = R(workers_us),
     .standard = "30d",
     .help = "ended workers, and ended programs under defib run, that hold nothing any more"},
	{.name = "leases",
     .type = OPT_DURATION,
     .offset = R(leases_us),
     .standard = "90d",
     .help = "leases and steps of jobs in other tables that were not claimed since"},
	{.name = "tokens",
     .type = OPT_DURATION,
     .offset = R(tokens_us),
     .standard = "7d",
     .help = "tokens that keep spooled jobs from being enqueued twice"},
	{.name = "messages",
     .type = OPT_DURATION,
     .offset = R(messages_us),
     .standard = "30d",
     .help = "alerts and reports that were sent, refused or abandoned"},
	{.name = "learned",
     .type = OPT_DURATION,
     .offset = R(learned_us),
     .standard = "180d",
     .help = "run times of kinds that have not run since"},
	{.name = "ledger",
     .type = OPT_DURATION,
     .offset = R(ledger_us),
     .standard = "400d",
     .help = "ledger entries; at least as long as a crash budget counts"},
	{.name = NULL},
};
#undef R

static void at_least(struct cfg_reader *r, const char *name, int64_t value_us, int64_t least_us,
                     struct cfg_mark at, const char *why)
{
	struct buf least = BUF_INIT;
	duration_text(least_us, &least);
	if (value_us > 0 && value_us < least_us)
		cfg_problem(r, at, "retention: %s is at least %s: %s", name, buf_text(&least), why);
	buf_release(&least);
}

void retention_check(struct cfg_reader *r, const struct retention *p, int64_t budget_us,
                     struct cfg_mark at)
{
	static const char why[] = "a worker that lost an answer may still ask for it";
	at_least(r, "done", p->done_us, LEAST_US, at, why);
	at_least(r, "failed", p->failed_us, LEAST_US, at, why);
	at_least(r, "workers", p->workers_us, LEAST_US, at, why);
	at_least(r, "leases", p->leases_us, LEAST_US, at, why);
	at_least(r, "tokens", p->tokens_us, LEAST_US, at, "a spool may offer the same job again");
	at_least(r, "ledger", p->ledger_us, budget_us, at, "a crash budget counts that far back");
	at_least(r, "every", p->every_us ? p->every_us : 1, US_PER_S, at, "each look costs something");
}

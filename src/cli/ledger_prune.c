/* SPDX-License-Identifier: Apache-2.0
 * ledger_prune.c: `defib ledger prune --older-than 90d`: the only way in which
 * entries leave the ledger.
 *
 * It is removed in parts, each a short transaction, so that nobody who writes
 * to the ledger waits for long.
 */
#include "ledger/prune.h"

#include "base/clock.h"
#include "cli/cmd_ledger.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#define PART 5000
/* The first search reads all that is old; the deletions are short. */
#define STATEMENT_MS 60000

struct pruning {
	struct cli *cli;
	int64_t older_us;
	struct ledger_source *sources;
	struct prune_plan *plans;
	int64_t *removed;
};

/* What a crash budget still counts must stay. */
static int check_age(const struct cli *c, int64_t older_us)
{
	struct failure f = {0};
	for (int i = 0; i < c->settings.nwatches && !f.code; i++) {
		const struct watch *w = &c->settings.watches[i];
		struct buf within = BUF_INIT;
		duration_text(w->crash_budget.within_us, &within);
		if (w->crash_budget.max && older_us < w->crash_budget.within_us)
			fail(&f, DEFIB_REFUSED,
			     "watch %s counts recoveries of the last %s; younger entries must stay", w->name,
			     buf_text(&within));
		buf_release(&within);
	}
	return f.code ? cli_fail(&f) : EXIT_CLEAN;
}

static int plan_all(struct pruning *p, int64_t *total)
{
	for (int i = 0; i < p->cli->settings.ndatabases; i++) {
		struct ledger_source *s = &p->sources[i];
		struct failure f = {0};
		defib_err err = session_ready(&s->session, &f);
		if (!err)
			err = ledger_exists(s->session.store, &s->exists, &f);
		if (!err && s->exists)
			err = prune_plan(s->session.store, p->older_us, &p->cli->arena, &p->plans[i], &f);
		if (err)
			return cli_fail(&f);
		if (!s->exists)
			fprintf(stderr, "defib: there is no ledger in %s\n", s->database->name);
		*total += p->plans[i].count;
	}
	return EXIT_CLEAN;
}

static int confirm(const struct pruning *p, int64_t total)
{
	struct buf question = BUF_INIT;
	const struct settings *s = &p->cli->settings;
	if (total == 0)
		return EXIT_CLEAN;
	buf_add(&question, "remove ");
	out_count(&question, total);
	buf_addf(&question, " %s permanently from the ledger of %s", total == 1 ? "entry" : "entries",
	         s->ndatabases == 1 ? s->databases[0].name : "all databases");
	int code = cli_confirm(p->cli, buf_text(&question), false);
	buf_release(&question);
	return code;
}

static defib_err remove_all(struct pruning *p, int i, struct failure *f)
{
	struct store *s = p->sources[i].session.store;
	char batch[64];
	time_t now = (time_t)(clock_wall_us() / US_PER_S);
	struct tm tm;
	size_t n = strftime(batch, sizeof batch, "prune-%Y%m%d-%H%M%S", gmtime_r(&now, &tm));
	snprintf(batch + n, sizeof batch - n, "-%d", (int)getpid());
	struct ledger_context ctx = {"", batch, cli_actor(p->cli)};
	defib_err err = DEFIB_OK;
	bool over = p->plans[i].count == 0;
	while (!err && !over && p->removed[i] < p->plans[i].count)
		err = prune_part(s, &p->plans[i], &ctx, PART, &p->removed[i], &over, f);
	return err;
}

static void report(const struct pruning *p, int i, bool dry)
{
	const struct prune_plan *plan = &p->plans[i];
	const char *name = p->sources[i].database->name;
	struct buf out = BUF_INIT;
	if (p->cli->json) {
		buf_add(&out, "{\"database\":");
		buf_add_json(&out, name);
		buf_addf(&out, ",\"cutoff\":\"%s\",\"older\":%" PRId64 ",\"removed\":%" PRId64 "}",
		         plan->cutoff, plan->count, p->removed[i]);
	} else {
		buf_addf(&out, "%s: ", name);
		out_count(&out, dry ? plan->count : p->removed[i]);
		buf_addf(&out, " %s older than %s %s",
		         (dry ? plan->count : p->removed[i]) == 1 ? "entry" : "entries", plan->cutoff,
		         dry ? "would be removed" : "removed");
	}
	puts(buf_text(&out));
	buf_release(&out);
}

static int prune_all(struct pruning *p)
{
	bool dry = cli_flag(p->cli, "dry-run");
	int64_t total = 0, removed = 0;
	int code = plan_all(p, &total);
	if (code == EXIT_CLEAN)
		code = confirm(p, total);
	for (int i = 0; i < p->cli->settings.ndatabases && code == EXIT_CLEAN; i++) {
		struct failure f = {0};
		if (!p->sources[i].exists)
			continue;
		if (!dry && remove_all(p, i, &f))
			code = cli_fail(&f);
		removed += p->removed[i];
		report(p, i, dry);
	}
	return code != EXIT_CLEAN && removed ? EXIT_PARTLY : code;
}

int ledger_prune(struct cli *c)
{
	struct pruning p = {.cli = c, .older_us = -1};
	if (!cli_duration(c, "older-than", &p.older_us))
		return EXIT_USAGE;
	if (p.older_us < 0)
		return cli_usage("defib ledger prune needs --older-than, such as --older-than 90d");
	int code = cli_load(c);
	if (code == EXIT_CLEAN)
		code = check_age(c, p.older_us);
	if (code != EXIT_CLEAN)
		return code;
	int n = c->settings.ndatabases;
	p.sources = ARENA_ARRAY(&c->arena, struct ledger_source, n);
	p.plans = ARENA_ARRAY(&c->arena, struct prune_plan, n);
	p.removed = ARENA_ARRAY(&c->arena, int64_t, n);
	for (int i = 0; i < n; i++) {
		struct ledger_source *s = &p.sources[i];
		s->database = &c->settings.databases[i];
		s->session.open = store_open;
		s->session.options = cli_store_options(s->database, NULL, cli_flag(c, "dry-run"));
		s->session.options.statement_ms = STATEMENT_MS;
	}
	code = prune_all(&p);
	for (int i = 0; i < n; i++)
		session_close(&p.sources[i].session);
	return code;
}

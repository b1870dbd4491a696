/* SPDX-License-Identifier: Apache-2.0
 * cmd_prune.c: `defib db prune` removes everything that has ended and is older than `retention:`
 * from defib's own tables, at once. Daemons and workers do the same gradually. `defib ledger prune`
 * removes old entries of the ledger.
 */
#include "base/clock.h"
#include "cli/load.h"
#include "cli/progress.h"
#include "ledger/prune.h"
#include "ledger/retention.h"
#include "view/record.h"

#include <time.h>
#include <unistd.h>

#define TURN_MS 1000

static const struct cli_option prune_options[] = {
	{"dry-run", NULL, "only show what would be removed"},
	{"yes", NULL, "do not ask"},
	{NULL, NULL, NULL},
};

struct pruning {
	struct cli *cli;
	const struct database *database;
	struct store *store;
	int64_t counts[RETENTION_COUNT];
};

static int64_t total(const int64_t counts[RETENTION_COUNT])
{
	int64_t n = 0;
	for (int i = 0; i < RETENTION_COUNT; i++)
		n += counts[i];
	return n;
}

#define COUNTS(name)                                                                               \
	{                                                                                              \
		{"database", .words = field_database},                                                     \
			{name, FIELD_COUNTS, FIELD_AT(struct pruning, counts), .names = retention_names,       \
		     .n = RETENTION_COUNT},                                                                \
			{0},                                                                                   \
	}
static const struct field old_fields[] = COUNTS("old");
static const struct field removed_fields[] = COUNTS("removed");
static const struct record old_record = {.fields = old_fields};
static const struct record removed_record = {.fields = removed_fields};

static void prune_report(const struct pruning *p, bool dry)
{
	AUTO_BUF out = BUF_INIT;
	int printed = 0;
	if (p->cli->json) {
		const struct viewer v = viewer_local(NULL, p->database->name);
		record_json(dry ? &old_record : &removed_record, p, &v, &out);
	} else {
		buf_addf(&out, "%s: ", p->database->name);
		for (int i = 0; i < RETENTION_COUNT; i++) {
			if (!p->counts[i])
				continue;
			buf_add(&out, printed++ ? ", " : "");
			buf_add_count(&out, p->counts[i]);
			buf_addf(&out, " %s", retention_words[i]);
		}
		buf_add(&out, printed ? (dry ? " would be removed" : " removed") : "nothing is old enough");
	}
	puts(buf_text(&out));
}

static int prune_confirm(const struct pruning *p)
{
	AUTO_BUF question = BUF_INIT;
	buf_add(&question, "remove ");
	buf_add_count(&question, total(p->counts));
	buf_addf(&question, " rows permanently from defib's own tables in %s", p->database->name);
	return cli_confirm(p->cli, buf_text(&question), false);
}

static defib_err prune_remove_all(struct pruning *p, struct failure *f)
{
	struct retention_round round;
	struct progress bar = progress_begin(p->cli, p->database->name, "removed", total(p->counts));
	int64_t before = -1;
	defib_err err = DEFIB_OK;
	memset(p->counts, 0, sizeof p->counts);
	while (!err && total(p->counts) != before) {
		before = total(p->counts);
		err = retention_round(p->store, &p->cli->settings.retention, cli_actor(p->cli), true,
		                      TURN_MS, &round, f);
		for (int i = 0; i < RETENTION_COUNT; i++)
			p->counts[i] += round.removed[i];
		progress_at(&bar, total(p->counts));
		if (!err && !round.claimed) {
			fail(f, DEFIB_PERMISSION,
			     "%s: the tables of daemons do not exist, and this role may not create them",
			     p->database->name);
			fail_next(f, "run defib init as the owner of defib's own tables");
			err = DEFIB_PERMISSION;
		}
		/* Leases need another round: the first one stores their epochs. */
		if (before == -1)
			before = -2;
	}
	progress_clear(&bar);
	return err;
}

static int prune_one(struct cli *c, const struct database *d)
{
	struct pruning p = {.cli = c, .database = d};
	bool dry = cli_flag(c, "dry-run");
	struct failure f = {0};
	struct store_options o = cli_store_options(d, NULL, dry);
	int code = EXIT_CLEAN;
	defib_err err = store_open(&o, &p.store, &f);
	if (!err)
		err = retention_look(p.store, &c->settings.retention, p.counts, &f);
	if (!err && !dry && total(p.counts)) {
		code = prune_confirm(&p);
		if (code == EXIT_CLEAN)
			err = prune_remove_all(&p, &f);
	}
	if (!err && code == EXIT_CLEAN)
		prune_report(&p, dry);
	store_close(p.store);
	return err ? cli_queue_fail(&f) : code;
}

static int cmd_prune(struct cli *c)
{
	int worst = cli_load(c);
	for (int i = 0; worst == EXIT_CLEAN && i < c->settings.ndatabases; i++)
		worst = prune_one(c, &c->settings.databases[i]);
	return worst;
}

COMMAND(prune, cmd_prune, "", "remove old rows of defib's own tables, as retention: says",
        .options = prune_options,
        .examples = {{"defib db prune --dry-run", "how many rows would be removed"},
                     {"defib db prune --yes", "remove it now, in small steps"}});

/* ---- defib ledger prune ---- */

#define PART 5000
/* The first search reads all old entries; the deletions are short. */
#define STATEMENT_MS 60000

/* The ledger of one database. */
struct old_entries {
	const struct database *database;
	struct store *store;
	bool exists;
	struct prune_plan plan;
	int64_t removed;
};

/* What a crash budget still counts must be kept. */
static int check_age(const struct cli *c, int64_t older_us)
{
	struct failure f = {0};
	for (int i = 0; i < c->settings.nwatches && !f.code; i++) {
		const struct watch *w = &c->settings.watches[i];
		AUTO_BUF within = BUF_INIT;
		duration_text(w->crash_budget.within_us, &within);
		if (w->crash_budget.max && older_us < w->crash_budget.within_us)
			fail(&f, DEFIB_REFUSED,
			     "watch %s counts recoveries of the last %s; younger entries must stay", w->name,
			     buf_text(&within));
	}
	return f.code ? cli_fail(&f) : EXIT_CLEAN;
}

static defib_err find_entries(struct cli *c, int64_t older_us, struct old_entries *e,
                              struct failure *f)
{
	struct store_options o = cli_store_options(e->database, NULL, cli_flag(c, "dry-run"));
	o.statement_ms = STATEMENT_MS;
	defib_err err = store_open(&o, &e->store, f);
	if (!err)
		err = ledger_exists(e->store, &e->exists, f);
	if (!err && e->exists)
		err = prune_plan(e->store, older_us, &c->arena, &e->plan, f);
	if (!err && !e->exists)
		fprintf(stderr, "defib: there is no ledger in %s\n", e->database->name);
	return err;
}

static int confirm_entries(const struct cli *c, int64_t total)
{
	AUTO_BUF question = BUF_INIT;
	if (total == 0)
		return EXIT_CLEAN;
	buf_add(&question, "remove ");
	buf_add_count(&question, total);
	buf_addf(&question, " %s permanently from the ledger of %s", total == 1 ? "entry" : "entries",
	         c->settings.ndatabases == 1 ? c->settings.databases[0].name : "all databases");
	return cli_confirm(c, buf_text(&question), false);
}

static defib_err remove_entries(struct cli *c, struct old_entries *e, struct failure *f)
{
	char batch[64];
	time_t now = (time_t)(clock_wall_us() / US_PER_S);
	struct tm tm;
	size_t n = strftime(batch, sizeof batch, "prune-%Y%m%d-%H%M%S", gmtime_r(&now, &tm));
	snprintf(batch + n, sizeof batch - n, "-%d", (int)getpid());
	struct ledger_context ctx = {"", batch, cli_actor(c)};
	defib_err err = DEFIB_OK;
	struct progress bar = progress_begin(c, e->database->name, "removed", e->plan.count);
	bool over = e->plan.count == 0;
	while (!err && !over && e->removed < e->plan.count) {
		err = prune_part(e->store, &e->plan, &ctx, PART, &e->removed, &over, f);
		progress_at(&bar, e->removed);
	}
	progress_clear(&bar);
	return err;
}

static const struct field entries_fields[] = {
	{"database", .words = field_database},
	{"cutoff", FIELD_AT(struct old_entries, plan.cutoff), .null = true},
	{"older", FIELD_NUMBER, FIELD_AT(struct old_entries, plan.count)},
	{"removed", FIELD_NUMBER, FIELD_AT(struct old_entries, removed)},
	{0},
};
static const struct record entries_record = {.fields = entries_fields};

static void report_entries(const struct cli *c, const struct old_entries *e)
{
	bool dry = cli_flag(c, "dry-run");
	int64_t n = dry ? e->plan.count : e->removed;
	struct buf out = BUF_INIT;
	if (c->json) {
		const struct viewer v = viewer_local(NULL, e->database->name);
		record_json(&entries_record, e, &v, &out);
		buf_add(&out, "\n");
	} else {
		buf_addf(&out, "%s: ", e->database->name);
		buf_add_count(&out, n);
		buf_addf(&out, " %s older than %s %s\n", n == 1 ? "entry" : "entries", e->plan.cutoff,
		         dry ? "would be removed" : "removed");
	}
	out_print(&out);
}

static int prune_entries(struct cli *c, int64_t older_us, struct old_entries *all, int n)
{
	int64_t total = 0, removed = 0;
	struct failure f = {0};
	for (int i = 0; i < n; i++) {
		all[i].database = &c->settings.databases[i];
		if (find_entries(c, older_us, &all[i], &f))
			return cli_fail(&f);
		total += all[i].plan.count;
	}
	int code = confirm_entries(c, total);
	for (int i = 0; i < n && code == EXIT_CLEAN; i++) {
		if (!all[i].exists)
			continue;
		if (!cli_flag(c, "dry-run") && remove_entries(c, &all[i], &f))
			code = cli_fail(&f);
		removed += all[i].removed;
		report_entries(c, &all[i]);
	}
	return code != EXIT_CLEAN && removed ? EXIT_PARTLY : code;
}

int ledger_prune(struct cli *c)
{
	int64_t older_us = -1;
	if (!cli_duration(c, "older-than", &older_us))
		return EXIT_USAGE;
	if (older_us < 0)
		return cli_usage("defib ledger prune needs --older-than, such as --older-than 90d");
	int code = cli_load(c);
	if (code == EXIT_CLEAN)
		code = check_age(c, older_us);
	if (code != EXIT_CLEAN)
		return code;
	int n = c->settings.ndatabases;
	struct old_entries *all = ARENA_ARRAY(&c->arena, struct old_entries, n);
	code = prune_entries(c, older_us, all, n);
	for (int i = 0; i < n; i++)
		store_close(all[i].store);
	return code;
}

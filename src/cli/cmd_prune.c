/* SPDX-License-Identifier: Apache-2.0
 * cmd_prune.c: `defib prune`: what is over and older than `retention:` says leaves defib's
 * own tables, now and to the end. Daemons and workers do the same by themselves, little by little.
 */
#include "cli/cli.h"

#include "ledger/retention.h"

#include <inttypes.h>

#define TURN_MS 1000

const struct cli_option prune_options[] = {
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

static void report(const struct pruning *p, bool dry)
{
	struct buf out = BUF_INIT;
	int printed = 0;
	if (p->cli->json) {
		buf_add(&out, "{\"database\":");
		buf_add_json(&out, p->database->name);
		buf_addf(&out, ",\"%s\":{", dry ? "old" : "removed");
		for (int i = 0; i < RETENTION_COUNT; i++)
			buf_addf(&out, "%s\"%s\":%" PRId64, i ? "," : "", retention_names[i], p->counts[i]);
		buf_add(&out, "}}");
	} else {
		buf_addf(&out, "%s: ", p->database->name);
		for (int i = 0; i < RETENTION_COUNT; i++) {
			if (!p->counts[i])
				continue;
			buf_add(&out, printed++ ? ", " : "");
			out_count(&out, p->counts[i]);
			buf_addf(&out, " %s", retention_words[i]);
		}
		buf_add(&out, printed ? (dry ? " would be removed" : " removed") : "nothing is old enough");
	}
	puts(buf_text(&out));
	buf_release(&out);
}

static int confirm(const struct pruning *p)
{
	struct buf question = BUF_INIT;
	buf_add(&question, "remove ");
	out_count(&question, total(p->counts));
	buf_addf(&question, " rows permanently from defib's own tables in %s", p->database->name);
	int code = cli_confirm(p->cli, buf_text(&question), false);
	buf_release(&question);
	return code;
}

static defib_err remove_all(struct pruning *p, struct failure *f)
{
	struct retention_round round;
	int64_t before = -1;
	defib_err err = DEFIB_OK;
	memset(p->counts, 0, sizeof p->counts);
	while (!err && total(p->counts) != before) {
		before = total(p->counts);
		err = retention_round(p->store, &p->cli->settings.retention, cli_actor(p->cli), true,
		                      TURN_MS, &round, f);
		for (int i = 0; i < RETENTION_COUNT; i++)
			p->counts[i] += round.removed[i];
		if (!err && !round.claimed) {
			fail(f, DEFIB_PERMISSION, "%s: the tables are of an older version", p->database->name);
			fail_next(f, "run defib init as their owner");
			err = DEFIB_PERMISSION;
		}
		/* Leases need one round more: the first notes their epochs. */
		if (before == -1)
			before = -2;
	}
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
		code = confirm(&p);
		if (code == EXIT_CLEAN)
			err = remove_all(&p, &f);
	}
	if (!err && code == EXIT_CLEAN)
		report(&p, dry);
	store_close(p.store);
	return err ? cli_queue_fail(&f) : code;
}

int cmd_prune(struct cli *c)
{
	int worst = cli_load(c);
	for (int i = 0; worst == EXIT_CLEAN && i < c->settings.ndatabases; i++)
		worst = prune_one(c, &c->settings.databases[i]);
	return worst;
}

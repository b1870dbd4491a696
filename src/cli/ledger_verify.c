/*
 * ledger_verify.c: `defib ledger verify`: whether the ledger is as it was written.
 *
 * Every entry is read and hashed here; the database's own word is not taken.
 */
#include "cli/cmd_ledger.h"
#include "ledger/seal.h"

#include <inttypes.h>

#define STATEMENT_MS 60000

static void say_json(const struct database *d, const struct seal_report *r)
{
	struct buf out = BUF_INIT;
	buf_add(&out, "{\"database\":");
	buf_add_json(&out, d->name);
	buf_addf(&out, ",\"sealed\":%s,\"whole\":%s", r->sealed ? "true" : "false",
	         r->sealed && !r->broken ? "true" : "false");
	buf_addf(&out,
	         ",\"entries\":%" PRId64 ",\"seals\":%" PRId64 ",\"unsealed\":%" PRId64
	         ",\"last_id\":%" PRId64 ",\"seal\":\"%s\",\"broken\":",
	         r->entries, r->seals, r->unsealed, r->last_id, r->seal);
	if (r->broken)
		buf_add_json(&out, r->broken);
	else
		buf_add(&out, "null");
	buf_add(&out, "}");
	puts(buf_text(&out));
	buf_release(&out);
}

static void say_text(const struct database *d, const struct seal_report *r)
{
	struct buf out = BUF_INIT;
	buf_addf(&out, "%s: ", d->name);
	if (!r->sealed) {
		buf_add(&out, "its entries have no seals; defib init, as the owner, begins them");
	} else if (r->broken) {
		buf_addf(&out, "BROKEN at entry %" PRId64 ": %s", r->broken_at, r->broken);
	} else {
		out_count(&out, r->entries);
		buf_addf(&out, " %s whole", r->entries == 1 ? "entry is" : "entries are");
		if (r->last_id)
			buf_addf(&out, ", %" PRId64 " to %" PRId64, r->first_id, r->last_id);
		if (r->unsealed)
			buf_addf(&out, "; %" PRId64 " older ones were written before there were seals",
			         r->unsealed);
		buf_addf(&out, "\n  seal: %s", r->seal);
	}
	puts(buf_text(&out));
	buf_release(&out);
}

static int verify_one(struct cli *c, const struct database *d, struct seal_report *r)
{
	struct failure f = {0};
	struct session session = {.open = store_open, .options = cli_store_options(d, NULL, true)};
	bool exists = false;
	session.options.statement_ms = STATEMENT_MS;
	defib_err err = session_ready(&session, &f);
	if (!err)
		err = ledger_exists(session.store, &exists, &f);
	if (!err && exists)
		err = seal_verify(session.store, cli_value(c, "expect"), &c->arena, r, &f);
	session_close(&session);
	if (err)
		return cli_fail(&f);
	if (!exists) {
		fprintf(stderr, "defib: there is no ledger in %s\n", d->name);
		return EXIT_CLEAN;
	}
	if (c->json)
		say_json(d, r);
	else
		say_text(d, r);
	return r->sealed && !r->broken ? EXIT_CLEAN : EXIT_REFUSED;
}

int ledger_verify(struct cli *c)
{
	int worst = cli_load(c);
	if (worst != EXIT_CLEAN)
		return worst;
	if (cli_value(c, "expect") && c->settings.ndatabases > 1)
		return cli_usage("--expect is a seal of one ledger: name its database with --db");
	for (int i = 0; i < c->settings.ndatabases; i++) {
		struct seal_report r = {0};
		int code = verify_one(c, &c->settings.databases[i], &r);
		worst = code > worst ? code : worst;
	}
	return worst;
}

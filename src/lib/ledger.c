/* SPDX-License-Identifier: Apache-2.0
 * ledger.c: the call of defib.h that reads the ledger.
 */
#include "ledger/ledger.h"

#include "lib/lib.h"

static void tell_entry(const struct ledger_row *row,
                       void (*entry)(void *ctx, const defib_ledger_entry *entry), void *ctx)
{
	defib_ledger_entry one = {
		.size = sizeof one,
		.id = row->id,
		.at = row->at,
		.batch = row->batch,
		.watch = row->watch,
		.job = row->job,
		.event = row->event,
		.actor = row->actor,
		.verdict = row->verdict,
		.rule = row->rule,
		.reason = row->reason,
		.evidence = row->evidence,
		.before = row->before,
		.after = row->after,
	};
	entry(ctx, &one);
}

static defib_err read_entries(struct store *s, const struct ledger_filter *filter, struct arena *a,
                              struct ledger_row **rows, int *n, struct failure *f)
{
	bool exists = false;
	*n = 0;
	defib_err err = ledger_exists(s, &exists, f);
	return err || !exists ? err : ledger_read(s, filter, a, rows, n, f);
}

defib_err defib_ledger_read(defib_db *db, const defib_ledger_filter *filter,
                            void (*entry)(void *ctx, const defib_ledger_entry *entry), void *ctx,
                            defib_message *message)
{
	struct failure f = {0};
	struct arena a = ARENA_INIT;
	struct ledger_row *rows = NULL;
	defib_ledger_filter o, all = DEFIB_LEDGER_FILTER_INIT;
	int n = 0;
	defib_err err = lib_options(&o, sizeof o, filter ? filter : &all, "defib_ledger_filter", &f);
	if (!err && (!entry || o.limit < 0))
		err = fail(&f, DEFIB_USAGE, "a callback is needed, and a limit that is not negative");
	if (!err)
		err = lib_ready(db, &f);
	if (!err) {
		struct ledger_filter by = {
			.watch = o.watch,
			.job = o.job,
			.event = o.event,
			.actor = o.actor,
			.batch = o.batch,
			.after_id = o.after_id,
			.limit = o.limit,
			.newest_first = o.newest_first != 0,
		};
		err = read_entries(db->session.store, &by, &a, &rows, &n, &f);
	}
	for (int i = 0; !err && i < n; i++)
		tell_entry(&rows[i], entry, ctx);
	arena_release(&a);
	return lib_answer(err, &f, message);
}

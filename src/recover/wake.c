/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/wake.h"

#include "base/clock.h"
#include "ledger/events.h"

#define WATCH_ITSELF "*" /* the job of entries that are about a watch */

/* Whether the last time is long enough ago. */
static defib_err may_wake(struct store *s, const struct watch *w, int64_t now_us, struct arena *a,
                          bool *may, struct failure *f)
{
	const struct ledger_filter last = {.watch = w->name,
	                                   .job = WATCH_ITSELF,
	                                   .event = ENTRY_WOKEN,
	                                   .limit = 1,
	                                   .newest_first = true};
	struct ledger_row *rows = NULL;
	int64_t at_us = 0;
	int n = 0;
	defib_err err = ledger_read(s, &last, a, &rows, &n, f);
	*may = !err && (n == 0 || !time_parse(rows[0].at, &at_us) ||
	                now_us - at_us >= w->wake.every_us || at_us > now_us);
	return err;
}

static defib_err notify_workers(struct store *s, const struct watch *w,
                                const struct waiting_result *r, const char *actor, struct arena *a,
                                struct failure *f)
{
	const struct store_param params[] = {P_TEXT(w->wake.notify), P_TEXT(w->name)};
	AUTO_BUF sentence = BUF_INIT, batch = BUF_INIT;
	late_sentence(r, &sentence);
	buf_addf(&batch, "wake-%lld", (long long)r->now_us);
	const struct ledger_context ctx = {w->name, buf_text(&batch), actor};
	struct ledger_entry entry = {
		.job = WATCH_ITSELF, .event = ENTRY_WOKEN, .rule = "wake", .reason = buf_text(&sentence)};
	defib_err err = store_exec(s, "SELECT pg_notify($1, $2)", params, 2, NULL, NULL, f);
	return err ? err : ledger_append(s, &ctx, &entry, 1, a, f);
}

defib_err wake_workers(struct store *s, const struct watch *w, const struct ledger *l,
                       const struct waiting_result *r, const char *actor, bool *woken,
                       struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	bool may = false;
	*woken = false;
	/* Without a ledger nobody knows when it was last done. */
	if (!w->wake.notify || r->unstarted == 0 || !l->ready)
		return DEFIB_OK;
	defib_err err = may_wake(s, w, r->now_us, &a, &may, f);
	if (err || !may)
		return err;
	err = store_begin(s, TX_WRITE, f);
	if (!err)
		err = store_end(s, notify_workers(s, w, r, actor, &a, f), f);
	*woken = !err;
	return err;
}

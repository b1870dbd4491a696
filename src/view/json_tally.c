/* json_tally.c: see json_tally.h. */
#include "view/json_tally.h"

#include "view/json.h"
#include "watch/terms.h"

static void json_error(struct buf *out, const char *name, const struct failure *f)
{
	json_text(out, name, f->code ? f->what : NULL);
}

static void json_states(const struct watch *w, const struct tally *t, struct buf *out)
{
	buf_add(out, ",\"states\":[");
	for (int i = 0; i < t->nstates; i++) {
		buf_addf(out, "%s{\"n\":%lld", i ? "," : "", (long long)t->states[i].n);
		json_text(out, "state", t->states[i].name);
		json_text(out, "name", state_named(w, t->states[i].name));
		buf_add(out, "}");
	}
	buf_add(out, "]");
	json_error(out, "states_error", &t->states_failed);
}

static void json_stuck(const struct tally *t, struct buf *out)
{
	json_number(out, "running", !t->stuck_failed.code, t->running);
	json_bool(out, "running_capped", t->running_capped);
	json_number(out, "stuck_total", !t->stuck_failed.code, t->stuck_total);
	json_bool(out, "stuck_total_capped", t->total_capped);
	buf_add(out, t->stuck_failed.code ? ",\"stuck\":null" : ",\"stuck\":{");
	for (int v = VERDICT_NONE + 1; v < VERDICT_COUNT && !t->stuck_failed.code; v++)
		buf_addf(out, "%s\"%s\":%lld", v > VERDICT_NONE + 1 ? "," : "", verdict_names[v],
		         (long long)t->stuck[v]);
	buf_add(out, t->stuck_failed.code ? "" : "}");
	json_bool(out, "stuck_capped", t->stuck_capped);
	json_error(out, "stuck_error", &t->stuck_failed);
}

/* What the ledger has of the last day and week; null where it cannot be asked. */
static void json_lately(struct buf *out, const char *name, bool known, const struct tally_event *e)
{
	if (known)
		buf_addf(out, ",\"%s\":{\"day\":%lld,\"week\":%lld}", name, (long long)e->day,
		         (long long)e->week);
	else
		buf_addf(out, ",\"%s\":null", name);
}

static void json_ledger(const struct tally *t, bool ledger, struct buf *out)
{
	bool there = ledger && !t->ledger_failed.code;
	json_number(out, "held", there, t->held);
	json_number(out, "held_running", there, t->held_running);
	json_number(out, "retries", there, t->retries);
	json_lately(out, "detected", there, &t->detected);
	json_lately(out, "recovered", there, &t->recovered);
	json_lately(out, "recovered_by_hand", there, &t->recovered_by_hand);
	json_lately(out, "put_on_hold", there, &t->put_on_hold);
	json_lately(out, "rolled_back", there, &t->rolled_back);
	json_lately(out, "late", there, &t->late);
	buf_addf(out,
	         ",\"false_positives\":{\"day\":%lld,\"day_recovered\":%lld,\"week\":%lld,"
	         "\"week_recovered\":%lld}",
	         (long long)t->mistakes.day.mistakes, (long long)t->mistakes.day.recoveries,
	         (long long)t->mistakes.week.mistakes, (long long)t->mistakes.week.recoveries);
	buf_add(out, ",\"events\":{");
	for (int i = 0; i < t->nevents; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, t->events[i].name);
		buf_addf(out, ":{\"day\":%lld,\"week\":%lld}", (long long)t->events[i].day,
		         (long long)t->events[i].week);
	}
	buf_add(out, "}");
	json_error(out, "ledger_error", &t->ledger_failed);
}

void tally_json(const struct watch *w, const struct database *d, bool ledger, const struct tally *t,
                struct buf *out)
{
	buf_add(out, "{\"watch\":");
	buf_add_json(out, w->name);
	json_text(out, "database", d->name);
	json_bool(out, "estimated", t->estimated);
	json_states(w, t, out);
	json_stuck(t, out);
	json_number(out, "completed", t->has_completed, t->completed);
	json_number(out, "failed", t->has_failed, t->failed);
	json_number(out, "measured", t->has_duration, t->measured);
	json_seconds(out, "average_s", t->has_duration, t->average_us);
	json_seconds(out, "p95_s", t->has_duration, t->p95_us);
	json_error(out, "ends_error", &t->ends_failed);
	json_ledger(t, ledger, out);
	buf_add(out, "}");
}

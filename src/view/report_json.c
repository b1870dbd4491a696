/* SPDX-License-Identifier: Apache-2.0 */
/* report_json.c: a report with all its numbers: see report.h. */
#include "view/report.h"

#include "base/clock.h"
#include "recover/masked.h"
#include "view/json.h"

#define N(member) offsetof(struct report_numbers, member)
static const struct {
	const char *name;
	size_t offset;
} numbers[] = {
	{"detected", N(detected)},
	{"recovered", N(recovered)},
	{"requeued", N(requeued)},
	{"retried", N(retried)},
	{"failed", N(failed)},
	{"rollbacks", N(rollbacks)},
	{"recovered_by_hand", N(recovered_by_hand)},
	{"rolled_back", N(rolled_back)},
	{"held", N(held)},
	{"reported", N(reported)},
	{"retries_exhausted", N(exhausted)},
	{"late_completions", N(late)},
	{"workers_returned", N(returned)},
	{"changed_meanwhile", N(changed)},
	{"brakes", N(brakes)},
	{"by_hand", N(by_hand)},
};
#undef N

/* {"recovered":…}, without its first comma. */
static void add_numbers(const struct report_numbers *n, struct buf *out)
{
	buf_add(out, "{");
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		buf_addf(out, "%s\"%s\":%lld", i ? "," : "", numbers[i].name,
		         (long long)*(const int64_t *)((const char *)n + numbers[i].offset));
	buf_add(out, "}");
}

static void add_both(const struct report_numbers *now, const struct report_numbers *before,
                     struct buf *out)
{
	buf_add(out, ",\"now\":");
	add_numbers(now, out);
	buf_add(out, ",\"before\":");
	add_numbers(before, out);
}

static void add_days(const struct report_watch *w, struct buf *out)
{
	buf_add(out, ",\"days\":[");
	for (int i = 0; i < w->ndays; i++)
		buf_addf(out, "%s\n{\"day\":\"%s\",\"recovered\":%lld,\"held\":%lld,\"reported\":%lld}",
		         i ? "," : "", w->days[i].day, (long long)w->days[i].recovered,
		         (long long)w->days[i].held, (long long)w->days[i].reported);
	buf_add(out, "]");
}

/* ,"kinds":[{"n":2,"kind":"crawl"}]; `also` NULL: one name only. */
static void add_top(const char *list, const struct digest_list *t, const char *name,
                    const char *also, struct buf *out)
{
	buf_addf(out, ",\"%s\":[", list);
	for (int i = 0; i < t->n; i++) {
		buf_addf(out, "%s{\"n\":%lld", i ? "," : "", (long long)t->items[i].n);
		json_text(out, name, t->items[i].name);
		if (also)
			json_text(out, also, t->items[i].also);
		buf_add(out, "}");
	}
	buf_add(out, "]");
}

static void add_holds(const struct report_watch *w, struct buf *out)
{
	json_number(out, "waiting", true, w->waiting);
	buf_add(out, ",\"holds\":[");
	for (int i = 0; i < w->nholds; i++) {
		buf_addf(out, "%s{\"job\":", i ? "," : "");
		buf_add_json(out, w->holds[i].job);
		json_text(out, "at", w->holds[i].at);
		json_text(out, "cause", w->holds[i].cause);
		struct secrets secrets = {0};
		secrets_owner(&secrets, w->watch, w->holds[i].owner);
		masked_member(w->watch, &secrets, "reason", w->holds[i].reason, out);
		secrets_release(&secrets);
		buf_add(out, "}");
	}
	buf_add(out, "]");
}

static void add_advice(const struct report_watch *w, struct buf *out)
{
	buf_add(out, ",\"advice\":[");
	for (int i = 0; i < w->nadvice; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, w->advice[i]);
	}
	buf_add(out, "]");
}

static void add_watch(const struct report_watch *w, struct buf *out)
{
	bool timed = w->times.n > 0;
	buf_add(out, "{\"watch\":");
	buf_add_json(out, w->watch->name);
	json_text(out, "database", w->database->name);
	json_text(out, "label", w->watch->label);
	json_text(out, "group", w->watch->group);
	json_text(out, "no_ledger", w->no_ledger);
	json_text(out, "missing", w->missing.code ? w->missing.what : NULL);
	add_both(&w->now, &w->before, out);
	add_days(w, out);
	buf_addf(out, ",\"time_to_recover\":{\"n\":%lld", (long long)w->times.n);
	json_seconds(out, "median_s", timed, w->times.median_us);
	json_seconds(out, "longest_s", timed, w->times.worst_us);
	buf_add(out, "}");
	add_top("causes", &w->causes, "verdict", "rule", out);
	add_top("kinds", &w->kinds, "kind", NULL, out);
	add_top("owners", &w->owners, "owner", NULL, out);
	add_top("jobs", &w->jobs, "job", NULL, out);
	add_top("actions", &w->actors, "actor", "event", out);
	json_number(out, "false_positives", true, w->mistakes);
	json_number(out, "near_misses", w->has_near_misses, w->near_misses);
	add_holds(w, out);
	add_advice(w, out);
	buf_add(out, "}");
}

void report_json(const struct report *r, struct buf *out)
{
	struct report_numbers now, before;
	report_total(r, &now, &before);
	buf_add(out, "{\"from\":\"");
	time_iso(r->period.from_us, out);
	buf_add(out, "\"");
	json_time(out, "to", true, r->period.to_us);
	add_both(&now, &before, out);
	buf_add(out, ",\"watches\":[");
	for (int i = 0; i < r->nwatches; i++) {
		buf_add(out, i ? ",\n" : "\n");
		add_watch(&r->watches[i], out);
	}
	buf_add(out, "],\"not_reported\":[");
	for (int i = 0; i < r->nlost; i++) {
		buf_addf(out, "%s{\"database\":", i ? "," : "");
		buf_add_json(out, r->lost[i].database);
		json_text(out, "because", r->lost[i].failure.what);
		buf_add(out, "}");
	}
	buf_add(out, "]}\n");
}

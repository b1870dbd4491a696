/* json_scan.c: see json_scan.h. */
#include "view/json_scan.h"

#include "base/text.h"
#include "recover/evidence.h"
#include "recover/masked.h"
#include "view/json.h"

#include <jansson.h>

void scan_begin_json(const struct watch *w, const struct database *d, struct buf *out)
{
	buf_add(out, "{\"watch\":");
	buf_add_json(out, w->name);
	json_text(out, "database", d->name);
	buf_add(out, ",\"jobs\":[");
}

static void add_key(struct buf *out, const struct watch *w, const struct facts *f)
{
	if (w->key.n == 1)
		buf_add_json(out, f->job);
	else
		buf_add(out, f->job); /* a composite key is a JSON array already */
}

void scan_job_json(const struct watch *w, const struct candidate *c, struct buf *out)
{
	struct buf owner = BUF_INIT;
	buf_add(out, "{\"key\":");
	add_key(out, w, &c->facts);
	json_text(out, "verdict", verdict_names[c->judgement.verdict]);
	json_text(out, "remedy", remedy_names[c->decision.remedy]);
	json_text(out, "rule", c->decision.rule);
	json_text(out, "outcome", outcome_names[c->outcome]);
	buf_addf(out, ",\"evidence\":%s", c->evidence);
	json_seconds(out, "silent_s", c->judgement.measured, c->judgement.measured_us);
	if (c->facts.owner)
		shown_owner(w, c->facts.owner, &owner);
	json_text(out, "owner", c->facts.owner ? buf_text(&owner) : NULL);
	json_number(out, "attempt", c->facts.has_attempts, c->facts.attempts);
	if (c->blocker_pid) {
		json_number(out, "locked_by_pid", true, c->blocker_pid);
		json_number(out, "locked_for_s", true, c->blocker_s);
	}
	if (c->refusal)
		json_text(out, "refusal", c->refusal);
	buf_add(out, "}");
	buf_release(&owner);
}

void scan_counts_json(int64_t running, int64_t found, const int64_t *outcomes, struct buf *out)
{
	buf_addf(out, "\"running\":%lld,\"found\":%lld", (long long)running, (long long)found);
	for (int i = 0; i < OUTCOME_COUNT; i++)
		json_number(out, outcome_names[i], true, outcomes[i]);
}

void scan_end_json(const struct scan_result *r, struct buf *out)
{
	buf_add(out, "],");
	scan_counts_json(r->running, r->found, r->outcomes, out);
	json_bool(out, "running_capped", r->running_capped);
	json_bool(out, "never_seen_running", r->never_seen);
	json_bool(out, "row_security", r->row_security);
	json_number(out, "stuck", true, r->stuck);
	json_bool(out, "limited", r->limited);
	json_text(out, "batch", r->batch[0] ? r->batch : NULL);
	json_text(out, "ledger_off", r->ledger || !r->ledger_off[0] ? NULL : r->ledger_off);
	buf_addf(out, ",\"took_ms\":%.3f", (double)r->took_us / 1000);
	json_text(out, "error", r->failure.code ? r->failure.what : NULL);
	json_text(out, "error_class", r->failure.code ? defib_err_name(r->failure.code) : NULL);
	buf_add(out, "}");
}

/* ---- one job in words ---- */

static void add_scalar(const json_t *value, struct buf *out)
{
	char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
	buf_add(out, text ? text : (json_is_string(value) ? json_string_value(value) : ""));
	free(text);
}

/* The columns that tell whether a row is running, before and after: "status: running -> queued". */
static void state_change(const struct watch *w, const struct candidate *c, struct buf *out)
{
	json_t *before = c->before ? json_loads(c->before, JSON_DECODE_ANY, NULL) : NULL;
	json_t *after = c->after ? json_loads(c->after, JSON_DECODE_ANY, NULL) : NULL;
	const char *column;
	json_t *was;
	json_object_foreach(before, column, was)
	{
		const json_t *is = json_object_get(after, column);
		if (!is || json_equal(was, is) || !strstr(w->running.text, column))
			continue;
		struct buf text = BUF_INIT;
		buf_addf(out, "%s%s: ", out->len ? ", " : "", column);
		add_scalar(was, &text);
		shown_value(w, column, buf_text(&text), out);
		buf_clear(&text);
		add_scalar(is, &text);
		buf_add(out, " -> ");
		shown_value(w, column, buf_text(&text), out);
		buf_release(&text);
	}
	json_decref(before);
	json_decref(after);
}

static void add_shown(const struct watch *w, const struct candidate *c, struct buf *out)
{
	for (int i = 0; i < w->show.n; i++) {
		if (!c->facts.show[i])
			continue;
		buf_addf(out, "%s%s=", out->len ? " " : "", w->show.items[i]);
		shown_value(w, w->show.items[i], c->facts.show[i], out);
	}
	if (c->facts.owner) {
		buf_add(out, out->len ? " owner=" : "owner=");
		shown_owner(w, c->facts.owner, out);
	}
	if (c->facts.has_attempts)
		buf_addf(out, "%sattempt=%lld", out->len ? " " : "", (long long)c->facts.attempts);
	if (c->outcome == OUTCOME_LOCKED && c->blocker_pid)
		buf_addf(out, "%slocked by pid %lld for %llds", out->len ? " " : "",
		         (long long)c->blocker_pid, (long long)c->blocker_s);
	if (c->refusal) {
		buf_add(out, out->len ? " " : "");
		masked_words(w, NULL, c->refusal, out);
	}
}

void candidate_words(const struct watch *w, const struct candidate *c, struct buf *out)
{
	struct buf change = BUF_INIT;
	add_shown(w, c, out);
	state_change(w, c, &change);
	if (change.len)
		buf_addf(out, "%s%s", out->len ? "  " : "", buf_text(&change));
	buf_release(&change);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "view/job.h"

#include "base/clock.h"
#include "recover/evidence.h"
#include "recover/masked.h"
#include "view/status.h"

void job_qualified(const struct watch *w, const char *job, struct buf *out)
{
	buf_addf(out, "%s/%s", w->name, job);
}

static void key_json(const struct watch *w, const char *job, struct buf *out)
{
	buf_add(out, ",\"key\":");
	key_value_json(w, job, out);
}

void key_value_json(const struct watch *w, const char *job, struct buf *out)
{
	if (w->key.n == 1)
		buf_add_json(out, job);
	else
		buf_add(out, job); /* a composite key is already a JSON array */
}

static void json_shown(const struct watch *w, const struct facts *f, struct buf *out)
{
	AUTO_BUF value = BUF_INIT;
	buf_add(out, ",\"show\":{");
	for (int i = 0; i < w->show.n; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, w->show.items[i]);
		buf_add(out, ":");
		buf_clear(&value);
		if (f->show[i])
			masked_text(w, NULL, w->show.items[i], f->show[i], &value);
		json_value(out, f->show[i] ? buf_text(&value) : NULL);
	}
	buf_add(out, "}");
}

/* The reason given with the job's hold; values that are masked elsewhere are masked in it. */
static void hold_reason_words(const struct watch *w, const struct facts *f, struct buf *out)
{
	AUTO_SECRETS secrets = {0};
	secrets_facts(&secrets, w, f);
	masked_free_text(w, &secrets, f->hold_reason, out);
}

void browsed_json(const struct watch *w, const struct database *d, const struct browsed *row,
                  struct buf *out)
{
	const struct facts *f = &row->facts;
	const struct judgement *j = &row->judgement;
	AUTO_BUF text = BUF_INIT;
	job_qualified(w, row->job, &text);
	buf_add(out, "{\"job\":");
	buf_add_json(out, buf_text(&text));
	json_text(out, "database", d->name);
	json_text(out, "watch", w->name);
	key_json(w, row->job, out);
	json_text(out, "state", row->state);
	json_text(out, "state_name", state_named(w, row->state));
	json_text(out, "kind", f->kind);
	json_seconds(out, "age_s", row->has_since, f->now_us - row->since_us);
	buf_addf(out, ",\"running\":%s", f->running ? "true" : "false");
	json_text(out, "verdict", j->verdict ? verdict_names[j->verdict] : NULL);
	json_seconds(out, "measured_s", j->measured, j->measured_us);
	json_seconds(out, "limit_s", j->measured, j->limit_us);
	buf_clear(&text);
	if (f->owner)
		shown_owner(w, f->owner, &text);
	json_text(out, "owner", f->owner ? buf_text(&text) : NULL);
	json_number(out, "attempts", f->has_attempts, f->attempts);
	json_number(out, "max_attempts", f->has_max_attempts, f->max_attempts);
	json_number(out, "epoch", f->has_epoch, f->epoch);
	json_text(out, "held",
	          hold_in_force(f->hold) ? (f->hold_cause ? f->hold_cause : HOLD_BY_HAND) : NULL);
	buf_clear(&text);
	if (hold_in_force(f->hold) && f->hold_reason)
		hold_reason_words(w, f, &text);
	json_text(out, "hold_reason",
	          hold_in_force(f->hold) && f->hold_reason ? buf_text(&text) : NULL);
	buf_clear(&text);
	if (row->has_retry)
		time_iso(row->retry_us, &text);
	json_text(out, "retry_at", row->has_retry ? buf_text(&text) : NULL);
	json_shown(w, f, out);
}

void claim_json(const struct claim *c, bool there, struct buf *out)
{
	buf_add(out, ",\"claim\":");
	if (!there) {
		buf_add(out, "null");
		return;
	}
	buf_add(out, "{\"application\":");
	buf_add_json(out, c->application);
	json_number(out, "pid", true, c->pid);
	json_text(out, "program", c->program);
	json_text(out, "host", c->host);
	json_time(out, "since", true, c->at_us);
	buf_add(out, "}");
}

void when_text(int64_t us, int64_t now_us, struct buf *out)
{
	int64_t ahead = us - now_us;
	if (ahead > -US_PER_S && ahead < US_PER_S) {
		buf_add(out, "just now");
		return;
	}
	buf_add(out, ahead > 0 ? "in " : "");
	duration_text(ahead > 0 ? ahead : -ahead, out);
	buf_add(out, ahead > 0 ? "" : " ago");
}

void verdict_words(const struct judgement *j, struct buf *out)
{
	if (j->verdict == VERDICT_NONE)
		return;
	buf_add(out, verdict_names[j->verdict]);
	if (!j->measured)
		return;
	buf_add(out, " ");
	duration_text(j->measured_us, out);
	buf_add(out, " (limit ");
	duration_text(j->limit_us, out);
	buf_add(out, ")");
}

void attempts_words(const struct facts *f, struct buf *out)
{
	if (f->has_attempts)
		buf_addf(out, "%lld", (long long)f->attempts);
	if (f->has_attempts && f->has_max_attempts)
		buf_addf(out, " of %lld", (long long)f->max_attempts);
}

void note_words(const struct watch *w, const struct browsed *row, struct buf *out)
{
	const struct facts *f = &row->facts;
	if (hold_in_force(f->hold))
		buf_addf(out, "held: %s", f->hold_cause ? f->hold_cause : HOLD_BY_HAND);
	if (hold_in_force(f->hold) && f->hold_reason) {
		buf_add(out, ", ");
		hold_reason_words(w, f, out);
	}
	if (!row->has_retry)
		return;
	int64_t wait = row->retry_us - row->facts.now_us;
	buf_add(out, out->len ? ", retry due" : "retry due");
	if (wait > 0) {
		buf_add(out, " in ");
		duration_text(wait, out);
	} else {
		buf_add(out, " now");
	}
}

void state_words(const struct watch *w, const char *state, struct buf *out)
{
	const char *name = state_named(w, state);
	if (name && !text_eq(name, state))
		buf_addf(out, "%s (%s)", name, state);
	else
		buf_add(out, state ? state : "");
}

void fact_line(struct fact_sheet *s, const char *name, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (s->n == FACTS_MAX)
		return;
	s->names[s->n] = name;
	s->values[s->n++] = arena_strdup(s->arena, text);
}

void fact_print(const struct fact_sheet *s, struct buf *out)
{
	int width = 13;
	for (int i = 0; i < s->n; i++)
		width = out_width(s->names[i]) > width ? out_width(s->names[i]) : width;
	for (int i = 0; i < s->n; i++)
		out_line(out, s->names[i], width, s->values[i]);
}

static void sign_lines(struct fact_sheet *sheet, const struct watch *w, const struct facts *f)
{
	static const char *const names[] = {"alive_at", "expires_at", "started_at"};
	for (int s = 0; s < SIGN_COUNT; s++) {
		AUTO_BUF iso = BUF_INIT, age = BUF_INIT, limit = BUF_INIT;
		const struct threshold *t = s == SIGN_STARTED ? &w->overdue_after : &w->stuck_after;
		int64_t us = 0;
		if (watch_sign(w, (enum sign)s)->text && f->has_sign[s]) {
			int64_t since = f->now_us - f->sign_us[s];
			time_iso(f->sign_us[s], &iso);
			duration_text(since < 0 ? -since : since, &age);
			threshold_for(t, f->kind, &us);
			duration_text(us, &limit);
			fact_line(sheet, names[s], "%s, %s %s; the limit is %s", buf_text(&iso), buf_text(&age),
			          since < 0 ? "ahead" : "ago", buf_text(&limit));
		} else if (watch_sign(w, (enum sign)s)->text) {
			fact_line(sheet, names[s], "none");
		}
	}
}

static void owner_lines(struct fact_sheet *s, const struct watch *w, const struct facts *f)
{
	static const char *const known[] = {"unknown", "no", "yes"};
	AUTO_BUF owner = BUF_INIT;
	if (f->owner)
		shown_owner(w, f->owner, &owner);
	if (w->owner.text)
		fact_line(s, "owner", "%s", f->owner ? buf_text(&owner) : "none");
	if (w->owner_alive.text)
		fact_line(s, "owner_alive", "%s", known[f->owner_alive - KNOWN_NOT]);
}

void fact_lines(struct fact_sheet *s, const struct watch *w, const struct facts *f)
{
	AUTO_BUF value = BUF_INIT;
	fact_line(s, "running", "%s (%s)", f->running ? "yes" : "no", w->running.text);
	sign_lines(s, w, f);
	owner_lines(s, w, f);
	if (w->kind.text)
		fact_line(s, "kind", "%s", f->kind ? f->kind : "none");
	if (f->has_attempts && f->has_max_attempts)
		fact_line(s, "attempts", "%lld of %lld", (long long)f->attempts,
		          (long long)f->max_attempts);
	else if (f->has_attempts)
		fact_line(s, "attempts", "%lld", (long long)f->attempts);
	if (f->has_epoch)
		fact_line(s, "epoch", "%lld", (long long)f->epoch);
	if (f->crashes)
		fact_line(s, "recovered", "%lld %s before", (long long)f->crashes,
		          f->crashes == 1 ? "time" : "times");
	for (int i = 0; i < w->show.n; i++) {
		buf_clear(&value);
		if (f->show[i])
			shown_value(w, w->show.items[i], f->show[i], &value);
		fact_line(s, w->show.items[i], "%s", f->show[i] ? buf_text(&value) : "none");
	}
}

void fact_claim(struct fact_sheet *s, const struct claim *c, int64_t now_us)
{
	AUTO_BUF iso = BUF_INIT, age = BUF_INIT;
	time_iso(c->at_us, &iso);
	duration_text(now_us > c->at_us ? now_us - c->at_us : 0, &age);
	fact_line(s, "claimed", "by session %s (pid %lld)%s%s%s%s at %s, %s ago",
	          c->application[0] ? c->application : "without a name", (long long)c->pid,
	          c->program ? " of " : "", c->program ? c->program : "", c->host ? " on " : "",
	          c->host ? c->host : "", buf_text(&iso), buf_text(&age));
}

void list_head(struct table *t, const struct watch *w)
{
	table_columns(t, "JOB STATE KIND AGE VERDICT OWNER ATTEMPTS NOTE");
	for (int i = 0; i < w->show.n; i++)
		table_column(t, w->show.items[i]);
}

void list_job_row(struct table *t, const struct watch *w, const struct browsed *row)
{
	AUTO_BUF text = BUF_INIT;
	const struct facts *f = &row->facts;
	job_qualified(w, row->job, &text);
	table_take(t, COLOR_NONE, &text);
	state_words(w, row->state, &text);
	table_take(t, COLOR_NONE, &text);
	table_cell(t, COLOR_NONE, f->kind);
	if (row->has_since && f->now_us >= row->since_us)
		duration_text(f->now_us - row->since_us, &text);
	table_take(t, COLOR_NONE, &text);
	verdict_words(&row->judgement, &text);
	table_take(t, COLOR_RED, &text);
	if (f->owner)
		shown_owner(w, f->owner, &text);
	table_take(t, COLOR_NONE, &text);
	attempts_words(f, &text);
	table_take(t, COLOR_NONE, &text);
	note_words(w, row, &text);
	table_take(t, COLOR_YELLOW, &text);
	for (int i = 0; i < w->show.n; i++) {
		if (f->show[i])
			shown_value(w, w->show.items[i], f->show[i], &text);
		table_take(t, COLOR_NONE, &text);
	}
}

/* ---- where a list continues ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void encode(const char *text, struct buf *out)
{
	size_t len = strlen(text);
	for (size_t i = 0; i < len; i += 3) {
		uint32_t three = 0;
		size_t have = len - i < 3 ? len - i : 3;
		for (size_t k = 0; k < 3; k++)
			three = three << 8 | (k < have ? (unsigned char)text[i + k] : 0);
		for (size_t k = 0; k <= have; k++)
			buf_addch(out, digits[three >> (18 - 6 * k) & 63]);
	}
}

static bool decode(const char *text, struct buf *out)
{
	uint32_t bits = 0;
	int n = 0;
	for (; *text; text++) {
		const char *digit = strchr(digits, *text);
		if (!digit)
			return false;
		bits = bits << 6 | (uint32_t)(digit - digits);
		n += 6;
		if (n >= 8) {
			n -= 8;
			buf_addch(out, (char)(bits >> n & 0xff));
		}
	}
	return true;
}

static void add_text(struct buf *json, const char *text)
{
	buf_add(json, ",");
	json_value(json, text);
}

static void add_position(struct buf *json, const struct browse_position *at, int nkeys)
{
	json_value(json, at->sort);
	for (int k = 0; k < nkeys; k++)
		add_text(json, at->key[k]);
}

/* [watch, order, desc, sort value, key…]; in key order instead of this one: and [rest_of…]. */
void cursor_text(const struct cursor *x, struct buf *out)
{
	AUTO_BUF json = BUF_INIT;
	buf_add(&json, "[");
	buf_add_json(&json, x->watch);
	buf_addf(&json, ",\"%s\",%s,", list_sort_names[x->sort], x->desc ? "true" : "false");
	add_position(&json, &x->at, x->nkeys);
	if (x->at.by_key) {
		buf_add(&json, ",[");
		if (x->at.rest_of)
			add_position(&json, x->at.rest_of, x->nkeys);
		buf_add(&json, "]");
	}
	buf_add(&json, "]");
	encode(buf_text(&json), out);
}

static const char *part(const json_t *list, size_t i, struct arena *a)
{
	const char *text = json_string_value(json_array_get(list, i));
	return text ? arena_strdup(a, text) : NULL;
}

static struct browse_position read_position(const json_t *list, size_t first, int nkeys,
                                            struct arena *a)
{
	struct browse_position at = {.sort = part(list, first, a)};
	for (int k = 0; k < nkeys; k++)
		at.key[k] = part(list, first + 1 + (size_t)k, a);
	return at;
}

/* False if it is not of a list with keys of `nkeys` parts. */
static bool read_rest_of(const json_t *rest, int nkeys, struct arena *a,
                         struct browse_position *out)
{
	size_t n = json_array_size(rest);
	if (n > 0) {
		struct browse_position *at = ARENA_NEW(a, struct browse_position);
		*at = read_position(rest, 0, nkeys, a);
		out->rest_of = at;
	}
	out->by_key = true;
	return n == 0 || (n == (size_t)nkeys + 1 && out->rest_of->key[0]);
}

bool cursor_parse(const char *text, struct arena *a, struct cursor *out)
{
	AUTO_BUF plain = BUF_INIT;
	json_auto_t *list = decode(text, &plain) ? json_loads(buf_text(&plain), 0, NULL) : NULL;
	size_t n = json_array_size(list);
	const json_t *rest = n ? json_array_get(list, n - 1) : NULL;
	*out = (struct cursor){0};
	n -= json_is_array(rest);
	bool good = n > 4 && n <= 4 + WATCH_KEYS_MAX;
	if (good) {
		const char *sort = part(list, 1, a);
		int index = sort ? word_index(list_sort_names, sort) : -1;
		*out = (struct cursor){.watch = part(list, 0, a),
		                       .sort = index < 0 ? LIST_BY_KEY : (enum list_sort)index,
		                       .desc = json_is_true(json_array_get(list, 2)),
		                       .nkeys = (int)n - 4,
		                       .at = read_position(list, 3, (int)n - 4, a)};
		good = out->watch && index >= 0;
		good = good && (json_is_array(rest) ? read_rest_of(rest, out->nkeys, a, &out->at)
		                                    : out->at.key[0] != NULL);
	}
	return good;
}

/* ---- one job, judged ---- */

const char *remedy_participle(enum remedy r)
{
	static const char *const words[] = {
		[REMEDY_REQUEUE] = "requeued",     [REMEDY_RETRY] = "retried",
		[REMEDY_FAIL] = "ended as failed", [REMEDY_ROLLBACK] = "rolled back",
		[REMEDY_HOLD] = "put on hold",     [REMEDY_REPORT] = "only reported",
	};
	return words[r];
}

/* What the ledger has: a hold, a pending retry. */
static defib_err read_guards(struct store *s, const char *watch, const char *job, struct arena *a,
                             struct explained *x, struct failure *f)
{
	struct held_job *holds = NULL;
	struct pending_retry *retries = NULL;
	int nholds = 0, nretries = 0;
	defib_err err = ledger_holds_list(s, watch, job, 1, a, &holds, &nholds, f);
	if (!err)
		err = ledger_retries_of(s, watch, &job, 1, a, &retries, &nretries, f);
	x->has_hold = !err && nholds > 0;
	x->has_retry = !err && nretries > 0;
	if (x->has_hold)
		x->hold = holds[0];
	if (x->has_retry)
		x->retry = retries[0];
	return err;
}

defib_err explain_read(struct store *s, const struct watch_sql *q, const struct ledger *l,
                       const struct watch *w, const char *job, bool will_have, struct arena *a,
                       struct explained *out, bool *found, struct failure *f)
{
	struct facts *facts = NULL;
	int n = 0;
	*out = (struct explained){0};
	defib_err err = look_jobs(s, q, l, &job, 1, a, &facts, &n, f);
	*found = !err && n > 0;
	if (*found && l->ready)
		err = read_guards(s, w->name, facts[0].job, a, out, f);
	if (*found && !err)
		err = claim_of(s, w, facts[0].job, a, &out->claim, &out->has_claim, f);
	if (*found && !err)
		judged_candidate(w, &facts[0], l->ready || will_have, a, &out->cand);
	return err;
}

void explain_guard(struct store *s, const struct database *d, const struct watch *w,
                   struct arena *a, struct explained *x)
{
	struct stored_status stored;
	struct watch_status st;
	struct failure ignored = {0};
	/* A role that may not read the daemons' tables gets the rest. */
	if (stored_status_read(s, a, &stored, &ignored))
		return;
	watch_status_init(&st, d, w->name, &stored);
	const char *guard = json_string_value(json_object_get(st.led.info, "guard"));
	if (st.is == WATCH_STATUS_HELD && guard && x->cand.judgement.verdict != VERDICT_NONE)
		x->guard = arena_strdup(a, guard);
	if (st.is != WATCH_STATUS_NO_LEADER)
		x->factor = json_number_value(json_object_get(st.led.info, "factor"));
	watch_status_release(&st);
}

void explained_json(const struct watch *w, const struct database *d, const struct explained *x,
                    struct buf *out)
{
	const struct candidate *cand = &x->cand;
	const struct judgement *j = &cand->judgement;
	bool stuck = j->verdict != VERDICT_NONE;
	buf_add(out, "{\"database\":");
	buf_add_json(out, d->name);
	json_text(out, "watch", w->name);
	key_json(w, cand->facts.job, out);
	json_bool(out, "running", cand->facts.running);
	json_bool(out, "stuck", stuck);
	json_text(out, "verdict", verdict_names[j->verdict]);
	json_text(out, "verdict_rule", j->rule->id);
	json_text(out, "law", j->rule->id); /* its old name */
	json_text(out, "why", j->rule->why);
	buf_add(out, ",\"evidence\":");
	masked_text(w, NULL, "", cand->evidence, out);
	json_bool(out, "held", hold_in_force(cand->facts.hold));
	json_text(out, "hold_cause", hold_in_force(cand->facts.hold) ? cand->facts.hold_cause : NULL);
	json_time(out, "retry_at", x->has_retry, x->retry.due_us);
	claim_json(&x->claim, x->has_claim, out);
	json_text(out, "guard", x->guard);
	if (x->factor > 0)
		buf_addf(out, ",\"factor\":%g", x->factor);
	if (stuck)
		buf_addf(out, ",\"remedy\":\"%s\",\"rule\":\"%s\",\"acts\":%s",
		         remedy_names[cand->decision.remedy], cand->decision.rule,
		         cand->decision.act ? "true" : "false");
	buf_add(out, "}");
}

/* What keeps scans away, or comes next. */
static void guard_lines(const struct watch *w, const struct explained *x, struct fact_sheet *s)
{
	const struct facts *f = &x->cand.facts;
	AUTO_BUF when = BUF_INIT;
	if (hold_in_force(f->hold) && x->has_hold)
		fact_line(s, "held", "since %s: %s%s%s; release it with: defib release %s/%s", x->hold.at,
		          x->hold.cause, x->hold.reason ? ", " : "", x->hold.reason ? x->hold.reason : "",
		          w->name, f->job);
	else if (x->has_hold)
		fact_line(s, "held", "no longer: its owner, sign of life or state changed since %s",
		          x->hold.at);
	if (x->has_retry) {
		when_text(x->retry.due_us, f->now_us, &when);
		fact_line(s, "retry", "%s %s (%s)", x->retry.due_us > f->now_us ? "due" : "was due",
		          buf_text(&when), x->retry.reason ? x->retry.reason : "scheduled");
	}
	if (x->guard)
		fact_line(s, "guard", "the daemon that leads %s %s", w->name, x->guard);
	if (x->factor > 1)
		fact_line(s, "raised", "the daemon that leads %s multiplies its thresholds by %g", w->name,
		          x->factor);
}

static void verdict_lines(const struct watch *w, const struct explained *x, struct fact_sheet *s)
{
	const struct judgement *j = &x->cand.judgement;
	const struct decision *d = &x->cand.decision;
	const char *watch = w->name;
	if (j->verdict == VERDICT_NONE) {
		fact_line(s, "verdict", "not stuck: %s [%s]", j->rule->why, j->rule->id);
		guard_lines(w, x, s);
		if (x->has_retry)
			fact_line(s, "next", "the retry is carried out by defib scan %s --fix, when it is due",
			          watch);
		return;
	}
	fact_line(s, "verdict", "%s: %s [%s]", verdict_names[j->verdict], j->rule->why, j->rule->id);
	guard_lines(w, x, s);
	fact_line(s, "remedy", "%s: %s [%s]%s", remedy_names[d->remedy], d->why, d->rule,
	          d->act ? "" : "; nothing is written");
	if (d->act && d->remedy != REMEDY_REPORT)
		fact_line(s, "reason", "%s", x->cand.reason);
	if (d->act)
		fact_line(s, "next", "defib scan %s --fix", watch);
	else if (hold_in_force(x->cand.facts.hold))
		fact_line(s, "next", "nothing, until an operator releases it");
}

void explained_text(const struct watch *w, const struct database *d, const struct explained *x,
                    struct arena *a, bool color, struct buf *out)
{
	const struct judgement *j = &x->cand.judgement;
	AUTO_BUF because = BUF_INIT, title = BUF_INIT;
	struct fact_sheet sheet = {.arena = a};
	evidence_sentence(j, &because);
	buf_addf(&title, "%s/%s ", d->name, w->name);
	out_padded(&title, x->cand.facts.job, 0);
	out_color(out, color, COLOR_BOLD, buf_text(&title));
	buf_add(out, j->verdict == VERDICT_NONE ? " is not stuck: " : " is stuck: ");
	buf_addf(out, "%s.\n", buf_text(&because));
	fact_lines(&sheet, w, &x->cand.facts);
	if (x->has_claim)
		fact_claim(&sheet, &x->claim, x->cand.facts.now_us);
	verdict_lines(w, x, &sheet);
	fact_print(&sheet, out);
}

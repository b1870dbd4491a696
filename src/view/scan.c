/* SPDX-License-Identifier: Apache-2.0 */
#include "view/scan.h"

#include "recover/evidence.h"
#include "view/job.h"
#include "view/ledger.h"

void scan_begin_json(const struct watch *w, const struct database *d, struct buf *out)
{
	buf_add(out, "{\"watch\":");
	buf_add_json(out, w->name);
	json_text(out, "database", d->name);
	buf_add(out, ",\"jobs\":[");
}

void scan_job_json(const struct watch *w, const struct candidate *c, struct buf *out)
{
	AUTO_BUF owner = BUF_INIT;
	buf_add(out, "{\"key\":");
	key_value_json(w, c->facts.job, out);
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

/* ---- one job as text ---- */

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
		masked_free_text(w, NULL, c->refusal, out);
	}
}

/* Shown columns, owner, attempt, who has it locked, and "status: running -> queued". */
static void candidate_words(const struct watch *w, const struct candidate *c, struct buf *out)
{
	AUTO_BUF change = BUF_INIT;
	add_shown(w, c, out);
	changes_text(w, c->before, c->after, false, &change);
	if (change.len)
		buf_addf(out, "%s%s", out->len ? "  " : "", buf_text(&change));
}

static enum color outcome_color(enum outcome o, bool fix)
{
	if (o == OUTCOME_RECOVERED)
		return COLOR_GREEN;
	return fix || o != OUTCOME_LEFT ? COLOR_YELLOW : COLOR_BOLD;
}

void scan_job_row(struct scan_rows *r, const struct watch *w, const struct candidate *c)
{
	AUTO_BUF because = BUF_INIT, detail = BUF_INIT, action = BUF_INIT;
	r->seen++;
	if (r->n < SCAN_ROWS_MAX) {
		evidence_sentence(&c->judgement, &because);
		candidate_words(w, c, &detail);
		if (c->outcome == OUTCOME_REFUSED || (r->fix && c->outcome != OUTCOME_RECOVERED))
			buf_addf(&action, "%s", outcome_names[c->outcome]);
		else
			buf_addf(&action, "%s", remedy_names[c->decision.remedy]);
		r->items[r->n++] = (struct scan_row){
			arena_strdup(&r->arena, c->facts.job),       verdict_names[c->judgement.verdict],
			arena_strdup(&r->arena, buf_text(&because)), arena_strdup(&r->arena, buf_text(&action)),
			arena_strdup(&r->arena, buf_text(&detail)),  c->outcome,
		};
	}
}

static void rows_header(int job, int because, bool color, struct buf *out)
{
	AUTO_BUF titles = BUF_INIT;
	buf_addf(&titles, "  %-*s  VERDICT  %-*s  REMEDY", job, "JOB", because, "WHY");
	out_color(out, color, COLOR_DIM, buf_text(&titles));
	buf_add(out, "\n");
}

void scan_rows_text(const struct scan_rows *r, bool color, struct buf *out)
{
	int job = (int)strlen("JOB"), because = (int)strlen("WHY");
	for (int i = 0; i < r->n; i++) {
		int width = out_width(r->items[i].job);
		job = width > job ? width : job;
		width = out_width(r->items[i].because);
		because = width > because ? width : because;
	}
	if (r->n)
		rows_header(job, because, color, out);
	for (int i = 0; i < r->n; i++) {
		const struct scan_row *row = &r->items[i];
		AUTO_BUF word = BUF_INIT;
		buf_add(out, "  ");
		out_padded(out, row->job, job);
		out_padded(&word, row->verdict, 7);
		buf_add(out, "  ");
		out_color(out, color, COLOR_RED, buf_text(&word));
		buf_add(out, "  ");
		out_padded(out, row->because, because);
		buf_add(out, "  -> ");
		out_color(out, color, outcome_color(row->outcome, r->fix), row->action);
		buf_add(out, row->detail[0] ? "  " : "");
		out_padded(out, row->detail, 0);
		buf_add(out, "\n");
	}
	if (r->seen > r->n) {
		buf_add(out, "  … and ");
		buf_add_count(out, r->seen - r->n);
		buf_add(out, " more (--json lists all)\n");
	}
}

void scan_head_text(const struct watch *w, const struct database *d, const struct scan_result *s,
                    bool fix, bool color, struct buf *out)
{
	out_title(out, color, d->name, w->name);
	buf_add(out, ": ");
	int64_t stuck = s->stuck > s->found ? s->stuck : s->found;
	if (stuck == 0 && !s->failure.code)
		buf_add(out, "nothing stuck");
	else
		buf_add_count(out, stuck),
			buf_addf(out, "%s stuck",
		             stuck > s->found && stuck >= ROWS_COUNT_MAX ? " or more" : "");
	if (s->running_known && s->running == 0 && stuck == 0) {
		buf_addf(out, "; no row of %s is running", w->table);
	} else {
		buf_add(out, stuck ? " of " : ", ");
		buf_add_count(out, s->running > stuck ? s->running : stuck);
		buf_addf(out, "%s running", s->running_capped ? " or more" : "");
	}
	if (stuck > s->found) {
		buf_add(out, ", ");
		buf_add_count(out, s->found);
		buf_add(out, " examined");
	}
	for (int i = OUTCOME_RECOVERED; i < OUTCOME_COUNT; i++) {
		int64_t n = s->outcomes[i] - (i == OUTCOME_HELD ? s->held_before : 0);
		if (n && (fix || i == OUTCOME_REFUSED)) {
			buf_add(out, ", ");
			buf_add_count(out, n);
			buf_addf(out, " %s", outcome_names[i]);
		}
	}
	if (s->held_before) {
		buf_add(out, ", ");
		buf_add_count(out, s->held_before);
		buf_add(out, " already on hold");
	}
	buf_addf(out, " (%.1f ms)\n", (double)s->took_us / 1000);
}

/* ---- acts by hand ---- */

void act_begin_json(const char *verb, bool dry_run, struct buf *out)
{
	buf_add(out, "{\"act\":");
	buf_add_json(out, verb);
	json_bool(out, "dry_run", dry_run);
	buf_add(out, ",\"watches\":[");
}

void act_group_begin_json(const struct watch *w, const struct database *d, struct buf *out)
{
	scan_begin_json(w, d, out);
}

/* Everything about the job except why it was refused, which is shown with the outcome. */
static void act_detail(const struct watch *w, const struct candidate *c, struct buf *out)
{
	struct candidate plain = *c;
	plain.refusal = NULL;
	candidate_words(w, &plain, out);
}

void act_job_json(const struct watch *w, const struct candidate *c, enum outcome good,
                  struct buf *out)
{
	AUTO_BUF job = BUF_INIT, detail = BUF_INIT;
	job_qualified(w, c->facts.job, &job);
	act_detail(w, c, &detail);
	buf_add(out, "{\"job\":");
	buf_add_json(out, buf_text(&job));
	json_text(out, "outcome", c->outcome == good ? "done" : outcome_names[c->outcome]);
	json_text(out, "detail", detail.len ? buf_text(&detail) : NULL);
	masked_member(w, NULL, "refusal", c->refusal, out);
	masked_member(w, NULL, "warning", c->refusal ? NULL : c->warning, out);
	buf_add(out, "}");
}

void act_group_end_json(const struct by_hand_result *r, struct buf *out)
{
	buf_add(out, "]");
	for (int i = 0; i < OUTCOME_COUNT; i++)
		json_number(out, outcome_names[i], true, r->outcomes[i]);
	json_text(out, "batch", r->batch[0] ? r->batch : NULL);
	json_text(out, "error", r->failure.code ? r->failure.what : NULL);
	buf_add(out, "}");
}

/* The outcome of a job, where its name is unclear. */
static const char *const otherwise[OUTCOME_COUNT] = {
	[OUTCOME_LEFT] = "left as it is",
	[OUTCOME_CHANGED] = "changed since",
	[OUTCOME_LOCKED] = "locked by another transaction",
	[OUTCOME_MISSING] = "not found",
};

enum outcome act_good(const struct act_words *r)
{
	return r->dry_run ? OUTCOME_LEFT : r->good;
}

static void outcome_text(const struct act_words *r, enum outcome o, struct buf *out)
{
	if (o == act_good(r))
		buf_addf(out, "%s%s", r->dry_run ? "would be " : "", r->done);
	else
		buf_add(out, otherwise[o] ? otherwise[o] : outcome_names[o]);
}

void act_question(struct buf *out, const char *verb, int64_t n, const struct watch *w,
                  const struct database *d)
{
	buf_addf(out, "%s%s ", out->len ? "; " : "", verb);
	buf_add_count(out, n);
	buf_addf(out, " job%s of watch %s in database %s (", n == 1 ? "" : "s", w->name, d->name);
	url_redact(d->url, out);
	buf_add(out, ")");
}

void act_rows_init(struct act_rows *r, int most)
{
	*r = (struct act_rows){.most = most};
	table_init(&r->table);
	r->table.whole = true;
	table_columns(&r->table, "JOB OUTCOME DETAIL");
}

void act_job_row(struct act_rows *rows, const struct act_words *r, const struct watch *w,
                 const struct candidate *c)
{
	bool good = c->outcome == act_good(r);
	const char *why = c->refusal ? c->refusal : good ? c->warning : NULL;
	AUTO_BUF part = BUF_INIT;
	if (rows->seen[!good]++ >= rows->most)
		return;
	job_qualified(w, c->facts.job, &part);
	table_take(&rows->table, COLOR_NONE, &part);
	outcome_text(r, c->outcome, &part);
	if (why)
		buf_addf(&part, ": %s", why);
	table_take(&rows->table, good ? COLOR_GREEN : COLOR_YELLOW, &part);
	act_detail(w, c, &part);
	table_take(&rows->table, COLOR_NONE, &part);
}

void act_rows_text(const struct act_rows *rows, const char *where, bool color, struct buf *out)
{
	int64_t unseen = 0;
	for (int i = 0; i < 2; i++)
		unseen += rows->seen[i] > rows->most ? rows->seen[i] - rows->most : 0;
	if (rows->table.n)
		table_print(&rows->table, color, out);
	if (unseen) {
		buf_add(out, "… and ");
		buf_add_count(out, unseen);
		buf_addf(out, " more%s\n", where);
	}
}

void act_rows_release(struct act_rows *r)
{
	table_release(&r->table);
}

void act_counts_text(const struct act_words *r, const struct watch *w, const struct database *d,
                     const struct by_hand_result *result, struct buf *out)
{
	AUTO_BUF counts = BUF_INIT;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		if (result->outcomes[i]) {
			buf_add(&counts, counts.len ? ", " : "");
			buf_add_count(&counts, result->outcomes[i]);
			buf_add(&counts, " ");
			outcome_text(r, (enum outcome)i, &counts);
		}
	if (counts.len)
		buf_addf(out, "%s/%s: %s\n", d->name, w->name, buf_text(&counts));
}

/* ---- background acts ---- */

static int64_t others_total(const json_t *others)
{
	int64_t n = 0;
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)others, name, value) n += json_integer_value(value);
	return n;
}

int64_t background_handled(const struct background_act *act)
{
	json_auto_t *others = json_loads(act->others ? act->others : "{}", 0, NULL);
	return act->done + others_total(others);
}

void background_json(const struct background_act *act, const struct database *d, struct buf *out)
{
	buf_add(out, "{\"id\":");
	buf_add_json(out, act->id);
	json_text(out, "database", d->name);
	json_text(out, "watch", act->watch);
	json_text(out, "act", act->act);
	buf_addf(out, ",\"where\":%s", act->terms);
	json_text(out, "from_step", act->step);
	json_bool(out, "override_guard", act->overrides);
	json_text(out, "reason", act->reason);
	json_text(out, "actor", act->actor);
	json_text(out, "state", act->state);
	json_number(out, "total", act->total >= 0, act->total);
	json_number(out, "handled", true, background_handled(act));
	json_number(out, "done", true, act->done);
	buf_addf(out, ",\"others\":%s", act->others ? act->others : "{}");
	json_text(out, "refusal", act->refusal);
	json_text(out, "error", act->error);
	json_time(out, "at", act->at_us != 0, act->at_us);
	json_time(out, "updated_at", act->updated_us != 0, act->updated_us);
	json_time(out, "ended_at", act->ended_us != 0, act->ended_us);
	json_text(out, "batch", act->done ? act->id : NULL);
	buf_add(out, "}");
}

void background_sentence(const struct background_act *act, struct buf *out)
{
	const struct act_kind *kind = act_kind_named(act->act);
	json_auto_t *others = json_loads(act->others ? act->others : "{}", 0, NULL);
	const char *name;
	json_t *value;
	buf_add_count(out, act->done);
	if (act->total >= 0) {
		buf_add(out, " of ");
		buf_add_count(out, act->total);
	}
	buf_addf(out, " %s", kind ? kind->done : act->act);
	json_object_foreach(others, name, value)
	{
		buf_add(out, ", ");
		buf_add_count(out, json_integer_value(value));
		buf_addf(out, " %s", name);
	}
}

static enum color state_color(const char *state)
{
	if (text_eq(state, BACKGROUND_FAILED))
		return COLOR_RED;
	if (text_eq(state, BACKGROUND_CANCELLED))
		return COLOR_YELLOW;
	return text_eq(state, BACKGROUND_DONE) ? COLOR_GREEN : COLOR_NONE;
}

void background_head(struct table *t)
{
	table_init(t);
	table_columns(t, "ID WATCH ACT STATE JOBS ORDERED BY");
}

void background_row(struct table *t, const struct background_act *act, const struct database *d,
                    int64_t now_us)
{
	AUTO_BUF text = BUF_INIT;
	table_cell(t, COLOR_NONE, act->id);
	buf_addf(&text, "%s/%s", d->name, act->watch);
	table_take(t, COLOR_NONE, &text);
	table_cell(t, COLOR_NONE, act->act);
	table_cell(t, state_color(act->state), act->state);
	background_sentence(act, &text);
	table_take(t, COLOR_NONE, &text);
	when_text(act->at_us, now_us, &text);
	table_take(t, COLOR_NONE, &text);
	table_cell(t, COLOR_NONE, act->actor);
}

static void terms_text(const struct background_act *act, struct buf *out)
{
	json_auto_t *list = json_loads(act->terms, 0, NULL);
	size_t i;
	json_t *item;
	json_array_foreach(list, i, item)
	{
		buf_add(out, i ? ", " : "");
		out_visible(out, json_string_value(item) ? json_string_value(item) : "?");
	}
	if (!json_array_size(list))
		buf_add(out, "all jobs");
}

static void moment(struct buf *out, const char *name, int64_t us, int64_t now_us)
{
	AUTO_BUF text = BUF_INIT;
	if (!us)
		return;
	when_text(us, now_us, &text);
	out_line(out, name, 10, buf_text(&text));
}

static void line(struct buf *out, const char *name, const char *text)
{
	if (text)
		out_line(out, name, 10, text);
}

void undo_line(bool undoable, const char *batch, struct buf *out)
{
	if (undoable)
		buf_addf(out, "undo with: defib undo %s\n", batch);
	else
		buf_addf(out,
		         "batch %s cannot be undone: it released jobs, or the watch's own SQL ran "
		         "(sql:, call: or also:)\n",
		         batch);
}

void background_text(const struct background_act *act, const struct database *d, int64_t now_us,
                     bool undoable, bool color, struct buf *out)
{
	AUTO_BUF jobs = BUF_INIT, terms = BUF_INIT;
	background_sentence(act, &jobs);
	terms_text(act, &terms);
	out_title(out, color, d->name, act->watch);
	buf_addf(out, ": %s, ", act->act);
	out_color(out, color, state_color(act->state), act->state);
	buf_add(out, "\n");
	line(out, "jobs", buf_text(&jobs));
	line(out, "where", buf_text(&terms));
	line(out, "from step", act->step);
	line(out, "reason", act->reason);
	line(out, "by", act->actor);
	moment(out, "ordered", act->at_us, now_us);
	moment(out, "ended", act->ended_us, now_us);
	line(out, "refused", act->refusal);
	line(out, "error", act->error);
	if (!act->ended_us)
		buf_addf(out, "cancel with: defib act cancel %s\n", act->id);
	if (act->done)
		undo_line(undoable, act->id, out);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/evidence.h"

#include "base/clock.h"
#include "watch/options.h"

/* Seconds with up to three decimals, as a JSON number. */
static void add_seconds(struct buf *out, int64_t us)
{
	int64_t ms = (us < 0 ? us - 500 : us + 500) / 1000;
	int64_t rest = llabs(ms % 1000);
	buf_add(out, ms < 0 ? "-" : "");
	buf_addint(out, llabs(ms / 1000));
	buf_add(out, rest < 10 ? ".00" : rest < 100 ? ".0" : ".");
	buf_addint(out, rest);
}

static void evidence_add_text(struct buf *out, const char *name, const char *value)
{
	if (!value)
		return;
	buf_add(out, ",\"");
	buf_add(out, name);
	buf_add(out, "\":");
	buf_add_json(out, value);
}

static void add_time(struct buf *out, const char *name, int64_t us)
{
	AUTO_BUF iso = BUF_INIT;
	time_iso(us, &iso);
	evidence_add_text(out, name, buf_text(&iso));
}

/* The last `n` characters, or "" if that would be the whole text. */
static const char *last_characters(const char *text, int n)
{
	const char *at = text + strlen(text);
	for (; at > text && n > 0; n--)
		for (at--; at > text && ((unsigned char)*at & 0xc0) == 0x80; at--)
			;
	return at > text ? at : "";
}

void mask_value(const struct watch *w, const char *column, const char *value, struct buf *out)
{
	if (!column || !watch_hides(w, column))
		buf_add(out, value);
	else
		buf_addf(out, "****%s", last_characters(value, 6));
}

/* `states` names the codes of the columns that show whether a row is running. */
static const char *state_name(const struct watch *w, const char *column, const char *value)
{
	for (int i = 0; i < w->states.n && watch_running_names(w, column); i++)
		if (text_eq(w->states.codes[i], value))
			return w->states.names[i];
	return NULL;
}

void shown_value(const struct watch *w, const char *column, const char *value, struct buf *out)
{
	const char *name = watch_hides(w, column) ? NULL : state_name(w, column, value);
	if (name && !text_eq(name, value))
		buf_addf(out, "%s (%s)", name, value);
	else
		mask_value(w, column, value, out);
}

void shown_owner(const struct watch *w, const char *owner, struct buf *out)
{
	/* For a viewer the owner is masked as a whole, by its expression. */
	if (watch_hides(w, w->owner.text) || watch_hides_value(w, w->owner.text))
		buf_addf(out, "****%s", last_characters(owner, 6));
	else
		buf_add(out, owner);
}

/* Columns that identify the job, unless the evidence already uses that name. */
static void evidence_add_shown(const struct watch *w, const struct facts *f, struct buf *out)
{
	AUTO_BUF name = BUF_INIT, value = BUF_INIT;
	for (int i = 0; i < w->show.n; i++) {
		buf_clear(&name);
		buf_add_json(&name, w->show.items[i]);
		buf_add(&name, ":");
		/* Inside a string the closing quote would have a backslash, so only a name can match. */
		if (!f->show[i] || strstr(buf_text(out), buf_text(&name)))
			continue;
		buf_clear(&value);
		mask_value(w, w->show.items[i], f->show[i], &value);
		buf_addf(out, ",%s", buf_text(&name));
		buf_add_json(out, buf_text(&value));
	}
}

/* As 'lost_at' of sql_evidence(). */
bool lost_since(const struct facts *f, const struct judgement *j, int64_t *us)
{
	bool of_run = verdict_has(j->verdict, VERDICT_OF_RUN);
	bool expired = f->has_sign[SIGN_EXPIRES] && f->sign_us[SIGN_EXPIRES] <= f->now_us;
	bool known = true;
	/* It had no worker. */
	if (j->waited)
		return false;
	if (of_run && j->measured)
		*us = f->sign_us[j->sign];
	else if (f->has_lost && !of_run)
		*us = f->lost_us;
	else if (f->has_sign[SIGN_ALIVE] && !of_run)
		*us = f->sign_us[SIGN_ALIVE];
	else if (expired && !of_run)
		*us = f->sign_us[SIGN_EXPIRES];
	else if (f->has_sign[SIGN_STARTED])
		*us = f->sign_us[SIGN_STARTED];
	else
		known = false;
	/* If a clock is ahead of the database's, the job was still not lost in the future. */
	if (known && *us > f->now_us)
		*us = f->now_us;
	return known;
}

void evidence_json(const struct watch *w, const struct facts *f, const struct judgement *j,
                   struct buf *out)
{
	buf_add(out, "{\"law\":");
	buf_add_json(out, j->rule->id);
	add_time(out, "now", f->now_us);
	for (int s = 0; s < SIGN_COUNT; s++)
		if (f->has_sign[s])
			add_time(out, sign_kinds[s].option, f->sign_us[s]);
	if (f->has_due)
		add_time(out, "due_at", f->due_us);
	if (f->has_last_run)
		add_time(out, "last_run_at", f->last_run_us);
	int64_t lost;
	if (lost_since(f, j, &lost))
		add_time(out, "lost_at", lost);
	if (j->measured) {
		buf_add(out, ",\"measured_s\":");
		add_seconds(out, j->measured_us);
		buf_add(out, ",\"limit_s\":");
		add_seconds(out, j->limit_us);
		AUTO_BUF origin = BUF_INIT;
		limit_origin(&j->limit_from, &origin);
		evidence_add_text(out, "limit_of", origin.len ? buf_text(&origin) : NULL);
	}
	if (f->owner) {
		AUTO_BUF owner = BUF_INIT;
		shown_owner(w, f->owner, &owner);
		evidence_add_text(out, "owner", buf_text(&owner));
	}
	evidence_add_text(out, "kind", f->kind);
	evidence_add_text(out, "state", f->state);
	evidence_add_text(out, "progress", f->progress);
	if (f->has_attempts)
		buf_addf(out, ",\"attempt\":%lld", (long long)f->attempts);
	if (f->has_max_attempts)
		buf_addf(out, ",\"max_attempts\":%lld", (long long)f->max_attempts);
	if (f->crashes)
		buf_addf(out, ",\"recovered_before\":%lld", (long long)f->crashes);
	if (f->mass)
		buf_add(out, ",\"mass\":true");
	if (f->clean)
		buf_add(out, ",\"clean\":true");
	evidence_add_shown(w, f, out);
	buf_add(out, "}");
}

static void waited_sentence(const struct judgement *j, struct buf *out)
{
	bool ahead = j->measured_us < 0;
	buf_add(out, ahead ? "is due in " : "has waited ");
	duration_text(ahead ? -j->measured_us : j->measured_us, out);
	buf_add(out, " (limit ");
	limit_text(j->limit_us, &j->limit_from, out);
	buf_add(out, ")");
	if (text_eq(j->rule->id, "moved-on"))
		buf_add(out, " and its schedule moved on without a run");
}

void evidence_sentence(const struct judgement *j, struct buf *out)
{
	if (!j->measured) {
		buf_add(out, j->rule->why);
		return;
	}
	if (j->waited) {
		waited_sentence(j, out);
		return;
	}
	if (j->measured_us < 0 && sign_kinds[j->sign].deadline) {
		buf_add(out, "its deadline is in ");
		duration_text(-j->measured_us, out);
		return;
	}
	bool fresh = j->verdict == VERDICT_NONE && j->sign == SIGN_ALIVE;
	if (j->value)
		buf_addf(out, "its progress has been %s for ", j->value);
	else
		buf_add(out, fresh ? "last sign of life " : sign_kinds[j->sign].words);
	duration_text(j->measured_us > 0 ? j->measured_us : 0, out);
	buf_add(out, fresh ? " ago (limit " : " (limit ");
	limit_text(j->limit_us, &j->limit_from, out);
	buf_add(out, ")");
}

const char *reason_template(const struct watch *w, enum remedy remedy)
{
	const struct opt_row *row = watch_rows;
	while (!text_eq(row->name, "reason"))
		row++;
	const char *own = act_kinds[remedy].reason;
	return own && text_eq(w->reason, row->standard) ? own : w->reason;
}

void poison_reason_end(const struct watch *w, struct buf *out)
{
	buf_add(out, " times within ");
	duration_text(w->crash_budget.within_us, out);
}

void reason_text(const struct watch *w, const char *template, const struct facts *f,
                 const struct judgement *j, struct buf *out)
{
	static const char *const names[] = {"{verdict}", "{silent}", "{owner}", "{kind}"};
	AUTO_BUF silent = BUF_INIT, owner = BUF_INIT;
	/* What is masked elsewhere must not appear in the row's own error column. */
	if (f->owner && w->owner.text)
		shown_owner(w, f->owner, &owner);
	else
		buf_add(&owner, f->owner ? f->owner : "unknown");
	if (j->measured)
		duration_text(j->measured_us, &silent);
	else
		buf_add(&silent, "unknown time");
	const char *const values[] = {verdict_names[j->verdict], buf_text(&silent), buf_text(&owner),
	                              f->kind ? f->kind : "unknown"};
	while (*template) {
		size_t i = 0;
		while (i < 4 && !text_starts(template, names[i]))
			i++;
		if (i < 4) {
			buf_add(out, values[i]);
			template += strlen(names[i]);
		} else {
			buf_addch(out, *template ++);
		}
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* evidence_sql.c: see judge_sql.h. */
#include "setup/judge_sql.h"

#include "base/clock.h"
#include "base/text.h"
#include "recover/decide.h"
#include "recover/evidence.h"
#include "store/store.h"
#include "watch/hold.h"

#include <assert.h>

/* As duration_text(): two units from minutes up, else one. */
static void add_duration(const char *us, struct buf *out)
{
	static const struct {
		int64_t us;
		const char *name;
		bool with_next;
	} units[] = {
		{86400 * US_PER_S, "d", true}, {3600 * US_PER_S, "h", true}, {60 * US_PER_S, "m", true},
		{US_PER_S, "s", false},        {1000, "ms", false},          {1, "us", false},
	};
	buf_add(out, "CASE");
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		long long unit = (long long)units[i].us;
		buf_addf(out, " WHEN %s >= %lld THEN %s / %lld || '%s'", us, unit, us, unit, units[i].name);
		if (units[i].with_next)
			buf_addf(out, " || coalesce(' ' || nullif(%s %% %lld / %lld, 0) || '%s', '')", us, unit,
			         (long long)units[i + 1].us, units[i + 1].name);
	}
	buf_addf(out, " WHEN %s IS NULL THEN 'unknown time' ELSE '0s' END", us);
}

static void add_piece(const char *text, size_t n, struct buf *out)
{
	struct buf piece = BUF_INIT;
	buf_addn(&piece, text, n);
	buf_add(out, " || ");
	sql_literal(out, buf_text(&piece));
	buf_release(&piece);
}

/* As mask_value(): the last six characters, unless that is all there is. */
static void add_value(const struct watch *w, const char *column, const char *sql, struct buf *out)
{
	if (watch_hides(w, column))
		buf_addf(out, "'****' || CASE WHEN length(%s) <= 6 THEN '' ELSE right(%s, 6) END", sql,
		         sql);
	else
		buf_add(out, sql);
}

/* As shown_owner(). */
static void add_owner(const struct watch *w, struct buf *out)
{
	const char *owner = w->owner.text ? w->owner.text : "";
	add_value(w, text_starts(owner, "t.") ? owner + 2 : owner, "owner", out);
}

/* A template with its fields filled in. */
static void add_filled(const struct watch *w, const char *template, struct buf *out)
{
	struct buf silent = BUF_INIT, owner = BUF_INIT;
	add_duration("measured_us", &silent);
	buf_add(&owner, "coalesce(");
	add_owner(w, &owner);
	buf_add(&owner, ", 'unknown')");
	const struct {
		const char *name, *sql;
	} fields[] = {
		{"{verdict}", "verdict"},
		{"{silent}", buf_text(&silent)},
		{"{owner}", buf_text(&owner)},
		{"{kind}", "coalesce(kind, 'unknown')"},
	};
	enum { FIELDS = sizeof fields / sizeof *fields };
	const char *at = template, *plain = at;
	buf_add(out, "''");
	while (*at) {
		size_t i = 0;
		while (i < FIELDS && !text_starts(at, fields[i].name))
			i++;
		if (i == FIELDS) {
			at++;
			continue;
		}
		if (at > plain)
			add_piece(plain, (size_t)(at - plain), out);
		buf_addf(out, " || (%s)", fields[i].sql);
		at += strlen(fields[i].name);
		plain = at;
	}
	if (at > plain)
		add_piece(plain, (size_t)(at - plain), out);
	buf_release(&silent);
	buf_release(&owner);
}

void sql_reason(const struct watch *w, struct buf *out)
{
	static const enum remedy unrecovered[] = {REMEDY_REPORT, REMEDY_HOLD};
	struct buf end = BUF_INIT;
	poison_reason_end(w, &end);
	buf_addf(out, "CASE WHEN cause = '%s' THEN '%s' || crashes_now || ", HOLD_POISON,
	         POISON_REASON);
	sql_literal(out, buf_text(&end));
	for (size_t i = 0; i < sizeof unrecovered / sizeof *unrecovered; i++) {
		buf_addf(out, "\n    WHEN remedy = '%s' THEN ", remedy_names[unrecovered[i]]);
		add_filled(w, reason_template(w, unrecovered[i]), out);
	}
	buf_add(out, "\n    ELSE ");
	add_filled(w, w->reason, out);
	buf_add(out, " END");
	buf_release(&end);
}

static void add_time(const char *name, const char *us, struct buf *out)
{
	buf_addf(out,
	         "\n    '%s', to_char(timestamp 'epoch' + %s * interval '1 microsecond', "
	         "'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'),",
	         name, us);
}

/* Columns that name the job; what the evidence says itself under such a name comes behind and wins.
 */
static void add_shown(const struct watch *w, struct buf *out)
{
	buf_add(out, "jsonb_strip_nulls(jsonb_build_object(");
	for (int i = 0; i < w->show.n; i++) {
		char column[24];
		snprintf(column, sizeof column, "show_%d", i + 1);
		buf_add(out, i ? ", " : "");
		sql_literal(out, w->show.items[i]);
		buf_add(out, ", ");
		add_value(w, w->show.items[i], column, out);
	}
	buf_add(out, "))");
}

void sql_evidence(const struct watch *w, struct buf *out)
{
	add_shown(w, out);
	buf_add(out, " || jsonb_strip_nulls(jsonb_build_object('law', law,");
	add_time("now", "now_us", out);
	add_time("alive_at", "alive_us", out);
	add_time("expires_at", "expires_us", out);
	add_time("started_at", "started_us", out);
	/* As lost_since(). */
	add_time("lost_at",
	         "(SELECT CASE WHEN since > now_us THEN now_us ELSE since END FROM (SELECT CASE WHEN "
	         "verdict = 'overdue' THEN started_us ELSE coalesce(lost_us, alive_us, CASE WHEN "
	         "expires_us <= now_us THEN expires_us END, started_us) END AS since) AS lost)",
	         out);
	buf_add(out, "\n    'measured_s', round(measured_us / 1000000.0, 3), "
	             "'limit_s', round(limit_us / 1000000.0, 3), 'owner', ");
	add_owner(w, out);
	buf_add(out, ", 'kind', kind,\n    'attempt', attempts, 'max_attempts', max_attempts, "
	             "'recovered_before', nullif(crashes, 0), 'mass', nullif(mass, false)))");
}

/* After so many steps the wait no longer grows; power() beyond them could overflow. */
static int64_t steps_to_cap(const struct backoff *b)
{
	const struct backoff plain = {.base_us = b->base_us, .cap_us = b->cap_us, .factor = b->factor};
	int64_t wait, steps = -1;
	do
		wait = backoff_us(&plain, ++steps, 0);
	while (steps < 1000 && wait > 0 && wait < b->cap_us);
	return steps;
}

void sql_retry_us(const struct backoff *b, struct buf *out)
{
	buf_addf(
		out,
		"CASE WHEN remedy = 'retry' THEN now_us + trunc(least(%lld, %lld * power(%.17g::float8, "
		"least(greatest(coalesce(attempts, 0), 0), %lld)))%s)::bigint END",
		(long long)b->cap_us, (long long)b->base_us, b->factor, (long long)steps_to_cap(b),
		b->jitter ? " * random()" : "");
}

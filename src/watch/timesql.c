/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/timesql.h"

#include "base/clock.h"
#include "store/dialect.h"
#include "store/sql.h"

#include <assert.h>

/*
 * A cutoff is before + amount + after. The cutoffs of integer times are rounded up: look may return
 * a row too many, which judge dismisses, but never one too few.
 */
struct time_form {
	const char *to_us[3];   /* around the expression; unreadable values are null */
	const char *compare[3]; /* around the expression, twice if there is a third */
	const char *cutoff[2];  /* around the amount */
	const char *amount[2];  /* around the number */
	int64_t unit_us;        /* of the number */
	bool fraction;          /* whether the number may have a fraction */
};

/*
 * Texts that PostgreSQL accepts as a time. It has no cast that returns null, and one row that it
 * refuses would fail the statement for all. ISO 8601 in its common forms, and RFC 2822; the days of
 * a month are checked.
 */
#define LEAP_YEAR "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
#define CLOCK "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,12})?)?"
#define ZONE " ?(Z|UTC|GMT|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)"
#define ISO_DATE                                                                                   \
	"([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"      \
	"02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define MAIL_DATE                                                                                  \
	"((Mon|Tue|Wed|Thu|Fri|Sat|Sun), )?((0?[1-9]|1[0-9]|2[0-8]) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|" \
	"Sep|Oct|Nov|Dec) [0-9]{4}|(29|30) (Jan|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4}|"    \
	"31 (Jan|Mar|May|Jul|Aug|Oct|Dec) [0-9]{4}|29 Feb " LEAP_YEAR ")"
#define ISO_TIME ISO_DATE "([ T]" CLOCK "(" ZONE ")?)?"
#define MAIL_TIME MAIL_DATE " " CLOCK ZONE
#define READABLE "'^(?!.* 0000 )(?!0000)(" ISO_TIME "|" MAIL_TIME ")$'"

/* PostgreSQL's last years, from 294247 on, do not fit into 64 bits of microseconds since 1970. */
#define FAR ", 9000000000000"

static const struct time_form typed_forms[] = {
	[TIME_TYPE_TIMESTAMPTZ] = {{"CASE WHEN isfinite(", ") THEN (least(extract(epoch FROM ",
                                ")" FAR ") * 1000000)::bigint END"},
                               {"(", ")"},
                               {"statement_timestamp() - ", ""},
                               {"", " * interval '1 second'"},
                               US_PER_S,
                               true},
	[TIME_TYPE_UTC] = {{"CASE WHEN isfinite(", ") THEN (least(extract(epoch FROM ",
                        ")" FAR ") * 1000000)::bigint END"},
                       {"(", ")"},
                       {"(statement_timestamp() AT TIME ZONE 'UTC') - ", ""},
                       {"", " * interval '1 second'"},
                       US_PER_S,
                       true},
	[TIME_TYPE_EPOCH] = {{"CASE WHEN ", " BETWEEN -9000000000000 AND 9000000000000 THEN (",
                          " * 1000000::numeric)::bigint END"},
                         {"(", ")"},
                         {"ceil(extract(epoch FROM statement_timestamp()) - ", ")::bigint"},
                         {"", ""},
                         US_PER_S,
                         true},
	[TIME_TYPE_EPOCH_MS] = {{"CASE WHEN ", " BETWEEN -9000000000000000 AND 9000000000000000 THEN (",
                             " * 1000::numeric)::bigint END"},
                            {"(", ")"},
                            {"ceil(extract(epoch FROM statement_timestamp()) * 1000 - ",
                             ")::bigint"},
                            {"", ""},
                            1000,
                            false},
	[TIME_TYPE_TEXT] = {{"CASE WHEN ", "::text ~ " READABLE " THEN (extract(epoch FROM ",
                         "::timestamptz) * 1000000)::bigint END"},
                        {"CASE WHEN (", ")::text ~ " READABLE " THEN (", ")::timestamptz END"},
                        {"statement_timestamp() - ", ""},
                        {"", " * interval '1 second'"},
                        US_PER_S,
                        true},
};

static const struct time_form untyped_text = {
	{"CAST(round((julianday(", ") - 2440587.5) * 86400000) AS INTEGER) * 1000", NULL},
	{"julianday(", ")"},
	{"julianday('now') - ", ""},
	{"", " / 86400.0"},
	US_PER_S,
	true,
};
/* Texts are greater than every number, once + has taken the column's affinity away. */
static const struct time_form untyped_epoch = {
	{"CASE WHEN +", " BETWEEN -9000000000000 AND 9000000000000 THEN CAST(",
     " * 1000000 AS INTEGER) END"},
	{"(", ")"},
	{"CAST(strftime('%s', 'now') AS INTEGER) + 1 - ", ""},
	{"", ""},
	US_PER_S,
	false,
};
static const struct time_form untyped_epoch_ms = {
	{"CASE WHEN +", " BETWEEN -9000000000000000 AND 9000000000000000 THEN CAST(",
     " * 1000 AS INTEGER) END"},
	{"(", ")"},
	{SQLITE_NOW_MS " + 1 - ", ""},
	{"", ""},
	1000,
	false,
};

static const struct time_form *timesql_form_of(const struct binding *b, enum time_type time)
{
	assert(time != TIME_TYPE_AUTO);
	if (dialect_of(b->engine)->has_time_types)
		return &typed_forms[time];
	if (time == TIME_TYPE_EPOCH)
		return &untyped_epoch;
	return time == TIME_TYPE_EPOCH_MS ? &untyped_epoch_ms : &untyped_text;
}

const char *sql_now_us(enum store_engine engine)
{
	return dialect_of(engine)->now_us;
}

/* Whether a time is written in the watch's own zone. */
static bool in_zone(const struct binding *b, enum time_type time)
{
	return b->zone && time == TIME_TYPE_UTC;
}

void sql_time_us(const struct binding *b, enum time_type time, const char *expr, struct buf *out)
{
	if (in_zone(b, time)) {
		/* If an hour occurs twice, the later one is meant, so that a sign is never too old. */
		buf_addf(
			out,
			"CASE WHEN isfinite(%s) THEN (least(extract(epoch FROM (%s)::timestamp AT TIME ZONE "
			"%s)" FAR ") * 1000000)::bigint END",
			expr, expr, b->zone);
		return;
	}
	const struct time_form *form = timesql_form_of(b, time);
	buf_addf(out, "%s(%s)%s", form->to_us[0], expr, form->to_us[1]);
	if (form->to_us[2])
		buf_addf(out, "(%s)%s", expr, form->to_us[2]);
}

bool sql_time_unreadable(const struct binding *b, enum time_type time, const char *type,
                         const char *expr, struct buf *out)
{
	/*
	 * A value with a time type can always be read; of numbers, those that may be infinite are
	 * checked.
	 */
	bool number = text_starts(type, "double") || text_starts(type, "numeric");
	if (dialect_of(b->engine)->has_time_types && time != TIME_TYPE_TEXT && !number)
		return false;
	buf_addf(out, "(%s) IS NOT NULL AND (", expr);
	sql_time_us(b, time, expr, out);
	buf_add(out, ") IS NULL");
	return true;
}

void sql_time_comparable(const struct binding *b, enum time_type time, const char *expr,
                         struct buf *out)
{
	const struct time_form *form = timesql_form_of(b, time);
	buf_addf(out, "%s%s%s", form->compare[0], expr, form->compare[1]);
	if (form->compare[2])
		buf_addf(out, "%s%s", expr, form->compare[2]);
}

const char *sql_time_comparable_type(enum time_type time, const char *column_type)
{
	return time == TIME_TYPE_TEXT ? "timestamptz" : column_type;
}

static void timesql_add_amount(const struct time_form *form, int64_t us, struct buf *out)
{
	int64_t whole = us / form->unit_us;
	int64_t micros = us % form->unit_us * (US_PER_S / form->unit_us);
	buf_addf(out, "%s%lld", form->amount[0], (long long)whole);
	if (micros && form->fraction)
		buf_addf(out, ".%06lld", (long long)micros);
	buf_add(out, form->amount[1]);
}

void sql_time_cutoff(const struct binding *b, enum time_type time, const struct threshold *t,
                     const char *kind_expr, struct buf *out)
{
	const struct time_form *form = timesql_form_of(b, time);
	bool zoned = in_zone(b, time);
	buf_add(out, zoned ? "((statement_timestamp() - " : form->cutoff[0]);
	if (kind_expr && t->n) {
		buf_addf(out, "CASE (%s)", kind_expr);
		for (int i = 0; i < t->n; i++) {
			buf_add(out, " WHEN ");
			sql_literal(out, t->kinds[i]);
			buf_add(out, " THEN ");
			timesql_add_amount(form, t->us[i], out);
		}
		buf_add(out, " ELSE ");
		timesql_add_amount(form, t->standard_us, out);
		buf_add(out, " END");
	} else {
		timesql_add_amount(form, threshold_least(t), out);
	}
	if (zoned)
		buf_addf(out, ") AT TIME ZONE %s)", b->zone);
	else
		buf_add(out, form->cutoff[1]);
}

static void typed_value(enum time_type time, const char *us, struct buf *out)
{
	static const char *const around[][2] = {
		[TIME_TYPE_TIMESTAMPTZ] = {"timestamptz 'epoch' + ", " * interval '1 microsecond'"},
		[TIME_TYPE_UTC] = {"timestamp 'epoch' + ", " * interval '1 microsecond'"},
		[TIME_TYPE_EPOCH] = {"", " / 1000000"},
		[TIME_TYPE_EPOCH_MS] = {"", " / 1000"},
		[TIME_TYPE_TEXT] = {"to_char(timestamp 'epoch' + ", " * interval '1 microsecond', "},
	};
	buf_addf(out, "%s%s%s", around[time][0], us, around[time][1]);
}

static void value_as(const struct binding *b, enum time_type time, const char *us_expr,
                     struct buf *out)
{
	if (in_zone(b, time)) {
		buf_addf(out, "(timestamptz 'epoch' + %s * interval '1 microsecond') AT TIME ZONE %s",
		         us_expr, b->zone);
	} else if (dialect_of(b->engine)->has_time_types) {
		typed_value(time, us_expr, out);
		if (time == TIME_TYPE_TEXT)
			buf_add(out, b->iso_t ? "'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
			                      : "'YYYY-MM-DD HH24:MI:SS.MS')");
	} else if (time == TIME_TYPE_EPOCH || time == TIME_TYPE_EPOCH_MS) {
		buf_addf(out, "%s / %d", us_expr, time == TIME_TYPE_EPOCH ? 1000000 : 1000);
	} else {
		buf_addf(out, "strftime('%s', %s / 1000000.0, 'unixepoch')",
		         b->iso_t ? "%Y-%m-%dT%H:%M:%fZ" : "%Y-%m-%d %H:%M:%f", us_expr);
	}
}

void sql_time_value(const struct binding *b, const char *us_expr, struct buf *out)
{
	value_as(b, b->time, us_expr, out);
}

void sql_time_value_for(const struct binding *b, const char *column, const char *us_expr,
                        struct buf *out)
{
	enum time_type time = b->time;
	if (column)
		(void)column_time(b, column, &time);
	value_as(b, time, us_expr, out);
}

/* timesql.c: see timesql.h. */
#include "watch/timesql.h"

#include "base/clock.h"

#include <assert.h>

/*
 * A cutoff is before + amount + after. The cutoffs of whole-number times are
 * rounded up: look may return a row too much, which judge lets go, but never
 * one too few.
 */
struct time_form {
	const char *to_us[3];   /* around the expression */
	const char *compare[2]; /* around the expression */
	const char *cutoff[2];  /* around the amount */
	const char *amount[2];  /* around the number */
	int64_t unit_us;        /* of the number */
	bool fraction;          /* whether the number may have a fraction */
};

static const struct time_form postgres_forms[] = {
	[TIME_TYPE_TIMESTAMPTZ] = {{"CASE WHEN isfinite(", ") THEN (extract(epoch FROM ",
                                ") * 1000000)::bigint END"},
                               {"(", ")"},
                               {"statement_timestamp() - ", ""},
                               {"interval '", " seconds'"},
                               US_PER_S,
                               true},
	[TIME_TYPE_UTC] = {{"CASE WHEN isfinite(", ") THEN (extract(epoch FROM ",
                        ") * 1000000)::bigint END"},
                       {"(", ")"},
                       {"(statement_timestamp() AT TIME ZONE 'UTC') - ", ""},
                       {"interval '", " seconds'"},
                       US_PER_S,
                       true},
	[TIME_TYPE_EPOCH] = {{"(", " * 1000000::numeric)::bigint", NULL},
                         {"(", ")"},
                         {"ceil(extract(epoch FROM statement_timestamp()) - ", ")::bigint"},
                         {"", ""},
                         US_PER_S,
                         true},
	[TIME_TYPE_EPOCH_MS] = {{"(", " * 1000::numeric)::bigint", NULL},
                            {"(", ")"},
                            {"ceil(extract(epoch FROM statement_timestamp()) * 1000 - ",
                             ")::bigint"},
                            {"", ""},
                            1000,
                            false},
	[TIME_TYPE_TEXT] = {{"(extract(epoch FROM ", "::timestamptz) * 1000000)::bigint", NULL},
                        {"(", ")::timestamptz"},
                        {"statement_timestamp() - ", ""},
                        {"interval '", " seconds'"},
                        US_PER_S,
                        true},
};

static const struct time_form sqlite_text = {
	{"CAST(round((julianday(", ") - 2440587.5) * 86400000) AS INTEGER) * 1000", NULL},
	{"julianday(", ")"},
	{"julianday('now') - ", ""},
	{"", " / 86400.0"},
	US_PER_S,
	true,
};
static const struct time_form sqlite_epoch = {
	{"CAST(", " * 1000000 AS INTEGER)", NULL},
	{"(", ")"},
	{"CAST(strftime('%s', 'now') AS INTEGER) + 1 - ", ""},
	{"", ""},
	US_PER_S,
	false,
};
static const struct time_form sqlite_epoch_ms = {
	{"CAST(", " * 1000 AS INTEGER)", NULL},
	{"(", ")"},
	{SQLITE_NOW_MS " + 1 - ", ""},
	{"", ""},
	1000,
	false,
};

static const struct time_form *form_of(enum store_engine engine, enum time_type time)
{
	assert(time != TIME_TYPE_AUTO);
	if (engine == STORE_POSTGRES)
		return &postgres_forms[time];
	if (time == TIME_TYPE_EPOCH)
		return &sqlite_epoch;
	return time == TIME_TYPE_EPOCH_MS ? &sqlite_epoch_ms : &sqlite_text;
}

const char *sql_now_us(enum store_engine engine)
{
	return engine == STORE_POSTGRES ? "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
	                                : SQLITE_NOW_MS " * 1000";
}

void sql_time_us(enum store_engine engine, enum time_type time, const char *expr, struct buf *out)
{
	const struct time_form *form = form_of(engine, time);
	buf_addf(out, "%s(%s)%s", form->to_us[0], expr, form->to_us[1]);
	if (form->to_us[2])
		buf_addf(out, "(%s)%s", expr, form->to_us[2]);
}

void sql_time_comparable(enum store_engine engine, enum time_type time, const char *expr,
                         struct buf *out)
{
	const struct time_form *form = form_of(engine, time);
	buf_addf(out, "%s%s%s", form->compare[0], expr, form->compare[1]);
}

const char *sql_time_comparable_type(enum time_type time, const char *column_type)
{
	return time == TIME_TYPE_TEXT ? "timestamptz" : column_type;
}

static void add_amount(const struct time_form *form, int64_t us, struct buf *out)
{
	int64_t whole = us / form->unit_us;
	int64_t micros = us % form->unit_us * (US_PER_S / form->unit_us);
	buf_addf(out, "%s%lld", form->amount[0], (long long)whole);
	if (micros && form->fraction)
		buf_addf(out, ".%06lld", (long long)micros);
	buf_add(out, form->amount[1]);
}

void sql_time_cutoff(enum store_engine engine, enum time_type time, const struct threshold *t,
                     const char *kind_expr, struct buf *out)
{
	const struct time_form *form = form_of(engine, time);
	buf_add(out, form->cutoff[0]);
	if (kind_expr && t->n) {
		buf_addf(out, "CASE (%s)", kind_expr);
		for (int i = 0; i < t->n; i++) {
			buf_add(out, " WHEN ");
			sql_literal(out, t->kinds[i]);
			buf_add(out, " THEN ");
			add_amount(form, t->us[i], out);
		}
		buf_add(out, " ELSE ");
		add_amount(form, t->standard_us, out);
		buf_add(out, " END");
	} else {
		add_amount(form, threshold_least(t), out);
	}
	buf_add(out, form->cutoff[1]);
}

static void postgres_value(enum time_type time, const char *us, struct buf *out)
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

void sql_time_value(const struct binding *b, const char *us_expr, struct buf *out)
{
	if (b->engine == STORE_POSTGRES) {
		postgres_value(b->time, us_expr, out);
		if (b->time == TIME_TYPE_TEXT)
			buf_add(out, b->iso_t ? "'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
			                      : "'YYYY-MM-DD HH24:MI:SS.MS')");
	} else if (b->time == TIME_TYPE_EPOCH || b->time == TIME_TYPE_EPOCH_MS) {
		buf_addf(out, "%s / %d", us_expr, b->time == TIME_TYPE_EPOCH ? 1000000 : 1000);
	} else {
		buf_addf(out, "strftime('%s', %s / 1000000.0, 'unixepoch')",
		         b->iso_t ? "%Y-%m-%dT%H:%M:%fZ" : "%Y-%m-%d %H:%M:%f", us_expr);
	}
}

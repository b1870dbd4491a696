/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/limit_sql.h"

#include "store/sql.h"

#define CENTURY_S INT64_C(3155760000)

static void limit_of_kind(const struct threshold *t, const char *kind, struct buf *out)
{
	/* A deadline without slack counts from the deadline itself. */
	long long standard_us = t->given ? t->standard_us : 0;
	if (!t->n || !kind) {
		buf_addf(out, "%lld", standard_us);
		return;
	}
	buf_addf(out, "CASE (%s)", kind);
	for (int i = 0; i < t->n; i++) {
		buf_add(out, " WHEN ");
		sql_literal(out, t->kinds[i]);
		buf_addf(out, " THEN %lld", (long long)t->us[i]);
	}
	buf_addf(out, " ELSE %lld END", standard_us);
}

static void limit_without_state(const struct threshold *t, const struct limit_sql *x,
                                struct buf *out)
{
	if (x->own_us)
		buf_addf(out, "coalesce(%s, ", x->own_us);
	limit_of_kind(t, x->kind, out);
	if (x->own_us)
		buf_add(out, ")");
}

void sql_limit_us(const struct watch *w, enum sign s, const struct limit_sql *x, struct buf *out)
{
	const struct threshold *t = watch_limit(w, s);
	enum sign_states states = sign_kinds[s].states;
	bool by_state = t->states.n && x->state;
	if (by_state)
		buf_addf(out, "CASE (%s)", x->state);
	for (int i = 0; by_state && i < t->states.n; i++) {
		buf_add(out, " WHEN ");
		sql_literal(out, t->states.values[i]);
		if (states == SIGN_STATES_APART)
			buf_add(out, " THEN NULL");
		else
			buf_addf(out, " THEN %lld", (long long)t->states.us[i]);
	}
	buf_add(out, by_state ? " ELSE " : "");
	if (states == SIGN_STATES_ALONE)
		buf_add(out, "NULL");
	else
		limit_without_state(t, x, out);
	buf_add(out, by_state ? " END" : "");
}

void sql_limit_state(const struct threshold *t, const char *state, struct buf *out)
{
	buf_addf(out, "CASE (%s)", state);
	for (int i = 0; i < t->states.n; i++) {
		buf_add(out, " WHEN ");
		sql_literal(out, t->states.values[i]);
		buf_add(out, " THEN ");
		sql_literal(out, t->states.names[i]);
	}
	buf_add(out, " END");
}

void sql_own_limit(const struct own_limit *own, struct buf *out)
{
	const char *s = own->seconds, *greatest = own->typed ? "greatest" : "max";
	buf_addf(out, "CASE WHEN ");
	if (!own->typed)
		buf_addf(out, "typeof(%s) IN ('integer', 'real') AND ", s);
	buf_addf(out, "%s > 0 THEN ", s);
	if (own->least_us)
		buf_addf(out, "%s(%lld, ", greatest, (long long)own->least_us);
	buf_addf(out, "CAST(%s(%s, %lld) * 1000000", own->typed ? "least" : "min", s,
	         (long long)CENTURY_S);
	if (own->factor != 1)
		buf_addf(out, " * %.17g", own->factor);
	buf_addf(out, " AS %s)", own->typed ? "bigint" : "INTEGER");
	buf_add(out, own->least_us ? ") END" : " END");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/verdict.h"

#include <assert.h>
#include <stddef.h>

const struct verdict_kind verdict_kinds[VERDICT_COUNT] = {
#define X(id, ...) {__VA_ARGS__},
	VERDICT_LIST(X)
#undef X
};

const char *const verdict_names[] = {
#define X(id, name, ...) name,
	VERDICT_LIST(X)
#undef X
		NULL,
};

bool verdict_has(enum verdict v, unsigned marks)
{
	assert(v >= 0 && v < VERDICT_COUNT);
	return (verdict_kinds[v].marks & marks) != 0;
}

void verdict_list_sql(struct buf *out, unsigned marks)
{
	size_t before = out->len;
	for (int v = 0; v < VERDICT_COUNT; v++)
		if (verdict_has((enum verdict)v, marks))
			buf_addf(out, "%s'%s'", out->len > before ? ", " : "", verdict_names[v]);
	assert(out->len > before);
}

bool sign_brings_limit(enum sign s)
{
	for (enum sign before = 0; before < s; before++)
		if (text_eq(sign_kinds[before].limit, sign_kinds[s].limit))
			return false;
	return true;
}

const struct sign_kind sign_kinds[SIGN_COUNT] = {
#define X(id, name, option, limit, deadline, refuted, states, rule, words)                         \
	{#name, #option, #limit, deadline, refuted, SIGN_STATES_##states, words},
	SIGN_LIST(X)
#undef X
};

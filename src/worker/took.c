/* SPDX-License-Identifier: Apache-2.0 */
/* took.c: see took.h. */
#include "worker/took.h"

#include <assert.h>

const double took_bounds[TOOK_BUCKETS - 1] = {TOOK_BOUNDS};
_Static_assert(sizeof((double[]){TOOK_BOUNDS}) == sizeof took_bounds, "a bucket a bound");

void took_add(struct took *t, int64_t ms)
{
	int i = 0;
	assert(ms >= 0);
	while (i < TOOK_BUCKETS - 1 && (double)ms / 1e3 > took_bounds[i])
		i++;
	t->counts[i]++;
	t->sum_ms += ms;
}

void took_json(const struct took *t, struct buf *out)
{
	const char *comma = "";
	buf_addf(out, "{\"sum\":%.3f,\"buckets\":{", (double)t->sum_ms / 1e3);
	for (int i = 0; i < TOOK_BUCKETS; i++) {
		if (!t->counts[i])
			continue;
		buf_addf(out, "%s\"", comma);
		if (i < TOOK_BUCKETS - 1)
			buf_addf(out, "%g", took_bounds[i]);
		else
			buf_add(out, "+Inf");
		buf_addf(out, "\":%lld", (long long)t->counts[i]);
		comma = ",";
	}
	buf_add(out, "}}");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* depth_sql.c: see depth_sql.h. */
#include "watch/depth_sql.h"

#include "watch/compile_read.h"
#include "watch/list_sql.h"
#include "watch/timesql.h"

int depth_states(const struct watch *w, struct depth_state *out)
{
	const struct stats *s = &w->stats;
	int n = 0;
	if (s->ready.text || w->work.ready.text)
		out[n++] =
			(struct depth_state){"ready", s->ready.text ? s->ready.text : w->work.ready.text};
	if (s->scheduled.text)
		out[n++] = (struct depth_state){"scheduled", s->scheduled.text};
	return n;
}

void depth_sql(const struct binding *b, const struct depth_state *s, struct buf *out)
{
	buf_addf(out, "SELECT count(*), %s - min(defib_since) FROM (SELECT ", sql_now_us(b->engine));
	since_sql(b, out);
	buf_add(out, " AS defib_since");
	from_table(b, out);
	buf_addf(out, "\nWHERE (%s)\nLIMIT %d) AS defib_q", s->where, DEPTH_COUNT_MAX);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* depth_sql.c: see depth_sql.h. */
#include "watch/depth_sql.h"

#include "watch/builtin.h"
#include "watch/compile_read.h"
#include "watch/list_sql.h"
#include "watch/timesql.h"

int depth_states(const struct watch *w, struct depth_state *out)
{
	/* Partial indexes serve these two; its other states are looked at by nobody who waits. */
	static const struct depth_state of_the_queue[DEPTH_STATES_MAX] = {
		{"ready", "t.state = 'queued'"}, {"scheduled", "t.state = 'scheduled'"}};
	if (w->work.ready.text) {
		out[0] = (struct depth_state){"ready", w->work.ready.text};
		return 1;
	}
	if (!is_builtin(w))
		return 0;
	for (int i = 0; i < DEPTH_STATES_MAX; i++)
		out[i] = of_the_queue[i];
	return DEPTH_STATES_MAX;
}

void depth_sql(const struct binding *b, const struct depth_state *s, struct buf *out)
{
	buf_addf(out, "SELECT count(*), %s - min(defib_since) FROM (SELECT ", sql_now_us(b->engine));
	since_sql(b, out);
	buf_add(out, " AS defib_since");
	from_table(b, out);
	buf_addf(out, "\nWHERE (%s)\nLIMIT %d) AS defib_q", s->where, DEPTH_COUNT_MAX);
}

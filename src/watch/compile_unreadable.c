/* SPDX-License-Identifier: Apache-2.0
 * compile_unreadable.c: the statement that finds rows whose sign of life is no time.
 *
 * One bad text must not hide: its row is in no look, so it is asked for by itself.
 */
#include "watch/compile_read.h"

#include "store/dialect.h"
#include "watch/compile_write.h"
#include "watch/timesql.h"

const char *compile_unreadable(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT, any = BUF_INIT;
	buf_add(&sql, "SELECT ");
	key_list(b, "t.", &sql);
	for (int sign = 0; sign < SIGN_COUNT; sign++) {
		const char *expr = watch_sign(b->watch, (enum sign)sign)->text;
		struct buf one = BUF_INIT;
		bool can =
			expr && sql_time_unreadable(b, b->sign_time[sign], b->sign_type[sign], expr, &one);
		if (can)
			buf_addf(&sql, ", CASE WHEN %s THEN (%s)%s END", buf_text(&one), expr,
			         dialect_of(b->engine)->as_text);
		else
			buf_add(&sql, ", NULL");
		if (can)
			buf_addf(&any, "%s(%s)", any.len ? " OR " : "", buf_text(&one));
		buf_release(&one);
	}
	from_table(b, &sql);
	buf_addf(&sql, "\nWHERE (%s)\n  AND (%s)\nLIMIT %d", b->watch->running.text, buf_text(&any),
	         UNREADABLE_MAX);
	const char *text = any.len ? arena_strdup(a, buf_text(&sql)) : NULL;
	buf_release(&any);
	buf_release(&sql);
	return text;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* top/spark.c: the last hour of a watch as a line of characters; see top/top.h. Pure. */
#include "cli/top/top.h"

#include "insight/series.h"

static int64_t value_at(const struct series_point *p, enum top_watch_cell which)
{
	return which == WATCH_DONE_HOUR ? p->done : p->waiting;
}

void top_spark(const struct series *s, enum top_watch_cell which, bool ascii, struct buf *out)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const marks[] = {"_", ".", "-", "=", "+", "*", "%", "#"};
	int64_t high[TOP_SPARK], top = SERIES_UNKNOWN;
	int each = s->about->steps / TOP_SPARK;
	for (int i = 0; i < TOP_SPARK; i++) {
		high[i] = SERIES_UNKNOWN;
		for (int k = 0; k < each; k++) {
			int64_t v = value_at(&s->points[i * each + k], which);
			high[i] = v > high[i] ? v : high[i];
		}
		top = high[i] > top ? high[i] : top;
	}
	for (int i = 0; i < TOP_SPARK && top != SERIES_UNKNOWN; i++) {
		int64_t level = high[i] > 0 ? (high[i] * 7 + top - 1) / top : 0; /* 1 is not 0 */
		if (high[i] == SERIES_UNKNOWN)
			buf_add(out, ascii ? " " : "·");
		else
			buf_add(out, ascii ? marks[level] : blocks[level]);
	}
}

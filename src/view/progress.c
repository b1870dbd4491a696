/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c: see progress.h. */
#include "view/progress.h"

#include "base/clock.h"
#include "view/output.h"

#define BAR 24 /* characters */

static void add_bar(struct buf *out, int64_t n, int64_t total)
{
	int64_t full = n < total ? n * BAR / total : BAR;
	buf_add(out, "[");
	for (int i = 0; i < BAR; i++)
		buf_add(out, i < full ? "#" : "-");
	buf_add(out, "] ");
}

void progress_text(const struct progress_of *p, int64_t n, int64_t elapsed_ms, struct buf *out)
{
	int64_t rate = elapsed_ms > 0 ? n * 1000 / elapsed_ms : 0;
	out_visible(out, p->name);
	buf_add(out, ": ");
	if (p->total > 0)
		add_bar(out, n, p->total);
	out_count(out, n);
	if (p->total > 0) {
		buf_add(out, " of ");
		out_count(out, p->total > n ? p->total : n);
	}
	buf_addf(out, " %s", p->done);
	if (rate > 0) {
		buf_add(out, ", ");
		out_count(out, rate);
		buf_add(out, "/s");
	}
	if (rate > 0 && p->total > n) {
		buf_add(out, ", ");
		duration_text(((p->total - n) / rate + 1) * US_PER_S, out);
		buf_add(out, " left");
	}
}

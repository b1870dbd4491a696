/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include "base/clock.h"

#define QUIET_MS 1000 /* what takes less needs no progress */
#define EVERY_MS 100
#define BAR 24 /* characters */

static void progress_add_bar(struct buf *out, int64_t n, int64_t total)
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
		progress_add_bar(out, n, p->total);
	buf_add_count(out, n);
	if (p->total > 0) {
		buf_add(out, " of ");
		buf_add_count(out, p->total > n ? p->total : n);
	}
	buf_addf(out, " %s", p->done);
	if (rate > 0) {
		buf_add(out, ", ");
		buf_add_count(out, rate);
		buf_add(out, "/s");
	}
	if (rate > 0 && p->total > n) {
		buf_add(out, ", ");
		duration_text(((p->total - n) / rate + 1) * US_PER_S, out);
		buf_add(out, " left");
	}
}

struct progress progress_begin(const struct cli *c, const char *name, const char *done,
                               int64_t total)
{
	bool mixed = c->json && c->tty_out; /* with values, on one screen */
	return (struct progress){.of = {.name = name, .done = done, .total = total},
	                         .on = c->tty_err && !c->quiet && !mixed,
	                         .begun_ms = clock_boot_ms()};
}

void progress_at(struct progress *p, int64_t n)
{
	int64_t now = p->on ? clock_boot_ms() : 0;
	AUTO_BUF line = BUF_INIT;
	if (!p->on || now - p->begun_ms < QUIET_MS || now - p->drawn_ms < EVERY_MS)
		return;
	progress_text(&p->of, n, now - p->begun_ms, &line);
	fprintf(stderr, "\r\033[K%s", buf_text(&line));
	fflush(stderr);
	p->drawn_ms = now;
	p->shown = true;
}

static void counted(void *progress, int64_t n)
{
	progress_at(progress, n);
}

struct on_count progress_on_count(struct progress *p)
{
	return (struct on_count){counted, p};
}

void progress_clear(struct progress *p)
{
	if (!p->shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	p->shown = false;
}

/* SPDX-License-Identifier: Apache-2.0
 * demo/tell.c: the story in the terminal: a line an event, with the time since everything
 * was up, and at the bottom how far the work is. Where nobody sits before a terminal there
 * are lines only.
 */
#include "cli/demo/demo.h"

#include "base/text.h"

#include <langinfo.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#define BAR_CELLS 24
#define BAR_MS 150
#define LINE_MS 5000

void demo_tell_init(struct demo *d)
{
	const char *term = getenv("TERM");
	d->out = d->cli->json ? stderr : stdout;
	d->live = (d->cli->json ? d->cli->tty_err : d->cli->tty_out) && !d->cli->quiet && term &&
	          !text_eq(term, "dumb");
	d->utf8 = text_eq(nl_langinfo(CODESET), "UTF-8");
}

void demo_clear_progress(struct demo *d)
{
	if (d->bar)
		fputs("\r\033[K", d->out);
	d->bar = false;
}

void demo_print(struct demo *d, enum color color, const char *fmt, ...)
{
	struct buf line = BUF_INIT;
	char text[1024];
	va_list args;
	if (d->cli->quiet)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	demo_clear_progress(d);
	bool colored = d->cli->json ? d->cli->color_err : d->cli->color_out;
	int64_t ms = d->begun_ms ? clock_boot_ms() - d->begun_ms : 0;
	if (d->begun_ms)
		buf_addf(&line, "%6.2f s  ", (double)ms / 1000.0);
	out_color(&line, colored, color, text);
	fprintf(d->out, "%s\n", buf_text(&line));
	(void)fflush(d->out);
	buf_release(&line);
	if (d->live)
		d->shown_ms = 0;
}

/* A line that is wider than the terminal could not be wiped. */
static int cells_beside(const struct demo *d, const char *text)
{
	struct winsize size = {0};
	int width = ioctl(fileno(d->out), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
	int cells = width - out_width(text) - 4;
	return cells < 0 ? 0 : cells > BAR_CELLS ? BAR_CELLS : cells;
}

static void add_bar(const struct demo *d, struct buf *out, int cells)
{
	int64_t total = d->nids + d->npages;
	int full = total ? (int)((d->finished + d->pages_done) * cells / total) : 0;
	buf_add(out, d->utf8 ? "" : "[");
	for (int i = 0; i < cells; i++)
		buf_add(out, i < full ? (d->utf8 ? "█" : "#") : (d->utf8 ? "░" : "."));
	buf_add(out, d->utf8 ? "" : "]");
}

static void add_numbers(const struct demo *d, struct buf *out)
{
	out_count(out, d->finished);
	buf_add(out, "/");
	out_count(out, d->nids);
	buf_addf(out, " jobs, %lld/%d pages, %d/%d workers, %lld recovered", (long long)d->pages_done,
	         d->npages, demo_alive(d, DEMO_WORKER), DEMO_WORKERS, (long long)d->recovered);
}

void demo_show_progress(struct demo *d, int64_t now)
{
	struct buf bar = BUF_INIT, numbers = BUF_INIT;
	if (d->cli->quiet || now - d->shown_ms < (d->live ? BAR_MS : LINE_MS))
		return;
	add_numbers(d, &numbers);
	if (d->live) {
		add_bar(d, &bar, cells_beside(d, buf_text(&numbers)));
		fprintf(d->out, "\r\033[K%s %s", buf_text(&bar), buf_text(&numbers));
		d->bar = true;
	} else {
		fprintf(d->out, "%6.2f s  %s\n", (double)(now - d->begun_ms) / 1000.0, buf_text(&numbers));
	}
	(void)fflush(d->out);
	d->shown_ms = now;
	buf_release(&bar);
	buf_release(&numbers);
}

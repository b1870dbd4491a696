/* SPDX-License-Identifier: Apache-2.0
 * demo/ledger.c: what defib did about it, read from the ledger as it is written and printed.
 *
 * Time to recovery is that of every report: from `lost_at` of the evidence to the entry.
 */
#include "base/clock.h"
#include "base/text.h"
#include "cli/demo/demo.h"
#include "ledger/digest.h"
#include "ledger/events.h"
#include "life/incarnation.h"
#include "store/dialect.h"

#include <langinfo.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#define SAGAS_TOLD 3

/* A run of entries that one line tells. */
struct happening {
	const char *event, *owner, *verdict;
	bool page, poison;
	unsigned counts; /* as what each of them counts (ledger/events.h) */
	int64_t jobs, job, took_us;
};

enum column { ID, WATCH, JOB, EVENT, VERDICT, RULE, OWNER, EPOCH, TOOK_US, INCARNATION, NAME };

static void read_sql(struct buf *sql)
{
	buf_add(sql, "SELECT l.id, l.watch, l.job, l.event, l.verdict, l.rule, l.evidence->>'owner', "
	             "l.epoch, CAST((");
	sql_seconds_lost("l.at", sql);
	buf_add(sql, ") * 1000000 AS bigint), w.incarnation, w.name FROM defib.ledger AS l LEFT JOIN "
	             "defib.worker AS w ON CAST(w.id AS text) = coalesce(l.evidence->>'owner', "
	             "substr(l.actor, 8)) WHERE l.id > $1 AND l.watch IN ('queue', $2) ORDER BY l.id "
	             "LIMIT 1000");
}

/* Jobs of a worker's process were given to others. */
static void note_owner(struct demo *d, const struct store_rows *r, int row)
{
	struct incarnation who;
	const char *incarnation = row_text(r, row, INCARNATION);
	if (incarnation && incarnation_parse(incarnation, &who))
		demo_given_up(d, who.pid);
}

static struct demo_entry *add_entry(struct demo *d)
{
	if (d->nentries == d->entries_cap) {
		d->entries_cap = d->entries_cap ? 2 * d->entries_cap : 256;
		d->entries = mem_grow(d->entries, sizeof *d->entries * (size_t)d->entries_cap);
	}
	return &d->entries[d->nentries++];
}

/* ---- telling ---- */

static void print_held(struct demo *d, const struct happening *t)
{
	if (t->poison)
		demo_print(d, COLOR_GREEN,
		           "job %lld lost its worker too often: held for an operator, as poison",
		           (long long)t->job);
	else
		demo_print(d, COLOR_YELLOW, "%lld job%s of %s held for an operator (verdict %s)",
		           (long long)t->jobs, t->jobs == 1 ? "" : "s", t->owner, t->verdict);
}

static void print_recovered(struct demo *d, const struct happening *t)
{
	struct buf after = BUF_INIT;
	if (t->took_us >= 0) {
		buf_add(&after, ", after ");
		duration_text(t->took_us, &after);
	}
	if (t->page)
		demo_print(d, COLOR_GREEN, "%lld page%s recovered by the watch%s without a sign of life",
		           (long long)t->jobs, t->jobs == 1 ? "" : "s", buf_text(&after));
	else
		demo_print(d, COLOR_GREEN, "%lld job%s of %s recovered%s (verdict %s)", (long long)t->jobs,
		           t->jobs == 1 ? "" : "s", t->owner, buf_text(&after), t->verdict);
	buf_release(&after);
}

/* The first few by name; then one line for all that follow. */
static void print_saga(struct demo *d, int64_t order)
{
	d->sagas++;
	if (d->sagas <= SAGAS_TOLD)
		demo_print(d, COLOR_YELLOW,
		           "order %lld cannot be shipped: its saga undoes the finished steps",
		           (long long)order);
	else if (d->sagas == SAGAS_TOLD + 1)
		demo_print(d, COLOR_YELLOW, "and the same for further orders; the ledger records each");
}

static void tell(struct demo *d, const struct happening *t)
{
	if (t->jobs == 0)
		return;
	if (t->counts & COUNTS_RECOVERED)
		print_recovered(d, t);
	else if (t->counts & COUNTS_HELD)
		print_held(d, t);
	else if (text_eq(t->event, ENTRY_ROLLBACK_STARTED))
		print_saga(d, t->job);
	else if (text_eq(t->event, ENTRY_LATE_COMPLETION))
		demo_print(d, COLOR_GREEN, "%s is fenced: %lld late result%s of its old jobs refused",
		           t->owner, (long long)t->jobs, t->jobs == 1 ? "" : "s");
	else if (text_eq(t->event, ENTRY_WORKER_RETURNED))
		demo_print(d, COLOR_GREEN, "%s came back and learned that it had been declared dead",
		           t->owner);
}

static void read_row(struct demo *d, const struct store_rows *r, int row, struct happening *t)
{
	bool page = text_eq(row_text(r, row, WATCH), d->pages);
	int64_t job = row_int(r, row, JOB, 0);
	const char *event = row_text(r, row, EVENT);
	d->last_entry = row_int(r, row, ID, d->last_entry);
	bool of_worker = text_eq(event, ENTRY_WORKER_RETURNED);
	if (!page && !of_worker && !demo_is_ours(d, job))
		return;
	const char *name = row_text(r, row, NAME);
	unsigned counts = event_counts(event, row_text(r, row, VERDICT) != NULL,
	                               text_eq(row_text(r, row, RULE), RULE_BY_HAND));
	struct demo_entry e = {.job = job,
	                       .epoch = row_int(r, row, EPOCH, -1),
	                       .page = page,
	                       .recovered = (counts & COUNTS_RECOVERED) != 0,
	                       .poison = text_eq(event, ENTRY_HELD) &&
	                                 text_eq(row_text(r, row, RULE), "crash-budget")};
	bool ended = counts & (COUNTS_RECOVERED | COUNTS_HELD);
	int64_t took_us = ended ? row_int(r, row, TOOK_US, -1) : -1;
	if (ended && !page)
		note_owner(d, r, row);
	d->recovered += e.recovered;
	d->late += text_eq(event, ENTRY_LATE_COMPLETION);
	*add_entry(d) = e;
	struct happening now = {event,
	                        name ? demo_label(name) : "a worker",
	                        row_text(r, row, VERDICT),
	                        page,
	                        e.poison,
	                        counts,
	                        1,
	                        job,
	                        took_us};
	bool same = t->jobs && text_eq(t->event, event) && text_eq(t->owner, now.owner) &&
	            t->page == page && t->poison == e.poison && t->counts == counts;
	if (!same) {
		tell(d, t);
		*t = now;
		return;
	}
	t->jobs++;
	t->took_us = took_us > t->took_us ? took_us : t->took_us;
}

defib_err demo_ledger_follow(struct demo *d, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct store_rows rows = {0};
	struct happening t = {0};
	struct store_param params[] = {P_INT(d->last_entry), P_TEXT(d->pages)};
	struct buf sql = BUF_INIT;
	read_sql(&sql);
	defib_err err = demo_ask(d, dialect_sql(dialect_of(d->engine), &a, buf_text(&sql)), params, 2,
	                         &a, &rows, f);
	buf_release(&sql);
	for (int i = 0; i < rows.nrows && !err; i++)
		read_row(d, &rows, i, &t);
	tell(d, &t);
	arena_release(&a);
	return err;
}

/* ---- printing ---- */

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

/* scan_report.c: see scan_report.h. */
#include "cli/scan_report.h"

#include "base/clock.h"
#include "base/text.h"
#include "recover/evidence.h"
#include "recover/unseen.h"
#include "view/json_scan.h"
#include "watch/compile.h"

void report_begin(struct scan_report *r, struct cli *c, bool fix)
{
	*r = (struct scan_report){.cli = c, .fix = fix};
	if (c->json)
		fputs("{\"watches\":[", stdout);
}

void report_watch_begin(struct scan_report *r, const struct watch *w, const struct database *d)
{
	struct buf out = BUF_INIT;
	r->njobs = 0;
	r->nrows = 0;
	r->begun_ms = clock_boot_ms();
	r->progress_ms = r->begun_ms;
	arena_clear(&r->arena);
	if (r->cli->json) {
		buf_add(&out, r->nwatches ? ",\n" : "\n");
		scan_begin_json(w, d, &out);
		fputs(buf_text(&out), stdout);
	}
	r->nwatches++;
	buf_release(&out);
}

static void json_job(const struct scan_report *r, const struct watch *w, const struct candidate *c)
{
	struct buf out = BUF_INIT;
	buf_add(&out, r->njobs ? ",\n  " : "\n  ");
	scan_job_json(w, c, &out);
	fputs(buf_text(&out), stdout);
	buf_release(&out);
}

static void text_job(struct scan_report *r, const struct watch *w, const struct candidate *c)
{
	struct buf because = BUF_INIT, detail = BUF_INIT, action = BUF_INIT;
	if (r->nrows < REPORT_ROWS_MAX) {
		evidence_sentence(&c->judgement, &because);
		candidate_words(w, c, &detail);
		if (c->outcome == OUTCOME_REFUSED || (r->fix && c->outcome != OUTCOME_RECOVERED))
			buf_addf(&action, "%s", outcome_names[c->outcome]);
		else
			buf_addf(&action, "%s", remedy_names[c->decision.remedy]);
		r->rows[r->nrows++] = (struct report_row){
			arena_strdup(&r->arena, c->facts.job),       verdict_names[c->judgement.verdict],
			arena_strdup(&r->arena, buf_text(&because)), arena_strdup(&r->arena, buf_text(&action)),
			arena_strdup(&r->arena, buf_text(&detail)),  c->outcome,
		};
	}
	buf_release(&because);
	buf_release(&detail);
	buf_release(&action);
}

void report_job(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct scan_report *r = ctx;
	if (r->cli->json)
		json_job(r, w, c);
	else
		text_job(r, w, c);
	r->njobs++;
}

void report_progress(void *ctx, const struct watch *w, const struct scan_result *s)
{
	struct scan_report *r = ctx;
	int64_t now = clock_boot_ms();
	if (!r->cli->tty_err || r->cli->quiet || now - r->begun_ms < 1000 || now - r->progress_ms < 100)
		return;
	struct buf out = BUF_INIT;
	buf_addf(&out, "\r\033[K%s: ", w->name);
	out_count(&out, s->found);
	buf_add(&out, " found, ");
	out_count(&out, s->outcomes[OUTCOME_RECOVERED]);
	buf_addf(&out, " recovered, %lld/s", (long long)(s->found * 1000 / (now - r->begun_ms)));
	fputs(buf_text(&out), stderr);
	fflush(stderr);
	buf_release(&out);
	r->progress_ms = now;
	r->progress_shown = true;
}

static void json_watch_end(const struct scan_result *s)
{
	struct buf out = BUF_INIT;
	scan_end_json(s, &out);
	fputs(buf_text(&out), stdout);
	buf_release(&out);
}

static enum color outcome_color(enum outcome o, bool fix)
{
	if (o == OUTCOME_RECOVERED)
		return COLOR_GREEN;
	return fix || o != OUTCOME_LEFT ? COLOR_YELLOW : COLOR_BOLD;
}

static void text_rows(const struct scan_report *r, struct buf *out)
{
	int job = 0, because = 0;
	bool color = r->cli->color_out;
	for (int i = 0; i < r->nrows; i++) {
		int width = out_width(r->rows[i].job);
		job = width > job ? width : job;
		width = out_width(r->rows[i].because);
		because = width > because ? width : because;
	}
	for (int i = 0; i < r->nrows; i++) {
		const struct report_row *row = &r->rows[i];
		struct buf word = BUF_INIT;
		buf_add(out, "  ");
		out_padded(out, row->job, job);
		out_padded(&word, row->verdict, 7);
		buf_add(out, "  ");
		out_color(out, color, COLOR_RED, buf_text(&word));
		buf_add(out, "  ");
		out_padded(out, row->because, because);
		buf_add(out, "  -> ");
		out_color(out, color, outcome_color(row->outcome, r->fix), row->action);
		buf_add(out, row->detail[0] ? "  " : "");
		out_padded(out, row->detail, 0);
		buf_add(out, "\n");
		buf_release(&word);
	}
	if (r->njobs > r->nrows) {
		buf_add(out, "  … and ");
		out_count(out, r->njobs - r->nrows);
		buf_add(out, " more (--json lists all)\n");
	}
}

static void text_head(const struct scan_report *r, const struct watch *w, const struct database *d,
                      const struct scan_result *s, struct buf *out)
{
	struct buf name = BUF_INIT;
	buf_addf(&name, "%s/%s", d->name, w->name);
	out_color(out, r->cli->color_out, COLOR_BOLD, buf_text(&name));
	buf_release(&name);
	buf_add(out, ": ");
	int64_t stuck = s->stuck > s->found ? s->stuck : s->found;
	if (stuck == 0 && !s->failure.code)
		buf_add(out, "nothing stuck");
	else
		out_count(out, stuck),
			buf_addf(out, "%s stuck",
		             stuck > s->found && stuck >= ROWS_COUNT_MAX ? " or more" : "");
	if (s->running_known && s->running == 0 && stuck == 0) {
		buf_addf(out, "; no row of %s is running", w->table);
	} else {
		buf_add(out, stuck ? " of " : ", ");
		out_count(out, s->running > stuck ? s->running : stuck);
		buf_addf(out, "%s running", s->running_capped ? " or more" : "");
	}
	if (stuck > s->found) {
		buf_add(out, ", ");
		out_count(out, s->found);
		buf_add(out, " looked at");
	}
	for (int i = OUTCOME_RECOVERED; i < OUTCOME_COUNT; i++) {
		int64_t n = s->outcomes[i] - (i == OUTCOME_HELD ? s->held_before : 0);
		if (n && (r->fix || i == OUTCOME_REFUSED)) {
			buf_add(out, ", ");
			out_count(out, n);
			buf_addf(out, " %s", outcome_names[i]);
		}
	}
	if (s->held_before) {
		buf_add(out, ", ");
		out_count(out, s->held_before);
		buf_add(out, " on hold already");
	}
	buf_addf(out, " (%.1f ms)\n", (double)s->took_us / 1000);
}

static void text_watch_end(struct scan_report *r, const struct watch *w, const struct database *d,
                           const struct scan_result *s)
{
	struct buf out = BUF_INIT;
	if (!s->failure.code || s->found) {
		text_head(r, w, d, s, &out);
		text_rows(r, &out);
	}
	fputs(buf_text(&out), stdout);
	fflush(stdout);
	buf_release(&out);
}

static void report_notes(const struct scan_report *r, const struct watch *w,
                         const struct scan_result *s)
{
	if (s->failure.code)
		cli_fail(&s->failure);
	if (r->cli->quiet || s->failure.code)
		return;
	if (r->fix && !s->ledger)
		fprintf(stderr, "defib: %s: no ledger (%s): hold, undo and crash budget are off\n", w->name,
		        s->ledger_off);
	if (s->ledger_made)
		fprintf(stderr, "defib: made the ledger in the database\n");
	if (s->never_seen) {
		struct buf hint = BUF_INIT;
		unseen_hint(s->row_security, &hint);
		fprintf(stderr, "defib: %s: no row is running, and %s\n", w->name, buf_text(&hint));
		buf_release(&hint);
	}
	if (s->limited)
		fprintf(stderr, "defib: %s: stopped at the limit; there may be more\n", w->name);
}

void report_watch_end(struct scan_report *r, const struct watch *w, const struct database *d,
                      const struct scan_result *s)
{
	if (r->progress_shown)
		fputs("\r\033[K", stderr);
	r->progress_shown = false;
	if (r->cli->json)
		json_watch_end(s);
	else
		text_watch_end(r, w, d, s);
	report_notes(r, w, s);
	r->running += s->running;
	r->found += s->found;
	r->held_before += s->held_before;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		r->outcomes[i] += s->outcomes[i];
}

void report_end(struct scan_report *r)
{
	struct buf out = BUF_INIT;
	if (r->cli->json) {
		buf_add(&out, "\n],");
		scan_counts_json(r->running, r->found, r->outcomes, &out);
		buf_add(&out, "}\n");
		fputs(buf_text(&out), stdout);
	} else if (!r->fix && r->found && !r->cli->quiet) {
		fprintf(stderr, "Nothing was changed. To recover them: the same command with --fix\n");
	}
	buf_release(&out);
	arena_release(&r->arena);
}

/* act_report.c: see act_report.h. */
#include "cli/act_report.h"

#include "base/text.h"
#include "cli/select.h"
#include "view/json_act.h"

/* ---- the question ---- */

void act_question(struct buf *out, const char *verb, int64_t n, const struct watch *w,
                  const struct database *d)
{
	buf_addf(out, "%s%s ", out->len ? "; " : "", verb);
	out_count(out, n);
	buf_addf(out, " job%s of watch %s in database %s (", n == 1 ? "" : "s", w->name, d->name);
	url_redact(d->url, out);
	buf_add(out, ")");
}

bool act_reads_stdin(const struct cli *c)
{
	bool reads = false;
	for (int i = 0; i < c->nwords; i++)
		reads = reads || text_eq(c->words[i], "-");
	return reads;
}

/* ---- the report ---- */

/* What became of a job, where another word says it better than the outcome's own. */
static const char *const otherwise[OUTCOME_COUNT] = {
	[OUTCOME_LEFT] = "left as it is",
	[OUTCOME_CHANGED] = "changed since",
	[OUTCOME_LOCKED] = "locked by another transaction",
	[OUTCOME_MISSING] = "not there",
};

static enum outcome good_outcome(const struct act_report *r)
{
	return r->dry_run ? OUTCOME_LEFT : r->good;
}

static void outcome_text(const struct act_report *r, enum outcome o, struct buf *out)
{
	if (o == good_outcome(r))
		buf_addf(out, "%s%s", r->dry_run ? "would be " : "", r->done);
	else
		buf_add(out, otherwise[o] ? otherwise[o] : outcome_names[o]);
}

void act_report_begin(struct act_report *r)
{
	struct buf out = BUF_INIT;
	if (r->cli->json)
		act_begin_json(r->verb, r->dry_run, &out);
	fputs(buf_text(&out), stdout);
	buf_release(&out);
}

void act_group_begin(struct act_report *r, const struct watch *w, const struct database *d)
{
	struct buf out = BUF_INIT;
	r->njobs = 0;
	r->shown[0] = r->shown[1] = 0;
	if (r->cli->json) {
		buf_add(&out, r->ngroups ? ",\n" : "\n");
		act_group_begin_json(w, d, &out);
		fputs(buf_text(&out), stdout);
	}
	r->ngroups++;
	buf_release(&out);
}

static void json_job(const struct act_report *r, const struct watch *w, const struct candidate *c)
{
	struct buf out = BUF_INIT;
	buf_add(&out, r->njobs ? ",\n  " : "\n  ");
	act_job_json(w, c, good_outcome(r), &out);
	fputs(buf_text(&out), stdout);
	buf_release(&out);
}

void act_job_text(const struct act_report *r, const struct watch *w, const struct candidate *c,
                  bool color, struct buf *out)
{
	bool good = c->outcome == good_outcome(r);
	struct buf part = BUF_INIT;
	job_qualified(w, c->facts.job, &part);
	buf_add(out, "  ");
	out_padded(out, buf_text(&part), 0);
	buf_clear(&part);
	outcome_text(r, c->outcome, &part);
	buf_add(out, "  ");
	out_color(out, color, good ? COLOR_GREEN : COLOR_YELLOW, buf_text(&part));
	if (c->refusal) {
		buf_add(out, ": ");
		out_padded(out, c->refusal, 0);
	}
	if (good && c->warning) {
		buf_add(out, ": ");
		out_padded(out, c->warning, 0);
	}
	buf_clear(&part);
	act_detail(w, c, &part);
	buf_add(out, part.len ? "  " : "");
	out_padded(out, buf_text(&part), 0);
	buf_release(&part);
}

/* A line a job while they are few; what went wrong is shown however much went well. */
static void text_job(struct act_report *r, const struct watch *w, const struct candidate *c)
{
	bool good = c->outcome == good_outcome(r);
	struct buf out = BUF_INIT;
	if (r->shown[!good]++ >= ACT_ROWS_MAX)
		return;
	act_job_text(r, w, c, r->cli->color_out, &out);
	puts(buf_text(&out));
	buf_release(&out);
}

void act_job(void *report, const struct watch *w, const struct candidate *c)
{
	struct act_report *r = report;
	if (r->cli->json)
		json_job(r, w, c);
	else
		text_job(r, w, c);
	r->njobs++;
	r->kept += !r->dry_run && c->does == ACT_UNDO && c->outcome == OUTCOME_RECOVERED;
}

static void json_group_end(const struct by_hand_result *result)
{
	struct buf out = BUF_INIT;
	act_group_end_json(result, &out);
	fputs(buf_text(&out), stdout);
	buf_release(&out);
}

void act_counts_text(const struct act_report *r, const struct watch *w, const struct database *d,
                     const struct by_hand_result *result, struct buf *out)
{
	struct buf counts = BUF_INIT;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		if (result->outcomes[i]) {
			buf_add(&counts, counts.len ? ", " : "");
			out_count(&counts, result->outcomes[i]);
			buf_add(&counts, " ");
			outcome_text(r, (enum outcome)i, &counts);
		}
	if (counts.len)
		buf_addf(out, "%s/%s: %s\n", d->name, w->name, buf_text(&counts));
	buf_release(&counts);
}

static void text_group_end(const struct act_report *r, const struct watch *w,
                           const struct database *d, const struct by_hand_result *result)
{
	struct buf out = BUF_INIT;
	int64_t unseen = 0;
	for (int i = 0; i < 2; i++)
		unseen += r->shown[i] > ACT_ROWS_MAX ? r->shown[i] - ACT_ROWS_MAX : 0;
	if (unseen) {
		buf_add(&out, "  … and ");
		out_count(&out, unseen);
		buf_add(&out, " more (--json lists all)\n");
	}
	act_counts_text(r, w, d, result, &out);
	if (result->batch[0] && !text_eq(r->verb, "undo"))
		buf_addf(&out, "undo with: defib undo %s\n", result->batch);
	fputs(buf_text(&out), stdout);
	fflush(stdout);
	buf_release(&out);
}

void act_group_end(struct act_report *r, const struct watch *w, const struct database *d,
                   const struct by_hand_result *result)
{
	if (r->cli->json)
		json_group_end(result);
	else
		text_group_end(r, w, d, result);
	if (result->failure.code) {
		struct failure f = result->failure;
		/* A word that the key's type cannot take is the caller's slip. */
		if (text_eq(f.sqlstate, "22P02"))
			f.code = DEFIB_USAGE;
		cli_fail(&f);
		r->failed++;
		r->first_failure = r->first_failure ? r->first_failure : f.code;
	} else if (!r->dry_run && !result->ledger && !r->cli->quiet) {
		fprintf(stderr, "defib: %s: there is no ledger, so this cannot be undone\n", w->name);
	}
	for (int i = 0; i < OUTCOME_COUNT; i++)
		r->outcomes[i] += result->outcomes[i];
}

int act_report_end(struct act_report *r)
{
	int64_t done = r->outcomes[good_outcome(r)], other = -done;
	if (r->cli->json)
		fputs("\n]}\n", stdout);
	else if (r->dry_run && done && !r->cli->quiet)
		fprintf(stderr, "Nothing was changed. To do it: the same command without --dry-run\n");
	else if (r->kept && !r->cli->quiet)
		fprintf(stderr,
		        "What was put back is on hold, so that no scan does it again. To let it go: "
		        "defib release\n");
	for (int i = 0; i < OUTCOME_COUNT; i++)
		other += r->outcomes[i];
	/* What was left as it is needed nothing. */
	other -= r->dry_run ? 0 : r->outcomes[OUTCOME_LEFT];
	if (r->failed)
		return done ? EXIT_PARTLY : exit_code_of(r->first_failure);
	if (other == 0)
		return EXIT_CLEAN;
	return done ? EXIT_PARTLY : EXIT_REFUSED;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* learned.c: see learned.h. */
#include "view/learned.h"

#include "base/clock.h"
#include "insight/runs.h"
#include "insight/suggest.h"
#include "view/json.h"
#include "view/terminal.h"

const char *learn_why_not(const struct watch *w)
{
	if (w->learn == LEARN_OFF)
		return "learning is off (learn: off)";
	if (!runs_known(w))
		return "run times are not known: set stats: {started_at: …, finished_at: …}";
	return NULL;
}

const char *learned_name(const struct watch *w, const struct learned_kind *k)
{
	return *k->kind ? k->kind : w->name;
}

static void json_kind(const struct watch *w, const struct learned_kind *k, bool first,
                      struct buf *out)
{
	struct buf sentence = BUF_INIT;
	struct suggestion s;
	suggest(w, k->kind, &k->times, &s);
	suggestion_sentence(&s, learned_name(w, k), &sentence);
	buf_addf(out, "%s\n{\"runs\":%.0f", first ? "" : ",", s.n);
	json_text(out, "kind", *k->kind ? k->kind : NULL);
	json_seconds(out, "p50_s", true, s.p50_us);
	json_seconds(out, "p95_s", true, s.p95_us);
	json_seconds(out, "p99_s", true, s.p99_us);
	json_seconds(out, "longest_s", true, s.longest_us);
	json_text(out, "option", s.option);
	json_seconds(out, "today_s", s.has_today, s.today_us);
	buf_addf(out, ",\"over_today\":%.6f", s.over_today);
	json_seconds(out, "suggestion_s", s.has_us, s.us);
	json_text(out, "sentence", buf_text(&sentence));
	buf_add(out, "}");
	buf_release(&sentence);
}

void learned_json(const struct watch *w, const struct database *d, const struct learned *l,
                  struct buf *out)
{
	bool first = true;
	buf_add(out, "{\"watch\":");
	buf_add_json(out, w->name);
	json_text(out, "database", d->name);
	json_text(out, "not_learnt", learn_why_not(w));
	json_number(out, "observed", l != NULL, l ? l->observed : 0);
	buf_addf(out, ",\"sampled\":%s,\"kept\":%s,\"kinds\":[", l && l->sampled ? "true" : "false",
	         l && l->kept ? "true" : "false");
	for (int i = 0; l && i < l->n; i++)
		if (run_times_n(&l->kinds[i].times) > 0) {
			json_kind(w, &l->kinds[i], first, out);
			first = false;
		}
	buf_add(out, "]}");
}

static void duration_cell(struct table *t, bool has, int64_t us)
{
	struct buf text = BUF_INIT;
	if (has)
		duration_text(us, &text);
	table_cell(t, COLOR_NONE, buf_text(&text));
	buf_release(&text);
}

static void kind_row(struct table *t, const struct watch *w, const struct learned_kind *k,
                     const struct suggestion *s)
{
	struct buf n = BUF_INIT;
	out_count(&n, (int64_t)(s->n + 0.5));
	table_cell(t, COLOR_NONE, learned_name(w, k));
	table_cell(t, COLOR_NONE, buf_text(&n));
	duration_cell(t, true, s->p50_us);
	duration_cell(t, true, s->p95_us);
	duration_cell(t, true, s->p99_us);
	duration_cell(t, true, s->longest_us);
	duration_cell(t, s->has_today, s->today_us);
	duration_cell(t, s->has_us, s->us);
	buf_release(&n);
}

static void print_kinds(const struct watch *w, const struct learned *l, bool color, struct buf *out)
{
	static const char *const titles[] = {"KIND", "RUNS",    "P50",   "P95",
	                                     "P99",  "LONGEST", "TODAY", "SUGGESTED"};
	struct buf sentences = BUF_INIT;
	struct table t;
	table_init(&t);
	for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
		table_column(&t, titles[i]);
	for (int i = 0; i < l->n; i++) {
		struct suggestion s;
		if (run_times_n(&l->kinds[i].times) <= 0)
			continue;
		suggest(w, l->kinds[i].kind, &l->kinds[i].times, &s);
		kind_row(&t, w, &l->kinds[i], &s);
		suggestion_sentence(&s, learned_name(w, &l->kinds[i]), &sentences);
		buf_add(&sentences, "\n");
	}
	if (sentences.len)
		table_print(&t, color, out);
	else
		buf_add(out, "no run has finished yet\n");
	buf_add(out, buf_text(&sentences));
	table_release(&t);
	buf_release(&sentences);
}

void learned_text(const struct watch *w, const struct database *d, const struct learned *l,
                  bool color, struct buf *out)
{
	struct buf title = BUF_INIT;
	buf_addf(&title, "%s/%s", d->name, w->name);
	out_color(out, color, COLOR_BOLD, buf_text(&title));
	buf_add(out, "\n");
	if (l)
		print_kinds(w, l, color, out);
	else
		buf_addf(out, "%s\n", learn_why_not(w));
	if (l && l->sampled)
		buf_addf(out, "more runs ended than were read; this is a sample of the newest %d\n",
		         LEARN_ROWS);
	if (l && l->not_kept.code)
		buf_addf(out, "not stored: %s\n", l->not_kept.what);
	buf_release(&title);
}

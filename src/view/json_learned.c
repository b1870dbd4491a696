/* json_learned.c: see json_learned.h. */
#include "view/json_learned.h"

#include "insight/runs.h"
#include "insight/suggest.h"
#include "view/json.h"

const char *learn_why_not(const struct watch *w)
{
	if (w->learn == LEARN_OFF)
		return "learning is off (learn: off)";
	if (!runs_known(w))
		return "run times are not known: say stats: {started_at: …, finished_at: …}";
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

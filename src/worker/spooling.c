/* SPDX-License-Identifier: Apache-2.0 */
/* spooling.c: see spooling.h. */
#include "worker/spooling.h"

#include "base/log.h"
#include "store/store.h"

#define OFFER_MAX 500
#define ASIDE_MS 60000 /* how often what is set aside is offered again */

/* It was not refused: it has not been asked, or the database could not be had. */
static bool waits(const struct failure *why)
{
	return why->code == DEFIB_OK || store_away(why->code);
}

/* Once, when it begins: how many there are is told by the status and the metrics. */
static void tell_aside(const char *source, const char *key, const char *why)
{
	log_event(LOG_CRITICAL, "RESULTS SET ASIDE: the database refuses to record them",
	          LOG_STR("source", source), LOG_STR("first", key), LOG_STR("because", why));
}

/* Whether it refuses single rows or all of them. */
static void note_refusal(struct spools *s, const char *source, const struct failure *why)
{
	struct spools_retry *retry = spools_retry(s, source);
	if (retry && !store_blames_rows(why))
		retry->when_taken = true;
}

/* ---- out ---- */

struct offer {
	struct spools_record *all;
	struct settlement *ends;
	const struct failure **why;
	const char **refused;
	int n, done, kept; /* done: answered one way or another, from the first on; kept: refused */
};

/* The oldest ones, as many as are of one incarnation; what cannot be read goes by itself. */
static void look(struct spools *s, const char *source, enum spools_list list, int most,
                 struct offer *o, struct arena *a)
{
	o->all = ARENA_ARRAY(a, struct spools_record, most);
	o->ends = ARENA_ARRAY(a, struct settlement, most);
	o->why = ARENA_ARRAY(a, const struct failure *, most);
	o->refused = ARENA_ARRAY(a, const char *, most);
	int n = spools_peek_many(s, source, list, o->all, most, a);
	for (; o->n < n; o->n++) {
		const struct spools_record *r = &o->all[o->n], *first = &o->all[0];
		if (o->n > 0 && (!r->whole || !first->whole || r->result.worker != first->result.worker))
			return;
		o->ends[o->n] = r->result.end;
	}
}

static void judge(struct spools *s, const char *source, struct offer *o)
{
	for (; o->done < o->n; o->done++) {
		const struct settlement *end = &o->ends[o->done];
		const struct failure *why = o->why[o->done];
		if (why && waits(why))
			return;
		if (why)
			note_refusal(s, source, why);
		o->refused[o->done] = why                     ? why->what
		                      : o->all[o->done].whole ? NULL
		                                              : "this version cannot read it";
		if (o->refused[o->done])
			o->kept++;
		else
			log_event(LOG_INFO,
			          end->accepted ? "settled from the spool" : "refused from the spool: too late",
			          LOG_STR("source", source), LOG_STR("job", end->key),
			          LOG_INT("epoch", end->epoch));
	}
}

/* How many were dealt with; 0: the database is away, or the disk is. */
static int offer(struct spools *s, const char *source, enum spools_list list, int most,
                 settle_fn settle, void *ctx, int64_t *answered)
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct offer o = {0};
	look(s, source, list, most < OFFER_MAX ? most : OFFER_MAX, &o, &a);
	if (o.n > 0 && o.all[0].whole)
		settle(ctx, o.all[0].result.worker, o.ends, o.why, o.n, &a);
	judge(s, source, &o);
	if (o.kept > 0 && spools_aside(s, source) == 0)
		for (int i = 0, logged = 0; i < o.done && !logged; i++)
			if (o.refused[i]) {
				tell_aside(source, o.ends[i].key, o.refused[i]);
				logged = 1;
			}
	/* Refused again, and nothing behind it: it stays where it is. */
	bool stays = list == SPOOLS_ASIDE && o.kept == o.done && o.done == spools_aside(s, source);
	if (o.done > 0 && !stays && spools_take_many(s, source, list, o.all, o.done, o.refused, &f)) {
		log_event(LOG_ERROR, f.what, LOG_STR("source", source));
		o.done = o.kept = 0;
	}
	*answered += o.done - o.kept;
	arena_release(&a);
	return o.done;
}

int64_t spooling_drain(struct spools *s, const char *source, int64_t now_ms, settle_fn settle,
                       void *ctx)
{
	int64_t answered = 0;
	while (spools_waiting(s, source) > 0 &&
	       offer(s, source, SPOOLS_WAITING, OFFER_MAX, settle, ctx, &answered) > 0)
		;
	int64_t left = spools_aside(s, source);
	struct spools_retry *retry = spools_retry(s, source);
	if (left == 0 || spools_waiting(s, source) > 0 || now_ms < retry->at_ms)
		return answered;
	*retry = (struct spools_retry){.at_ms = now_ms + ASIDE_MS};
	/* Each once: what is refused again goes behind the others. */
	for (int n = 1; left > 0 && n > 0; left -= n)
		n = offer(s, source, SPOOLS_ASIDE, (int)(left < OFFER_MAX ? left : OFFER_MAX), settle, ctx,
		          &answered);
	if (spools_aside(s, source) == 0)
		log_event(LOG_INFO, "no results are set aside any more", LOG_STR("source", source));
	return answered;
}

void spooling_taken(struct spools *s, const char *source)
{
	struct spools_retry *retry = spools_retry(s, source);
	if (retry && retry->when_taken)
		*retry = (struct spools_retry){0};
}

/* ---- in ---- */

/* A run of ends that are kept for one reason; together, or one by one where that is too much. */
static void keep_run(struct spools *s, const char *source, const struct spool_result *all,
                     const struct failure *why, int n, bool *kept, struct failure *f)
{
	bool away = waits(why);
	bool first = !away && spools_aside(s, source) == 0;
	defib_err err = spools_append_many(s, source, all, n, away ? NULL : why->what, f);
	for (int i = 0; i < n; i++)
		kept[i] =
			err ? n > 1 && !spools_append_many(s, source, &all[i], 1, away ? NULL : why->what, f)
				: true;
	if (!away)
		note_refusal(s, source, why);
	if (first && spools_aside(s, source) > 0)
		tell_aside(source, all[0].end.key, why->what);
}

void spooling_keep(struct spools *s, const char *source, const struct spool_result *all,
                   const struct failure *const *why, int n, bool *kept, struct failure *f)
{
	for (int i = 0, next; i < n; i = next) {
		for (next = i + 1; next < n && why[next] == why[i];)
			next++;
		if (why[i])
			keep_run(s, source, &all[i], why[i], next - i, &kept[i], f);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* spooling.c: keeping and draining, see spools.h. */

#include "worker/spooling.h"

#include "base/log.h"
#include "worker/spool_results.h"
#include "worker/token.h"
#include "worker/turns.h"
#include "worker/worker_state.h"

#include <assert.h>

#define OFFER_MAX 500
#define ASIDE_MS 60000 /* how often results that are set aside are offered again */

/* It was not refused: it was not submitted, or the database was unavailable. */
static bool waits(const struct failure *why)
{
	return why->code == DEFIB_OK || store_unavailable(why->code);
}

/* Logged once, when it begins: the status and the metrics show the number. */
static void tell_aside(const char *source, const char *key, const char *why)
{
	log_event(LOG_CRITICAL, "RESULTS SET ASIDE: the database refuses to record them",
	          LOG_STR("source", source), LOG_STR("first", key), LOG_STR("because", why));
}

/* Whether it refuses single rows or all of them. */
static void note_refusal(struct spools *s, const char *source, const struct failure *why)
{
	struct spools_retry *retry = spools_retry(s, source);
	if (!store_blames_rows(why) && why->code != DEFIB_REFUSED)
		retry->when_taken = true;
}

/* ---- draining ---- */

struct offer {
	struct spools_record *all;
	struct settlement *ends;
	const struct failure **why;
	const char **refused;
	int n, done, nrefused; /* done: processed, from the first on */
};

/* The oldest ones of one incarnation in one database; a record that cannot be read is handled
 * alone. */
static void spooling_look(struct spools *s, const char *source, enum spools_list list, int most,
                          struct offer *o, struct arena *a)
{
	o->all = ARENA_ARRAY(a, struct spools_record, most);
	o->ends = ARENA_ARRAY(a, struct settlement, most);
	o->why = ARENA_ARRAY(a, const struct failure *, most);
	o->refused = ARENA_ARRAY(a, const char *, most);
	int n = spools_peek_many(s, source, list, o->all, most, a);
	for (; o->n < n; o->n++) {
		const struct spools_record *r = &o->all[o->n], *first = &o->all[0];
		if (o->n > 0 && (!r->whole || !first->whole || r->result.worker != first->result.worker ||
		                 !text_eq(r->result.database, first->result.database)))
			return;
		o->ends[o->n] = r->result.end;
	}
}

static void spooling_take_answers(struct spools *s, const char *source, struct offer *o)
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
		                                              : "it was changed on disk, or is no result";
		if (o->refused[o->done])
			o->nrefused++;
		else
			log_event(LOG_INFO,
			          end->accepted ? "settled from the spool" : "refused from the spool: too late",
			          LOG_STR("source", source), LOG_STR("job", end->key),
			          LOG_INT("epoch", end->epoch));
	}
}

/* Returns how many were handled; 0: the database, or the disk, is unavailable. */
static int offer(struct spools *s, const char *source, enum spools_list list, int most,
                 settle_fn settle, void *ctx, int64_t *answered)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	struct offer o = {0};
	spooling_look(s, source, list, most < OFFER_MAX ? most : OFFER_MAX, &o, &a);
	if (o.n > 0 && o.all[0].whole) {
		const struct spool_result *first = &o.all[0].result;
		settle(ctx,
		       &(struct spooled_ends){first->database, first->worker, o.ends, o.why, o.n,
		                              list == SPOOLS_ASIDE},
		       &a);
	}
	spooling_take_answers(s, source, &o);
	if (o.nrefused > 0 && spools_aside(s, source) == 0)
		for (int i = 0, logged = 0; i < o.done && !logged; i++)
			if (o.refused[i]) {
				tell_aside(source, o.ends[i].key, o.refused[i]);
				logged = 1;
			}
	/* Refused again, and nothing is behind it: it stays where it is. */
	bool stays = list == SPOOLS_ASIDE && o.nrefused == o.done && o.done == spools_aside(s, source);
	if (o.done > 0 && !stays && spools_take_many(s, source, list, o.all, o.done, o.refused, &f)) {
		log_event(LOG_ERROR, f.what, LOG_STR("source", source));
		o.done = o.nrefused = 0;
	}
	*answered += o.done - o.nrefused;
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
	/* Each once: what is refused again moves to the end. */
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
	if (retry->when_taken)
		*retry = (struct spools_retry){0};
}

static bool spooling_is_among(const struct settlement *has, int nhas, const struct settlement *end)
{
	for (int i = 0; i < nhas; i++)
		if (has[i].epoch == end->epoch && text_eq(has[i].key, end->key))
			return true;
	return false;
}

/* The oldest ones; those that stay move to the end. Returns how many were checked. */
static int forget_some(struct spools *s, const char *source, int64_t worker,
                       const struct settlement *has, int nhas, int most)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	struct spools_record *all = ARENA_ARRAY(&a, struct spools_record, most);
	const char **stays = ARENA_ARRAY(&a, const char *, most);
	int n = spools_peek_many(s, source, SPOOLS_ASIDE, all, most, &a);
	for (int i = 0; i < n; i++) {
		const struct settlement *end = &all[i].result.end;
		bool lost =
			all[i].whole && all[i].result.worker == worker && !spooling_is_among(has, nhas, end);
		stays[i] = lost ? NULL : all[i].why ? all[i].why : "";
		if (lost)
			log_event(LOG_WARN, "result dropped: the server lost its claim in a failover",
			          LOG_STR("source", source), LOG_STR("job", end->key),
			          LOG_INT("epoch", end->epoch));
	}
	if (n > 0 && spools_take_many(s, source, SPOOLS_ASIDE, all, n, stays, &f)) {
		log_event(LOG_ERROR, f.what, LOG_STR("source", source));
		n = 0;
	}
	return n;
}

void spooling_forget(struct spools *s, const char *source, int64_t worker,
                     const struct settlement *has, int nhas)
{
	int64_t left = spools_aside(s, source);
	for (int n = 1; left > 0 && n > 0; left -= n)
		n = forget_some(s, source, worker, has, nhas, (int)(left < OFFER_MAX ? left : OFFER_MAX));
}

/* ---- storing ---- */

/* A run of ends that are stored for one reason; together, or one by one if that is too much. */
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

/* ---- the spools of a worker ---- */

defib_err turns_spool_open(struct worker *w, struct failure *f)
{
	struct turn_thread *t = &w->turn_thread;
	if (!w->options.spool)
		return DEFIB_OK;
	defib_err err = spools_open(w->options.spool, 0, &t->spools, f);
	if (!err) /* the directory is ours now */
		err = timeline_keep(w->options.spool, f);
	if (err)
		return err;
	struct spool_news news = {0};
	turns_spool_news(w, &news);
	if (news.unserved[0])
		log_event(LOG_WARN, "results in the spool wait for a worker of their source",
		          LOG_STR("sources", news.unserved), LOG_STR("spool", w->options.spool));
	return DEFIB_OK;
}

static bool spooling_served(const struct worker *w, const char *source)
{
	for (int i = 0; i < w->options.npools; i++)
		if (text_eq(w->sources[i]->name, source))
			return true;
	return false;
}

void turns_spool_news(const struct worker *w, struct spool_news *out)
{
	const struct spools *s = w->turn_thread.spools;
	struct spools_totals t;
	AUTO_BUF names = BUF_INIT;
	const char *name;
	if (!s)
		return;
	spools_totals(s, &t);
	out->waiting = t.waiting;
	out->bytes = t.bytes;
	out->set_aside = t.set_aside;
	if (t.why)
		snprintf(out->why, sizeof out->why, "%s: %s", t.why_source, t.why);
	for (int i = 0; (name = spools_source(s, i)); i++)
		if (!spooling_served(w, name))
			buf_addf(&names, "%s%s", names.len ? ", " : "", name[0] ? name : "(not readable)");
	utf8_copy(out->unserved, sizeof out->unserved, buf_text(&names));
}

bool turns_spool_holds(const struct worker *w, int pool, int64_t worker, const char *key,
                       int64_t epoch)
{
	const struct spools *s = w->turn_thread.spools;
	for (int i = 0; s && i < w->options.npools; i++)
		if (w->same_jobs[i] == w->same_jobs[pool] &&
		    spools_holds(s, w->sources[i]->name, worker, key, epoch))
			return true;
	return false;
}

static int64_t waiting(const struct worker *w, int first)
{
	int64_t n = 0;
	for (int i = first; i < w->options.npools; i++)
		if (w->same_jobs[i] == first)
			n += spools_waiting(w->turn_thread.spools, w->sources[i]->name);
	return n;
}

void turns_spool_tell(struct worker *w, int64_t now_us)
{
	for (int i = 0; w->turn_thread.spools && i < w->options.npools; i++) {
		struct engine_event ev = {.kind = EVENT_WAITING, .pool = i};
		if (w->same_jobs[i] != i)
			continue;
		ev.count = waiting(w, i);
		engine_step(w->engine, &ev, now_us);
	}
}

struct offering {
	struct worker *w;
	int pool;
};

/* Numbers begin again in every database: there, an end would meet the double of its job. */
static defib_err spooling_refuse_foreign(struct worker *w, const struct spooled_ends *ends,
                                         struct failure *f)
{
	const char *here = w->turn_thread.database;
	defib_err err = turns_ready(w, f);
	if (err || text_eq(here, ends->database))
		return err;
	if (!ends->again)
		log_event(LOG_CRITICAL, "results of another database: they are set aside",
		          LOG_STR("first", ends->ends[0].key), LOG_INT("results", ends->n),
		          LOG_STR("database", ends->database), LOG_STR("here", here),
		          LOG_STR("next", "a worker of that database with the same spool records them"));
	return fail(f, DEFIB_REFUSED, "it belongs to another database (%s, here is %s)", ends->database,
	            here);
}

static void settle_offered(void *ctx, const struct spooled_ends *ends, struct arena *a)
{
	const struct offering *o = ctx;
	struct failure f = {0};
	struct turn_part p = {.pool = o->pool,
	                      .worker = ends->worker,
	                      .ends = ends->ends,
	                      .nends = ends->n,
	                      .why = ends->why};
	if (spooling_refuse_foreign(o->w, ends, &f) == DEFIB_OK &&
	    turns_settle(o->w, &p, a, &f) == DEFIB_OK)
		return;
	struct failure *kept = ARENA_NEW(a, struct failure);
	*kept = f;
	for (int i = 0; i < ends->n; i++)
		ends->why[i] = ends->why[i] ? ends->why[i] : kept;
}

/* Ended jobs wait under the name of the first pool with the same jobs. */
static const char *spool_of(const struct worker *w, int pool)
{
	return w->sources[w->same_jobs[pool]]->name;
}

int64_t turns_spool_drain(struct worker *w, int pool)
{
	struct spools *s = w->turn_thread.spools;
	for (int i = 0; s && i < w->options.npools; i++) {
		struct offering o = {w, i};
		if (w->same_jobs[i] != w->same_jobs[pool])
			continue;
		spooling_drain(s, w->sources[i]->name, clock_boot_ms(), settle_offered, &o);
	}
	return s ? waiting(w, w->same_jobs[pool]) : 0;
}

void turns_spool_taken(struct worker *w, int pool)
{
	if (w->turn_thread.spools)
		spooling_taken(w->turn_thread.spools, spool_of(w, pool));
}

/*
 * Among results set aside, ends of claims that the server lost in its failover: it assigns the same
 * epochs again, and would take them for the ends of later claims.
 */
void turns_spool_forget(struct worker *w, const struct turn_part *p)
{
	struct spools *s = w->turn_thread.spools;
	for (int i = 0; s && i < w->options.npools; i++)
		if (w->same_jobs[i] == w->same_jobs[p->pool])
			spooling_forget(s, w->sources[i]->name, p->claimer, p->has, p->nhas);
}

bool turns_spool_due(const struct worker *w, int pool)
{
	struct spools *s = w->turn_thread.spools;
	const char *source = w->sources[pool]->name;
	if (!s || spools_aside(s, source) == 0)
		return false;
	return clock_boot_ms() >= spools_retry(s, source)->at_ms;
}

void turns_spool_keep(struct worker *w, struct job *first, const struct failure *why, bool *kept,
                      struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	int n = 0, i = 0;
	assert(first);
	if (!w->turn_thread.spools)
		return;
	for (const struct job *j = first; j; j = j->queued)
		n++;
	const char *source = spool_of(w, first->pool);
	struct spool_result *all = ARENA_ARRAY(&a, struct spool_result, n);
	const struct failure **whys = ARENA_ARRAY(&a, const struct failure *, n);
	for (const struct job *j = first; j; j = j->queued, i++) {
		char *token = arena_alloc(&a, TOKEN_SIZE);
		token_of(&j->claim, j->worker, token);
		all[i] = (struct spool_result){.source = source,
		                               .database = j->claim.database,
		                               .worker = j->worker,
		                               .token = token,
		                               .end = job_end(j)};
		whys[i] = why;
	}
	spooling_keep(w->turn_thread.spools, source, all, whys, n, kept, f);
}

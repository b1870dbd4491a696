/* SPDX-License-Identifier: Apache-2.0
 * turns_spool.c: results that the database could not take, between the engine and the spools
 * (spooling.h): keeping them, and offering them again before what ended after them.
 */
#include "worker/worker_inside.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "worker/spooling.h"
#include "worker/token.h"

/* The folder is ours now: what was seen of servers is kept in it too. */
static defib_err keep_timelines(const char *folder, struct failure *f)
{
	struct buf path = BUF_INIT;
	buf_addf(&path, "%s/timelines", folder);
	defib_err err = timeline_keep(buf_text(&path), f);
	buf_release(&path);
	return err;
}

defib_err turns_spool_open(struct worker *w, struct failure *f)
{
	struct turner *t = &w->turner;
	if (!w->options.spool)
		return DEFIB_OK;
	defib_err err = spools_open(w->options.spool, 0, &t->spools, f);
	if (!err)
		err = keep_timelines(w->options.spool, f);
	for (int i = 0; !err && i < w->options.npools; i++)
		err = spools_ready(t->spools, w->sources[i]->name, f);
	if (err)
		return err;
	struct spool_news news = {0};
	turns_spool_news(w, &news);
	if (news.unserved[0])
		log_event(LOG_WARN, "results in the spool wait for a worker of their source",
		          LOG_STR("sources", news.unserved), LOG_STR("spool", w->options.spool));
	return DEFIB_OK;
}

static bool served(const struct worker *w, const char *source)
{
	for (int i = 0; i < w->options.npools; i++)
		if (text_eq(w->sources[i]->name, source))
			return true;
	return false;
}

void turns_spool_news(const struct worker *w, struct spool_news *out)
{
	const struct spools *s = w->turner.spools;
	struct spools_totals t;
	struct buf names = BUF_INIT;
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
		if (!served(w, name))
			buf_addf(&names, "%s%s", names.len ? ", " : "", name[0] ? name : "(not readable)");
	utf8_copy(out->unserved, sizeof out->unserved, buf_text(&names));
	buf_release(&names);
}

bool turns_spool_holds(const struct worker *w, int pool, int64_t worker, const char *key,
                       int64_t epoch)
{
	const struct spools *s = w->turner.spools;
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
			n += spools_waiting(w->turner.spools, w->sources[i]->name);
	return n;
}

void turns_spool_tell(struct worker *w, int64_t now_us)
{
	for (int i = 0; w->turner.spools && i < w->options.npools; i++) {
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

static void offer(void *ctx, int64_t worker, struct settlement *ends, const struct failure **why,
                  int n, struct arena *a)
{
	const struct offering *o = ctx;
	struct failure f = {0};
	struct turn_part p = {.pool = o->pool, .worker = worker, .ends = ends, .nends = n, .why = why};
	if (turns_settle(o->w, &p, a, &f) == DEFIB_OK)
		return;
	struct failure *kept = ARENA_NEW(a, struct failure);
	*kept = f;
	for (int i = 0; i < n; i++)
		why[i] = why[i] ? why[i] : kept;
}

/* What ended waits under the name of the first pool with the same jobs. */
static const char *spool_of(const struct worker *w, int pool)
{
	return w->sources[w->same_jobs[pool]]->name;
}

int64_t turns_spool_drain(struct worker *w, int pool)
{
	struct spools *s = w->turner.spools;
	for (int i = 0; s && i < w->options.npools; i++) {
		struct offering o = {w, i};
		if (w->same_jobs[i] != w->same_jobs[pool])
			continue;
		spooling_drain(s, w->sources[i]->name, clock_boot_ms(), offer, &o);
	}
	return s ? waiting(w, w->same_jobs[pool]) : 0;
}

void turns_spool_taken(struct worker *w, int pool)
{
	if (w->turner.spools)
		spooling_taken(w->turner.spools, spool_of(w, pool));
}

bool turns_spool_due(const struct worker *w, int pool)
{
	const struct spools *s = w->turner.spools;
	const char *source = w->sources[pool]->name;
	if (!s || spools_aside(s, source) == 0)
		return false;
	return clock_boot_ms() >= spools_retry(s, source)->at_ms;
}

void turns_spool_keep(struct worker *w, struct job *first, const struct failure *why, bool *kept,
                      struct failure *f)
{
	struct arena a = ARENA_INIT;
	int n = 0, i = 0;
	if (!w->turner.spools)
		return;
	for (const struct job *j = first; j; j = j->queued)
		n++;
	const char *source = spool_of(w, first->pool);
	struct spool_result *all = ARENA_ARRAY(&a, struct spool_result, n);
	const struct failure **whys = ARENA_ARRAY(&a, const struct failure *, n);
	for (const struct job *j = first; j; j = j->queued, i++) {
		char *token = arena_alloc(&a, TOKEN_SIZE);
		token_of(&j->claim, j->worker, token);
		all[i] = (struct spool_result){
			.source = source, .worker = j->worker, .token = token, .end = job_end(j)};
		whys[i] = why;
	}
	spooling_keep(w->turner.spools, source, all, whys, n, kept, f);
	arena_release(&a);
}

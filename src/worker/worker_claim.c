/*
 * worker_claim.c: what the worker asks of its work session: jobs to claim,
 * which of its jobs are to stop, what they say of their progress, and their beats.
 */
#include "worker/worker_inside.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#define PROGRESS_MS 500
#define CANCEL_MS 1000

/* xorshift: only to spread probes of many workers. */
static double next_chance(struct worker *w)
{
	w->chance ^= w->chance << 13;
	w->chance ^= w->chance >> 7;
	w->chance ^= w->chance << 17;
	return (double)(w->chance >> 11) / 9007199254740992.0;
}

static defib_err work_ready(struct worker *w, struct failure *f)
{
	defib_err err = session_ready(&w->session, f);
	if (!err && w->opened != w->session.opened) {
		w->opened = w->session.opened;
		wake_listen(w->wake, w->session.store);
	}
	return err;
}

static void claim_failed(struct worker *w, defib_err err, const struct failure *f)
{
	log_event(LOG_WARN, "no claim", LOG_STR("because", f->what));
	/* Its answer may have been lost: what the database gave us then must not stay ours. */
	if (err == DEFIB_UNKNOWN_OUTCOME || err == DEFIB_TIMEOUT || err == DEFIB_CONNECTION)
		watchman_poke(w->watchman, true);
}

static void note_breakers(struct worker *w)
{
	w->claims.tries = w->breaker.tries;
	w->claims.failed = w->breaker.failed;
	w->claims.paused = w->breaker.state != BREAKER_CLOSED || w->serving.state != BREAKER_CLOSED;
}

static void note_claim(struct worker *w, int got)
{
	pthread_mutex_lock(&w->lock);
	w->claims.claimed += got;
	w->claims.ticks++;
	note_breakers(w);
	pthread_mutex_unlock(&w->lock);
}

void note_served(struct worker *w, bool served)
{
	breaker_tell(&w->serving, "claims: jobs get no session", served, next_chance(w),
	             clock_boot_ms());
	pthread_mutex_lock(&w->lock);
	w->claims.unserved += !served;
	note_breakers(w);
	pthread_mutex_unlock(&w->lock);
}

/*
 * While jobs get no session, one at a time shows whether they do again. Nobody knows how long
 * it runs: until its end tells, it counts as a failure, and the next one has its turn after
 * twice the pause.
 */
static bool serving_allows(struct worker *w, int64_t *n, int64_t now)
{
	if (w->serving.state == BREAKER_CLOSED)
		return true;
	*n = 1;
	return breaker_allow(&w->serving, now);
}

static void serving_tried(struct worker *w, int got)
{
	if (w->serving.state != BREAKER_PROBING)
		return;
	if (got > 0)
		breaker_report(&w->serving, false, next_chance(w), clock_boot_ms());
	else
		breaker_return(&w->serving);
}

static void claim_into(struct worker *w, int pool, int64_t n, int64_t now)
{
	struct crew *crew = &w->crews[pool];
	struct source *src = w->options.pools[pool].source;
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct claimed *claims = NULL;
	int got = 0;
	int64_t worker = watchman_worker(w->watchman);
	hand_claim_begin(&w->hand);
	defib_err err = work_ready(w, &f);
	if (!err && now >= crew->next_poll_ms)
		err = src->ops->promote(src, w->session.store, &f);
	if (!err)
		err = src->ops->claim(src, w->session.store, worker, n, &a, &claims, &got, &f);
	for (int i = 0; !err && i < got; i++)
		jobs_start(w, pool, &claims[i], worker, now);
	/* Between the claim and here we may have been declared dead: then none of these is ours. */
	if (got > 0 && watchman_worker(w->watchman) != worker)
		worker_stop_jobs(w, NULL, NULL, 0, true);
	hand_claim_end(&w->hand);
	if (err)
		claim_failed(w, err, &f);
	breaker_tell(&w->breaker, "claims", !err || err == DEFIB_LEASE_LOST, next_chance(w),
	             clock_boot_ms());
	serving_tried(w, got);
	note_claim(w, got);
	crew->more = !err && got == n;
	crew->empty = !err && got == 0;
	crew->claimed = true;
	crew->taken += got;
	crew->next_poll_ms = now + crew->poll_ms;
	log_event(got > 0 && w->options.pools[pool].noted ? LOG_INFO : LOG_DEBUG, "tick",
	          LOG_STR("source", src->name), LOG_INT("claimed", got));
	arena_release(&a);
}

/* `batch` bounds what a poll interval takes, however fast the jobs are. */
static int64_t tick_room(struct crew *crew, int64_t batch, int64_t now)
{
	if (now >= crew->tick_ms) {
		crew->tick_ms = now + crew->poll_ms;
		crew->taken = 0;
	}
	return batch ? batch - crew->taken : INT64_MAX;
}

/* Claim into one pool if there is room and reason; how long until there may be again. */
static int64_t claim_pool(struct worker *w, int pool, bool woken, int64_t now)
{
	struct crew *crew = &w->crews[pool];
	int64_t n = slots_free(&crew->slots, now);
	int64_t room = tick_room(crew, w->options.pools[pool].batch, now);
	n = n > room ? room : n;
	bool due = woken || crew->more || now >= crew->next_poll_ms;
	if (n > 0 && due && breaker_wait_ms(&w->breaker, now) == 0 && serving_allows(w, &n, now) &&
	    breaker_allow(&w->breaker, now))
		claim_into(w, pool, n, now);
	/* Without a free slot there is nothing to wait for here: one that comes free wakes us. */
	int64_t next = room == 0    ? crew->tick_ms
	               : n == 0     ? INT64_MAX
	               : crew->more ? now
	                            : crew->next_poll_ms;
	int64_t held = slots_wait_ms(&crew->slots, now);
	next = held >= 0 && now + held < next ? now + held : next;
	return next == INT64_MAX ? next : next - now;
}

int64_t claim_due(struct worker *w, bool woken, int64_t now)
{
	int64_t wait = INT64_MAX;
	bool good = watchman_contact(w->watchman) == CONTACT_GOOD && !worker_stopping(w);
	for (int i = 0; good && i < w->options.npools; i++) {
		int64_t next = claim_pool(w, i, woken, now);
		wait = next < wait ? next : wait;
	}
	int64_t paused = breaker_wait_ms(&w->breaker, now);
	int64_t unserved = breaker_wait_ms(&w->serving, now);
	paused = paused < unserved ? unserved : paused;
	return wait < paused ? paused : wait;
}

void look_for_cancels(struct worker *w, bool woken, int64_t now)
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	if (hand_count(&w->hand) == 0 || (!woken && now < w->cancel_ms) || work_ready(w, &f))
		return;
	w->cancel_ms = now + CANCEL_MS;
	for (int i = 0; i < w->options.npools; i++) {
		struct source *src = w->sources[i];
		struct settlement *all;
		int n = 0;
		int64_t worker = watchman_worker(w->watchman);
		if (src->ops->cancelling(src, w->session.store, worker, &a, &all, &n, &f))
			break;
		for (int k = 0; k < n; k++)
			worker_stop_jobs(w, src, all[k].key, all[k].epoch, false);
	}
	arena_release(&a);
}

void send_progress(struct worker *w, int64_t now)
{
	struct progress_note note;
	struct failure f = {0};
	if (now < w->progress_ms)
		return;
	w->progress_ms = now + PROGRESS_MS;
	while (hand_take_progress(&w->hand, &note)) {
		if (work_ready(w, &f))
			return;
		defib_err err = note.source->ops->progress(
			note.source, w->session.store, note.worker, note.key, note.epoch,
			note.step[0] ? note.step : NULL, note.progress, &f);
		if (err == DEFIB_LEASE_LOST)
			worker_stop_jobs(w, note.source, note.key, note.epoch, true);
		else if (err)
			return;
	}
}

/* ---- beats ---- */

/* Several pools may be of one watch: the first of them beats for all. */
static bool beats_here(const struct worker *w, int pool)
{
	const struct source *src = w->sources[pool];
	for (int i = 0; i < pool; i++)
		if (src->keys && w->sources[i]->keys && text_eq(src->keys, w->sources[i]->keys))
			return false;
	return src->beat_ms > 0;
}

/* A job never ends for a beat that failed: what follows is that others may take it for dead. */
static void beat_failed(struct worker *w, struct crew *crew, const struct source *src,
                        const struct failure *f, int64_t now)
{
	int64_t retry_ms = w->options.beat_retry_ms;
	bool again = crew->beat_fails < w->options.beat_tries;
	log_event(again ? LOG_WARN : LOG_ERROR, again ? "no beat: tried again" : "no beat",
	          LOG_STR("source", src->name), LOG_STR("because", f->what),
	          LOG_INT("failed", crew->beat_fails + 1));
	crew->beat_fails = again ? crew->beat_fails + 1 : 0;
	crew->beat_due_ms = now + (again && retry_ms < src->beat_ms ? retry_ms : src->beat_ms);
}

static void beat_watch(struct worker *w, int pool, int64_t now)
{
	struct crew *crew = &w->crews[pool];
	struct source *src = w->sources[pool];
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct beat *all = NULL;
	int64_t worker = watchman_worker(w->watchman);
	int n = hand_beats(&w->hand, src, worker, &a, &all);
	defib_err err = n > 0 ? work_ready(w, &f) : DEFIB_OK;
	if (!err && n > 0)
		err = src->ops->beat(src, w->session.store, worker, all, n, &a, &f);
	for (int i = 0; !err && i < n; i++)
		if (all[i].lost)
			worker_stop_jobs(w, src, all[i].key, all[i].epoch, true);
	if (err) {
		beat_failed(w, crew, src, &f, now);
	} else {
		crew->beat_fails = 0;
		crew->beat_due_ms = now + src->beat_ms;
	}
	arena_release(&a);
}

int64_t send_beats(struct worker *w, int64_t now)
{
	int64_t due = INT64_MAX;
	for (int i = 0; i < w->options.npools; i++) {
		if (!beats_here(w, i))
			continue;
		if (now >= w->crews[i].beat_due_ms)
			beat_watch(w, i, now);
		due = w->crews[i].beat_due_ms < due ? w->crews[i].beat_due_ms : due;
	}
	return due;
}

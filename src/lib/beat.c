/* SPDX-License-Identifier: Apache-2.0
 * beat.c: heartbeats of a job in the caller's own table, by a statement of the caller. The caller's
 * thread writes the first one, so that a wrong statement is reported at once; a thread writes the
 * others with the same session.
 */
#include "lib/lib.h"

#include "base/log.h"

#include <pthread.h>
#include <time.h>

struct defib_beat {
	struct arena arena;
	struct session session;
	const char *statement;
	struct store_param *params;
	defib_beat_options options;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t stop_asked;
	bool stop;
};

static defib_err beat_once(defib_beat *b, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows = {0};
	defib_err err = session_ready(&b->session, f);
	if (!err)
		err = store_write(b->session.store, b->statement, b->params, b->options.nparams, &a, &rows,
		                  f);
	if (!err && rows.affected == 0)
		err = fail(f, DEFIB_LEASE_LOST, "the heartbeat wrote no row: the job is no longer ours");
	return err;
}

/* False: it was stopped meanwhile. */
static bool wait_ms(defib_beat *b, int64_t ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&b->lock);
	int late = 0;
	while (!b->stop && !late)
		late = pthread_cond_timedwait(&b->stop_asked, &b->lock, &until);
	bool goes_on = !b->stop;
	pthread_mutex_unlock(&b->lock);
	return goes_on;
}

/* One beat with its retries; false: it was stopped meanwhile. */
static bool beat_tries(defib_beat *b, defib_err *err, struct failure *f)
{
	*err = beat_once(b, f);
	for (int i = 1; *err && *err != DEFIB_LEASE_LOST && i < b->options.tries; i++) {
		if (!wait_ms(b, b->options.retry_ms))
			return false;
		*err = beat_once(b, f);
	}
	return true;
}

static void tell_failed(const defib_beat *b, const struct failure *f)
{
	defib_message message;
	log_event(LOG_WARN, "heartbeat failed", LOG_STR("error", f->what));
	if (b->options.failed) {
		lib_answer(f->code, f, &message);
		b->options.failed(b->options.ctx, f->code, &message);
	}
}

static void *beat_thread(void *beat)
{
	defib_beat *b = beat;
	defib_err err = DEFIB_OK;
	while (err != DEFIB_LEASE_LOST && wait_ms(b, b->options.every_ms)) {
		struct failure f = {0};
		if (beat_tries(b, &err, &f) && err)
			tell_failed(b, &f);
	}
	return NULL;
}

static defib_err read_options(defib_beat *b, const defib_beat_options *given, struct failure *f)
{
	defib_beat_options *o = &b->options;
	enum store_engine engine;
	defib_err err = lib_options(o, sizeof *o, given, "defib_beat_options", f);
	if (err)
		return err;
	if (!o->url || !o->statement || o->nparams < 0 || (o->nparams && !o->params))
		return fail(f, DEFIB_USAGE, "a heartbeat needs a URL, a statement and its parameters");
	if (o->every_ms < 0 || o->tries < 0 || o->retry_ms < 0)
		return fail(f, DEFIB_USAGE, "no option of a heartbeat may be negative");
	if (!store_engine_of(o->url, &engine, f))
		return DEFIB_CONFIG;
	o->every_ms = o->every_ms ? o->every_ms : 30000;
	o->tries = o->tries ? o->tries : 3;
	o->retry_ms = o->retry_ms ? o->retry_ms : 5000;
	b->statement = arena_strdup(&b->arena, o->statement);
	b->params = ARENA_ARRAY(&b->arena, struct store_param, o->nparams);
	for (int i = 0; i < o->nparams; i++)
		b->params[i] = P_TEXT(o->params[i] ? arena_strdup(&b->arena, o->params[i]) : NULL);
	b->session =
		(struct session){.options = {.url = arena_strdup(&b->arena, o->url)}, .open = store_open};
	return DEFIB_OK;
}

static void beat_free(defib_beat *b)
{
	session_close(&b->session);
	arena_release(&b->arena);
	pthread_cond_destroy(&b->stop_asked);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

static defib_beat *beat_new(void)
{
	defib_beat *b = mem_alloc(sizeof *b);
	pthread_condattr_t clock;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&b->stop_asked, &clock);
	pthread_condattr_destroy(&clock);
	pthread_mutex_init(&b->lock, NULL);
	return b;
}

defib_err defib_beat_start(const defib_beat_options *options, defib_beat **out,
                           defib_message *message)
{
	struct failure f = {0};
	*out = NULL;
	if (lib_begin(&f))
		return lib_answer(f.code, &f, message);
	defib_beat *b = beat_new();
	defib_err err = read_options(b, options, &f);
	if (!err)
		err = beat_once(b, &f);
	if (!err && pthread_create(&b->thread, NULL, beat_thread, b))
		err = fail(&f, DEFIB_FULL, "no thread could be started");
	if (err)
		beat_free(b);
	else
		*out = b;
	return lib_answer(err, &f, message);
}

void defib_beat_stop(defib_beat *beat)
{
	if (!beat)
		return;
	pthread_mutex_lock(&beat->lock);
	beat->stop = true;
	pthread_cond_signal(&beat->stop_asked);
	pthread_mutex_unlock(&beat->lock);
	pthread_join(beat->thread, NULL);
	beat_free(beat);
}

/* SPDX-License-Identifier: Apache-2.0
 * beat.c: heartbeats of a job in the caller's own table, by a statement of the caller or as a watch
 * says. The caller's thread writes the first one, so that a wrong statement is reported at once; a
 * thread writes the others with the same session.
 */
#include "lib/lib.h"

#include "base/condition.h"
#include "base/log.h"
#include "worker/heartbeat.h"

#include <pthread.h>
#include <time.h>

struct defib_beat {
	struct arena arena;
	struct session session;
	const char *statement;
	struct store_param *params;
	defib_beat_options options;
	/* of a watch */
	const struct watch *watch; /* NULL: by a statement */
	struct heartbeat_sql sql;
	bool begun;       /* the first one was written */
	bool left;        /* its job is left running */
	int64_t instance; /* the worker that has the job's lease; 0: none of this process yet */
	int64_t epoch;    /* of that lease */
	pthread_t thread;
	pid_t process;
	pthread_mutex_t lock;
	pthread_cond_t asked;
	/* guarded by the lock */
	bool stop, now;        /* asked to stop; to write one now */
	char *step, *metadata; /* may be NULL */
};

static defib_err lib_beat_ready(defib_beat *b, struct failure *f)
{
	defib_err err = session_ready(&b->session, f);
	return err || !b->watch ? err : heartbeat_prepare(&b->sql, b->watch, &b->session, f);
}

typedef defib_err heartbeat_call(const struct heartbeat_sql *q, struct store *s,
                                 const struct heartbeat *h, struct failure *f);

static defib_err beat_of_watch(defib_beat *b, heartbeat_call *call, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	/* Once it has a lease, it stays with that incarnation: another one has lost the job. */
	if (!b->epoch)
		b->instance = lib_instance_of(b->session.options.url, b->watch->name);
	struct heartbeat h = {.job = b->options.key,
	                      .worker = b->options.worker,
	                      .first = !b->begun,
	                      .instance = b->instance,
	                      .epoch = &b->epoch,
	                      .left = b->left};
	pthread_mutex_lock(&b->lock);
	h.step = b->step ? arena_strdup(&a, b->step) : NULL;
	h.metadata = b->metadata ? arena_strdup(&a, b->metadata) : NULL;
	pthread_mutex_unlock(&b->lock);
	defib_err err = call(&b->sql, b->session.store, &h, f);
	b->begun = b->begun || !err;
	return err;
}

static defib_err beat_once(defib_beat *b, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows = {0};
	fail_clear(f);
	defib_err err = lib_beat_ready(b, f);
	if (b->watch)
		return err ? err : beat_of_watch(b, heartbeat_write, f);
	if (!err)
		err = store_write(b->session.store, b->statement, b->params, b->options.nparams, &a, &rows,
		                  f);
	if (!err && rows.affected == 0)
		err = fail(f, DEFIB_LEASE_LOST, "the heartbeat wrote no row: the job is no longer ours");
	return err;
}

/* False: it was stopped meanwhile. */
static bool lib_beat_wait_ms(defib_beat *b, int64_t ms)
{
	struct timespec until = condition_limit(ms);
	pthread_mutex_lock(&b->lock);
	int late = 0;
	while (!b->stop && !b->now && !late)
		late = pthread_cond_timedwait(&b->asked, &b->lock, &until);
	bool goes_on = !b->stop;
	b->now = false;
	pthread_mutex_unlock(&b->lock);
	return goes_on;
}

/* One beat with its retries; false: it was stopped meanwhile. */
static bool beat_tries(defib_beat *b, defib_err *err, struct failure *f)
{
	*err = beat_once(b, f);
	for (int i = 1; *err && *err != DEFIB_LEASE_LOST && i < b->options.tries; i++) {
		if (!lib_beat_wait_ms(b, b->options.retry_ms))
			return false;
		*err = beat_once(b, f);
	}
	return true;
}

static void tell_failed(const defib_beat *b, struct failure *f)
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
	while (err != DEFIB_LEASE_LOST && lib_beat_wait_ms(b, b->options.every_ms)) {
		struct failure f = {0};
		if (beat_tries(b, &err, &f) && err)
			tell_failed(b, &f);
	}
	return NULL;
}

static defib_err read_statement(defib_beat *b, struct failure *f)
{
	const defib_beat_options *o = &b->options;
	enum store_engine engine;
	if (!o->url || !o->statement || o->nparams < 0 || (o->nparams && !o->params))
		return fail(f, DEFIB_USAGE, "a heartbeat needs a URL, a statement and its parameters");
	if (!store_engine_of(o->url, &engine, f))
		return DEFIB_CONFIG;
	b->statement = arena_strdup(&b->arena, o->statement);
	b->params = ARENA_ARRAY(&b->arena, struct store_param, o->nparams);
	for (int i = 0; i < o->nparams; i++)
		b->params[i] = P_TEXT(o->params[i] ? arena_strdup(&b->arena, o->params[i]) : NULL);
	b->session =
		(struct session){.options = {.url = arena_strdup(&b->arena, o->url)}, .open = store_open};
	return DEFIB_OK;
}

static char *copy_of(const char *text)
{
	return text ? mem_strdup(text) : NULL;
}

static defib_err must_be_object(const char *metadata, struct failure *f)
{
	if (!metadata || (lib_is_json(metadata) && metadata[strspn(metadata, " \t\r\n")] == '{'))
		return DEFIB_OK;
	return fail(f, DEFIB_USAGE, "the metadata of a heartbeat is a JSON object");
}

static defib_err lib_beat_read_watch(defib_beat *b, struct failure *f)
{
	defib_beat_options *o = &b->options;
	struct lib_watch on;
	if (o->url || o->statement || !o->key)
		return fail(f, DEFIB_USAGE, "a heartbeat of a watch needs a key, and no URL or statement");
	defib_err err = lib_watch(o->watches, o->watch, false, &on, f);
	if (!err)
		err = must_be_object(o->metadata, f);
	if (err)
		return err;
	b->watch = on.watch;
	b->session = on.session;
	b->step = copy_of(o->step);
	b->metadata = copy_of(o->metadata);
	o->key = arena_strdup(&b->arena, o->key);
	o->worker = o->worker ? arena_strdup(&b->arena, o->worker) : lib_default_name(&b->arena);
	if (!o->every_ms)
		o->every_ms = on.watch->beat_us / 1000;
	return DEFIB_OK;
}

static defib_err lib_beat_read_options(defib_beat *b, const defib_beat_options *given,
                                       struct failure *f)
{
	defib_beat_options *o = &b->options;
	defib_err err = lib_options(o, sizeof *o, given, "defib_beat_options", f);
	if (err)
		return err;
	if (!lib_is_time(o->every_ms) || o->tries < 0 || !lib_is_time(o->retry_ms))
		return fail(f, DEFIB_USAGE, "an option of a heartbeat is negative, or over 100 years");
	err = o->watches ? lib_beat_read_watch(b, f) : read_statement(b, f);
	o->every_ms = o->every_ms ? o->every_ms : 30000;
	o->tries = o->tries ? o->tries : 4;
	o->retry_ms = o->retry_ms ? o->retry_ms : 5000;
	return err;
}

static void beat_free(defib_beat *b)
{
	heartbeat_release(&b->sql);
	free(b->step);
	free(b->metadata);
	session_close(&b->session);
	arena_release(&b->arena);
	pthread_cond_destroy(&b->asked);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

static defib_beat *beat_new(void)
{
	defib_beat *b = mem_alloc(sizeof *b);
	b->process = getpid();
	condition_init(&b->asked);
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
	defib_err err = lib_beat_read_options(b, options, &f);
	if (!err)
		err = beat_once(b, &f);
	if (!err && pthread_create(&b->thread, NULL, beat_thread, b))
		err = fail(&f, DEFIB_FULL, "no thread could be started");
	if (!err && b->watch)
		lib_watches_use(b->options.watches, 1);
	if (err)
		beat_free(b);
	else
		*out = b;
	return lib_answer(err, &f, message);
}

defib_err defib_beat_step(defib_beat *beat, const char *step, const char *metadata)
{
	struct failure f = {0};
	if (lib_forked(beat->process))
		return DEFIB_REFUSED;
	if (!beat->watch || must_be_object(metadata, &f))
		return DEFIB_USAGE;
	pthread_mutex_lock(&beat->lock);
	free(beat->step);
	free(beat->metadata);
	beat->step = copy_of(step);
	beat->metadata = copy_of(metadata);
	beat->now = true;
	pthread_cond_signal(&beat->asked);
	pthread_mutex_unlock(&beat->lock);
	return DEFIB_OK;
}

/* A lost job is its next worker's. */
static void end_of_watch(defib_beat *b)
{
	struct failure f = {0};
	defib_err err = lib_beat_ready(b, &f);
	if (!err)
		err = beat_of_watch(b, heartbeat_end, &f);
	if (err && err != DEFIB_LEASE_LOST)
		log_event(LOG_WARN, "the end of a heartbeat was not recorded", LOG_STR("error", f.what));
	lib_watches_use(b->options.watches, -1);
}

static void lib_beat_stop(defib_beat *beat)
{
	if (!beat || lib_forked(beat->process))
		return;
	pthread_mutex_lock(&beat->lock);
	beat->stop = true;
	pthread_cond_signal(&beat->asked);
	pthread_mutex_unlock(&beat->lock);
	pthread_join(beat->thread, NULL);
	if (beat->watch)
		end_of_watch(beat);
	beat_free(beat);
}

void defib_beat_stop(defib_beat *beat)
{
	lib_beat_stop(beat);
}

void defib_beat_leave(defib_beat *beat)
{
	if (beat)
		beat->left = true;
	lib_beat_stop(beat);
}

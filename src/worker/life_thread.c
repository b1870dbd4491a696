/* SPDX-License-Identifier: Apache-2.0 */
/* life_thread.c: see worker_state.h. */

#include "worker/life_thread.h"

#include "base/log.h"
#include "ledger/events.h"
#include "life/fellows.h"
#include "life/life.h"
#include "life/registry.h"
#include "store/dialect.h"
#include "worker/sweeper.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOOK_MS 5000        /* between looks at the list, if newcomers are announced … */
#define LOOK_UNTOLD_MS 1000 /* … and if not: reading a file needs no round trip */

struct life_thread {
	struct life_thread_options options;
	struct session session;
	struct incarnation self;
	struct fellows *fellows;
	struct buf serves; /* names of the watches that this worker serves */
	struct sweeper *sweeper;
	pthread_t thread;
	int poke; /* eventfd */
	/* private to the thread */
	struct life life;
	struct arena arena; /* of the current step's readings */
	int64_t opened;     /* of the session, when it was last checked */
	int64_t outages;    /* that were reported to the sweeper */
	bool holds;         /* the sweeper knows that silence proves nothing */
	/* shared */
	_Atomic int64_t worker; /* 0: declared dead, and not registered again yet */
	_Atomic enum lease_contact contact;
	_Atomic int64_t ends_ms; /* when the lease expires by our own clock */
	atomic_bool stop;
	atomic_bool started; /* cleanup after dead instances is done: until then we only renew */
};

static void poke(struct life_thread *w)
{
	uint64_t one = 1;
	(void)!write(w->poke, &one, sizeof one);
}

/* ---- events ---- */

static void log_silence(struct life_thread *w)
{
	const struct silence *s = &w->life.silence;
	AUTO_BUF until = BUF_INIT;
	w->holds = silence_holds(s);
	if (w->holds) {
		time_iso(clock_wall_us() + s->rules.ceiling_us, &until);
		log_event(LOG_WARN,
		          "most workers fell silent at once: none is declared dead until they return or "
		          "their exit is seen",
		          LOG_INT("silent", s->brake.silent),
		          LOG_INT("of", s->brake.silent + s->brake.beating),
		          LOG_STR("at_the_latest", buf_text(&until)));
	} else {
		log_event(LOG_WARN, "silent workers are declared dead again",
		          LOG_STR("because", s->brake.ended));
	}
}

static void set_contact(struct life_thread *w)
{
	enum lease_contact now = life_contact(&w->life, clock_boot_ms());
	atomic_store(&w->ends_ms, w->life.worker ? lease_ends_ms(&w->life.lease) : 0);
	if (atomic_exchange(&w->contact, now) != now)
		w->options.wake(w->options.ctx);
}

static void life_thread_report(struct life_thread *w, const struct life_event *e)
{
	life_tell(&w->life, e, clock_boot_ms());
	if (w->life.outages != w->outages)
		sweeper_doubt(w->sweeper);
	w->outages = w->life.outages;
	if (silence_holds(&w->life.silence) != w->holds)
		log_silence(w);
	set_contact(w);
}

/* Open the session; detects a new one. */
static defib_err life_thread_ready(struct life_thread *w, struct failure *f)
{
	defib_err err = session_ready(&w->session, f);
	if (err || w->opened == w->session.opened)
		return err;
	w->opened = w->session.opened;
	struct store *s = w->session.store;
	if (!store_has_session_locks(s))
		session_close_former(&w->session);
	life_thread_report(
		w, &(struct life_event){.what = LIFE_OPENED, .locks = store_has_session_locks(s)});
	return registry_listen(s, f);
}

/* ---- actions ---- */

static defib_err register_self(struct life_thread *w, struct life_event *e, struct failure *f)
{
	defib_err err = incarnation_self(&w->self, f);
	if (!err)
		err = registry_register(w->session.store, w->options.name, &w->self,
		                        w->options.lease.lease_ms, buf_text(&w->serves), &e->worker, f);
	if (err)
		return err;
	e->who = &w->self;
	atomic_store(&w->worker, e->worker);
	return DEFIB_OK;
}

/* The watch of its first source; a queue's source has a name of its own. */
static const char *life_thread_served(const struct life_thread_options *o)
{
	for (int i = 1; i < o->nwatches && o->nsources > 0; i++)
		if (text_eq(o->watches[i]->name, o->sources[0]->name))
			return o->watches[i]->name;
	return o->watches[0]->name;
}

/* A worker that was wrongly declared dead is of interest for choosing thresholds. */
static void note_returned(struct store *s, const struct life_thread_options *o, int64_t worker)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	struct ledger_entry entry = {.job = "*", .event = ENTRY_WORKER_RETURNED, .rule = "lease-lost"};
	struct ledger_context ctx = {life_thread_served(o), "returned",
	                             arena_printf(&a, "worker:%lld", (long long)worker)};
	defib_err err = store_begin(s, TX_WRITE, &f);
	if (!err)
		err = ledger_append(s, &ctx, &entry, 1, &a, &f);
	err = store_end(s, err, &f);
	if (err)
		log_event(LOG_WARN, f.what);
}

/* Dead for the database until it is registered again, however long that takes. */
static void lose_all(struct life_thread *w)
{
	log_event(LOG_ERROR, "LEASE_LOST: this worker was declared dead; its jobs are lost");
	note_returned(w->session.store, &w->options, life_thread_worker(w));
	/* First the id: a concurrent claim compares it after its jobs are in hand. */
	atomic_store(&w->worker, 0);
	w->options.taken(w->options.ctx);
}

static defib_err life_thread_renew(struct life_thread *w, struct life_event *e, struct failure *f)
{
	AUTO_BUF info = BUF_INIT;
	w->options.info(w->options.ctx, &info);
	e->holding = w->options.holding(w->options.ctx);
	defib_err err = registry_renew(w->session.store, life_thread_worker(w), &w->self, e->holding,
	                               info.data, &e->owned, f);
	e->refused = err == DEFIB_LEASE_LOST;
	return e->refused ? DEFIB_OK : err;
}

static defib_err life_thread_look(struct life_thread *w, bool whole, struct life_event *e,
                                  struct failure *f)
{
	struct registered *rows = NULL;
	struct store *s = w->session.store;
	defib_err err = whole ? registry_alive(s, &w->arena, &rows, &e->n, f)
	                      : registry_near(s, w->life.worker, PART_SIDE, &w->arena, &rows, &e->n, f);
	e->rows = rows;
	return err;
}

static defib_err read_locks(struct life_thread *w, struct life_event *e, struct failure *f)
{
	int64_t *nonces = NULL;
	e->yes = w->life.leads;
	defib_err err = registry_locks_held(w->session.store, &w->arena, &nonces, &e->n, &e->yes, f);
	e->nonces = nonces;
	return err;
}

/* It worked on a watch that we do not know. */
static bool works_elsewhere(struct life_thread *w, int64_t worker)
{
	const struct life_thread_options *o = &w->options;
	const char **ours = ARENA_ARRAY(&w->arena, const char *, o->nwatches);
	for (int i = 0; i < o->nwatches; i++)
		ours[i] = o->watches[i]->name;
	return serves_other(part_serves(&w->life.part, worker), ours, o->nwatches);
}

static defib_err declare_dead(struct life_thread *w, const struct life_action *a,
                              struct life_event *e, struct failure *f)
{
	defib_err err = registry_declare_dead(w->session.store, a->worker, &a->death, &e->yes, f);
	if (!err && e->yes && works_elsewhere(w, a->worker))
		registry_announce_death(w->session.store);
	if (!err && e->yes)
		log_event(LOG_WARN, "worker is dead", LOG_INT("worker", a->worker),
		          LOG_STR("cause", a->death.cause));
	return err;
}

static void set_fellows(struct life_thread *w)
{
	int64_t ids[2 * PART_SIDE];
	struct incarnation who[2 * PART_SIDE];
	fellows_set(w->fellows, ids, who, part_fellows(&w->life.part, ids, who));
}

static void sweep(struct life_thread *w, const struct life_action *a)
{
	const struct life_thread_options *o = &w->options;
	bool *which = ARENA_ARRAY(&w->arena, bool, o->nwatches);
	which[0] = a->queue;
	for (int i = 1; i < o->nwatches; i++)
		which[i] = a->tables && part_sweeps(&w->life.part, &w->life.silence, o->watches[i]->name);
	sweeper_sweep(w->sweeper, &(struct sweep_order){which, a->died, a->dead_only, a->upkeep});
}

/* Actions that need the database. */
static defib_err life_thread_ask(struct life_thread *w, const struct life_action *a,
                                 struct life_event *e, struct failure *f)
{
	defib_err err = life_thread_ready(w, f);
	if (err)
		return err;
	switch (a->what) {
	case LIFE_OPEN:
		return DEFIB_OK;
	case LIFE_REGISTER:
		return register_self(w, e, f);
	case LIFE_LOCK:
		return registry_hold_lock(w->session.store, life_thread_worker(w), &e->yes, f);
	case LIFE_RENEW:
		return life_thread_renew(w, e, f);
	case LIFE_LOOK:
		return life_thread_look(w, a->whole, e, f);
	case LIFE_LOCKS:
		return read_locks(w, e, f);
	case LIFE_DECLARE:
		return declare_dead(w, a, e, f);
	case LIFE_LEFT:
		return registry_left_jobs(w->session.store, &e->yes, f);
	default:
		return DEFIB_OK;
	}
}

/* Actions that do not, or that cannot fail. */
static bool do_here(struct life_thread *w, const struct life_action *a)
{
	if (a->what == LIFE_RETURN)
		lose_all(w);
	else if (a->what == LIFE_FELLOWS)
		set_fellows(w);
	else if (a->what == LIFE_RECOVER)
		sweeper_recover(w->sweeper, a->worker, a->mass);
	else if (a->what == LIFE_SWEEP)
		sweep(w, a);
	else if (a->what == LIFE_COMPARE)
		w->options.compare(w->options.ctx);
	else
		return false;
	return true;
}

static void log_failure(const struct life_action *a, const struct failure *f)
{
	if (a->what == LIFE_RENEW)
		log_event(LOG_WARN, "the lease was not renewed", LOG_STR("because", f->what));
	else
		log_event(a->what == LIFE_REGISTER ? LOG_ERROR : LOG_WARN, f->what);
}

/*
 * A session that did not answer is replaced, but its lock stays until the new session has it too:
 * in between, others would see a lock vanish and a worker that does not renew. A lock without a
 * lease means nothing.
 */
static void leave_former(struct life_thread *w, bool locked)
{
	if (w->session.former && (locked || clock_boot_ms() >= lease_ends_ms(&w->life.lease)))
		session_close_former(&w->session);
}

static defib_err life_thread_perform(struct life_thread *w, const struct life_action *a,
                                     struct failure *f)
{
	struct life_event e = {.what = LIFE_DONE};
	defib_err err = do_here(w, a) ? DEFIB_OK : life_thread_ask(w, a, &e, f);
	leave_former(w, !err && a->what == LIFE_LOCK && e.yes);
	if (err)
		e.what = LIFE_FAILED;
	life_thread_report(w, &e);
	if (err && (!w->session.store || w->session.store->lost))
		life_thread_report(w, &(struct life_event){.what = LIFE_ENDED});
	arena_clear(&w->arena);
	return err;
}

/* ---- the loop ---- */

static bool take_pokes(struct life_thread *w)
{
	uint64_t n;
	(void)!read(w->poke, &n, sizeof n);
	if (atomic_load(&w->started))
		life_thread_report(w, &(struct life_event){.what = LIFE_STARTED});
	return atomic_load(&w->stop);
}

/* A newcomer was announced, or the session has ended. */
static bool take_notification(struct life_thread *w)
{
	struct store *s = w->session.store;
	if (!s || !store_notified(s))
		return false;
	life_thread_report(w, &(struct life_event){.what = s->lost               ? LIFE_ENDED
	                                                   : s->payload_received ? LIFE_DEATH
	                                                                         : LIFE_NEWCOMER});
	return true;
}

static void take_exits(struct life_thread *w)
{
	int64_t id;
	bool seen;
	while (life_has_room(&w->life) && fellows_dead(w->fellows, &id, &seen))
		life_thread_report(w, &(struct life_event){.what = LIFE_EXIT, .id = id, .seen = seen});
}

static bool life_thread_wait_for(struct life_thread *w, int64_t ms)
{
	/* A notification that arrived during a statement makes nothing readable. */
	bool notified = take_notification(w);
	struct store *s = w->session.store;
	int fellows = life_has_room(&w->life) ? fellows_fd(w->fellows) : -1;
	struct pollfd fds[] = {
		{w->poke, POLLIN, 0}, {fellows, POLLIN, 0}, {s ? store_fd(s) : -1, POLLIN, 0}};
	(void)poll(fds, 3, notified ? 0 : (int)ms);
	life_thread_report(w, &(struct life_event){.what = LIFE_TIME});
	if (fds[1].revents)
		take_exits(w);
	if (fds[2].revents)
		(void)take_notification(w);
	return fds[0].revents && take_pokes(w);
}

static void *life_thread_main(void *arg)
{
	struct life_thread *w = arg;
	bool stop = false;
	while (!stop) {
		struct failure f = {0};
		struct life_action a = life_next(&w->life, clock_boot_ms());
		if (a.what == LIFE_WAIT)
			stop = life_thread_wait_for(w, a.wait_ms);
		else if (life_thread_perform(w, &a, &f))
			log_failure(&a, &f);
		else if (a.what == LIFE_REGISTER)
			log_event(LOG_INFO, "registered again", LOG_INT("worker", life_thread_worker(w)));
		if (a.what == LIFE_REGISTER)
			w->options.wake(w->options.ctx);
	}
	return NULL;
}

/*
 * One line per watch; a source without a watch is a queue of the built-in one. Without sources, the
 * program works on all of its watches itself.
 */
static void name_served(struct life_thread *w)
{
	const struct life_thread_options *o = &w->options;
	for (int i = 1; i < o->nwatches && o->nsources == 0; i++)
		buf_addf(&w->serves, "%s%s", i > 1 ? "\n" : "", o->watches[i]->name);
	for (int i = 0; i < o->nsources; i++) {
		const char *name = o->watches[0]->name;
		for (int k = 1; k < o->nwatches; k++)
			if (text_eq(o->watches[k]->name, o->sources[i]->name))
				name = o->watches[k]->name;
		if (i == 0 || !serves_watch(buf_text(&w->serves), name))
			buf_addf(&w->serves, "%s%s", i ? "\n" : "", name);
	}
}

static void life_thread_free(struct life_thread *w)
{
	sweeper_free(w->sweeper);
	buf_release(&w->serves);
	fellows_close(w->fellows);
	life_release(&w->life);
	arena_release(&w->arena);
	session_close(&w->session);
	if (w->poke >= 0)
		close(w->poke);
	free(w);
}

/*
 * A call that a server does not answer must not outlast the lease. A file always answers, and
 * giving up early on its other writers would count as an outage.
 */
static bool bounds_calls(const struct life_thread_options *o)
{
	enum store_engine engine;
	return store_engine_of(o->store.url, &engine, NULL) && !dialect_of(engine)->is_file;
}

static struct life_thread *life_thread_new(const struct life_thread_options *o)
{
	struct life_thread *w = mem_alloc(sizeof *w);
	enum store_engine engine;
	bool known = store_engine_of(o->store.url, &engine, NULL);
	int64_t look_ms = known && !dialect_of(engine)->can_notify ? LOOK_UNTOLD_MS : LOOK_MS;
	assert(o->nwatches >= 1);
	w->options = *o;
	w->session = (struct session){.options = o->store, .open = store_open};
	if (bounds_calls(o)) {
		struct store_options *store = &w->session.options;
		store->call_ms = store->statement_ms = lease_call_ms(&o->lease);
		store->lock_ms = store->call_ms / 2;
		store->keeps_locks = true;
	}
	w->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->sweeper = sweeper_new(&(struct sweeper_options){
		.store = o->store,
		.watches = o->watches,
		.nwatches = o->nwatches,
		.retention = o->retention,
		.wake = o->wake,
		.ctx = o->ctx,
	});
	life_init(&w->life, &(struct life_rules){
							.lease = o->lease,
							.brake_ms = o->brake_ms,
							.look_ms = o->lease.beat_ms < look_ms ? o->lease.beat_ms : look_ms,
							.tables = o->nwatches > 1,
						});
	name_served(w);
	return w;
}

/* The first action of a life. */
static defib_err begin_life(struct life_thread *w, struct failure *f)
{
	struct life_action first = life_next(&w->life, clock_boot_ms());
	assert(first.what == LIFE_REGISTER);
	defib_err err = life_thread_perform(w, &first, f);
	/* From now on there is a lease that opening a session must not outlast. */
	if (bounds_calls(&w->options))
		w->session.options.connect_ms = 2 * lease_call_ms(&w->options.lease);
	return err;
}

defib_err life_thread_start(const struct life_thread_options *o, struct life_thread **out,
                            struct failure *f)
{
	struct life_thread *w = life_thread_new(o);
	defib_err err = w->poke < 0 ? fail(f, DEFIB_IO, "cannot make an eventfd") : DEFIB_OK;
	if (!err)
		err = fellows_open(&w->fellows, f);
	if (!err)
		err = begin_life(w, f);
	if (!err && pthread_create(&w->thread, NULL, life_thread_main, w) != 0)
		err = fail(f, DEFIB_IO, "cannot start a thread for the lease");
	if (err) {
		life_thread_free(w);
		return err;
	}
	/* The lease is renewed meanwhile. A sweep would treat these rows like any others. */
	struct failure logged = {0};
	if (!o->no_startup)
		err = sweeper_start_up(w->sweeper, life_thread_worker(w), o->cleaned,
		                       o->cleaned ? f : &logged);
	if (!o->cleaned)
		err = DEFIB_OK;
	atomic_store(&w->started, true);
	poke(w);
	if (!err)
		err = sweeper_run(w->sweeper, f);
	if (err) {
		life_thread_stop(w, true);
		return err;
	}
	*out = w;
	return DEFIB_OK;
}

int64_t life_thread_worker(struct life_thread *w)
{
	return atomic_load(&w->worker);
}

enum lease_contact life_thread_contact(struct life_thread *w)
{
	return atomic_load(&w->contact);
}

int64_t life_thread_ends_ms(struct life_thread *w)
{
	return atomic_load(&w->ends_ms);
}

void life_thread_stop(struct life_thread *w, bool leave)
{
	struct failure f = {0};
	if (!w)
		return;
	sweeper_stop(w->sweeper); /* while the lease is still renewed */
	atomic_store(&w->stop, true);
	poke(w);
	pthread_join(w->thread, NULL);
	if (leave && w->session.store && !w->session.store->lost &&
	    registry_leave(w->session.store, w->worker, &w->self, &f))
		log_event(LOG_WARN, f.what);
	life_thread_free(w);
}

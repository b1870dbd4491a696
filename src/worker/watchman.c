/* watchman.c: see watchman.h. */
#include "worker/watchman.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "ledger/jobs.h"
#include "life/fellows.h"
#include "life/instances.h"
#include "life/locks.h"
#include "life/registry.h"
#include "life/silence.h"
#include "worker/returned.h"
#include "worker/sweeper.h"

#include <assert.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ROSTER_MS 1000  /* how often the list of workers is read */
#define SWEEP_MS 5000   /* how often jobs of the dead are looked for beyond what was seen */
#define LOCKS_MS 20     /* how often a reader reads the locks while remote workers live */
#define GRACE_MS 250    /* that a lock may be away before its worker is taken for dead */
#define OWN_LOCK_MS 100 /* how often our own lock is tried for while an old session has it */
#define LEAD_MS 500     /* how often others try to become a reader */
#define QUIET_MS 10000  /* after an outage of our own nobody is condemned for silence */
#define GAP_MS 2000     /* a loop that was away for longer was suspended */

#define UNBURIED_MAX 64

#define MASS_DEATHS 2 /* more than so many … */
#define MASS_MS 500   /* … within this time */

struct watchman {
	struct watchman_options options;
	struct session session;
	struct incarnation self;
	struct fellows *fellows;
	struct locks locks;
	struct silence silence;
	struct buf serves; /* names of the watches that this worker works on */
	struct sweeper *sweeper;
	pthread_t thread;
	int poke; /* eventfd */
	/* the thread's own */
	struct lease lease;
	int64_t roster_ms, sweep_ms, lead_ms, locks_ms, last_ms, doubt_until_ms, register_ms;
	int64_t own_lock_ms;
	int64_t opened; /* of the session, when it was last looked at */
	bool locked;    /* this session has our lock */
	bool leads, remote;
	struct {
		int64_t id, at_us; /* when it was seen; ENDED_UNSEEN: it was gone before */
	} unburied[UNBURIED_MAX];
	int nunburied;                  /* exits seen, not yet in the registry */
	int64_t deaths_ms[MASS_DEATHS]; /* when the last few were declared dead, in a ring */
	int deaths;
	int mismatches; /* renewals in a row that counted more jobs than we have */
	/* shared */
	pthread_mutex_t lock;
	int64_t worker; /* 0: declared dead, and not registered anew yet */
	enum lease_contact contact;
	bool stop;
	bool starting; /* what gone instances left is looked at: until then we only live */
};

static int64_t worker_id(struct watchman *w)
{
	pthread_mutex_lock(&w->lock);
	int64_t id = w->worker;
	pthread_mutex_unlock(&w->lock);
	return id;
}

static void poke(struct watchman *w)
{
	uint64_t one = 1;
	(void)!write(w->poke, &one, sizeof one);
}

/* ---- the death of others ---- */

static defib_err life_ready(struct watchman *w, struct failure *f);

/*
 * Many deaths in a moment are a host or a power supply, not the fault of any
 * job: they do not count against crash budgets.
 */
static bool note_death(struct watchman *w)
{
	int64_t now = clock_boot_ms(), *oldest = &w->deaths_ms[w->deaths++ % MASS_DEATHS];
	bool mass = *oldest && now - *oldest < MASS_MS;
	*oldest = now;
	return mass;
}

/* False when the database could not be asked: then it is not decided. */
static bool declare_dead(struct watchman *w, int64_t id, const struct death *death)
{
	struct failure f = {0};
	bool won = false;
	defib_err err = life_ready(w, &f);
	if (!err)
		err = registry_declare_dead(w->session.store, id, death, &won, &f);
	if (err)
		log_event(LOG_WARN, f.what);
	if (won) {
		log_event(LOG_WARN, "worker is dead", LOG_INT("worker", id),
		          LOG_STR("cause", death->cause));
		sweeper_recover(w->sweeper, id, note_death(w));
	}
	return !err;
}

/* ---- our own life ---- */

static void set_contact(struct watchman *w)
{
	enum lease_contact now = lease_contact(&w->lease, clock_boot_ms());
	pthread_mutex_lock(&w->lock);
	bool changed = w->contact != now;
	w->contact = now;
	pthread_mutex_unlock(&w->lock);
	if (changed)
		w->options.wake(w->options.ctx);
}

static defib_err register_self(struct watchman *w, struct failure *f)
{
	int64_t sent = clock_boot_ms(), id = 0;
	defib_err err = incarnation_self(&w->self, f);
	if (!err)
		err = session_ready(&w->session, f);
	if (!err)
		err = registry_register(w->session.store, w->options.name, &w->self,
		                        w->options.lease.lease_ms, buf_text(&w->serves), &id, f);
	if (!err)
		err = registry_hold_lock(w->session.store, id, &w->locked, f);
	if (err)
		return err;
	lease_init(&w->lease, &w->options.lease, sent);
	w->opened = w->session.opened;
	pthread_mutex_lock(&w->lock);
	w->worker = id;
	pthread_mutex_unlock(&w->lock);
	set_contact(w);
	return DEFIB_OK;
}

/* A session of ours that was lost is an outage: nobody is condemned for what we did not see. */
static void note_outage(struct watchman *w)
{
	int64_t now = clock_boot_ms();
	w->doubt_until_ms = now + QUIET_MS;
	w->leads = false;
	locks_outage(&w->locks, now);
}

/*
 * The session, with the lock that shows it; noticing when it is a new one. The old one may
 * linger in the server with our lock. When it ends the lock vanishes, and what speaks for us
 * then is a renewal that came after: so we renew at once, and with every try for the lock.
 */
static defib_err life_ready(struct watchman *w, struct failure *f)
{
	defib_err err = session_ready(&w->session, f);
	if (!err && w->opened == w->session.opened)
		return DEFIB_OK;
	note_outage(w);
	if (err)
		return err;
	w->opened = w->session.opened;
	w->locked = false;
	w->own_lock_ms = clock_boot_ms() + OWN_LOCK_MS;
	lease_renew_soon(&w->lease, clock_boot_ms());
	return registry_hold_lock(w->session.store, worker_id(w), &w->locked, f);
}

static void try_own_lock(struct watchman *w, int64_t now)
{
	struct failure f = {0};
	if (w->locked || now < w->own_lock_ms)
		return;
	w->own_lock_ms = now + OWN_LOCK_MS;
	lease_renew_soon(&w->lease, now);
	if (!life_ready(w, &f) && !w->locked &&
	    registry_hold_lock(w->session.store, worker_id(w), &w->locked, &f))
		log_event(LOG_WARN, f.what);
}

static void note_count(struct watchman *w, int64_t owned)
{
	/* Claims and settlements under way make the counts differ for a moment, not for two beats. */
	w->mismatches = owned > w->options.holding(w->options.ctx) ? w->mismatches + 1 : 0;
	if (w->mismatches < 2)
		return;
	w->mismatches = 0;
	w->options.compare(w->options.ctx);
}

/* Dead for the database until this succeeds, however long it is away. */
static void register_again(struct watchman *w)
{
	struct failure f = {0};
	if (clock_boot_ms() < w->register_ms)
		return;
	w->register_ms = clock_boot_ms() + w->options.lease.retry_ms;
	if (register_self(w, &f))
		log_event(LOG_ERROR, f.what);
	else
		log_event(LOG_INFO, "registered anew", LOG_INT("worker", worker_id(w)));
	w->options.wake(w->options.ctx);
}

static void start_again(struct watchman *w)
{
	log_event(LOG_ERROR, "LEASE_LOST: this worker was declared dead; what it has in hand is lost");
	note_returned(w->session.store, &w->options, worker_id(w));
	/* First the id: a claim under way compares it after its jobs are in hand. */
	pthread_mutex_lock(&w->lock);
	w->worker = 0;
	pthread_mutex_unlock(&w->lock);
	w->options.taken(w->options.ctx);
	register_again(w);
}

static void renew_if_due(struct watchman *w)
{
	struct failure f = {0};
	struct buf info = BUF_INIT;
	int64_t owned = 0;
	if (!lease_renew_due(&w->lease, clock_boot_ms()))
		return;
	defib_err err = life_ready(w, &f);
	w->options.info(w->options.ctx, &info);
	if (!err)
		err = registry_renew(w->session.store, worker_id(w), w->options.holding(w->options.ctx),
		                     info.data, &owned, &f);
	buf_release(&info);
	lease_renew_answer(&w->lease,
	                   err == DEFIB_OK           ? RENEWED
	                   : err == DEFIB_LEASE_LOST ? RENEW_REFUSED
	                                             : RENEW_FAILED,
	                   clock_boot_ms());
	set_contact(w);
	if (err == DEFIB_LEASE_LOST)
		start_again(w);
	else if (err)
		log_event(LOG_WARN, "the lease was not renewed", LOG_STR("because", f.what));
	else
		note_count(w, owned);
}

/* ---- others ---- */

static bool in_doubt(const struct watchman *w, int64_t now)
{
	return now < w->doubt_until_ms;
}

static void read_roster(struct watchman *w, int64_t now)
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct registered *all;
	int n = 0, nremote = 0;
	w->roster_ms = now + ROSTER_MS;
	defib_err err = life_ready(w, &f);
	if (!err)
		err = registry_alive(w->session.store, &a, &all, &n, &f);
	if (!err) {
		int64_t self = worker_id(w);
		int64_t *here = ARENA_ARRAY(&a, int64_t, n), *there = ARENA_ARRAY(&a, int64_t, n);
		struct incarnation *who = ARENA_ARRAY(&a, struct incarnation, n);
		int nhere = 0;
		for (int i = 0; i < n; i++) {
			if (all[i].id == self)
				continue;
			if (incarnation_same_host(&all[i].who, &w->self)) {
				here[nhere] = all[i].id;
				who[nhere++] = all[i].who;
			} else {
				there[nremote++] = all[i].id;
			}
		}
		fellows_set(w->fellows, here, who, nhere);
		locks_set(&w->locks, there, nremote);
		w->remote = nremote > 0;
		if (!in_doubt(w, now))
			silence_step(&w->silence, all, n, clock_boot_us());
		for (int i = 0; i < n && !in_doubt(w, now); i++)
			if (all[i].id != self && silence_convicts(&w->silence, &all[i]))
				declare_dead(w, all[i].id, &(struct death){"silent", true, 0, 0});
	}
	arena_release(&a);
}

/* An exit is seen once; what the database could not be told then is told later. */
static void bury_fellows(struct watchman *w)
{
	int64_t id;
	bool seen, told = true;
	while (w->nunburied < UNBURIED_MAX && fellows_dead(w->fellows, &id, &seen)) {
		w->unburied[w->nunburied].id = id;
		w->unburied[w->nunburied++].at_us = seen ? clock_boot_us() : ENDED_UNSEEN;
	}
	while (w->nunburied > 0 && told) {
		int64_t at = w->unburied[w->nunburied - 1].at_us;
		int64_t ago = at == ENDED_UNSEEN ? ENDED_UNSEEN : elapsed_us(at, clock_boot_us());
		told = declare_dead(w, w->unburied[w->nunburied - 1].id,
		                    &(struct death){"exit seen", false, 0, ago});
		w->nunburied -= told;
	}
}

static void take_reading(struct watchman *w)
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	int64_t *held;
	int n = 0;
	defib_err err = life_ready(w, &f);
	if (!err)
		err = registry_locks_held(w->session.store, &a, &held, &n, &f);
	if (!err) {
		struct locks_gone *gone = ARENA_ARRAY(&a, struct locks_gone, w->locks.n);
		int ngone = locks_reading(&w->locks, held, n, clock_boot_ms(), gone);
		for (int i = 0; i < ngone; i++)
			declare_dead(
				w, gone[i].id,
				&(struct death){"session gone", false, clock_boot_ms() - gone[i].since_ms, 0});
	}
	arena_release(&a);
}

/*
 * Two workers read the locks of those on other hosts often, so that one sees the
 * other's end. The rest read now and then: only a lock that was seen can vanish, and
 * whoever becomes a reader must know those that vanished with its predecessor.
 */
static void read_locks(struct watchman *w, int64_t now)
{
	struct failure f = {0};
	if (!w->leads && now >= w->lead_ms) {
		w->lead_ms = now + LEAD_MS;
		if (!life_ready(w, &f) && registry_try_lead(w->session.store, &w->leads, &f))
			w->leads = false;
		if (w->leads)
			w->locks_ms = now;
	}
	if (now < w->locks_ms)
		return;
	w->locks_ms = now + (w->leads ? LOCKS_MS : ROSTER_MS);
	take_reading(w);
}

/* ---- the loop ---- */

static bool take_pokes(struct watchman *w)
{
	uint64_t n;
	(void)!read(w->poke, &n, sizeof n);
	pthread_mutex_lock(&w->lock);
	bool stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return stop;
}

/* Whom we declared dead now would look to the start-up as if it had been gone before. */
static bool is_starting(struct watchman *w)
{
	pthread_mutex_lock(&w->lock);
	bool starting = w->starting;
	pthread_mutex_unlock(&w->lock);
	return starting;
}

/* Do what is due; how long until the next thing is. */
static int64_t tick(struct watchman *w)
{
	int64_t now = clock_boot_ms();
	if (now - w->last_ms > GAP_MS)
		note_outage(w);
	if (worker_id(w) == 0)
		register_again(w);
	try_own_lock(w, now);
	renew_if_due(w);
	if (is_starting(w)) {
		w->last_ms = clock_boot_ms();
		return lease_wait_ms(&w->lease, w->last_ms);
	}
	bury_fellows(w);
	bool roster = now >= w->roster_ms;
	if (roster)
		read_roster(w, now);
	if (w->remote && w->session.store && w->session.store->engine == STORE_POSTGRES)
		read_locks(w, now);
	/* After the roster: who is silent is declared dead before its jobs are taken from it. */
	if (roster && now >= w->sweep_ms && !in_doubt(w, now)) {
		w->sweep_ms = now + SWEEP_MS;
		sweeper_sweep(w->sweeper, silence_holds(&w->silence));
	}
	now = clock_boot_ms();
	w->last_ms = now;
	int64_t wait = lease_wait_ms(&w->lease, now);
	wait = w->roster_ms - now < wait ? w->roster_ms - now : wait;
	if (worker_id(w) == 0 && wait > w->options.lease.retry_ms)
		wait = w->options.lease.retry_ms;
	if (!w->locked && wait > OWN_LOCK_MS)
		wait = OWN_LOCK_MS;
	if (w->remote)
		wait = w->leads ? LOCKS_MS : (wait < LEAD_MS ? wait : LEAD_MS);
	return wait < 0 ? 0 : wait;
}

/*
 * An idle session that becomes readable has usually been ended. Whoever reads
 * our lock gives us a short grace: a new session must be there before it ends.
 */
static void session_spoke(struct watchman *w)
{
	struct failure f = {0};
	struct store *s = w->session.store;
	if (s && store_notified(s) && s->lost && life_ready(w, &f))
		log_event(LOG_WARN, "the life session was lost", LOG_STR("because", f.what));
}

static void *watchman_main(void *arg)
{
	struct watchman *w = arg;
	bool stop = false;
	w->last_ms = clock_boot_ms();
	while (!stop) {
		int64_t wait = tick(w);
		int life = w->session.store ? store_fd(w->session.store) : -1;
		struct pollfd fds[] = {
			{w->poke, POLLIN, 0}, {fellows_fd(w->fellows), POLLIN, 0}, {life, POLLIN, 0}};
		(void)poll(fds, 3, (int)wait);
		if (fds[0].revents)
			stop = take_pokes(w);
		if (fds[2].revents && !stop)
			session_spoke(w);
		set_contact(w);
	}
	return NULL;
}

/* A line a watch; a source that is none of the others is a queue of the built-in one. */
static void name_served(struct watchman *w)
{
	const struct watchman_options *o = &w->options;
	for (int i = 0; i < o->nsources; i++) {
		const char *name = o->watches[0]->name;
		for (int k = 1; k < o->nwatches; k++)
			if (text_eq(o->watches[k]->name, o->sources[i]->name))
				name = o->watches[k]->name;
		if (i == 0 || !serves_watch(buf_text(&w->serves), name))
			buf_addf(&w->serves, "%s%s", i ? "\n" : "", name);
	}
}

static void watchman_free(struct watchman *w)
{
	sweeper_free(w->sweeper);
	silence_release(&w->silence);
	buf_release(&w->serves);
	fellows_close(w->fellows);
	locks_release(&w->locks);
	session_close(&w->session);
	if (w->poke >= 0)
		close(w->poke);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

defib_err watchman_start(const struct watchman_options *o, struct watchman **out, struct failure *f)
{
	struct watchman *w = mem_alloc(sizeof *w);
	assert(o->nwatches >= 1);
	w->options = *o;
	w->starting = true;
	w->session = (struct session){.options = o->store, .open = store_open};
	w->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&w->lock, NULL);
	w->sweeper = sweeper_new(&(struct sweeper_options){
		.store = o->store,
		.watches = o->watches,
		.nwatches = o->nwatches,
		.retention = o->retention,
		.wake = o->wake,
		.ctx = o->ctx,
	});
	silence_init(&w->silence, o->lease.lease_ms, o->brake_ms);
	name_served(w);
	locks_init(&w->locks, &(struct locks_rules){GRACE_MS, QUIET_MS, GAP_MS});
	defib_err err = w->poke < 0 ? fail(f, DEFIB_IO, "cannot make an eventfd") : DEFIB_OK;
	if (!err)
		err = fellows_open(&w->fellows, f);
	if (!err)
		err = register_self(w, f);
	if (!err && pthread_create(&w->thread, NULL, watchman_main, w) != 0)
		err = fail(f, DEFIB_IO, "cannot start a thread for the lease");
	if (err) {
		watchman_free(w);
		return err;
	}
	/* The lease is renewed beside it. A sweep would treat these rows as any others. */
	if (!o->no_startup)
		sweeper_start_up(w->sweeper, worker_id(w));
	pthread_mutex_lock(&w->lock);
	w->starting = false;
	pthread_mutex_unlock(&w->lock);
	poke(w);
	err = sweeper_run(w->sweeper, f);
	if (err) {
		watchman_stop(w, true);
		return err;
	}
	*out = w;
	return DEFIB_OK;
}

int64_t watchman_worker(struct watchman *w)
{
	return worker_id(w);
}

enum lease_contact watchman_contact(struct watchman *w)
{
	pthread_mutex_lock(&w->lock);
	enum lease_contact c = w->contact;
	pthread_mutex_unlock(&w->lock);
	return c;
}

void watchman_stop(struct watchman *w, bool leave)
{
	struct failure f = {0};
	if (!w)
		return;
	sweeper_stop(w->sweeper); /* while the lease is still renewed */
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_mutex_unlock(&w->lock);
	poke(w);
	pthread_join(w->thread, NULL);
	if (leave && w->session.store && !w->session.store->lost &&
	    registry_leave(w->session.store, w->worker, &f))
		log_event(LOG_WARN, f.what);
	watchman_free(w);
}

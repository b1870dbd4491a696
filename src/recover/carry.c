/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/carry.h"

#include "base/log.h"
#include "ledger/jobs.h"
#include "ledger/orders.h"
#include "recover/look.h"
#include "recover/masked.h"

#include <assert.h>
#include <jansson.h>
#include <pthread.h>
#include <unistd.h>

#define TRIES_MAX 4
#define TRIES_MS 8000 /* no further try after this: each may take its own deadline */

#define BATCH_NAME 96

/* "20261115-084500-1a2b3c4d": readable in a ledger, unique by its random part. */
void carrier_begin(struct carrier *c, const char *actor)
{
	struct timespec now;
	struct tm tm;
	uint32_t tail = 0;
	c->actor = actor;
	c->transactions = 0;
	c->contended = false;
	chance_seed(&c->chance);
	tail = (uint32_t)(c->chance.state >> 20);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	size_t n = strftime(c->name, sizeof c->name, "%Y%m%d-%H%M%S", &tm);
	snprintf(c->name + n, sizeof c->name - n, "-%08x", tail);
}

struct tries tries_begin(void)
{
	return (struct tries){.begun_ms = clock_boot_ms(), .n = 1};
}

bool try_again(struct carrier *c, struct tries *t, defib_err err)
{
	bool helps = err == DEFIB_LOCKED || err == DEFIB_CONNECTION || err == DEFIB_UNKNOWN_OUTCOME;
	if (!helps || t->n == TRIES_MAX || clock_boot_ms() - t->begun_ms > TRIES_MS)
		return false;
	usleep((useconds_t)(chance_draw(&c->chance) * 100000.0 * (1 << t->n)));
	t->n++;
	return true;
}

/*
 * A commit whose reply was lost is resolved by reading: if the ledger has the batch, it was done;
 * if not, it was not. Without a ledger the batch is simply applied again: rows that were written
 * are no longer as judged.
 */
static defib_err was_committed(struct carrier *c, const char *batch, bool *done, struct failure *f)
{
	if (!c->ledger->ready)
		return DEFIB_OK;
	return ledger_has_batch(c->session->store, batch, done, f);
}

/* One try. `unsure` names a batch that may have been committed, "" if there is none. */
static defib_err apply_once(struct carrier *c, struct candidate *batch, int n,
                            char unsure[BATCH_NAME], struct tries *t, struct failure *f)
{
	char name[BATCH_NAME];
	bool done = false;
	defib_err err = session_ready(c->session, f);
	if (!err && unsure[0])
		err = was_committed(c, unsure, &done, f);
	if (err)
		return err;
	struct carrier *counts = c->chief ? c->chief : c;
	int part = __atomic_add_fetch(&counts->transactions, 1, __ATOMIC_RELAXED);
	snprintf(name, sizeof name, "%s.%d", c->name, part);
	struct apply ap = {.store = c->session->store,
	                   .sql = c->sql,
	                   .ledger = c->ledger,
	                   .actor = c->actor,
	                   .batch = name,
	                   .first = c->chief ? c->first : part == 1,
	                   .entries_first = c->contended};
	if (c->opened != c->session->opened) {
		err = apply_may_lock(c->session->store, c->sql, &c->may_lock_signs, f);
		c->opened = err ? -1 : c->session->opened;
	}
	ap.lock_signs = c->may_lock_signs;
	if (!err && !done)
		err = apply_batch(&ap, batch, n, &c->arena, f);
	t->unlocked_row = err && ap.unlocked_row;
	c->contended = c->contended || err == DEFIB_LOCKED;
	snprintf(unsure, BATCH_NAME, "%s", err == DEFIB_UNKNOWN_OUTCOME ? name : "");
	if (!err)
		apply_blockers(&ap, batch, n, &c->arena);
	return err;
}

/* Whether the failure says that a row changed, and not that it is locked. */
static bool is_changed(const struct failure *f)
{
	return f->reason == REASON_SERIALIZATION;
}

/*
 * A row that a stable batch could not write. If it changed, the next reading shows it, or another
 * transaction was faster on a row that many of them write. If it is locked, other recoveries may
 * have it, which let it go; a part of a batch that failed already does not wait for them again.
 */
static bool try_row_again(struct carrier *c, struct tries *t, bool part, const struct failure *f)
{
	return (!part || (is_changed(f) && t->n == 1)) && try_again(c, t, DEFIB_LOCKED);
}

static defib_err apply_with_tries(struct carrier *c, struct candidate *batch, int n, bool part,
                                  bool *unlocked_row, struct failure *f)
{
	struct tries t = tries_begin();
	char unsure[BATCH_NAME] = "";
	defib_err err;
	do {
		fail_clear(f);
		err = apply_once(c, batch, n, unsure, &t, f);
	} while (err && (t.unlocked_row ? try_row_again(c, &t, part, f) : try_again(c, &t, err)));
	*unlocked_row = t.unlocked_row;
	for (int i = 0; err && i < n; i++)
		if (batch[i].decision.act)
			batch[i].outcome = OUTCOME_LEFT;
	if (err && unsure[0]) {
		fail_prefix(f, "whether batch %s was committed is unknown", unsure);
		fail_next(f, "look for it in the ledger when the database is back");
		err = f->code = DEFIB_UNKNOWN_OUTCOME;
	}
	return err;
}

static void carry_leave(struct candidate *batch, int n, enum outcome outcome)
{
	for (int i = 0; i < n; i++)
		if (batch[i].decision.act && batch[i].outcome == OUTCOME_LEFT)
			batch[i].outcome = outcome;
}

/* By the names that the databases give it, in whatever language. */
static bool is_unique_key_of_queue(const struct failure *f)
{
	return strstr(f->what, "job_unique") || strstr(f->what, "defib_job.unique_key");
}

/* What the database says about a row that its own table refuses; the row names the database. */
static const char *refusal_of(const struct failure *f, const char *database, struct arena *a)
{
	size_t n = strlen(database);
	const char *message =
		text_starts(f->what, database) && f->what[n] == ':' ? f->what + n + 2 : f->what;
	if (f->reason != REASON_TAKEN)
		return arena_printf(a, "the table refuses it: %s", message);
	if (is_unique_key_of_queue(f))
		return "another job of its queue with the same unique key waits or runs";
	return arena_printf(a, "another row has a value that only one may have: %s", message);
}

/* One bad row must not delay the others. */
static defib_err carry_part(struct carrier *c, struct candidate *batch, int n, bool part,
                            int64_t end_ms, struct arena *keep, struct failure *f)
{
	bool unlocked_row = false;
	defib_err err = apply_with_tries(c, batch, n, part, &unlocked_row, f);
	if (!err || !(unlocked_row || store_blames_rows(f)))
		return err;
	/* Each locked row costs a wait: the rest is for the next pass. */
	if (unlocked_row && (n == 1 || clock_boot_ms() > end_ms)) {
		carry_leave(batch, n, n == 1 && is_changed(f) ? OUTCOME_CHANGED : OUTCOME_LOCKED);
		fail_clear(f);
		return DEFIB_OK;
	}
	if (n == 1) {
		batch->outcome = OUTCOME_REFUSED;
		masked_failure(c->sql->binding->watch, f);
		batch->refusal =
			refusal_of(f, c->session->options.name ? c->session->options.name : "", keep);
		fail_clear(f);
		return DEFIB_OK;
	}
	fail_clear(f);
	err = carry_part(c, batch, n / 2, true, end_ms, keep, f);
	return err ? err : carry_part(c, batch + n / 2, n - n / 2, true, end_ms, keep, f);
}

defib_err carry(struct carrier *c, struct candidate *batch, int n, struct arena *keep,
                struct failure *f)
{
	return carry_part(c, batch, n, false, clock_boot_ms() + TRIES_MS, keep, f);
}

int acting_first(struct candidate *all, int n, struct arena *a)
{
	struct candidate *rest = ARENA_ARRAY(a, struct candidate, n);
	int acting = 0, nrest = 0;
	for (int i = 0; i < n; i++)
		if (all[i].outcome == OUTCOME_LEFT)
			all[acting++] = all[i];
		else
			rest[nrest++] = all[i];
	memcpy(all + acting, rest, sizeof *rest * (size_t)nrest);
	return acting;
}

/* ---- retries that are due ---- */

#define DUE_AT_ONCE 1000

/* The facts of those that still exist; a job that is gone has changed. */
static defib_err read_jobs(struct carrier *c, const struct pending_retry *due, int n,
                           struct arena *a, struct candidate *out, struct failure *f)
{
	struct facts *facts;
	defib_err err = look_each(&(struct look){c->session->store, c->sql, c->ledger, a},
	                          JOBS_OF(due, job, n, a), n, &facts, f);
	for (int i = 0; i < n && !err; i++) {
		out[i].facts = facts[i];
		if (facts[i].job)
			continue;
		out[i].facts.job = due[i].job;
		(void)job_key(due[i].job, c->sql->binding->watch->key.n, a, out[i].facts.key);
	}
	return err;
}

/* Why nothing of ours can have recorded it; NULL: it can. */
static const char *wrong_retry(const struct carrier *c, const struct pending_retry *due)
{
	json_auto_t *expected = due->expected ? json_read(due->expected, 0) : NULL;
	if (!json_is_object(expected))
		return "expected does not have values by column";
	if (json_object_size(expected) == 0 && c->sql->nbefore > 0)
		return "expected has no values";
	return NULL;
}

/*
 * Move those that are carried out to the front; returns their number in *n. The others stay in the
 * table: the role that recorded one may still get the rights, or fire it itself.
 */
static defib_err leave_out_refused(struct carrier *c, struct pending_retry *due, int *n,
                                   struct arena *a, struct failure *f)
{
	const char *role = NULL, *refusal = NULL;
	int kept = 0;
	for (int i = 0; i < *n; i++) {
		defib_err err = DEFIB_OK;
		if (i == 0 || !text_eq(role, due[i].role))
			err =
				order_check(c->session->store, c->sql->binding->watch, due[i].role, a, &refusal, f);
		if (err)
			return err;
		role = due[i].role;
		const char *why = refusal ? refusal : wrong_retry(c, &due[i]);
		if (why)
			row_set_aside("defib.retry", due[i].job, why);
		else
			due[kept++] = due[i];
	}
	*n = kept;
	return DEFIB_OK;
}

static void carry_prepare(const struct pending_retry *due, struct candidate *c)
{
	c->decision = (struct decision){.remedy = REMEDY_RETRY, .act = true, .why = "its wait is over"};
	snprintf(c->decision.rule, sizeof c->decision.rule, "backoff-over");
	c->does = ACT_THEN;
	c->expected = due->expected;
	c->reason = due->reason;
	c->evidence = "{}";
}

static defib_err carry_fire(struct carrier *c, const struct pending_retry *due, int n,
                            struct arena *a, int64_t *fired, struct failure *f);

/* A name that is no key of this table fails the statement that reads all of them. */
static defib_err fire_readable(struct carrier *c, const struct pending_retry *due, int n,
                               struct arena *a, int64_t *fired, struct failure *f)
{
	if (n == 1) {
		row_set_aside("defib.retry", due->job, f->what);
		fail_clear(f);
		return DEFIB_OK;
	}
	fail_clear(f);
	defib_err err = carry_fire(c, due, n / 2, a, fired, f);
	return err ? err : carry_fire(c, due + n / 2, n - n / 2, a, fired, f);
}

static defib_err carry_fire(struct carrier *c, const struct pending_retry *due, int n,
                            struct arena *a, int64_t *fired, struct failure *f)
{
	const struct watch *w = c->sql->binding->watch;
	struct candidate *batch = ARENA_ARRAY(a, struct candidate, n);
	defib_err err = read_jobs(c, due, n, a, batch, f);
	if (err && store_blames_rows(f))
		return fire_readable(c, due, n, a, fired, f);
	for (int i = 0; i < n && !err; i++)
		carry_prepare(&due[i], &batch[i]);
	if (!err)
		err = carry(c, batch, n, a, f);
	for (int i = 0; !err && i < n; i++) {
		log_event(LOG_INFO, "retry is due", LOG_STR("watch", w->name),
		          LOG_STR("job", batch[i].facts.job), LOG_INT("attempt", due[i].attempt),
		          LOG_STR("outcome", outcome_names[batch[i].outcome]),
		          LOG_STR("because", batch[i].late ? "late_when holds" : NULL));
		*fired += batch[i].outcome == OUTCOME_RECOVERED;
	}
	arena_clear(&c->arena);
	return err;
}

/* The place behind which the next page begins; `job` keeps its text. */
static void carry_last_of(const struct pending_retry *due, struct buf *job,
                          struct pending_retry *last)
{
	buf_clear(job);
	buf_add(job, due->job);
	*last = (struct pending_retry){.job = buf_text(job), .due_us = due->due_us};
}

defib_err retries_fire(struct carrier *c, struct arena *page, int64_t *fired, struct failure *f)
{
	const struct watch *w = c->sql->binding->watch;
	struct tries t = tries_begin();
	struct pending_retry last = {0};
	AUTO_BUF job = BUF_INIT;
	defib_err err;
	int n = 0;
	if (w->actions[ACT_THEN].form == ACTION_NONE || !c->ledger->ready)
		return DEFIB_OK;
	do {
		struct pending_retry *due;
		fail_clear(f);
		arena_clear(page);
		n = 0;
		err = session_ready(c->session, f);
		if (!err)
			err = ledger_retries_due(c->session->store, w->name, last.job ? &last : NULL,
			                         DUE_AT_ONCE, page, &due, &n, f);
		struct pending_retry end = !err && n > 0 ? due[n - 1] : (struct pending_retry){0};
		int acting = n;
		if (!err && n > 0)
			err = leave_out_refused(c, due, &acting, page, f);
		if (!err && acting > 0)
			err = carry_fire(c, due, acting, page, fired, f);
		if (!err && n > 0)
			carry_last_of(&end, &job, &last);
		/*
		 * A full result means that there may be more. Locked or refused jobs wait for the next
		 * pass: queried again now, they would fill the result forever.
		 */
	} while (err ? try_again(c, &t, err) : n == DUE_AT_ONCE);
	arena_clear(page);
	return err;
}

/* ---- several sessions at once ---- */

#define LANES 2
#define UNDER_WAY_MAX (2 * LANES) /* for each lane one being written, and one waiting */

struct carry_lane {
	struct lanes *all;
	struct session session;
	struct carrier carrier;
	pthread_t thread;
};

struct lanes {
	pthread_mutex_t mutex;
	pthread_cond_t moved; /* a batch arrived, or is done, or all must end */
	struct carry_lane lanes[LANES];
	int n, under_way;
	struct lane_job *first, *last; /* in the order of put, until they are taken */
	struct lane_job *waits;        /* the first of them without a lane */
	bool end;
};

struct lane_job *lane_job_new(void)
{
	struct lane_job *j = mem_alloc(sizeof *j);
	*j = (struct lane_job){.arena = ARENA_INIT, .page = ARENA_INIT, .messages = ARENA_INIT};
	return j;
}

void lane_job_free(struct lane_job *j)
{
	arena_release(&j->arena);
	arena_release(&j->page);
	arena_release(&j->messages);
	free(j);
}

static struct lane_job *next_job(struct lanes *l)
{
	pthread_mutex_lock(&l->mutex);
	while (!l->waits && !l->end)
		pthread_cond_wait(&l->moved, &l->mutex);
	struct lane_job *j = l->waits;
	if (j)
		l->waits = j->next;
	pthread_mutex_unlock(&l->mutex);
	return j;
}

static void *lane_main(void *arg)
{
	struct carry_lane *own = arg;
	struct lanes *l = own->all;
	for (struct lane_job *j = next_job(l); j; j = next_job(l)) {
		own->carrier.first = j->first;
		j->err = carry(&own->carrier, j->batch, j->stuck, &j->arena, &j->failure);
		/* The rows before and after are shown when the batch is taken. */
		j->messages = own->carrier.arena;
		own->carrier.arena = (struct arena)ARENA_INIT;
		pthread_mutex_lock(&l->mutex);
		j->done = true;
		pthread_cond_broadcast(&l->moved);
		pthread_mutex_unlock(&l->mutex);
	}
	return NULL;
}

static bool lane_open(struct lanes *l, const struct session *like, struct carrier *chief)
{
	struct failure f = {0};
	struct carry_lane *own = &l->lanes[l->n];
	*own = (struct carry_lane){.all = l, .session = {.options = like->options, .open = like->open}};
	if (session_ready(&own->session, &f)) {
		log_event(LOG_DEBUG, "cannot open another session for writing", LOG_STR("because", f.what));
		return false;
	}
	own->carrier = *chief;
	own->carrier.session = &own->session;
	own->carrier.arena = (struct arena)ARENA_INIT;
	own->carrier.opened = -1;
	own->carrier.chief = chief;
	own->carrier.chance.state += 1 + (uint64_t)l->n;
	if (pthread_create(&own->thread, NULL, lane_main, own)) {
		session_close(&own->session);
		return false;
	}
	l->n++;
	return true;
}

struct lanes *lanes_open(const struct session *like, struct carrier *chief)
{
	struct lanes *l = mem_alloc(sizeof *l);
	*l = (struct lanes){0};
	pthread_mutex_init(&l->mutex, NULL);
	pthread_cond_init(&l->moved, NULL);
	while (l->n < LANES && lane_open(l, like, chief))
		;
	if (l->n > 0)
		return l;
	lanes_close(l);
	return NULL;
}

bool lanes_full(const struct lanes *l)
{
	return l->under_way >= UNDER_WAY_MAX;
}

void lanes_put(struct lanes *l, struct lane_job *j)
{
	pthread_mutex_lock(&l->mutex);
	j->first = !l->last;
	if (l->first) {
		assert(l->last);
		l->last->next = j;
	} else {
		l->first = j;
	}
	l->last = j; /* also after it was taken: it means that there was one */
	if (!l->waits)
		l->waits = j;
	l->under_way++;
	pthread_cond_broadcast(&l->moved);
	pthread_mutex_unlock(&l->mutex);
}

struct lane_job *lanes_take(struct lanes *l)
{
	pthread_mutex_lock(&l->mutex);
	while (l->first && !l->first->done)
		pthread_cond_wait(&l->moved, &l->mutex);
	struct lane_job *j = l->first;
	if (j) {
		l->first = j->next;
		l->under_way--;
	}
	pthread_mutex_unlock(&l->mutex);
	return j;
}

void lanes_close(struct lanes *l)
{
	if (!l)
		return;
	assert(!l->first);
	pthread_mutex_lock(&l->mutex);
	l->end = true;
	pthread_cond_broadcast(&l->moved);
	pthread_mutex_unlock(&l->mutex);
	for (int i = 0; i < l->n; i++) {
		pthread_join(l->lanes[i].thread, NULL);
		session_close(&l->lanes[i].session);
		arena_release(&l->lanes[i].carrier.arena);
	}
	pthread_mutex_destroy(&l->mutex);
	pthread_cond_destroy(&l->moved);
	free(l);
}

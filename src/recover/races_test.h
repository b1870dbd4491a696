/* SPDX-License-Identifier: Apache-2.0
 * races_test.h: many jobs, one recovery, and rivals that change the same jobs at the same time.
 *
 * A round makes RACE_JOBS stuck jobs and lets a scan look at them. As soon as the look is over,
 * rivals, each in a thread with a session of its own, do something to every one of these jobs:
 * complete it, beat, claim it again, delete it, or begin to and roll back. Scan and rivals pause
 * for a random moment between their statements, so that they meet at every point.
 *
 * The order of commits need not be known. A rival acts like a careful worker: it writes only if the
 * job is still its own, and learns in its own transaction whether it was. So exactly one side
 * decides about each job:
 *   the rival's deed took effect    the row shows it, and the ledger has no recovery
 *   the rival was refused           the row was recovered, and the ledger says so once
 *   the rival rolled back           recovered, or unchanged; never in between
 */
#ifndef RECOVER_RACES_TEST_H
#define RECOVER_RACES_TEST_H

#include "base/clock.h"
#include "recover/recover_test.h"

#include <pthread.h>
#include <stdatomic.h>

/* Of each kind, on each engine; `make proof` asks for 10,000 by DEFIB_RACES. */
#define RACES 1000
#define RACE_JOBS 100
#define RACE_RIVALS 3
#define RACE_BLINK_US 400 /* the longest pause between two statements */
#define RACE_YAWN_US 3000 /* the longest before a batch: the rivals' time */

/* The final state of a job; X(enum, in words). GONE is no row; before it are columns. */
#define LOOK_LIST(X)                                                                               \
	X(DONE, "completed")                                                                           \
	X(BEATEN, "beaten")                                                                            \
	X(CLAIMED, "claimed anew")                                                                     \
	X(RECOVERED, "recovered")                                                                      \
	X(AS_IT_WAS, "as it was")                                                                      \
	X(GONE, "deleted")                                                                             \
	X(MIXED, "a mixture of all that")

enum look {
#define X(id, words) LOOK_##id,
	LOOK_LIST(X)
#undef X
		LOOK_COLUMNS = LOOK_GONE
};

/* What a rival did to a job. */
struct fate {
	enum look meant; /* the state of the job if the rival wins */
	bool tried;      /* the rival's transaction was committed … */
	bool took;       /* … and the job was its own */
};

struct race;
struct rival {
	struct race *race;
	pthread_t thread;
	int number;
	struct store *store;
	struct arena arena; /* of one deed */
	uint64_t chance;
	struct failure failure;
	void *own; /* what a kind keeps for each */
};

/* What makes one kind of race. */
struct race_kind {
	/* Make the stuck jobs first … first + RACE_JOBS - 1. */
	void (*fill)(struct race *r);
	/* Do something to a job and note its fate. In a thread: no assertions. */
	defib_err (*act)(struct rival *by, int at, struct failure *f);
	/* SQL by engine: id, then for each of LOOK_COLUMNS whether the row looks like that. */
	const char *looks[2];
	/* By engine: statements that remove all jobs; ended by NULL. */
	const char *clear[2][4];
};

struct race {
	struct rig *rig;
	const struct race_kind *kind;
	int first; /* id of the round's first job */
	struct fate fates[RACE_JOBS];
	struct rival rivals[RACE_RIVALS];
	pthread_mutex_t mutex;
	pthread_cond_t opens;
	atomic_bool open; /* the scan has looked */
	int64_t found, recovered, lost;
};

static inline uint64_t race_draw(uint64_t *chance, uint64_t below)
{
	*chance ^= *chance << 13;
	*chance ^= *chance >> 7;
	*chance ^= *chance << 17;
	return (*chance >> 11) % below;
}

/* Half of the time not at all: pauses must not make a rhythm. */
static inline void race_blink(uint64_t *chance)
{
	uint64_t us = race_draw(chance, 2 * RACE_BLINK_US);
	if (us < RACE_BLINK_US)
		usleep((useconds_t)us);
}

/* Within a transaction; on SQLite that would only make all others wait. */
static inline void race_blink_in(struct store *s, uint64_t *chance)
{
	if (s->engine == STORE_POSTGRES)
		race_blink(chance);
}

/* Test data need not survive the machine; waiting for the disk is not part of a race. */
static inline struct store *race_hasty(struct store *s)
{
	struct failure f = {0};
	if (s->engine == STORE_SQLITE && run(s, "PRAGMA synchronous = OFF", &f))
		fail_msg("%s", f.what);
	return s;
}

/* ---- the gate: a session that reports when the look is over ---- */

struct gate_store {
	struct store base;
	struct store *inner;
	struct race *race;
	uint64_t chance;
};

/* A session's opener gets no context; one race runs at a time. */
static struct race *race_now;

static inline struct gate_store *gate_of(struct store *s)
{
	return (struct gate_store *)s;
}

static inline void race_open(struct race *r)
{
	pthread_mutex_lock(&r->mutex);
	r->open = true;
	pthread_cond_broadcast(&r->opens);
	pthread_mutex_unlock(&r->mutex);
}

static inline void race_wait(struct race *r)
{
	pthread_mutex_lock(&r->mutex);
	while (!r->open)
		pthread_cond_wait(&r->opens, &r->mutex);
	pthread_mutex_unlock(&r->mutex);
}

static inline defib_err gate_exec(struct store *s, const char *sql,
                                  const struct store_param *params, int nparams, struct arena *a,
                                  struct store_rows *rows, struct failure *f)
{
	if (gate_of(s)->race->open)
		race_blink_in(s, &gate_of(s)->chance);
	return store_exec(gate_of(s)->inner, sql, params, nparams, a, rows, f);
}

static inline defib_err gate_describe(struct store *s, const char *sql, struct arena *a,
                                      struct store_column **cols, int *ncols, struct failure *f)
{
	return store_describe(gate_of(s)->inner, sql, a, cols, ncols, f);
}

/* The first transaction that writes comes right after the look. */
static inline defib_err gate_begin(struct store *s, enum store_tx mode, struct failure *f)
{
	if (mode != TX_READ) {
		race_open(gate_of(s)->race);
		usleep((useconds_t)race_draw(&gate_of(s)->chance, RACE_YAWN_US));
	}
	return store_begin(gate_of(s)->inner, mode, f);
}

static inline defib_err gate_commit(struct store *s, struct failure *f)
{
	race_blink_in(s, &gate_of(s)->chance);
	return store_commit(gate_of(s)->inner, f);
}

static inline void gate_rollback(struct store *s)
{
	store_rollback(gate_of(s)->inner);
}

static inline void gate_close(struct store *s)
{
	store_close(gate_of(s)->inner);
	free(s);
}

static inline defib_err gate_open(const struct store_options *options, struct store **out,
                                  struct failure *f)
{
	static const struct store_ops ops = {
		.exec = gate_exec,
		.describe = gate_describe,
		.begin = gate_begin,
		.commit = gate_commit,
		.rollback = gate_rollback,
		.close = gate_close,
	};
	struct store *inner;
	defib_err err = store_open(options, &inner, f);
	if (err)
		return err;
	struct gate_store *g = mem_alloc(sizeof *g);
	*g = (struct gate_store){
		.base = *inner, .inner = race_hasty(inner), .race = race_now, .chance = 4711};
	g->base.ops = &ops;
	*out = &g->base;
	return DEFIB_OK;
}

/* ---- rivals ---- */

static inline void *race_rival(void *arg)
{
	struct rival *by = arg;
	struct race *r = by->race;
	int own[RACE_JOBS], n = 0;
	defib_err err = DEFIB_OK;
	for (int at = by->number; at < RACE_JOBS; at += RACE_RIVALS)
		own[n++] = at;
	for (int i = n - 1; i > 0; i--) {
		int k = (int)race_draw(&by->chance, (uint64_t)i + 1), kept = own[i];
		own[i] = own[k];
		own[k] = kept;
	}
	race_wait(r);
	for (int i = 0; i < n && !err; i++) {
		race_blink(&by->chance);
		err = r->kind->act(by, own[i], &by->failure);
		arena_clear(&by->arena);
	}
	return NULL;
}

static inline void race_init(struct race *r, struct rig *g, const struct race_kind *kind)
{
	*r = (struct race){.rig = g, .kind = kind, .first = 1};
	race_hasty(g->other);
	pthread_mutex_init(&r->mutex, NULL);
	pthread_cond_init(&r->opens, NULL);
	for (int i = 0; i < RACE_RIVALS; i++) {
		/* They wait as long as a lock is held; none is held for long. */
		struct store_options o = {.url = g->url};
		r->rivals[i] = (struct rival){.race = r,
		                              .number = i,
		                              .store = race_hasty(open_with(o)),
		                              .chance = 1000003U * (unsigned)(i + 1)};
	}
	race_now = r;
}

static inline void race_release(struct race *r)
{
	for (int i = 0; i < RACE_RIVALS; i++) {
		store_close(r->rivals[i].store);
		arena_release(&r->rivals[i].arena);
	}
	pthread_cond_destroy(&r->opens);
	pthread_mutex_destroy(&r->mutex);
	race_now = NULL;
}

/* ---- the judgement ---- */

/* How often the ledger says that each job of the round was requeued. */
static inline void race_entries(const struct race *r, struct store *s, int entries[RACE_JOBS])
{
	static const char *const sql[] = {
		[STORE_POSTGRES] = "SELECT job, count(*) FROM defib.ledger WHERE event = 'REQUEUED' AND "
						   "job::bigint >= $1 GROUP BY job",
		[STORE_SQLITE] = "SELECT job, count(*) FROM defib_ledger WHERE event = 'REQUEUED' AND "
						 "CAST(job AS INTEGER) >= ?1 GROUP BY job",
	};
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct store_param from = P_INT(r->first);
	struct store_rows rows;
	if (store_exec(s, sql[s->engine], &from, 1, &a, &rows, &f))
		fail_msg("%s", f.what);
	for (int i = 0; i < rows.nrows; i++)
		entries[row_int(&rows, i, 0, 0) - r->first] = (int)row_int(&rows, i, 1, 0);
	arena_release(&a);
}

static inline void race_looks(const struct race *r, struct store *s, enum look looks[RACE_JOBS])
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct store_rows rows;
	for (int i = 0; i < RACE_JOBS; i++)
		looks[i] = LOOK_GONE;
	if (store_exec(s, r->kind->looks[s->engine], NULL, 0, &a, &rows, &f))
		fail_msg("%s", f.what);
	for (int i = 0; i < rows.nrows; i++) {
		int64_t id = row_int(&rows, i, 0, 0);
		looks[id - r->first] = LOOK_MIXED;
		for (int c = 0; c < LOOK_COLUMNS; c++)
			if (row_bool(&rows, i, 1 + c))
				looks[id - r->first] = (enum look)c;
	}
	arena_release(&a);
}

static inline void race_judge(const struct race *r, int at, int entries, enum look look)
{
	static const char *const words[] = {
#define X(id, text) text,
		LOOK_LIST(X)
#undef X
	};
	const struct fate *fate = &r->fates[at];
	enum look due = fate->took               ? fate->meant
	                : fate->tried || entries ? LOOK_RECOVERED
	                                         : LOOK_AS_IT_WAS;
	if (look == due && entries == (due == LOOK_RECOVERED))
		return;
	fail_msg("job %d was to be %s by a rival, which %s; now it is %s, with %d recoveries in the "
	         "ledger",
	         r->first + at, words[fate->meant],
	         fate->took    ? "did so"
	         : fate->tried ? "was refused"
	                       : "did not",
	         words[look], entries);
}

static inline void race_judge_all(struct race *r, const struct scan_result *result)
{
	int entries[RACE_JOBS] = {0}, recovered = 0;
	enum look looks[RACE_JOBS];
	race_entries(r, r->rig->other, entries);
	race_looks(r, r->rig->other, looks);
	for (int i = 0; i < RACE_JOBS; i++) {
		race_judge(r, i, entries[i], looks[i]);
		recovered += entries[i];
	}
	assert_int_equal(result->found, RACE_JOBS);
	assert_int_equal(result->outcomes[OUTCOME_RECOVERED], recovered);
	assert_int_equal(result->outcomes[OUTCOME_CHANGED] + result->outcomes[OUTCOME_LOCKED],
	                 RACE_JOBS - recovered);
	r->found += result->found;
	r->recovered += recovered;
	r->lost += RACE_JOBS - recovered;
}

/* ---- rounds ---- */

static inline void race_round(struct race *r, struct scanner *scanner)
{
	struct scan_result result;
	for (int i = 0; i < RACE_JOBS; i++)
		r->fates[i] = (struct fate){0};
	r->open = false;
	r->kind->fill(r);
	for (int i = 0; i < RACE_RIVALS; i++)
		assert_int_equal(pthread_create(&r->rivals[i].thread, NULL, race_rival, &r->rivals[i]), 0);
	defib_err err = scanner_pass(scanner, &result);
	race_open(r); /* also if the scan never got that far */
	for (int i = 0; i < RACE_RIVALS; i++)
		pthread_join(r->rivals[i].thread, NULL);
	if (err)
		fail_msg("%s", result.failure.what);
	for (int i = 0; i < RACE_RIVALS; i++)
		if (r->rivals[i].failure.code)
			fail_msg("a rival: %s", r->rivals[i].failure.what);
	race_judge_all(r, &result);
	for (const char *const *sql = r->kind->clear[r->rig->engine]; *sql; sql++)
		rig_sql(r->rig, *sql);
	r->first += RACE_JOBS;
}

static inline int64_t race_count(void)
{
	const char *asked = getenv("DEFIB_RACES");
	return asked ? strtol(asked, NULL, 10) : RACES;
}

/* Neither side may win so often that the other is hardly tested. */
static inline bool race_is_fair(const struct race *r)
{
	return r->recovered >= race_count() / 20 && r->lost >= race_count() / 20;
}

/* So many races, in rounds; more where one side is slow. */
static inline void race_run(struct race *r, const struct watch *w)
{
	struct session session = rig_session(r->rig);
	session.open = gate_open;
	struct scan_options o = {.fix = true, .actor = "test"};
	struct scanner *scanner = scanner_new(&session, w, &o);
	int64_t start_ms = clock_boot_ms();
	struct scan_result first;
	/* The very first pass creates the ledger, which is a transaction of its own. */
	if (scanner_pass(scanner, &first))
		fail_msg("%s", first.failure.what);
	while (r->found < race_count() ||
	       (!race_is_fair(r) && clock_boot_ms() - start_ms < TEST_HANGS_MS))
		race_round(r, scanner);
	print_message("%lld races in %lld ms: %lld recovered, %lld left to a rival\n",
	              (long long)r->found, (long long)(clock_boot_ms() - start_ms),
	              (long long)r->recovered, (long long)r->lost);
	assert_true(race_is_fair(r));
	scanner_free(scanner);
	session_close(&session);
}

#endif

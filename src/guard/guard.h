/* SPDX-License-Identifier: Apache-2.0
 * guard.h: what delays a remedy: doubt about the observer, the brake on mass silence, a second
 * look, and pace. There is one guard per watch, in the memory of the daemon that leads it or of a
 * worker that sweeps it. Pure: readings and time are parameters. The one-shot scan has no guard.
 *
 *   guard_begin()   a pass begins: the census says who beats; the brake is decided here
 *   guard_ask()     may this stuck job be written now? if not, what holds it, until when
 *   guard_end()     the pass is over: suspects that were not seen again, counts for reports
 *
 * A silent job is checked against doubt, then (unless it was stale at our first look) brake and
 * second look, then pace. `overdue` and `orphan` are only paced. `dead` is not even paced, because
 * the worker's end was seen. A watch with `guard: off` has no brake and no pace. A pause stops
 * everything.
 */
#ifndef GUARD_GUARD_H
#define GUARD_GUARD_H

#include "guard/brake.h"
#include "guard/pace.h"
#include "watch/facts.h"

/* X(enum, name) */
#define GUARD_LIST(X)                                                                              \
	X(PASS, "pass")                                                                                \
	X(DOUBT, "doubt")   /* the observer was away */                                                \
	X(BRAKE, "brake")   /* most beating owners fell silent at once */                              \
	X(LOOK, "look")     /* a second look is still due */                                           \
	X(PACE, "pace")     /* waiting for its turn */                                                 \
	X(PAUSED, "paused") /* an operator paused recovery of this watch */

enum guard_by {
#define X(id, name) GUARD_##id,
	GUARD_LIST(X)
#undef X
		GUARD_COUNT
};
extern const char *const guard_names[];

#define SUSPECTS_MOST 100000 /* per watch, remembered until a second look */

struct guard_answer {
	enum guard_by by;
	int64_t until_us; /* the database's clock; 0: not known */
};

struct guard;
struct guard *guard_new(const struct watch *w);
void guard_free(struct guard *g); /* NULL is allowed */
/* The watch was reloaded with other thresholds; what was seen is kept. */
void guard_rules(struct guard *g, const struct watch *w);

/*
 * A pass begins. `now_us` is the database's clock, `boot_us` our own monotonic one. `census` is
 * NULL if the watch has no owner or no heartbeat; then it has no brake. `override`: an operator
 * exempted this pass from doubt, brake and second look.
 */
void guard_begin(struct guard *g, const struct doubt *d, int64_t now_us, int64_t boot_us,
                 const struct census_row *census, int n, bool override);
/*
 * In this pass a lock keeps workers from writing to the table: a worker that cannot write is not
 * silent. The second look counts from here.
 */
void guard_barred(struct guard *g);
struct guard_answer guard_ask(struct guard *g, const struct facts *f, const struct judgement *j);
/* A job that guard_ask() let pass was not written in the end (changed, locked, refused). */
void guard_give_back(struct guard *g);
/* The result of a batch of writes; its duration counts for the pace. */
void guard_batch(struct guard *g, int64_t jobs, int64_t took_us, bool failed);

/*
 * For an operator's act on many jobs: how many of `want` may be written now, at the pace of
 * recovered work; guard_batch() gets the result. If 0, *wait_us is when to ask again; -1: paused.
 */
int64_t guard_admit(struct guard *g, int64_t want, int64_t boot_us, int64_t *wait_us);
/* Of those, so many were not written. */
void guard_admitted_less(struct guard *g, int64_t n);

/* For reports; times are the database's clock. */
struct guard_report {
	int64_t held[GUARD_COUNT]; /* in the last pass; [GUARD_PASS]: let through */
	int64_t suspects;          /* seen once */
	int64_t confirmed;         /* by a second look, so far */
	bool braking;
	int64_t brake_since_us, brake_until_us; /* until: the ceiling */
	int64_t brake_silent, brake_beating;    /* owners that fell silent, of those that beat */
	int64_t brakes;                         /* ever */
	const char *brake_ended; /* how the last one ended: "returned", "evidence", "ceiling" */
	bool doubting;
	const char *doubt_cause;
	int64_t doubt_until_us;
	double rate; /* of the pace, per second; 0: no limit */
	bool paused;
	int64_t again_us; /* when another pass could let a job through; 0: not known */
};

/* A suspect that a pass did not see again: its owner and sign of life when it was last seen. */
struct gone_suspect {
	const char *job, *owner;
	enum sign sign;
	int64_t sign_us;
};
/*
 * Whether the job gave a sign of life since, or has another owner. One that looks well only because
 * the database's clock was set back, or a threshold raised, was not heard.
 */
bool is_near_miss(const struct gone_suspect *was, const struct facts *now);

/*
 * The pass saw everything that is stuck. Suspects that were not seen again are returned, by job;
 * their texts are valid until the next begin. A pass that failed half-way is not ended: the next
 * begin keeps what it saw, and the suspects that it did not reach.
 */
void guard_end(struct guard *g, const struct gone_suspect **gone, int *ngone);
void guard_report(const struct guard *g, struct guard_report *out);
/*
 * "held 412 of 430, because 19 of 20 owners fell silent within 2m; releases when they return or
 * their end is known, at 12:05:00Z at the latest"
 */
struct buf;
void guard_sentence(const struct guard *g, struct buf *out);
/* An operator pauses or resumes recovery of this watch. */
void guard_pause(struct guard *g, bool paused);

#endif

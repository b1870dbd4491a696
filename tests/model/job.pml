/* SPDX-License-Identifier: Apache-2.0
 * job.pml: one job, two workers, a reaper, a database and its faults, for Spin.
 * docs/internals/model.md says what is modelled and what is not; `make model` runs it.
 *
 * A step of a process is one atomic option. Time is in ticks: a tick is a beat of a worker, and
 * the grace of a lock. It passes only when everybody who is able has done what is due, so what a
 * well worker does in time is done before the next tick.
 *
 * `db_` is in the database, `re_` in the reaper; `true_` is what only the bookkeeper outside knows:
 * no rule reads it.
 */
#ifdef REPLAY
#include "replay_rules.pml" /* a real history in place of processes */
#endif
#ifndef FAULTS
#define FAULTS 2 /* of all kinds together */
#endif
#ifndef BEAT
#define BEAT 1 /* ticks after which a worker renews */
#endif
#ifndef LEASE
#define LEASE 2 /* ticks */
#endif
#define GRACE 1   /* ticks that a lock may be away */
#define QUIET 2   /* ticks without a conviction by lock after an outage of the reaper's own */
#define LONG (2 * BEAT - 1) /* ticks that a run takes at most */
#define OUTAGE 3  /* ticks that an outage lasts at most: longer than a lease */
#ifndef HELD_AT
#define HELD_AT 2 /* a job that was lost so often is held */
#endif
#define BOUND (4 * LEASE + LONG) /* ticks without trouble within which the job is final */
#ifndef IDS
#define IDS 4     /* registrations */
#endif
#define NOBODY 0
#define ABLE (BEAT + 1)

/* ---- rare paths: a model in which one is never taken shows nothing about it ---- */

#define MARK_LIST(X) \
	X(done) X(held) X(recovered) X(silent) X(lock) X(exit) X(renewed_since) X(heard_since) X(heard_late) \
	X(lease_lost) X(refused) X(repeated) X(spool_taken) X(spool_refused) X(stray) X(late_end_taken) \
	X(late_end_refused) X(late_claim) X(dead_claims) X(dead_before_start) X(changed_since_judged)
#ifdef MARKS
#define ID(name) MARK_##name,
#define NAME(name) #name,
c_decl {
	enum { MARK_LIST(ID) NMARKS };
	static const char *const mark_names[] = { MARK_LIST(NAME) };
	static long marks[NMARKS];
	__attribute__((destructor)) static void tell_marks(void)
	{
		for (int i = 0; i < NMARKS; i++)
			printf("mark %s %ld\n", mark_names[i], marks[i]);
	}
}
#define mark(name) c_code { marks[MARK_##name]++; }
#define mark_if(condition, name) if :: (condition) -> mark(name) :: else fi
#else
#define mark(name) skip
#define mark_if(condition, name) skip
#endif

/* ---- the rules, and the mutants that take them out by -D ---- */

/* A settlement is of the claim that stands in the row (defib.settle_refused()). */
#if defined(NO_EPOCH)
#define is_claim(by, of_epoch) (job == RUNNING && job_owner == by)
#elif defined(NO_OWNER)
#define is_claim(by, of_epoch) ((job == RUNNING || job == QUEUED) && job_epoch == of_epoch)
#else
#define is_claim(by, of_epoch) (job == RUNNING && job_owner == by && job_epoch == of_epoch)
#endif

/* One whose answer was lost is recognised when it is repeated (defib.settle_refused()). */
#ifdef NO_REPEAT
#define is_repeated(of_epoch, how) false
#else
#define is_repeated(of_epoch, how) (job == DONE && job_epoch == of_epoch && how == AS_DONE)
#endif

/* A worker whose claim was not answered asks what it has (engine.c, take_claims()) … */
#ifdef STRAYS_KEPT
#define ASKS_WHAT_IT_HAS 0
#else
#define ASKS_WHAT_IT_HAS 1
#endif
/* … and so does one that has had less than the database says, twice (life.c, renewed()). */
#ifdef NO_COUNT
#define COUNTS 0
#else
#define COUNTS 1
#endif
/* A job of its own whose end is in the spool is none to give back (spools.c). */
#ifdef SPOOLED_IS_STRAY
#define is_spooled(i, e) false
#else
#define is_spooled(i, e) (w[i].spool == e && w[i].spool_id == w[i].id)
#endif

/* What could not be seen, or not be written, counts for nothing (life.c, outage()): a database
 * that is away, … */
#ifdef NO_OUTAGE_DOUBT
#define DOUBTS_OUTAGE 0
#else
#define DOUBTS_OUTAGE 1
#endif
/* … one that takes no write, … */
#ifdef NO_PROOF
#define WANTS_PROOF 0
#else
#define WANTS_PROOF 1
#endif
/* … and a pause of one's own (absence_stopped()). */
#ifdef PAUSE_UNSEEN
#define DOUBTS_PAUSE 0
#else
#define DOUBTS_PAUSE 1
#endif

/* A lock is away for a grace before it convicts (locks.c). */
#ifdef NO_GRACE
#define is_over(x) (re_gone[x] >= 2)
#else
#define is_over(x) (re_gone[x] >= 2 + GRACE)
#endif

/* registry_declare_dead(): nobody who has renewed since is declared dead: by the stamp, … */
#ifdef STAMP_UNREAD
#define is_silent(x) true
#else
#define is_silent(x) (!db_renewed[x])
#endif
/* … and where the lock is gone by when that was first read, however late this comes. */
#if defined(LOCK_CONVICTS_FRESH)
#define is_unheard(x) true
#elif defined(LATE_CONVICTS_FRESH)
#define is_unheard(x) (re_stalled -> db_age[x] > re_unheard : !db_heard[x])
#else
#define is_unheard(x) (!db_heard[x])
#endif

/* Whoever declares a worker dead commits that before it takes its jobs. */
#ifdef REQUEUE_BEFORE_DEATH
#define REQUEUES_FIRST 1
#else
#define REQUEUES_FIRST 0
#endif

/* Jobs of those who are dead are asked for time and again (registry_left_jobs()). */
#ifdef ASKED_ONCE
#define asks_for_jobs re_won
#else
#define asks_for_jobs true
#endif

/* Recovery reads the facts again under the lock of the row (apply.c, read_again()). */
#ifdef BLIND_RECOVERY
#define is_as_judged true
#else
#define is_as_judged (job == RUNNING && job_owner == re_owner && job_epoch == re_epoch)
#endif

/* ---- the database ---- */

mtype:job = { QUEUED, RUNNING, DONE, HELD };
mtype:db = { UP, READ_ONLY, DOWN };
mtype:state = { UNKNOWN, ALIVE, DEAD };
mtype:mode = { GOES_ON, PAUSED, GONE };
mtype:phase = { STARTED, ENDED };
mtype:call = { IDLE, CHECKED, GOT };
mtype:late = { NONE, LATE_CLAIM, LATE_END };
mtype:how = { AS_DONE, AS_RETRY, AS_RELEASED };
mtype:cause = { NO_CAUSE, SILENT, LOCK, EXIT };

mtype:db db = UP;
mtype:job job = QUEUED;
byte job_owner, job_epoch, job_lost;
byte ids = 2; /* given so far */
mtype:state db_state[IDS + 1];
byte db_age[IDS + 1];    /* ticks since the last renewal, up to LEASE + 1 */
bit db_lingers[IDS + 1]; /* its lock is held by a session whose client has gone */
bit db_renewed[IDS + 1]; /* the stamp is not the one that the reaper has read … */
bit db_heard[IDS + 1];   /* … and is later than its first reading without the lock */

/* ---- workers ---- */

typedef worker {
	mtype:mode mode;
	bit cut;     /* off from the database */
	bit session;
	byte id;     /* as it is registered; 0: it is not */
	bit renewed; /* and nothing is due before the next tick */
	byte hand;   /* the epoch of the job that it has; 0: none */
	byte hand_id;
	mtype:phase phase;
	mtype:how how;
	byte old;    /* ticks that the run has seen */
	byte spool, spool_id;
	byte stray;  /* the epoch of a job that it has and does not know */
	bit compare; /* it is to ask what it has */
	bit differs;
	mtype:call call; /* a claim on its way: one turn at a time */
	byte call_id, answer;
	/* a statement that its client has given up */
	mtype:late late;
	byte late_id, late_epoch;
	mtype:how late_how;
	byte true_able; /* ticks for which it could renew, up to ABLE: for a whole beat */
};
worker w[2];

/* ---- the reaper: the life thread and the sweeper of another worker ---- */

bit re_paused;
bit re_done;             /* its round in this tick */
bit re_away;             /* stamps that it has read count for nothing */
byte re_quiet;
byte re_since[IDS + 1];  /* ticks for which it has read the same stamp */
byte re_gone[IDS + 1];   /* lock 0: not seen yet, 1: held, 2 and more: gone, and for how long */
byte re_accused;
mtype:cause re_cause;
byte re_unheard;         /* how long the lock had been gone when that was decided … */
byte re_stalled;         /* … and how long ago that was */
bit re_won;              /* it has declared somebody dead, and is to take its jobs */
byte re_epoch, re_owner; /* the facts that it has judged; epoch 0: none */

/* ---- the bookkeeper ---- */

byte faults;
byte outage_ticks;
#ifndef RETRIES
#define RETRIES 0 /* ends that ask for another run */
#endif
bit retried = !RETRIES;
bit first;               /* the two workers can be told apart: until then the first goes first */
byte calm;               /* ticks without trouble, when no more is to come */
bit true_since[IDS + 1]; /* it has renewed since its lock vanished */
byte true_watched;       /* ticks for which the reaper saw, and the database took writes */
byte true_done;          /* the epoch in which the job became done */

#define reaches(i) (w[i].mode == GOES_ON && !w[i].cut && db != DOWN)
#define writes(i) (reaches(i) && w[i].session && db == UP && w[i].call == IDLE)
#define is_final (job == DONE || job == HELD)
#define holds_lock(x) (db_lingers[x] || (w[0].id == x && w[0].session) || (w[1].id == x && w[1].session))
#define runs_alive(i) (w[i].hand && w[i].phase == STARTED && db_state[w[i].hand_id] == ALIVE)

/* ---- statements ---- */

inline settle(by, of_epoch, what, ok)
{
	if
	:: is_claim(by, of_epoch) ->
		assert(job == RUNNING && job_epoch == of_epoch && job_owner == by);
		if
		:: what == AS_DONE -> assert(true_done == 0); job = DONE; true_done = of_epoch; mark(done)
		:: else -> job = QUEUED
		fi;
		job_owner = NOBODY;
		ok = 1
	:: else -> ok = is_repeated(of_epoch, what); mark_if(ok, repeated); mark_if(!ok, refused)
	fi
}

/* The second half of a claim: defib.turn() has looked before whether the claimer is alive. */
inline take(by, got)
{
	if
	:: job == QUEUED ->
		assert(!runs_alive(0) && !runs_alive(1));
		mark_if(db_state[by] == DEAD, dead_claims);
		job = RUNNING; job_epoch++; job_owner = by; got = job_epoch
	:: else -> got = 0
	fi
}

inline vanish(x)
{
	if
	:: !holds_lock(x) -> true_since[x] = 0
	:: else
	fi
}

/* ---- a worker ---- */

inline end_call(i)
{
	w[i].call = IDLE; w[i].call_id = 0; w[i].answer = 0
}

inline forget_late(i)
{
	w[i].late = NONE; w[i].late_id = 0; w[i].late_epoch = 0; w[i].late_how = AS_DONE
}

inline forget_hand(i)
{
	w[i].hand = 0; w[i].hand_id = 0; w[i].phase = ENDED; w[i].how = AS_DONE; w[i].old = 0
}

/* What was asked is not known: it is read again. Its session may linger in the server. */
inline lose_session(i, lingers)
{
	db_lingers[w[i].id] = (w[i].id && (db_lingers[w[i].id] || (lingers && w[i].session)));
	w[i].session = 0; w[i].renewed = 0;
	vanish(w[i].id);
	if
	:: w[i].call != IDLE || w[i].stray -> w[i].compare = ASKS_WHAT_IT_HAS
	:: else
	fi;
	w[i].stray = 0;
	end_call(i)
}

/* Its own row, and how many jobs the database says that it has. */
inline renew(i)
{
	if
	:: db_state[w[i].id] == ALIVE ->
		db_age[w[i].id] = 0; db_renewed[w[i].id] = 1; db_heard[w[i].id] = 1;
		true_since[w[i].id] = 1;
		w[i].renewed = 1;
		if
		:: COUNTS && job == RUNNING && job_owner == w[i].id && !w[i].hand && w[i].differs ->
			w[i].differs = 0; w[i].compare = ASKS_WHAT_IT_HAS
		:: else ->
			w[i].differs = (COUNTS && job == RUNNING && job_owner == w[i].id && !w[i].hand)
		fi
	:: else -> /* LEASE_LOST */
		mark(lease_lost);
		w[i].id = 0; w[i].differs = 0; w[i].renewed = 0
	fi
}

#define lives_on(i) (!is_final && reaches(i) && db == UP && w[i].session)

proctype work(bit i)
{
	bit ok; /* these are 0 between steps */
	byte got;
end:
	do
	/* life: a new session takes the lock, and renews where that can be; who is told that it is
	 * dead registers anew */
	:: d_step { reaches(i) && !w[i].session && (!is_final || w[i].hand || w[i].spool) ->
		w[i].session = 1;
		if
		:: db == UP && w[i].id && !is_final -> renew(i)
		:: else
		fi }
	:: d_step { lives_on(i) && w[i].id && !w[i].renewed -> renew(i) }
	:: d_step { lives_on(i) && !w[i].id && ids < IDS ->
		ids++;
		w[i].id = ids; w[i].renewed = 1;
		db_state[ids] = ALIVE; db_age[ids] = 0; db_renewed[ids] = 1; db_heard[ids] = 1; true_since[ids] = 1 }

	/* turns; what is in the spool ended first */
	:: d_step { writes(i) && w[i].spool ->
		settle(w[i].spool_id, w[i].spool, AS_DONE, ok);
		assert(ok || true_done != w[i].spool); /* a refusal is true */
		mark_if(ok, spool_taken); mark_if(!ok, spool_refused);
		w[i].spool = 0; w[i].spool_id = 0; ok = 0 }
	:: d_step { writes(i) && !w[i].spool && w[i].hand ->
		settle(w[i].hand_id, w[i].hand, w[i].how, ok);
		assert(ok || w[i].how != AS_DONE || true_done != w[i].hand);
		forget_hand(i); ok = 0 }
	:: d_step { writes(i) && w[i].stray ->
		settle(w[i].id, w[i].stray, AS_RELEASED, ok);
		mark_if(ok, stray);
		w[i].stray = 0; ok = 0 }
	:: d_step { writes(i) && w[i].compare && w[i].id && !w[i].stray ->
		w[i].compare = 0;
		if
		:: job == RUNNING && job_owner == w[i].id && !(w[i].hand == job_epoch && w[i].hand_id == w[i].id) && !is_spooled(i, job_epoch) ->
			assert(w[i].spool != job_epoch); /* no end that is kept is thrown away */
			w[i].stray = job_epoch
		:: else
		fi }
	:: d_step { writes(i) && w[i].id && !w[i].hand && !w[i].compare && !w[i].stray && job == QUEUED && db_state[w[i].id] == ALIVE && (i == 0 || first) ->
		first = 1;
		w[i].call = CHECKED; w[i].call_id = w[i].id }

	/* the server goes on, whether its client does or not */
	:: d_step { w[i].call == CHECKED && db == UP ->
		take(w[i].call_id, got);
		if
		:: got -> w[i].call = GOT; w[i].answer = got
		:: else -> end_call(i)
		fi;
		got = 0 }
	:: d_step { w[i].late == LATE_CLAIM && db == UP ->
		if
		:: db_state[w[i].late_id] == ALIVE -> take(w[i].late_id, got); mark_if(got, late_claim)
		:: else
		fi;
		got = 0; forget_late(i) }
	:: d_step { w[i].late == LATE_END && db == UP ->
		settle(w[i].late_id, w[i].late_epoch, w[i].late_how, ok);
		mark_if(ok, late_end_taken); mark_if(!ok, late_end_refused);
		ok = 0; forget_late(i) }

	/* the job */
	:: d_step { reaches(i) && w[i].call == GOT ->
		if
		:: w[i].call_id == w[i].id ->
			w[i].hand = w[i].answer; w[i].hand_id = w[i].call_id; w[i].phase = STARTED
		:: else -> mark(dead_before_start) /* declared dead before it has begun */
		fi;
		end_call(i) }
	:: d_step { !retried && w[i].mode == GOES_ON && w[i].hand && w[i].phase == STARTED -> w[i].how = AS_RETRY; w[i].phase = ENDED; w[i].old = 0; retried = 1 }
	:: d_step { w[i].mode == GOES_ON && w[i].hand && !w[i].spool && w[i].how == AS_DONE && (w[i].cut || db != UP) ->
		w[i].spool = w[i].hand; w[i].spool_id = w[i].hand_id; forget_hand(i) }
	od
}

/* ---- the reaper ---- */

/* life.c, outage(). What is being declared is on its way; an exit stays one. */
inline doubt()
{
	re_away = 1;
	k = 1;
	do
	:: k <= IDS -> re_gone[k] = (re_gone[k] > 1 -> 1 : re_gone[k]); k++
	:: else -> break
	od;
	k = 0
}

inline acquit()
{
	re_accused = 0; re_cause = NO_CAUSE; re_unheard = 0; re_stalled = 0
}

/* What was known of an incarnation that is over is not to tell states apart. */
inline bury(x)
{
	db_state[x] = DEAD; db_age[x] = 0; db_renewed[x] = 0; db_heard[x] = 0;
	re_since[x] = 0; re_gone[x] = 0; true_since[x] = 0
}

#define is_nobodys(x) ((w[0].mode == GONE || w[0].id != x) && (w[1].mode == GONE || w[1].id != x))
#define is_able(i, x) (w[i].id == x && w[i].mode == GOES_ON && w[i].true_able == ABLE)
#define sees_exit(x) (!is_final && !re_paused && !re_accused && db_state[x] == ALIVE && is_nobodys(x))

/* No living worker that could renew, and none that has renewed since. */
inline check_declared(x)
{
	assert(!is_able(0, x) && !is_able(1, x));
	assert(re_cause != LOCK || !true_since[x]);
	assert(re_cause != SILENT || db_age[x] >= LEASE);
	assert(re_cause != EXIT || is_nobodys(x))
}

inline declare_dead(x)
{
	if
	:: db_state[x] == ALIVE && (re_cause == EXIT || (re_cause == SILENT && is_silent(x)) || (re_cause == LOCK && is_unheard(x))) ->
		mark_if(re_cause == SILENT, silent); mark_if(re_cause == LOCK, lock); mark_if(re_cause == EXIT, exit);
		check_declared(x); bury(x); re_won = 1
	:: else ->
		mark_if(re_cause == SILENT, renewed_since); mark_if(re_cause == LOCK && !re_stalled, heard_since);
		mark_if(re_cause == LOCK && re_stalled, heard_late)
	fi
}

/* Nothing is taken from the living, and nothing that is final changes. */
inline requeue()
{
	assert(job == RUNNING && job_owner == re_owner && job_epoch == re_epoch);
	assert(db_state[job_owner] == DEAD || REQUEUES_FIRST); /* what follows is to catch that one */
	job_lost++; job_owner = NOBODY;
	job = (job_lost >= HELD_AT -> HELD : QUEUED);
	mark(recovered); mark_if(job == HELD, held)
}

/* Who has renewed, and who has its lock. */
inline look()
{
	re_quiet = (re_away -> QUIET : re_quiet);
	k = 1;
	do
	:: k <= IDS && db_state[k] == ALIVE ->
		if
		:: db_renewed[k] || re_away -> re_since[k] = 0; db_renewed[k] = 0
		:: else
		fi;
		db_heard[k] = (re_gone[k] == 1 -> 0 : db_heard[k]);
		re_gone[k] = (holds_lock(k) -> 1 : (re_gone[k] == 1 -> 2 : re_gone[k]));
		if
		:: re_since[k] >= LEASE && !re_accused ->
			assert(true_watched >= LEASE); /* not for what it did not see */
			re_accused = k; re_cause = SILENT
		:: is_over(k) && re_since[k] < LEASE && !re_accused && re_quiet == 0 ->
			assert(true_watched >= GRACE);
			re_accused = k; re_cause = LOCK; re_unheard = re_gone[k] - 2
		:: else
		fi;
		k++
	:: k <= IDS && db_state[k] != ALIVE -> k++
	:: else -> break
	od;
	k = 0
}

proctype reap()
{
	byte k; /* 0 between steps */
end:
	do
	/* its own renewal shows whether the database takes writes; then it looks */
	:: d_step { !is_final && !re_paused && !re_done && !re_accused && db != DOWN ->
		if
		:: re_away || (db == READ_ONLY && WANTS_PROOF) -> doubt()
		:: else
		fi;
		look();
		re_away = (db == READ_ONLY && WANTS_PROOF); /* in doubt until it has written */
		re_done = 1 }
	:: d_step { !is_final && !re_paused && !re_done && db == DOWN ->
		if
		:: DOUBTS_OUTAGE -> doubt()
		:: else
		fi;
		re_done = 1 }
	/* an exit is seen, or not */
	:: d_step { sees_exit(1) -> re_accused = 1; re_cause = EXIT }
	:: d_step { sees_exit(2) -> re_accused = 2; re_cause = EXIT }
	:: d_step { sees_exit(3) -> re_accused = 3; re_cause = EXIT }
	:: d_step { sees_exit(4) -> re_accused = 4; re_cause = EXIT }
	/* in one transaction, under the lock of the worker's row */
	:: d_step { !re_paused && re_accused && db == UP && !REQUEUES_FIRST ->
		declare_dead(re_accused); acquit() }
	:: d_step { !re_paused && re_accused && db == UP && REQUEUES_FIRST && !re_epoch ->
		re_owner = job_owner; re_epoch = job_epoch;
		if
		:: job == RUNNING && job_owner == re_accused -> requeue()
		:: else -> declare_dead(re_accused); acquit(); re_owner = 0; re_epoch = 0
		fi }
	/* what failed is told later where it was an exit */
	:: d_step { !re_paused && re_accused && db != UP && re_cause != EXIT -> acquit() }
	/* jobs of those who do not live: look, judge, decide … */
	:: d_step { !re_paused && !re_accused && !re_epoch && db != DOWN && job == RUNNING && db_state[job_owner] != ALIVE && asks_for_jobs ->
		re_owner = job_owner; re_epoch = job_epoch }
	:: d_step { !re_paused && !re_accused && !re_epoch && db != DOWN && re_won && !(job == RUNNING && db_state[job_owner] != ALIVE) ->
		re_won = 0 }
	/* … and apply: lock, read again, write */
	:: d_step { !re_paused && re_epoch ->
		if
		:: db == UP && is_as_judged -> requeue()
		:: else -> mark_if(db == UP, changed_since_judged)
		fi;
		re_owner = 0; re_epoch = 0; re_won = 0 }
	od
}

/* ---- trouble ---- */

inline lose_server()
{
	k = 1;
	do
	:: k <= IDS -> db_lingers[k] = 0; true_since[k] = 0; k++
	:: else -> break
	od;
	k = 0;
	db = DOWN; true_watched = 0;
	if
	:: DOUBTS_OUTAGE -> doubt() /* its own session is lost as well */
	:: else
	fi;
	forget_late(0); forget_late(1);
	lose_session(0, 0); lose_session(1, 0);
	w[0].true_able = 0; w[1].true_able = 0
}

#define has_end(i) (w[i].stray || (w[i].hand && !w[i].spool))
#define may_claim(i) (w[i].id && !w[i].hand && !w[i].compare && job == QUEUED)
#define can_hang(i) (writes(i) && w[i].late == NONE && (has_end(i) || may_claim(i)))

/* A statement that hangs until its client gives it up; the server may carry it out yet. */
inline hang(i, lingers)
{
	if
	:: w[i].stray ->
		w[i].late = LATE_END; w[i].late_id = w[i].id; w[i].late_epoch = w[i].stray;
		w[i].late_how = AS_RELEASED
	:: !w[i].stray && w[i].hand ->
		w[i].late = LATE_END; w[i].late_id = w[i].hand_id; w[i].late_epoch = w[i].hand;
		w[i].late_how = w[i].how;
		w[i].phase = ENDED; w[i].old = 0
	:: else ->
		w[i].late = LATE_CLAIM; w[i].late_id = w[i].id; w[i].compare = ASKS_WHAT_IT_HAS
	fi;
	lose_session(i, lingers)
}

/* A settlement that was carried out, and nobody was told. */
inline lose_answer(i, lingers)
{
	settle(w[i].hand_id, w[i].hand, w[i].how, k);
	k = 0;
	w[i].phase = ENDED; w[i].old = 0;
	lose_session(i, lingers)
}

inline crash(i, lingers)
{
	if
	:: w[i].call == CHECKED && w[i].late == NONE -> w[i].late = LATE_CLAIM; w[i].late_id = w[i].call_id
	:: else
	fi;
	lose_session(i, lingers);
	forget_hand(i);
	w[i].mode = GONE; w[i].id = 0; w[i].compare = 0; w[i].differs = 0;
	w[i].cut = 0; w[i].true_able = 0
}

/* ---- time ---- */

/* What is due in a tick was done: of a job, of life, of turns. */
#define job_due(i) (w[i].hand && (w[i].old >= LONG || (w[i].phase == ENDED && reaches(i) && db == UP)))
#define life_due(i) (!w[i].session || (db == UP && (w[i].id -> !w[i].renewed : ids < IDS)))
#define turn_due(i) (db == UP && (w[i].call != IDLE || w[i].spool || w[i].stray || (w[i].id && (w[i].compare || (job == QUEUED && !w[i].hand && (i == 0 || first))))))
#define is_due(i) (w[i].mode == GOES_ON && (job_due(i) || (reaches(i) && (life_due(i) || turn_due(i)))))
#define reaper_due (!re_paused && (!re_done || re_epoch || re_won || (re_accused && (db == UP || re_cause != EXIT)) || (db != DOWN && job == RUNNING && db_state[job_owner] != ALIVE && asks_for_jobs)))
#define works(i) (w[i].mode == GOES_ON && !w[i].cut && (w[i].id || ids < IDS))

/* Who is well renews when a tick begins; others when they can. */
inline pass(i)
{
	w[i].old = (w[i].hand && w[i].phase == STARTED && w[i].old < LONG -> w[i].old + 1 : w[i].old);
	w[i].true_able = (!reaches(i) || db != UP -> 0 : (w[i].true_able < ABLE -> w[i].true_able + 1 : ABLE));
	if
	:: reaches(i) && db == UP && w[i].id && db_state[w[i].id] == ALIVE ->
		if
		:: db_age[w[i].id] >= BEAT -> renew(i)
		:: else
		fi
	:: else -> w[i].renewed = 0
	fi
}

inline tick()
{
	k = 1;
	do
	:: k <= IDS && db_state[k] == ALIVE ->
		db_age[k] = (db_age[k] <= LEASE -> db_age[k] + 1 : db_age[k]);
		re_since[k] = (re_since[k] < LEASE -> re_since[k] + 1 : LEASE);
		re_gone[k] = (re_gone[k] >= 2 && re_gone[k] < 2 + GRACE -> re_gone[k] + 1 : re_gone[k]);
		k++
	:: k <= IDS && db_state[k] != ALIVE -> k++
	:: else -> break
	od;
	k = 0;
	pass(0); pass(1);
	re_done = 0;
	re_quiet = (re_quiet -> re_quiet - 1 : 0);
	re_stalled = (re_cause == LOCK && re_stalled < 2 -> re_stalled + 1 : re_stalled);
	/* of a database that takes no writes for less than a beat nobody need know */
	true_watched = (re_paused || db == DOWN || (db == READ_ONLY && outage_ticks > 0) -> 0 : (true_watched < LEASE -> true_watched + 1 : LEASE));
	outage_ticks = (db == UP -> 0 : outage_ticks + 1);
	calm = (faults < FAULTS || db != UP || re_paused || w[0].cut || w[1].cut || !(works(0) || works(1)) -> 0 : calm + 1);
	assert(calm < BOUND) /* with nothing in its way the job becomes final */
}

#define fault (faults < FAULTS && !is_final)
#define fault_of(i) (fault && (i == 0 || first))
#ifdef FEW
#define often false /* only what the slower time is for */
#else
#define often true
#endif
#define spend faults++; first = 1

proctype world()
{
	byte k; /* 0 between steps */
	do
	:: d_step { often && fault && db == UP -> spend; lose_server() }
	:: d_step { often && fault && db == UP ->
		spend; db = READ_ONLY; w[0].true_able = 0; w[1].true_able = 0;
		w[0].renewed = 0; w[1].renewed = 0 }
	:: d_step { !is_final && db != UP -> db = UP; outage_ticks = 0; calm = 0 }
	:: d_step { fault && !re_paused -> spend; re_paused = 1; true_watched = 0 }
	:: d_step { !is_final && re_paused ->
		re_paused = 0; calm = 0;
		if
		:: DOUBTS_PAUSE -> doubt()
		:: else
		fi }
#define OF_SESSION(i, lingers) \
	:: d_step { often && fault_of(i) && w[i].mode != GONE -> spend; crash(i, lingers) } \
	:: d_step { fault_of(i) && w[i].mode == GOES_ON && !w[i].cut -> spend; lose_session(i, lingers); w[i].cut = 1; w[i].true_able = 0 } \
	:: d_step { fault_of(i) && w[i].session -> spend; lose_session(i, lingers) } \
	:: d_step { often && fault_of(i) && can_hang(i) -> spend; hang(i, lingers) } \
	:: d_step { often && fault_of(i) && writes(i) && w[i].hand && !w[i].spool -> spend; lose_answer(i, lingers) }
#define OF_WORKER(i) \
	:: d_step { often && fault_of(i) && w[i].mode == GOES_ON -> spend; w[i].mode = PAUSED; w[i].true_able = 0; w[i].renewed = 0 } \
	:: d_step { w[i].mode == PAUSED -> w[i].mode = GOES_ON; calm = 0 } \
	:: d_step { w[i].mode == GONE && !is_final -> w[i].mode = GOES_ON; calm = 0 } \
	:: d_step { w[i].cut -> w[i].cut = 0; calm = 0 }
	OF_SESSION(0, 0)
	OF_SESSION(0, 1)
	OF_SESSION(1, 0)
	OF_SESSION(1, 1)
	OF_WORKER(0)
	OF_WORKER(1)
	:: d_step { db_lingers[1] -> db_lingers[1] = 0; vanish(1) }
	:: d_step { db_lingers[2] -> db_lingers[2] = 0; vanish(2) }
	:: d_step { db_lingers[3] -> db_lingers[3] = 0; vanish(3) }
	:: d_step { db_lingers[4] -> db_lingers[4] = 0; vanish(4) }
	:: d_step { !is_final && !is_due(0) && !is_due(1) && !reaper_due && outage_ticks < OUTAGE -> tick() };
#ifdef NP
progress_time:
		skip
#endif
	/* what is due before that would wait forever otherwise: Spin finds a world that stands still */
#ifdef NP
	:: is_final ->
progress_over:
		skip
#else
	:: is_final
#endif
	od
}

#ifdef REPLAY
#include "replay.pml"
#else
/* All is well, and has been for a while. */
init {
	atomic {
		byte k = 0;
		do
		:: k <= IDS ->
			db_state[k] = UNKNOWN;
			if
			:: k == 1 || k == 2 ->
				db_state[k] = ALIVE; db_renewed[k] = 1; true_since[k] = 1;
				re_gone[k] = 1
			:: else
			fi;
			k++
		:: else -> break
		od;
		k = 0;
		do
		:: k < 2 ->
			w[k].id = k + 1; w[k].session = 1; w[k].renewed = 1; w[k].true_able = ABLE;
			w[k].mode = GOES_ON; w[k].phase = ENDED; w[k].how = AS_DONE; w[k].call = IDLE;
			w[k].late = NONE; w[k].late_how = AS_DONE;
			k++
		:: else -> break
		od;
		k = 0;
		re_cause = NO_CAUSE; true_watched = LEASE;
		run work(0); run work(1); run reap(); run world()
	}
}
#endif

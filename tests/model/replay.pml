/* SPDX-License-Identifier: Apache-2.0
 * replay.pml: real histories of jobs, step by step through the statements of job.pml, which
 * includes this file when REPLAY is defined. tests/harness/model_replay.py writes history.h and runs
 * it; docs/internals/model.md says how a history is read.
 *
 * Each step is what a database, a job or a test has written down. It sets what the model keeps of
 * the world to what was written, runs the model's own statement, and compares. A row that is not
 * as the model leaves it is refused, and so is whatever breaks an assertion of the model.
 */

#define STATE_OF(n) (n == 0 -> QUEUED : (n == 1 -> RUNNING : (n == 2 -> DONE : HELD)))
#define HOW_OF(n) (n == 0 -> AS_DONE : (n == 1 -> AS_RETRY : AS_RELEASED))
#define CAUSE_OF(n) (n == 0 -> SILENT : (n == 1 -> LOCK : EXIT))

bit h_ok;
byte h_got;
mtype:how h_how;

/* Of a claim: the one before it is the other's, and those before that were seen to be over. */
#define runner w[h_epoch % 2]
#define in_hand (runner.hand == h_epoch)

/* ---- what the model has no statement for ---- */

inline enter(x)
{
	assert(db_state[x] == UNKNOWN);
	db_state[x] = ALIVE
}

/* A clean exit: nobody has to declare it. */
inline leave(x)
{
	assert(db_state[x] == ALIVE);
	bury(x)
}

/* By an operator, of a job that nobody has. */
inline cancel()
{
	assert(job == QUEUED);
	job = DONE
}

/* ---- what it has ---- */

inline declared(x)
{
	assert(db_state[x] == ALIVE);
	re_cause = CAUSE_OF(h_why);
	db_renewed[x] = h_fresh; db_heard[x] = h_fresh; true_since[x] = h_fresh;
	db_age[x] = (h_fresh -> 0 : LEASE);
	w[0].id = (h_seen -> x : 0); /* is_nobodys(): who is there later was there */
	declare_dead(x);
	w[0].id = 0; re_won = 0;
	assert(db_state[x] == DEAD);
	acquit()
}

inline claimed(x)
{
	assert(db_state[x] != UNKNOWN);
	take(x, h_got);
	assert(h_got == h_epoch);
	runner.hand = 0; h_got = 0
}

inline settled(x)
{
	assert(!h_ran || (in_hand && runner.phase == ENDED)); /* who says so has run it to its end */
	h_how = HOW_OF(h_as);
	settle(x, h_epoch, h_how, h_ok);
	assert(h_ok);
	runner.hand = (h_goes_on -> runner.hand : 0); /* take() looks at who runs */
	h_ok = 0; h_how = AS_DONE
}

/* An end that was taken is not called late: as of the spool, a refusal is true. */
inline refused_late(x)
{
	assert(true_done != h_epoch)
}

inline recovered(x)
{
	re_owner = x; re_epoch = h_epoch;
	assert(is_as_judged);
	requeue();
	re_owner = 0; re_epoch = 0
}

/* Only who was told of its claim begins; who is alive has no other. */
inline started(x)
{
	assert(db_state[x] != UNKNOWN && h_epoch <= job_epoch);
	assert(is_claim(x, h_epoch) || db_state[x] != ALIVE);
	if
	:: h_epoch == job_epoch -> runner.hand = h_epoch; runner.hand_id = x; runner.phase = STARTED
	:: else
	fi
}

inline ended(x)
{
	runner.phase = (in_hand -> ENDED : runner.phase)
}

inline read_step()
{
	c_code {
		const struct step *s = &steps[now.h_at];
		now.h_is = s->is; now.h_of = s->of; now.h_epoch = s->epoch; now.h_as = s->as;
		now.h_why = s->why; now.h_state = s->state; now.h_owner = s->owner;
		now.h_fresh = s->fresh; now.h_seen = s->seen; now.h_last = s->last; now.h_ran = s->ran;
		now.h_goes_on = s->goes_on;
	}
}

/* The numbers are places in STEPS of tests/harness/model_replay.py. */
inline replay_step()
{
	read_step();
	if
	:: h_is == 0 -> enter(h_of)
	:: h_is == 1 -> leave(h_of)
	:: h_is == 2 -> declared(h_of)
	:: h_is == 3 -> claimed(h_of)
	:: h_is == 4 -> settled(h_of)
	:: h_is == 5 -> recovered(h_of)
	:: h_is == 6 -> cancel()
	:: h_is == 7 -> started(h_of)
	:: h_is == 8 -> ended(h_of)
	:: h_is == 9 -> refused_late(h_of)
	:: h_is == 10 -> assert(is_final)
	fi;
	/* steps 3 to 6 are of the row */
	if
	:: h_is >= 3 && h_is <= 6 ->
		assert(job == STATE_OF(h_state) && job_owner == h_owner && job_epoch == h_epoch)
	:: else
	fi;
	h_at++
}

#define is_over_now (h_refused || c_expr { now.h_at >= histories[now.h_who + 1] })

init {
	byte k;
	atomic {
		do
		:: k <= IDS -> db_state[k] = UNKNOWN; k++
		:: else -> break
		od;
		k = 0;
		do
		:: k < 2 ->
			w[k].mode = PAUSED; w[k].phase = ENDED; w[k].how = AS_DONE; w[k].call = IDLE;
			w[k].late = NONE; w[k].late_how = AS_DONE;
			k++
		:: else -> break
		od;
		k = 0; re_cause = NO_CAUSE; h_how = AS_DONE;
		/* this history, or a later one */
		do
		:: c_expr { now.h_who < NHISTORIES - 1 } -> h_who++
		:: break
		od;
		c_code { now.h_at = histories[now.h_who]; }
	}
	do
	:: d_step { !is_over_now -> replay_step() }
	:: d_step { is_over_now -> c_code { replayed++; } }; break
	od
}

/* SPDX-License-Identifier: Apache-2.0
 * replay_rules.pml: what job.pml is told before it begins when a real history is replayed.
 *
 * An assertion that does not hold refuses the history and says which it was; the search goes on
 * with the next one. Whether nothing is left to try is read from the row, not counted.
 */
#define assert(...) if :: (__VA_ARGS__) :: else -> c_code { refuse(now.h_who, now.h_at, #__VA_ARGS__); now.h_refused = 1; } fi
#define HELD_AT (h_last -> job_lost : 255)

c_decl {
	\#include "history.h"
	static long replayed;
	static void refuse(int who, int at, const char *rule)
	{
		printf("refused %d %d %s\n", who, at - histories[who], rule);
	}
	__attribute__((destructor)) static void tell_replayed(void)
	{
		printf("replayed %ld\n", replayed);
	}
}

int h_who, h_at; /* which history, and its next step */
bit h_refused;

/* The step, as tests/harness/model_replay.py writes it. */
byte h_is, h_of, h_epoch, h_as, h_why, h_state, h_owner;
bit h_fresh; /* the worker had renewed within the time that convicts it */
bit h_seen;  /* its process was seen later */
bit h_last;  /* nothing was left to try */
bit h_ran;   /* a run must have said so before */
bit h_goes_on; /* … and one of it writes its end later */

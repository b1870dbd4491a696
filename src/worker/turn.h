/* SPDX-License-Identifier: Apache-2.0
 * turn.h: a turn: what a worker asks of its database in one go, and what it is answered.
 * A part is of one source: the ends of jobs are recorded and free slots are filled in one
 * call and one commit. One turn is under way at a time; what ends meanwhile joins the next,
 * so that batches grow by themselves under load. Data only.
 */
#ifndef WORKER_TURN_H
#define WORKER_TURN_H

#include "base/fail.h"
#include "base/mem.h"
#include "worker/job.h"

struct job;

struct turn_part {
	int pool; /* whose source is asked */

	/* Ends of jobs that the incarnation `worker` claimed; jobs[i] is whose end ends[i] is. */
	int64_t worker;
	struct settlement *ends;
	struct job **jobs;
	int nends;
	bool drain; /* first what waits in the spool of this source: it ended before */

	/* In the name of the present incarnation; 0: nothing is claimed or asked. */
	int64_t claimer;
	int64_t room;  /* jobs to claim at most */
	bool promote;  /* work that comes due by time becomes ready first */
	bool cancels;  /* which of its jobs were asked to stop? */
	bool compares; /* which jobs does the database say it has? Asked behind ends, without claims */
	struct beat *beats;
	int nbeats;

	/* Answers. `err` is of the call; all that was asked failed with it. */
	defib_err err;
	struct failure f;
	bool away; /* the database is: what failed may succeed later as it is */
	/*
	 * Of each end where the call succeeded: NULL: it was answered (ends[i].accepted), or why
	 * it cannot be recorded (its table refuses it, or those before it wait in the spool).
	 */
	const struct failure **why;
	bool gone; /* the claimer is not alive for the database: it was given nothing */
	struct claimed *claims;
	int nclaims;
	struct settlement *cancelling; /* keys and epochs */
	int ncancelling;
	/* Keys and epochs, without those whose end is in the spool or set aside. */
	struct settlement *has;
	int nhas;
	int64_t spooled; /* what is left in the spool of this source; set where drain was asked */
	defib_err beat_err;
	struct failure beat_f;
};

struct turn {
	struct arena arena;
	struct turn_part *parts;
	int nparts;
	/* Jobs that have said something of their progress (job_take_said()): it is to be told. */
	struct turn_progress {
		struct job *job;
		bool lost; /* answer: the job is no longer ours */
	} * progress;
	int nprogress;
};

#endif

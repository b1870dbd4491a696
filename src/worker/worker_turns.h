/* SPDX-License-Identifier: Apache-2.0
 * worker_turns.h: the turn thread: reports events to the engine and carries out its actions.
 */
#ifndef WORKER_WORKER_TURNS_H
#define WORKER_WORKER_TURNS_H

#include "worker/worker_state.h"

MUST_CHECK defib_err turn_thread_open(struct worker *w, struct failure *f);
MUST_CHECK defib_err turn_thread_start(struct worker *w, struct failure *f);
/* Wait for its end: by then everything in hand is settled, spooled or released. */
void turn_thread_join(struct worker *w);
void turn_thread_release(struct worker *w);
/* A job has ended, from any thread: the engine learns of it soon. */
void turn_thread_over(struct worker *w, struct job *j);
/* The messages have changed. */
void turn_thread_wake(struct worker *w);

#endif

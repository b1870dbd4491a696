/* SPDX-License-Identifier: Apache-2.0
 * token.h: the token of a claim, a text that a program gets with its claim, so that it can fence
 * its effects: unique per claim, and the tokens of one job sort as plain text in the order of its
 * claims.
 *
 *   TIMELINE-EPOCH-WORKER-NONCE     00000002-000000000000000c-41-9f3c52d1a07be866
 *
 * The epoch rises with each claim. But an asynchronous failover loses the last claims and assigns
 * the same epochs, to the same incarnations of workers, again. So the server's timeline, which
 * rises with each failover, comes first, and a nonce comes last, in case no timeline is known.
 */
#ifndef WORKER_TOKEN_H
#define WORKER_TOKEN_H

#include "worker/job.h"

#define TOKEN_SIZE 80 /* with the NUL */

/* `timeline` 0: not known. */
void token_write(int64_t timeline, int64_t epoch, int64_t worker, uint64_t nonce,
                 char out[TOKEN_SIZE]);
/* For a claim by this incarnation. */
void token_of(const struct claimed *c, int64_t worker, char out[TOKEN_SIZE]);
/* A unique number, counted up from a random start. Any thread. */
uint64_t token_nonce(void);

#endif

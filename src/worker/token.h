/* SPDX-License-Identifier: Apache-2.0
 * token.h: what a program is told of its claim, so that an effect can be fenced: unique for each
 * claim, and in the order of claims of a job as plain text.
 *
 *   TIMELINE-EPOCH-WORKER-NONCE     00000002-000000000000000c-41-9f3c52d1a07be866
 *
 * The epoch rises with each claim. But an asynchronous fail-over loses the last claims, and gives
 * the same epochs, of the same workers' incarnations, again: so the server's timeline stands
 * first, which rises with each fail-over, and a nonce last, for where no timeline is known.
 */
#ifndef WORKER_TOKEN_H
#define WORKER_TOKEN_H

#include <stdint.h>

struct claimed;

#define TOKEN_SIZE 80 /* with the NUL */

/* `timeline` 0: not known. */
void token_write(int64_t timeline, int64_t epoch, int64_t worker, uint64_t nonce,
                 char out[TOKEN_SIZE]);
/* Of a claim by this incarnation. */
void token_of(const struct claimed *c, int64_t worker, char out[TOKEN_SIZE]);
/* A number that nobody else draws: counted from where chance began. Any thread. */
uint64_t token_nonce(void);

#endif

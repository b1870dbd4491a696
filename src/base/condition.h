/* SPDX-License-Identifier: Apache-2.0
 * condition.h: waiting for another thread, but not without limit.
 */
#ifndef BASE_CONDITION_H
#define BASE_CONDITION_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* A condition whose limits no change of the wall clock moves. */
static inline void condition_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

/* For pthread_cond_timedwait(): the moment after this time. */
static inline struct timespec condition_limit(int64_t ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	int64_t ns = until.tv_nsec + ms % 1000 * 1000000;
	until.tv_sec += ms / 1000 + ns / 1000000000;
	until.tv_nsec = ns % 1000000000;
	return until;
}

#endif

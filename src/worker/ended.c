/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/ended.h"

#include <limits.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AWAKE LLONG_MAX

defib_err ended_open(struct ended *e, struct failure *f)
{
	atomic_store(&e->wake_at, AWAKE);
	e->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return e->event < 0 ? fail(f, DEFIB_IO, "cannot make a descriptor for a worker") : DEFIB_OK;
}

void ended_close(struct ended *e)
{
	if (e->event >= 0)
		close(e->event);
}

void ended_wake(struct ended *e)
{
	uint64_t one = 1;
	(void)!write(e->event, &one, sizeof one);
}

void ended_push(struct ended *e, struct job *j)
{
	j->queued = atomic_load(&e->last);
	while (!atomic_compare_exchange_weak(&e->last, &j->queued, j))
		;
	long long n = atomic_fetch_add(&e->pushed, 1) + 1;
	/* One of the threads that find it asleep wakes it. */
	if (n >= atomic_load(&e->wake_at) && atomic_exchange(&e->wake_at, AWAKE) != AWAKE)
		ended_wake(e);
}

struct job *ended_take(struct ended *e)
{
	struct job *last = atomic_exchange(&e->last, NULL), *first = NULL;
	long long n = 0;
	for (; last; n++) {
		struct job *before = last->queued;
		last->queued = first;
		first = last;
		last = before;
	}
	/* Briefly below zero if a job was taken before it was counted. */
	if (n > 0)
		atomic_fetch_sub(&e->pushed, n);
	return first;
}

bool ended_may_sleep(struct ended *e, int64_t enough)
{
	enough = enough > 1 ? enough : 1;
	atomic_store(&e->wake_at, enough);
	return atomic_load(&e->pushed) < enough;
}

void ended_awake(struct ended *e)
{
	uint64_t count;
	atomic_store(&e->wake_at, AWAKE);
	(void)!read(e->event, &count, sizeof count);
}

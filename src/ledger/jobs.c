/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c: see jobs.h. */
#include "ledger/jobs.h"

#include <assert.h>

static unsigned hash(const char *text)
{
	unsigned h = 2166136261U; /* FNV-1a */
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619U;
	return h;
}

/* The slot where a job is or would be. */
static unsigned slot_of(const struct job_index *x, const char *job)
{
	unsigned at = hash(job) & x->mask;
	while (x->slots[at] >= 0 && strcmp(x->jobs[x->slots[at]], job) != 0)
		at = (at + 1) & x->mask;
	return at;
}

void job_index_init(struct job_index *x, const char *const *jobs, int n, struct arena *a)
{
	unsigned size = 16;
	while (size < 2 * (unsigned)n)
		size *= 2;
	*x = (struct job_index){jobs, ARENA_ARRAY(a, int, size), size - 1};
	for (unsigned i = 0; i < size; i++)
		x->slots[i] = -1;
	for (int i = 0; i < n; i++) {
		unsigned at = slot_of(x, jobs[i]);
		if (x->slots[at] < 0)
			x->slots[at] = i;
	}
}

int job_index_find(const struct job_index *x, const char *job)
{
	assert(x->slots != NULL);
	return x->slots[slot_of(x, job)];
}

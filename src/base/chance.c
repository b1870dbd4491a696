/* SPDX-License-Identifier: Apache-2.0 */
/* chance.c: see chance.h. */
#include "base/chance.h"

#include "base/clock.h"

#include <sys/random.h>
#include <unistd.h>

void chance_seed(struct chance *c)
{
	if (getrandom(&c->state, sizeof c->state, GRND_NONBLOCK) != (ssize_t)sizeof c->state)
		c->state = (uint64_t)clock_wall_us() ^ ((uint64_t)getpid() << 40);
}

/* splitmix64: any seed is a good one, and so is the seed beside it. */
double chance_draw(struct chance *c)
{
	uint64_t z = c->state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ (z >> 31)) >> 11) / (double)(UINT64_C(1) << 53);
}

bool chance_bytes(void *out, size_t n)
{
	return getrandom(out, n, 0) == (ssize_t)n;
}

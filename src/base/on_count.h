/* SPDX-License-Identifier: Apache-2.0
 * on_count.h: how a long reading says how far it is, to a caller that shows progress.
 */
#ifndef BASE_ON_COUNT_H
#define BASE_ON_COUNT_H

#include <stdint.h>

struct on_count {
	void (*call)(void *ctx, int64_t n); /* so many so far; NULL: nobody wants to know */
	void *ctx;
};

static inline void count_tell(const struct on_count *on, int64_t n)
{
	if (on->call)
		on->call(on->ctx, n);
}

#endif

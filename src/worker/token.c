/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/token.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdatomic.h>

void token_write(int64_t timeline, int64_t epoch, int64_t worker, uint64_t nonce,
                 char out[TOKEN_SIZE])
{
	snprintf(out, TOKEN_SIZE, "%08" PRIx64 "-%016" PRIx64 "-%" PRId64 "-%016" PRIx64,
	         (uint64_t)timeline, (uint64_t)epoch, worker, nonce);
}

void token_of(const struct claimed *c, int64_t worker, char out[TOKEN_SIZE])
{
	token_write(c->timeline, c->epoch, worker, c->nonce, out);
}

uint64_t token_nonce(void)
{
	static _Atomic uint64_t next;
	uint64_t none = 0;
	if (atomic_load(&next) == 0) {
		struct chance first;
		chance_seed(&first);
		atomic_compare_exchange_strong(&next, &none, first.state | 1);
	}
	return atomic_fetch_add(&next, 1);
}

/* SPDX-License-Identifier: Apache-2.0
 * chance.h: the one source of chance: jitter that spreads the tries of many, and bytes that
 * nobody guesses.
 *
 * Code that is pure is handed a number that was drawn outside; a test hands in its own.
 */
#ifndef BASE_CHANCE_H
#define BASE_CHANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chance {
	uint64_t state;
};

/* From the kernel; while a machine boots, from the clock and the process. */
void chance_seed(struct chance *c);
/* The next number, in [0, 1). The same seed draws the same numbers. */
double chance_draw(struct chance *c);

/* Bytes that nobody guesses, as secrets and names need them; false: the kernel has none. */
bool chance_bytes(void *out, size_t n);

#endif

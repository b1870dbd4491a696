/* SPDX-License-Identifier: Apache-2.0
 * clock.h: reading clocks, and durations and instants as text.
 *
 * Instants are microseconds since 1970 UTC, durations are microseconds, both
 * int64_t with `_us` in the name. Deadlines are on CLOCK_BOOTTIME in
 * milliseconds: they go on counting through a suspend.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define US_PER_S INT64_C(1000000)

int64_t clock_boot_ms(void);
int64_t clock_boot_us(void);
int64_t clock_wall_us(void);

/*
 * "90s", "60m", "1h30m", "250ms", "2d", "1.5h"; a bare number is refused
 * (units are part of what the user says). False if it is not a duration, is
 * negative or exceeds 100 years.
 */
bool duration_parse(const char *text, int64_t *us);
/*
 * The time from one instant to a later one: every duration that is shown or counted is made
 * here. Two clocks that differ can put the later one first; that is no time at all.
 */
int64_t elapsed_us(int64_t from_us, int64_t to_us);
/* For people: "2h 5m", "45s", "250ms", "3d 4h". At most two units; less than none is "0s". */
void duration_text(int64_t us, struct buf *out);
/* "2026-01-02T03:04:05.123Z" */
void time_iso(int64_t us, struct buf *out);
/* The same read back; false if it is no such text. */
bool time_parse(const char *text, int64_t *us);

/* ---- chance ---- */

/*
 * Random numbers: jitter that spreads retries, and bytes that cannot be guessed.
 *
 * Pure code takes a random number as a parameter; a test passes its own.
 */

struct chance {
	uint64_t state;
};

/* From the kernel; while a machine boots, from the clock and the process. */
void chance_seed(struct chance *c);
/* The next number, in [0, 1). The same seed draws the same numbers. */
double chance_draw(struct chance *c);

/* Bytes that cannot be guessed, for secrets and names; false: the kernel has none. */
bool chance_bytes(void *out, size_t n);

#endif

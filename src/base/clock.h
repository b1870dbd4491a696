/* SPDX-License-Identifier: Apache-2.0
 * clock.h: reading clocks, and durations and instants as text.
 *
 * Instants are microseconds since 1970 UTC, durations are microseconds, both int64_t with `_us` in
 * the name. Deadlines are on CLOCK_BOOTTIME in milliseconds, which keeps counting during a suspend.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/text.h"

#define US_PER_S INT64_C(1000000)
#define HOUR_US (INT64_C(3600) * US_PER_S)
#define DAY_US (24 * HOUR_US)
#define DURATION_MOST_US (INT64_C(36525) * DAY_US) /* 100 years */

/* In milliseconds, rounded up: where 0 means no limit, a short one must not become none. */
static inline int64_t ms_from_us(int64_t us)
{
	return us / 1000 + (us % 1000 > 0);
}

int64_t clock_boot_ms(void);
int64_t clock_boot_us(void);
int64_t clock_wall_us(void);

/*
 * "90s", "60m", "1h30m", "250ms", "2d", "1.5h". A number without a unit is rejected. False if the
 * text is not a duration, is negative or exceeds DURATION_MOST_US.
 */
bool duration_parse(const char *text, int64_t *us);
/*
 * The time from one instant to a later one. Every duration that is shown or counted is computed
 * here. If two clocks disagree and the later instant comes first, the result is 0.
 */
int64_t elapsed_us(int64_t from_us, int64_t to_us);
/* For people: "2h 5m", "45s", "250ms", "3d 4h". At most two units; a negative duration is "0s". */
void duration_text(int64_t us, struct buf *out);
/* "2026-01-02T03:04:05.123Z" */
void time_iso(int64_t us, struct buf *out);
/* Reads the same form. False if the text has another form. */
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

/* From the kernel; early in boot, when it has none, from the clock and the process id. */
void chance_seed(struct chance *c);
/* The next number, in [0, 1). The same seed draws the same numbers. */
double chance_draw(struct chance *c);

/* Unpredictable bytes, for secrets and names. False: the kernel has none. */
bool chance_bytes(void *out, size_t n);

#endif

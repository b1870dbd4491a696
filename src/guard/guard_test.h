/* SPDX-License-Identifier: Apache-2.0
 * guard_test.h: a guard with twenty owners, for the tests of the guard and of its brake. Times are
 * seconds after T0; both clocks run together unless a test sets one.
 */
#ifndef GUARD_GUARD_TEST_H
#define GUARD_GUARD_TEST_H

#include "base/clock.h"
#include "base/test.h"
#include "base/text.h"
#include "guard/guard.h"

#include <stdio.h>
#include <string.h>

#define S US_PER_S
#define T0 (INT64_C(1767323045) * S) /* 03:04:05Z */
#define BEAT 10
#define LIMIT 60
#define CEILING 600
#define OWNERS 20

struct bench {
	struct watch watch;
	struct guard *guard;
	struct doubt doubt;
	int64_t now_s, ahead_s; /* our own clock; how far the database's is ahead of it */
	struct census_row census[OWNERS];
	char names[OWNERS][16];
	int n;
	const struct gone_suspect *gone;
	int ngone;
};

static inline int64_t at(int64_t s)
{
	return T0 + s * S;
}

static inline int set_up(void **state)
{
	static struct bench b;
	b = (struct bench){.n = OWNERS};
	struct watch *w = &b.watch;
	w->alive_at.text = "a";
	w->expires_at.text = NULL;
	w->owner.text = "o";
	w->beat_us = BEAT * S;
	w->stuck_after = (struct threshold){.given = true, .standard_us = LIMIT * S};
	w->overdue_after = (struct threshold){.given = true, .standard_us = 3600 * S};
	w->guard = (struct guard_limits){.brake_share = 0.55,
	                                 .brake_owners = 2,
	                                 .brake_ceiling_us = CEILING * S,
	                                 .pace_per_s = 50,
	                                 .pace_burst = 100};
	for (int i = 0; i < OWNERS; i++) {
		(void)snprintf(b.names[i], sizeof b.names[i], "w%d", i);
		b.census[i] = (struct census_row){.owner = b.names[i], .sign_us = at(0)};
	}
	b.guard = guard_new(w);
	*state = &b;
	return 0;
}

static inline int tear_down(void **state)
{
	guard_free(((struct bench *)*state)->guard);
	return 0;
}

/* Owners from..to (exclusive) beat at this moment. */
static inline void beat(struct bench *b, int from, int to, int64_t s)
{
	for (int i = from; i < to; i++)
		b->census[i].sign_us = at(s + b->ahead_s);
}

static inline void begin(struct bench *b, int64_t s)
{
	b->now_s = s;
	guard_begin(b->guard, &b->doubt, at(s + b->ahead_s), s * S, b->census, b->n, false);
}

static inline void end(struct bench *b)
{
	guard_end(b->guard, &b->gone, &b->ngone);
}

static inline struct guard_answer ask_as(struct bench *b, const char *job, const char *owner,
                                         int64_t sign_us, enum verdict verdict, enum sign sign)
{
	struct facts f = {.job = job, .owner = owner, .now_us = at(b->now_s + b->ahead_s)};
	f.has_sign[sign] = true;
	f.sign_us[sign] = sign_us;
	struct judgement j = {.verdict = verdict,
	                      .sign = sign,
	                      .measured = true,
	                      .measured_us = f.now_us - sign_us,
	                      .limit_us = sign == SIGN_EXPIRES ? 0 : LIMIT * S};
	return guard_ask(b->guard, &f, &j);
}

static inline struct guard_answer ask(struct bench *b, const char *job, const char *owner,
                                      int64_t sign_s)
{
	return ask_as(b, job, owner, at(sign_s), VERDICT_SILENT, SIGN_ALIVE);
}

/* The silent job of owner i, whose sign is its owner's. */
static inline struct guard_answer ask_of(struct bench *b, int i)
{
	return ask_as(b, b->names[i], b->names[i], b->census[i].sign_us, VERDICT_SILENT, SIGN_ALIVE);
}

static inline void assert_by(struct guard_answer a, enum guard_by by)
{
	assert_string_equal(guard_names[a.by], guard_names[by]);
}

static inline struct guard_report report(const struct bench *b)
{
	struct guard_report r;
	guard_report(b->guard, &r);
	return r;
}

static inline void assert_sentence(const struct bench *b, const char *expected)
{
	struct buf text = BUF_INIT;
	guard_sentence(b->guard, &text);
	assert_string_equal(buf_text(&text), expected);
	buf_release(&text);
}

/* A first pass in which all is well. */
static inline void calm(struct bench *b)
{
	begin(b, 0);
	end(b);
}

/* Owners 0..silent fell silent at 0, the others keep beating; the pass at s has begun. */
static inline void fall_silent(struct bench *b, int silent, int64_t s)
{
	beat(b, silent, OWNERS, s);
	begin(b, s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif

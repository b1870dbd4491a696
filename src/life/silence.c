/* SPDX-License-Identifier: Apache-2.0 */
#include "life/silence.h"

#include <assert.h>

#define SHARE 0.55
#define MORE_THAN 2

void silence_init(struct silence *s, int64_t lease_ms, int64_t ceiling_ms)
{
	*s = (struct silence){
		.rules = {.on = ceiling_ms >= 0,
	              .share = SHARE,
	              .owners = MORE_THAN,
	              .limit_us = lease_ms * 1000,
	              .quiet_us = lease_ms * 1000,
	              .ceiling_us = (ceiling_ms > 0 ? ceiling_ms : SILENCE_CEILING_MS) * 1000},
	};
}

void silence_release(struct silence *s)
{
	brake_clear(&s->brake);
	free(s->members);
	s->members = NULL;
	s->n = s->cap = 0;
}

void silence_outage(struct silence *s)
{
	for (int i = 0; i < s->n; i++) {
		s->members[i].away = true;
		s->members[i].since_ms = s->members[i].read_ms;
	}
	s->whole_ms = 0;
}

void silence_renewed(struct silence *s, int64_t sent_ms)
{
	s->renewed_ms = sent_ms;
}

int place_by_id(const void *rows, size_t size, int n, int64_t id)
{
	int low = 0;
	for (int high = n; low < high;) {
		int at = low + (high - low) / 2;
		int64_t here = *(const int64_t *)((const char *)rows + (size_t)at * size);
		if (here < id)
			low = at + 1;
		else
			high = at;
	}
	return low;
}

static struct silence_member *silence_find(const struct silence *s, int64_t id)
{
	int at = place_by_id(s->members, sizeof *s->members, s->n, id);
	return at < s->n && s->members[at].id == id ? &s->members[at] : NULL;
}

static struct silence_member silence_member_now(const struct silence *s, const struct registered *r,
                                                int64_t now_ms)
{
	const struct silence_member *old = silence_find(s, r->id);
	bool same = old && old->stamp_us == r->stamp_us;
	bool was_late = same && old->late;
	int64_t lease_ms = r->lease_us / 1000;
	int64_t since_ms = same && !old->away ? old->since_ms : now_ms;
	return (struct silence_member){
		.id = r->id,
		.stamp_us = r->stamp_us,
		.lease_ms = lease_ms,
		.since_ms = since_ms,
		.read_ms = now_ms,
		.beats = old ? old->beats || !same : !r->expired,
		.late = was_late || now_ms - since_ms > lease_ms / 2,
		.fell_ms = was_late ? old->fell_ms : since_ms,
	};
}

/* Merge two lists by id: workers that were not read stay as they are. */
static void silence_take(struct silence *s, const struct registered *rows, int n, bool whole,
                         int64_t now_ms)
{
	struct silence_member *next = mem_alloc(sizeof *next * (size_t)(s->n + n + 1));
	int at = 0, old = 0;
	for (int i = 0; i < n; i++) {
		assert(i == 0 || rows[i - 1].id < rows[i].id);
		for (; old < s->n && s->members[old].id < rows[i].id; old++)
			if (!whole)
				next[at++] = s->members[old];
		next[at++] = silence_member_now(s, &rows[i], now_ms);
		old += old < s->n && s->members[old].id == rows[i].id;
	}
	for (; old < s->n && !whole; old++)
		next[at++] = s->members[old];
	free(s->members);
	s->members = next;
	s->n = at;
}

/*
 * In the terms of the brake: a census in which a sign is a time of our own clock. A worker that we
 * never saw beating was silent before we started.
 */
static int64_t sign_us(const struct silence *s, const struct silence_member *h)
{
	if (!h->beats)
		return h->fell_ms * 1000 - 2 * s->rules.limit_us;
	return (h->fell_ms + h->lease_ms / 2) * 1000 - s->rules.limit_us;
}

static void step_brake(struct silence *s, int64_t now_ms)
{
	static const struct doubt none = {0};
	AUTO_ARENA a = ARENA_INIT;
	struct census_row *census = ARENA_ARRAY(&a, struct census_row, s->n + 1);
	for (int i = 0; i < s->n; i++)
		census[i] = (struct census_row){
			.owner = arena_printf(&a, "%lld", (long long)s->members[i].id),
			.sign_us = sign_us(s, &s->members[i]),
		};
	brake_step(&s->brake, &s->rules, &none, now_ms * 1000, now_ms * 1000, census, s->n);
}

void silence_look(struct silence *s, const struct registered *rows, int n, bool whole,
                  int64_t now_ms)
{
	silence_take(s, rows, n, whole, now_ms);
	if (!whole)
		s->whole_ms = 0;
	else if (s->whole_ms == 0)
		s->whole_ms = now_ms;
	if (whole)
		step_brake(s, now_ms);
}

static int64_t share_of(const struct silence_member *h)
{
	return h && h->lease_ms > 0 ? (h->read_ms - h->since_ms) * 1000 / h->lease_ms : 0;
}

int64_t silence_share(const struct silence *s, int64_t id)
{
	return share_of(silence_find(s, id));
}

int64_t silence_longest(const struct silence *s, int64_t self)
{
	int64_t most = 0;
	for (int i = 0; i < s->n; i++)
		if (s->members[i].id != self && share_of(&s->members[i]) > most)
			most = share_of(&s->members[i]);
	return most;
}

/* Regardless of our own renewal. */
static bool silence_is_over(const struct silence *s, const struct silence_member *h)
{
	char name[24];
	snprintf(name, sizeof name, "%lld", (long long)h->id);
	bool looked = s->whole_ms != 0 && h->read_ms - s->whole_ms > h->lease_ms / 2;
	return looked && h->read_ms - h->since_ms >= h->lease_ms && !brake_holds(&s->brake, name);
}

bool silence_convicts(const struct silence *s, int64_t id, int64_t *stamp_us)
{
	const struct silence_member *h = silence_find(s, id);
	if (!h || !silence_is_over(s, h) || s->renewed_ms <= h->since_ms)
		return false;
	*stamp_us = h->stamp_us;
	return true;
}

bool silence_wants_proof(const struct silence *s, int64_t self)
{
	for (int i = 0; i < s->n; i++) {
		const struct silence_member *h = &s->members[i];
		if (h->id != self && s->renewed_ms <= h->since_ms && silence_is_over(s, h))
			return true;
	}
	return false;
}

bool silence_holds(const struct silence *s)
{
	return s->brake.engaged;
}

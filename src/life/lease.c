/* SPDX-License-Identifier: Apache-2.0
 * lease.c: when to renew, and how sure a worker may be that it still holds its lease.
 *
 * Everything is counted from the moment when the last confirmed renewal was sent. The database
 * granted the lease later, so our own clock can only expire before the database's. A renewal whose
 * outcome is unknown counts as failed; if it did arrive, we are merely too careful.
 */
#include "life/lease.h"

#include <assert.h>

#define RETRY_MS 250
#define CALL_LEAST_MS 100

struct lease_rules lease_rules_of(int64_t lease_ms)
{
	int64_t beat_ms = lease_ms / 3;
	return (struct lease_rules){lease_ms, beat_ms, beat_ms < RETRY_MS ? beat_ms : RETRY_MS};
}

int64_t lease_call_ms(const struct lease_rules *rules)
{
	int64_t ms = (rules->lease_ms - rules->beat_ms) / 4;
	return ms > CALL_LEAST_MS ? ms : CALL_LEAST_MS;
}

void lease_init(struct lease *l, const struct lease_rules *rules, int64_t sent_ms)
{
	assert(rules->retry_ms > 0 && rules->beat_ms >= rules->retry_ms);
	assert(rules->lease_ms > rules->beat_ms);
	assert(sent_ms > 0);
	*l = (struct lease){
		.rules = *rules,
		.confirmed_ms = sent_ms,
		.next_ms = sent_ms + rules->beat_ms,
	};
}

bool lease_renew_due(struct lease *l, int64_t now_ms)
{
	if (l->taken || l->sent_ms != 0 || now_ms < l->next_ms)
		return false;
	l->sent_ms = now_ms;
	return true;
}

void lease_renew_soon(struct lease *l, int64_t now_ms)
{
	if (now_ms < l->next_ms)
		l->next_ms = now_ms;
}

/* retry, 2 retry, 4 retry… up to one beat: quick at first, gentle on a server in trouble. */
static int64_t retry_after_ms(const struct lease *l)
{
	int64_t wait = l->rules.retry_ms;
	for (int i = 1; i < l->failed && wait < l->rules.beat_ms; i++)
		wait *= 2;
	return wait < l->rules.beat_ms ? wait : l->rules.beat_ms;
}

void lease_renew_answer(struct lease *l, enum lease_answer answer, int64_t now_ms)
{
	assert(l->sent_ms != 0 && now_ms >= l->sent_ms);
	switch (answer) {
	case RENEWED:
		l->confirmed_ms = l->sent_ms;
		l->next_ms = l->sent_ms + l->rules.beat_ms;
		l->failed = 0;
		break;
	case RENEW_FAILED:
		l->failed++;
		l->next_ms = now_ms + retry_after_ms(l);
		break;
	case RENEW_REFUSED:
		l->taken = true;
		break;
	}
	l->sent_ms = 0;
}

/* How long a renewal counts as on time: one beat, and one more in case it is slow. */
static int64_t good_until_ms(const struct lease *l)
{
	return l->confirmed_ms + 2 * l->rules.beat_ms;
}

int64_t lease_ends_ms(const struct lease *l)
{
	return l->taken ? 0 : l->confirmed_ms + l->rules.lease_ms;
}

enum lease_contact lease_contact(const struct lease *l, int64_t now_ms)
{
	if (l->taken)
		return CONTACT_TAKEN;
	if (now_ms >= lease_ends_ms(l))
		return CONTACT_EXPIRED;
	return l->failed > 0 || now_ms >= good_until_ms(l) ? CONTACT_LOST : CONTACT_GOOD;
}

int64_t lease_wait_ms(const struct lease *l, int64_t now_ms)
{
	int64_t until = now_ms + l->rules.beat_ms;
	/* What can happen by time alone: a renewal is due, contact is lost, the lease ends. */
	const int64_t events[] = {
		l->sent_ms == 0 && !l->taken ? l->next_ms : until,
		lease_contact(l, now_ms) == CONTACT_GOOD ? good_until_ms(l) : until,
		lease_contact(l, now_ms) <= CONTACT_LOST ? lease_ends_ms(l) : until,
	};
	for (int i = 0; i < 3; i++)
		if (events[i] < until)
			until = events[i];
	return until > now_ms ? until - now_ms : 0;
}

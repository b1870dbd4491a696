/* SPDX-License-Identifier: Apache-2.0
 * lease.h: a worker's hold on life, as a step function over (state, event,
 * now). No I/O: the driver renews when told to and reports what came of it.
 *
 * Time since the last confirmed renewal counts from before it was sent, on a
 * clock that goes on through a suspend (milliseconds of CLOCK_BOOTTIME).
 */
#ifndef LIFE_LEASE_H
#define LIFE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

struct lease_rules {
	int64_t lease_ms; /* 15000 */
	int64_t beat_ms;  /* 5000 */
	int64_t retry_ms; /* 250: how soon a failed renewal is tried again */
};

/* The rules of a lease of that length: three beats, a failed one tried again soon. */
struct lease_rules lease_rules_of(int64_t lease_ms);
/*
 * How long a call on the session that renews may take. Opening another session may take twice as
 * long: a call that hangs and a session that is slow to open leave time for a renewal.
 */
int64_t lease_call_ms(const struct lease_rules *rules);

enum lease_contact {
	CONTACT_GOOD,    /* renewed within the beat, more or less */
	CONTACT_LOST,    /* a renewal failed or is late: stop claiming, finish what is in hand, spool */
	CONTACT_EXPIRED, /* the lease has run out by our own clock: exclusive work must stop */
	CONTACT_TAKEN,   /* the database said so: LEASE_LOST; everything in hand is no longer ours */
};

struct lease {
	struct lease_rules rules;
	int64_t confirmed_ms; /* when the last renewal that succeeded was *sent* */
	int64_t sent_ms;      /* when the renewal under way was sent; 0: none */
	int64_t next_ms;      /* when the next one is due */
	int failed;           /* renewals that failed since the last confirmed one */
	bool taken;
};

/* A lease that was just granted by a registration sent at `sent_ms`. */
void lease_init(struct lease *l, const struct lease_rules *rules, int64_t sent_ms);
/* Should a renewal be sent now? Marks it as sent. */
bool lease_renew_due(struct lease *l, int64_t now_ms);
/* Something has happened that makes others doubt us: renew at the next chance. */
void lease_renew_soon(struct lease *l, int64_t now_ms);
enum lease_answer { RENEWED, RENEW_FAILED, RENEW_REFUSED };
void lease_renew_answer(struct lease *l, enum lease_answer answer, int64_t now_ms);
enum lease_contact lease_contact(const struct lease *l, int64_t now_ms);
/* When it is over by our own clock, if nothing renews it; 0: it was taken. */
int64_t lease_ends_ms(const struct lease *l);
/* How long the driver may sleep before it must look again. */
int64_t lease_wait_ms(const struct lease *l, int64_t now_ms);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * lease.h: a worker's lease, as a step function over (state, event, now). No I/O: the driver renews
 * when this says so, and reports the result.
 *
 * The time since the last confirmed renewal counts from before it was sent, on a clock that keeps
 * counting during a suspend (milliseconds of CLOCK_BOOTTIME).
 */
#ifndef LIFE_LEASE_H
#define LIFE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

struct lease_rules {
	int64_t lease_ms; /* LEASE_USUAL_MS */
	int64_t beat_ms;  /* 5000 */
	int64_t retry_ms; /* 250: pause before a failed renewal is repeated */
};

#define LEASE_USUAL_MS 15000
#define LEASE_LEAST_MS 600     /* a beat of 200 ms leaves time for its round trip */
#define LEASE_MOST_MS 86400000 /* where only age tells, a dead worker's jobs wait so long */
/*
 * The rules for a lease of this length: three beats per lease, and a quick retry after a failure.
 */
struct lease_rules lease_rules_of(int64_t lease_ms);
/*
 * The time limit of a call on the session that renews. Opening another session may take twice as
 * long: a call that hangs followed by a slow connect still leaves time for a renewal.
 */
int64_t lease_call_ms(const struct lease_rules *rules);

enum lease_contact {
	CONTACT_GOOD,    /* renewed within about one beat */
	CONTACT_LOST,    /* a renewal failed or is late: stop claiming, finish running jobs, spool */
	CONTACT_EXPIRED, /* the lease has expired by our own clock: exclusive work must stop */
	CONTACT_TAKEN,   /* the database said LEASE_LOST: all running jobs are no longer ours */
};

struct lease {
	struct lease_rules rules;
	int64_t confirmed_ms; /* when the last successful renewal was *sent* */
	int64_t sent_ms;      /* when the pending renewal was sent; 0: none */
	int64_t next_ms;      /* when the next one is due */
	int failed;           /* failed renewals since the last confirmed one */
	bool taken;
};

/* A lease just granted by a registration that was sent at `sent_ms`. */
void lease_init(struct lease *l, const struct lease_rules *rules, int64_t sent_ms);
/* Should a renewal be sent now? Marks it as sent. */
bool lease_renew_due(struct lease *l, int64_t now_ms);
/* Something happened that may make others doubt this worker: renew at the next opportunity. */
void lease_renew_soon(struct lease *l, int64_t now_ms);
enum lease_answer { RENEWED, RENEW_FAILED, RENEW_REFUSED };
void lease_renew_answer(struct lease *l, enum lease_answer answer, int64_t now_ms);
enum lease_contact lease_contact(const struct lease *l, int64_t now_ms);
/* When it expires by our own clock, if it is not renewed; 0: it was taken. */
int64_t lease_ends_ms(const struct lease *l);
/* How long the driver may sleep before the next step. */
int64_t lease_wait_ms(const struct lease *l, int64_t now_ms);

#endif

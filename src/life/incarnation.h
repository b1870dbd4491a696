/* SPDX-License-Identifier: Apache-2.0
 * incarnation.h: the identity of a worker. A name is stable; an incarnation is new at every start,
 * so that a worker that was declared dead is never confused with the one that now has its name or
 * its pid.
 */
#ifndef LIFE_INCARNATION_H
#define LIFE_INCARNATION_H

#include "base/fail.h"

#include <sys/types.h>

struct incarnation {
	char host[65];
	char boot_id[37]; /* of the running kernel */
	uint64_t pid_ns;  /* inode of the PID namespace: pids are only valid within one */
	uint64_t time_ns; /* of the time namespace: start times are only valid within one; 0: there are
	                     none */
	pid_t pid;
	uint64_t start; /* clock ticks after boot at which the process started (guards pid reuse); 0:
	                   not known */
	char nonce[17]; /* 64 random bits in hex */
};

/* This process, with a new nonce. */
MUST_CHECK defib_err incarnation_self(struct incarnation *out, struct failure *f);
/* "host/boot/pidns/timens/pid/start/nonce": stored, and sent with every write. */
void incarnation_text(const struct incarnation *i, char *out, size_t size);
MUST_CHECK bool incarnation_parse(const char *text, struct incarnation *out);
/* Same kernel and PID namespace: its exit can be seen from here (life/process.h). */
bool incarnation_same_host(const struct incarnation *a, const struct incarnation *b);

/* ---- a worker as its row in the registry describes it ---- */

/* Decisions about life use these structs and no database. */

/*
 * The end of a worker's id, nine random digits: what tells workers apart whose numbers are equal.
 * It is also the key of the lock that its sessions hold, because a lock has no room for the id.
 */
#define WORKER_NONCES INT64_C(1000000000)
static inline int64_t worker_nonce(int64_t id)
{
	return id % WORKER_NONCES;
}

struct registered {
	int64_t id;
	struct incarnation who;
	bool expired; /* its lease has expired, by the database's clock */
	/*
	 * The database itself has not been up long enough for the worker to renew: its expired lease
	 * proves nothing.
	 */
	bool excused;
	int64_t lease_us; /* its length */
	int64_t stamp_us; /* of its last renewal: a different one proves that it is alive, whatever the
	                     clock says */
	int64_t now_us;   /* the database's clock */
	const char *serves; /* names of watches, one per line; NULL: not known */
};

#define ENDED_UNSEEN (-1)
/* Why a worker is considered dead, and what must still hold when its row is locked. */
struct death {
	const char *cause;
	int64_t stamp_us; /* only if this is still its last renewal; 0: not required */
	int64_t
		unheard_ms; /* only if it has not renewed for this long before this call; 0: not required */
	int64_t
		clock_us; /* … before this time, which its clock must show approximately; 0: not required */
	int64_t ago_us; /* how long ago it ended; ENDED_UNSEEN: some time after its last renewal */
};

/* Whether a name is in the lines of `serves`; NULL (not known) matches any. */
bool serves_watch(const char *serves, const char *watch);
/* Whether there is a name that is none of these; NULL (not known): yes. */
bool serves_other(const char *serves, const char *const *watches, int n);

#endif

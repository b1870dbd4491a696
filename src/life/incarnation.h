/* SPDX-License-Identifier: Apache-2.0
 * incarnation.h: the identity of a worker. A name is stable; an incarnation is new at every start,
 * so that a worker that was declared dead is never confused with the one that now has its name or
 * its pid.
 */
#ifndef LIFE_INCARNATION_H
#define LIFE_INCARNATION_H

#include "base/fail.h"

#include <stdint.h>
#include <sys/types.h>

struct incarnation {
	char host[65];
	char boot_id[37]; /* of the running kernel */
	uint64_t pid_ns;  /* inode of the PID namespace: pids are only valid within one */
	pid_t pid;
	uint64_t start; /* clock ticks after boot at which the process started (guards pid reuse) */
	char nonce[17]; /* 64 random bits in hex */
};

/* This process, with a new nonce. */
MUST_CHECK defib_err incarnation_self(struct incarnation *out, struct failure *f);
/* "host/boot/ns/pid/start/nonce": stored, and sent with every write. */
void incarnation_text(const struct incarnation *i, char *out, size_t size);
MUST_CHECK bool incarnation_parse(const char *text, struct incarnation *out);
/* Same kernel and PID namespace: its exit can be seen from here. */
bool incarnation_same_host(const struct incarnation *a, const struct incarnation *b);
/* Start time of a process from /proc; 0: no such process. */
uint64_t process_start(pid_t pid);

#endif

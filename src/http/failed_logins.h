/*
 * failed_logins.h: who has shown wrong tokens too often of late, by address: a bucket each that
 * leaks. The table is bounded: the address not heard of for the longest makes room.
 * IPv6 addresses count by their network (/64), which is what one host is given.
 *
 * Pure over (state, address, now); callers lock.
 */
#ifndef HTTP_FAILED_LOGINS_H
#define HTTP_FAILED_LOGINS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define STRIKES_MAX 10     /* at once, then … */
#define STRIKE_MS 10000    /* … one in this time */
#define STRIKE_PLACES 1024 /* addresses that are remembered */

struct failed_login {
	uint64_t who;    /* 0: free */
	int64_t fill_ms; /* as of `at_ms`: STRIKE_MS for each strike that has not leaked yet */
	int64_t at_ms;
};

struct failed_logins {
	struct failed_login rows[STRIKE_PLACES];
};

/* A number for an address, never 0. */
uint64_t failed_logins_who(const struct sockaddr *from);
/* Seconds until it may try again; 0: now. */
int64_t failed_logins_wait_s(const struct failed_logins *s, uint64_t who, int64_t now_ms);
/* It showed a wrong one. */
void failed_logins_add(struct failed_logins *s, uint64_t who, int64_t now_ms);

#endif

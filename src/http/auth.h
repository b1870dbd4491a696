/* SPDX-License-Identifier: Apache-2.0
 * auth.h: who the caller is, and what it may do.
 *
 * Tokens come from files or the environment, never from the command line. They are compared in
 * constant time, all of them each time. Failures from one address are limited. Without any token
 * only loopback is served, and every caller is admin; a viewer never sees what a watch masks.
 *
 * Any web page could make a browser on loopback send requests without a token. So requests with a
 * Host that is not ours, and requests that say they come from another site, are refused
 * (auth_from_here()). Pure: time is a parameter.
 */
#ifndef HTTP_AUTH_H
#define HTTP_AUTH_H

#include "daemon/settings.h"

#include <sys/socket.h>

struct auth;

/* Reads the secrets of all tokens; the result is constant and threads may share it. */
MUST_CHECK defib_err auth_load(const struct service *s, const char *(*env)(const char *name),
                               struct auth **out, struct failure *f);
void auth_free(struct auth *a);
/* Whether any token is configured: without one, every caller is admin (on loopback). */
bool auth_has_tokens(const struct auth *a);

struct identity {
	enum role role;
	const char *actor; /* "web:NAME"; lives as long as the struct auth */
};

enum auth_answer { AUTH_KNOWN, AUTH_ABSENT, AUTH_WRONG };
/* The identity behind the header "Authorization: Bearer …"; NULL: there was none. */
enum auth_answer auth_who(const struct auth *a, const char *authorization, struct identity *out);

/* What a browser says about the origin of a request; NULL: it did not say. */
struct asked_from {
	const char *method;
	const char *host, *origin, *fetch_site;
	const char *listen; /* the address we listen at, without port: "127.0.0.1", "::" */
};
/* Why a request is refused as not meant for us (with its status), or NULL. */
const char *auth_from_here(const struct asked_from *q, const struct text_list *hosts, int *status);

#define FAILED_LOGINS_MAX 10   /* at once, then … */
#define FAILED_LOGIN_MS 10000  /* … one in this time */
#define FAILED_LOGIN_ROWS 1024 /* addresses that are remembered */

struct failed_login {
	uint64_t who;    /* 0: free */
	int64_t fill_ms; /* as of `at_ms`: FAILED_LOGIN_MS for each failure that has not leaked yet */
	int64_t at_ms;
};

struct failed_logins {
	struct failed_login rows[FAILED_LOGIN_ROWS];
};

/* A number for an address, never 0. */
uint64_t failed_logins_who(const struct sockaddr *from);
/* Seconds until it may try again; 0: now. */
int64_t failed_logins_wait_s(const struct failed_logins *s, uint64_t who, int64_t now_ms);
/* It sent a wrong token. */
void failed_logins_add(struct failed_logins *s, uint64_t who, int64_t now_ms);

#endif

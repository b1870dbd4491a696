/* SPDX-License-Identifier: Apache-2.0
 * api_values.h: the address, the parameters and the body of a call, and problems.
 */
#ifndef HTTP_API_VALUES_H
#define HTTP_API_VALUES_H

#include "http/api.h"

#define URI_MAX 8192 /* bytes of the whole, as sent */
#define URI_PARTS_MAX 12
#define URI_PAIRS_MAX 64

struct uri {
	const char *parts[URI_PARTS_MAX];
	int nparts;
	struct {
		const char *name, *value;
	} pairs[URI_PAIRS_MAX];
	int npairs;
};

/* Everything lives in the arena. Returns NULL, or why it is refused. */
const char *uri_parse(const char *target, struct arena *a, struct uri *out);

/* The part of a target that may be logged: its path. A query can contain a token. */
const char *uri_loggable(const char *target, struct arena *a);

/* Query parameters; NULL: not given. */
const char *api_query(const struct api_call *c, const char *name);
/* All values of a parameter that may be repeated; the next after `at` (0: the first). */
const char *api_query_next(const struct api_call *c, const char *name, int *at);
/* A number within bounds; false after answering with a problem. */
bool api_query_int(struct api_call *c, const char *name, int64_t least, int64_t most, int64_t *n);
/* "90s", "7d" as microseconds; false after answering with a problem. */
bool api_query_duration(struct api_call *c, const char *name, int64_t *us);
/* Members of the body; false after answering with a problem. Absent or null: *out stays. */
bool api_body_text(struct api_call *c, const char *name, const char **out);
bool api_body_int(struct api_call *c, const char *name, int64_t least, int64_t most, int64_t *out);
bool api_body_bool(struct api_call *c, const char *name, bool *out);
/* Whether it names an event of the ledger, or is NULL; false after answering with a problem. */
bool api_event_known(struct api_call *c, const char *event);
/* Refuses members (parameters) that are not in `names`, which are separated by spaces. */
bool api_body_takes(struct api_call *c, const char *names);
bool api_query_takes(struct api_call *c, const char *names);

/* The watch, masked for the caller's role; see viewer_watch(). */
const struct watch *api_seen(struct api_call *c, const struct watch *w);
/* The caller, who reads records of this watch; NULL: of no watch, or of one that is not configured.
 */
struct viewer api_viewer(struct api_call *c, const struct watch *w);
/*
 * Problem details (RFC 9457): {"type":"about:blank","title":…,"status":…,"detail":…,"next":…}.
 * Returns false, so that callers can write `return api_problem(…)`.
 */
bool api_problem(struct api_call *c, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
/*
 * The same from a failure; its class decides the status (a lost database: 503, Retry-After). A text
 * that a key's type does not accept is the caller's mistake (400), not the database's.
 */
bool api_failed(struct api_call *c, const struct failure *f);
/* The same with a status that the handler chose. */
bool api_failed_as(struct api_call *c, int status, const struct failure *f);
void api_header(struct api_call *c, const char *name, const char *value);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * propose_try.h: asks the database what a proposed watch would find, and writes it as YAML.
 */
#ifndef SETUP_PROPOSE_TRY_H
#define SETUP_PROPOSE_TRY_H

#include "setup/propose.h"

/* What a watch currently finds. */
struct proposal_seen {
	int64_t running, stuck;
	bool looked; /* if not, it took too long */
	bool running_capped, stuck_capped;
	bool has_oldest;
	int64_t oldest_us;
	double runs; /* whose times are known */
	int64_t p99_us;
};

/*
 * The same with the contents of running rows: once it is known which rows run, columns are judged
 * by their values there.
 */
void propose_seen(struct store *s, struct table_facts *t, struct arena *a, struct proposal *out);
/* "2 of 3 running rows": how many a first scan --fix would change; NULL: none. */
const char *seen_would_act(const struct proposal_seen *seen, struct arena *a);
/*
 * The watch as a list entry in YAML, indented under `watches:`. `database` is its database if that
 * is not the first one, else NULL. An incomplete watch is written as comments only.
 */
void proposal_yaml(const struct proposal *p, const char *database, struct buf *out);
/* A scalar in YAML: plain if that is safe, else in double quotes. */
void yaml_scalar(const char *text, struct buf *out);
/* Comment lines of a readable width, for any text. */
void yaml_comment(const char *indent, const char *text, struct buf *out);

/* Scan with a watch, proposed or not; what takes too long stays unknown. */
void watch_seen(struct store *s, const struct watch_sql *q, struct arena *a,
                struct proposal_seen *seen);

/*
 * Bind the proposed watch to the database and scan: the evidence and, if enough runs are known, the
 * threshold go into the proposal. A failure means that the proposal or the database is at fault;
 * numbers that take too long are left out.
 */
MUST_CHECK defib_err proposal_try(struct store *s, struct proposal *p, struct arena *a,
                                  struct proposal_seen *seen, struct failure *f);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * doctor_check.h: what the checks of doctor share: the database and watch under examination, and
 * functions to query and to report.
 */
#ifndef SETUP_DOCTOR_CHECK_H
#define SETUP_DOCTOR_CHECK_H

#include "ledger/ledger.h"
#include "setup/doctor.h"
#include "watch/compile.h"

/* How far a watch got: checks that need more are skipped. */
enum examined { STAGE_NONE, STAGE_FITS, STAGE_READS, STAGE_BOUNDED };

/* For tables of at least this many rows, reading the whole table is a FAIL. */
#define LARGE_TABLE_ROWS 10000

struct examination {
	const struct doctor *doctor;
	struct store *store;
	const char *check; /* id of the current one */
	struct arena arena;
	const char *role, *dbname; /* quoted; PostgreSQL only */
	bool ledger_usable;        /* it exists, or the first --fix can create it */
	const char *ledger_fix;

	/* The watch under examination; NULL while the database itself is examined. */
	const struct watch *watch;
	const char *table; /* quoted */
	struct binding binding;
	struct watch_sql sql;
	enum examined stage;

	/* The watches before it whose scans are bounded, so that their conditions may be read. */
	const struct binding **before;
	int nbefore;
};

/* Report a finding. `fix` may be NULL. */
void found(struct examination *x, enum finding_level level, const char *fix, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* Report that the check itself failed. */
void unclear(struct examination *x, struct failure *f);
/* Run one query in a read-only transaction of its own. */
MUST_CHECK defib_err ask(struct examination *x, const char *sql, const struct store_param *params,
                         int nparams, struct store_rows *rows, struct failure *f);
/* The same; a failure becomes a finding, and the result is false. */
bool asked(struct examination *x, const char *sql, const struct store_param *params, int nparams,
           struct store_rows *rows);
/* ask() with a short time limit: DEFIB_TIMEOUT if it takes longer. */
#define WITHIN_MS 2000
MUST_CHECK defib_err ask_within(struct examination *x, const char *sql, struct store_rows *rows,
                                struct failure *f);
/* "2h 5m", in the arena. */
const char *span(struct examination *x, int64_t us);
/* "12,345", in the arena. */
const char *grouped(struct examination *x, int64_t n);

/* The name of the watch's table without its schema and quotes. */
const char *bare_table(struct examination *x);

#endif

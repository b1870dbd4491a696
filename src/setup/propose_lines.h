/* SPDX-License-Identifier: Apache-2.0
 * propose_lines.h: what propose.c found about a table, as lines of a watch.
 */
#ifndef SETUP_PROPOSE_LINES_H
#define SETUP_PROPOSE_LINES_H

#include "setup/propose.h"

/* How running rows are distinguished from the others. */
enum running_by { BY_NOTHING, BY_STATE, BY_FLAG, BY_LOCK, BY_OWNER, BY_TIMES };

enum sign_of {
	SIGN_OF_NOTHING,
	SIGN_OF_BEAT,
	SIGN_OF_LEASE,
	SIGN_OF_LOCK,
	SIGN_OF_UPDATE,
	SIGN_OF_START,
	SIGN_OF_DEADLINE
};

/* What was found; missing columns are NULL. */
struct found_columns {
	const struct table_facts *t;
	struct arena *a;
	struct proposal *out;
	enum running_by by;
	const struct table_column *state, *flag, *lock, *started, *finished;
	const struct table_column *owner, *error, *attempts, *max, *kind, *updated;
	const struct column_value *running, *ready, *failed;
	const char *running_check;     /* what must be checked; NULL: certain */
	bool running_sure, ready_sure; /* running_sure: such a table is a queue */
	enum sign_of sign_of;
	const struct table_column *sign;     /* in the table itself, or … */
	const struct related_table *related; /* … in another one */
};

/*
 * The column has no values where it matters: in the running rows, or, if there are none, in any
 * row.
 */
bool column_is_empty(const struct table_facts *t, const struct table_column *c);
/* "Processing": the text by which a state is recognised, its label if it has one. */
const char *value_word(const struct column_value *v);
/* How its time is stored: "" (the type says it), "epoch", "epoch_ms", "text". */
const char *time_type_of(const struct table_facts *t, const struct table_column *c);
/* All lines except those that evidence from the database adds later. */
void propose_lines(struct found_columns *f);

#define REPORT_ONLY "[{do: report}]"
/* Add the line that makes the watch only report, unless it is there. */
void proposal_report_only(struct proposal *p);

#endif

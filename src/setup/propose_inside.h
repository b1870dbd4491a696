/* SPDX-License-Identifier: Apache-2.0
 * propose_inside.h: what the parts of the proposer share: propose.c, which finds
 * the columns, and propose_lines.c, which makes lines of a watch of them.
 */
#ifndef SETUP_PROPOSE_INSIDE_H
#define SETUP_PROPOSE_INSIDE_H

#include "setup/propose.h"

/* How the rows that are being worked on are told from the others. */
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

/* What was found; columns that are not there are NULL. */
struct finding {
	const struct table_facts *t;
	struct arena *a;
	struct proposal *out;
	enum running_by by;
	const struct table_column *state, *flag, *lock, *started, *finished;
	const struct table_column *owner, *error, *attempts, *max, *kind, *updated;
	const struct column_value *running, *ready, *failed;
	const char *running_check;     /* what is to be asked of it; NULL: it is sure */
	bool running_sure, ready_sure; /* running_sure: such a table is a queue */
	enum sign_of sign_of;
	const struct table_column *sign;     /* in the table itself, or … */
	const struct related_table *related; /* … in another one */
};

/* Nothing is written there where it matters: in the rows in work; where there are none, anywhere.
 */
bool column_is_empty(const struct table_facts *t, const struct table_column *c);
/* "Processing": the text by which a state is recognised, its label where it has one. */
const char *value_word(const struct column_value *v);
/* How its time is written: "" (the type says it), "epoch", "epoch_ms", "text". */
const char *time_type_of(const struct table_facts *t, const struct table_column *c);
/* All lines but those that evidence of the database adds later. */
void propose_lines(struct finding *f);

#endif

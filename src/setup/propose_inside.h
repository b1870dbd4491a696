/* SPDX-License-Identifier: Apache-2.0
 * propose_inside.h: what the parts of the proposer share: propose.c, which finds the columns by
 * their names, propose_lines.c, which makes lines of a watch of them, and table_facts.c.
 *
 * Names and values are compared as snake case: lockedAt, LOCKED_AT and "locked at" are all
 * locked_at. Lists begin with the word that says most.
 */
#ifndef SETUP_PROPOSE_INSIDE_H
#define SETUP_PROPOSE_INSIDE_H

#include "setup/propose.h"
#include "setup/table_facts.h"

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

/* ---- words by which people name columns and states of work ---- */

extern const char *const words_state[], *const words_flag[];
extern const char *const words_beat[], *const words_lease[], *const words_lock[];
extern const char *const words_updated[], *const words_started[], *const words_deadline[];
extern const char *const words_finished[], *const words_owner[], *const words_error[];
extern const char *const words_attempts[], *const words_max[], *const words_kind[];
extern const char *const words_show[];
extern const char *const words_queue[], *const words_handed[], *const words_flag_of_work[];
/* When a job ended without success; which worker has a row, where no other column says so. */
extern const char *const words_ended_badly[], *const words_holder[];
/* Values: surely being worked on; perhaps; on the way to an end. */
extern const char *const values_running[], *const values_maybe[], *const values_stopping[];
/* Begun, though nothing says where it waited; what waits in one system and runs in another; its
 * company in the latter. */
extern const char *const values_begun[], *const values_pending[], *const values_queued[];
extern const char *const values_ready[], *const values_failed[], *const values_over[];

void snake_case(const char *text, char *out, size_t size);
/* The place of the word that `text` is, or ends with behind a '_'; -1: none. */
int word_rank(const char *const *words, const char *text);
/* The same without the ending: the whole must be the word. */
int word_exact(const char *const *words, const char *text);

/* The column that is named best, of those that `fits`; whole names before endings. */
typedef bool (*column_fits)(const struct table_facts *t, const struct table_column *c);
const struct table_column *column_named(const struct table_facts *t, const char *const *words,
                                        column_fits fits);
bool fits_any(const struct table_facts *t, const struct table_column *c);
bool fits_time(const struct table_facts *t, const struct table_column *c);
bool fits_text(const struct table_facts *t, const struct table_column *c);
bool fits_owner(const struct table_facts *t, const struct table_column *c);

#endif

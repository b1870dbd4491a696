/* SPDX-License-Identifier: Apache-2.0
 * propose_words.h: words that are commonly used for columns and states of work.
 *
 * Names and values are compared as snake case: lockedAt, LOCKED_AT and "locked at" are all
 * locked_at. Lists begin with the most specific word.
 */
#ifndef SETUP_PROPOSE_WORDS_H
#define SETUP_PROPOSE_WORDS_H

#include "setup/table_facts.h"

extern const char *const words_state[], *const words_flag[];
extern const char *const words_beat[], *const words_lease[], *const words_lock[];
extern const char *const words_updated[], *const words_started[], *const words_deadline[];
extern const char *const words_finished[], *const words_owner[], *const words_error[];
extern const char *const words_attempts[], *const words_max[], *const words_kind[];
extern const char *const words_show[];
extern const char *const words_queue[], *const words_handed[], *const words_flag_of_work[];
/* When a job ended without success; which worker has a row, if no other column says so. */
extern const char *const words_ended_badly[], *const words_holder[];
/* Values: certainly running; perhaps; about to end. */
extern const char *const values_running[], *const values_maybe[], *const values_stopping[];
/*
 * Started, although nothing says where it waited; values that mean waiting in one system and
 * running in another; values that accompany them in the latter.
 */
extern const char *const values_begun[], *const values_pending[], *const values_queued[];
extern const char *const values_ready[], *const values_failed[], *const values_over[];

void snake_case(const char *text, char *out, size_t size);
/* The index of the word that `text` is, or ends with after a '_'; -1: none. */
int word_rank(const char *const *words, const char *text);
/* The same without endings: the whole text must be the word. */
int word_exact(const char *const *words, const char *text);

/* The column with the best name, of those that `fits`; whole names before endings. */
typedef bool (*column_fits)(const struct table_facts *t, const struct table_column *c);
const struct table_column *column_named(const struct table_facts *t, const char *const *words,
                                        column_fits fits);
bool fits_any(const struct table_facts *t, const struct table_column *c);
bool fits_time(const struct table_facts *t, const struct table_column *c);
bool fits_text(const struct table_facts *t, const struct table_column *c);
bool fits_owner(const struct table_facts *t, const struct table_column *c);

#endif

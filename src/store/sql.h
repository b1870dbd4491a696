/* SPDX-License-Identifier: Apache-2.0
 * sql.h: what the text of a statement says about it, without parsing SQL.
 *
 * The answers err on the safe side: a statement that might write counts as one
 * that does, because a lost reply to it must be read again and never assumed.
 */
#ifndef STORE_SQL_H
#define STORE_SQL_H

#include <stdbool.h>

/* BEGIN, COMMIT, SAVEPOINT and the like: transactions go through store_begin and its kin. */
bool sql_controls_transaction(const char *sql);
/*
 * A query without a word that writes. A SELECT that calls a function which
 * writes is not recognised: run such a call inside a transaction.
 */
bool sql_only_reads(const char *sql);
/* Nothing but white space, comments and semicolons. */
bool sql_is_blank(const char *sql);

#endif

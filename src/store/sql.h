/* SPDX-License-Identifier: Apache-2.0
 * sql.h: text of SQL: quoting, and what a statement is.
 */
#ifndef STORE_SQL_H
#define STORE_SQL_H

#include "base/text.h"
#include "store/store.h"

/* An identifier, quoted for either engine: a"b -> "a""b". Takes one part, not a dotted name. */
void sql_ident(struct buf *out, const char *name);
/* "schema.table" or "table", split at dots outside double quotes, each part quoted. */
void sql_table(struct buf *out, const char *name);
/*
 * A string literal, for text that is printed for people or must be part of DDL; never for values.
 */
void sql_literal(struct buf *out, const char *text);

/*
 * A part with its pieces, which end with a NULL name; text of a piece is not read again. A line
 * that consists of an empty piece is left out.
 */
void sql_fill(struct buf *out, const char *part, const struct sql_piece *pieces);

/*
 * BEGIN, COMMIT, SAVEPOINT and the like: transactions go through store_begin() and related calls.
 */
bool sql_controls_transaction(const char *sql);
/*
 * A query without a word that writes. A SELECT that calls a function that writes is not detected:
 * run such a call inside a transaction.
 */
bool sql_only_reads(const char *sql);
/* Nothing but white space, comments and semicolons. */
bool sql_is_blank(const char *sql);

#endif

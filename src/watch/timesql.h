/* SPDX-License-Identifier: Apache-2.0
 * timesql.h: the five ways in which tables store time, as SQL on both engines.
 *
 * Comparisons are made in the column's own form, so that an index on it can be used. Instants leave
 * the database as microseconds since 1970. A time without a zone (TIME_TYPE_UTC) is in the watch's
 * time_zone if it has one, else in UTC.
 */
#ifndef WATCH_TIMESQL_H
#define WATCH_TIMESQL_H

#include "watch/bind.h"

/* The database's clock, in microseconds. */
const char *sql_now_us(enum store_engine engine);
/*
 * An expression of a time type as microseconds; null stays null, and a value that is not a time
 * becomes null.
 */
void sql_time_us(const struct binding *b, enum time_type time, const char *expr, struct buf *out);
/*
 * The condition that a value is present but cannot be read as a time. False if the column's type
 * (as the database writes it) rules that out.
 */
bool sql_time_unreadable(const struct binding *b, enum time_type time, const char *type,
                         const char *expr, struct buf *out);
/* An expression in the form in which it is compared and ordered. */
void sql_time_comparable(const struct binding *b, enum time_type time, const char *expr,
                         struct buf *out);
/* Its PostgreSQL type in that form, to cast a parameter back. */
const char *sql_time_comparable_type(enum time_type time, const char *column_type);
/*
 * "Now minus the threshold" in the comparable form. With a kind expression and thresholds by kind
 * it is exact for each kind; otherwise it uses the smallest threshold.
 */
void sql_time_cutoff(const struct binding *b, enum time_type time, const struct threshold *t,
                     const char *kind_expr, struct buf *out);
/* Microseconds as a value of the watch's own time type. */
void sql_time_value(const struct binding *b, const char *us_expr, struct buf *out);
/*
 * The same in the form of the target column; if `column` is NULL or not a time: in the watch's own
 * form.
 */
void sql_time_value_for(const struct binding *b, const char *column, const char *us_expr,
                        struct buf *out);

#endif

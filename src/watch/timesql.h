/* SPDX-License-Identifier: Apache-2.0
 * timesql.h: the five ways in which tables write time, as SQL on both engines.
 *
 * Comparisons are made in the column's own form, so that an index on it can
 * serve; instants leave the database as microseconds since 1970. A time without a zone
 * (TIME_TYPE_UTC) is one of the watch's time_zone where it has one, else UTC.
 */
#ifndef WATCH_TIMESQL_H
#define WATCH_TIMESQL_H

#include "watch/bind.h"

/* The database's clock, in microseconds. */
const char *sql_now_us(enum store_engine engine);
/* An expression of a time type as microseconds; null stays null, and what is no time is null. */
void sql_time_us(const struct binding *b, enum time_type time, const char *expr, struct buf *out);
/*
 * The condition under which it is there and cannot be read as a time; false where the column's type
 * (as the database writes it) leaves no such values.
 */
bool sql_time_unreadable(const struct binding *b, enum time_type time, const char *type,
                         const char *expr, struct buf *out);
/* An expression in the form in which it is compared and ordered. */
void sql_time_comparable(const struct binding *b, enum time_type time, const char *expr,
                         struct buf *out);
/* Its PostgreSQL type in that form, to cast a parameter back. */
const char *sql_time_comparable_type(enum time_type time, const char *column_type);
/*
 * "Now minus the threshold" in the comparable form. With a kind expression
 * and thresholds by kind it is exact for each kind; without, the least one.
 */
void sql_time_cutoff(const struct binding *b, enum time_type time, const struct threshold *t,
                     const char *kind_expr, struct buf *out);
/* Microseconds as a value of the watch's own time type. */
void sql_time_value(const struct binding *b, const char *us_expr, struct buf *out);
/* The same in the form of the column that it is written to; NULL, or no time: as the watch's. */
void sql_time_value_for(const struct binding *b, const char *column, const char *us_expr,
                        struct buf *out);

#endif

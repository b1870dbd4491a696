/* SPDX-License-Identifier: Apache-2.0
 * fellows.h: watching other processes of this host through pidfds. An exit is
 * seen within a fraction of a millisecond; the start time in the incarnation
 * guards against a reused pid.
 */
#ifndef LIFE_FELLOWS_H
#define LIFE_FELLOWS_H

#include "life/incarnation.h"

struct fellows;

MUST_CHECK defib_err fellows_open(struct fellows **out, struct failure *f);
void fellows_close(struct fellows *x); /* NULL is allowed */
/*
 * Watch exactly these workers; ids are chosen by the caller. Workers of other hosts are ignored.
 * Workers that are already gone (no such process, or another start time) are reported as dead by
 * the next fellows_dead(). A death is reported once while the incarnation stays in the set.
 */
void fellows_set(struct fellows *x, const int64_t *ids, const struct incarnation *who, int n);
/* A descriptor that becomes readable (poll, epoll) when a watched process has died. */
int fellows_fd(const struct fellows *x);
/*
 * The next death that was not reported yet; false: none. A dead worker is no longer watched.
 * `seen`: it ended while it was watched, so it died just now; else it was gone before.
 */
bool fellows_dead(struct fellows *x, int64_t *id, bool *seen);
int fellows_count(const struct fellows *x);

#endif

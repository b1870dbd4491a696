/* SPDX-License-Identifier: Apache-2.0
 * doctor_plan.h: doctor reads the plan of a scan, and advises an index.
 */
#ifndef SETUP_DOCTOR_PLAN_H
#define SETUP_DOCTOR_PLAN_H

#include "setup/doctor_check.h"

void check_plan(struct examination *x);
void check_plan_sqlite(struct examination *x);
/* A statement that creates an index, as advice: not on a view, but on the table behind it. */
const char *index_advice(struct examination *x, const char *statement);
/* Whether an index can be built without blocking writers: PostgreSQL, not a partitioned table. */
bool indexes_concurrently(struct examination *x);

#endif

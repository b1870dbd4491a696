/* SPDX-License-Identifier: Apache-2.0
 * doctor_rights.h: doctor's checks of privileges, of defib's own tables, and of code that others
 * own.
 */
#ifndef SETUP_DOCTOR_RIGHTS_H
#define SETUP_DOCTOR_RIGHTS_H

#include "ledger/schema.h"
#include "setup/doctor_check.h"

/* What the rights of a group are for. */
extern const char *const doctor_commands_of[RIGHTS_GROUPS];

void check_ledger(struct examination *x);
void check_sequences(struct examination *x);
void check_daemon_tables(struct examination *x);
void check_work_tables(struct examination *x);

/* False: code of the table's owner would run as a superuser: do not read it. */
bool check_code(struct examination *x);
/* Whether others can create in our schema. */
void check_schema(struct examination *x);
void check_read(struct examination *x);
void check_write(struct examination *x);
void check_policies(struct examination *x);
/* The GRANTs that a statement lacks, or NULL if they cannot be determined. */
const char *missing_grants(struct examination *x, const char *sql);

#endif

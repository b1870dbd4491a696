/* SPDX-License-Identifier: Apache-2.0
 * doctor_running.h: doctor compares `running` with the values in the table.
 */
#ifndef SETUP_DOCTOR_RUNNING_H
#define SETUP_DOCTOR_RUNNING_H

#include "setup/doctor_check.h"

/* Whether `running` matches existing rows. */
void check_running(struct examination *x);

#endif

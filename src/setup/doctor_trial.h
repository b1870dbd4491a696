/* SPDX-License-Identifier: Apache-2.0
 * doctor_trial.h: doctor tries remedies on a row, and rolls back.
 */
#ifndef SETUP_DOCTOR_TRIAL_H
#define SETUP_DOCTOR_TRIAL_H

#include "setup/doctor_check.h"

/* Whether its remedies work, tried on a row. */
void check_remedies(struct examination *x);
/* Whether the lists of `work:` do what they say, tried likewise. */
void check_lists(struct examination *x);

#endif

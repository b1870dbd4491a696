/* SPDX-License-Identifier: Apache-2.0
 * doctor_watch.h: doctor's checks of a watch.
 */
#ifndef SETUP_DOCTOR_WATCH_H
#define SETUP_DOCTOR_WATCH_H

#include "setup/doctor_check.h"

void check_fits(struct examination *x);
void check_types(struct examination *x);
void check_key(struct examination *x);
void check_look(struct examination *x);
void check_threshold(struct examination *x);
void check_owner(struct examination *x);
void check_loop(struct examination *x);
void check_hold(struct examination *x);
void check_signs(struct examination *x);
/* Whether its rows are also those of another watch. */
void check_overlap(struct examination *x);
/* Which sessions claim its rows. */
void check_attached(struct examination *x);

#endif

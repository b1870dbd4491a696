/* SPDX-License-Identifier: Apache-2.0
 * check.h: checks on a watch beyond its option table.
 */
#ifndef WATCH_CHECK_H
#define WATCH_CHECK_H

#include "watch/settings.h"

/* Checks on a watch beyond its option table (check.c). */
void watch_check(struct cfg_reader *r, const struct watch *w, enum store_engine engine);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * sampling.h: adds what is new to the series of the watches that are led.
 */
#ifndef DAEMON_SAMPLING_H
#define DAEMON_SAMPLING_H

#include "daemon/readings.h"

/* Adds what is new to the series of the watches that are led (sampling.c). */
MUST_CHECK defib_err sampling_take(struct store *s, struct watch_loop **loops, int n,
                                   struct failure *f);

#endif

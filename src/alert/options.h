/* SPDX-License-Identifier: Apache-2.0
 * options.h: reads `sinks:` and `alerts:`.
 */
#ifndef ALERT_OPTIONS_H
#define ALERT_OPTIONS_H

#include "alert/alerts.h"

extern const char *const sink_types[]; /* ends with NULL */

extern const struct section sinks_section, alerts_section;

#endif

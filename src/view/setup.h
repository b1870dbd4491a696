/* SPDX-License-Identifier: Apache-2.0
 * setup.h: what doctor found, and the effective configuration with the origin of each value.
 */
#ifndef VIEW_SETUP_H
#define VIEW_SETUP_H

#include "config/options.h"
#include "setup/doctor.h"

/* An object, whole. */
void finding_json(const struct finding *f, struct buf *out);
/* A line, and a second one with the fix. */
void finding_text(const struct finding *f, bool color, struct buf *out);

/* An array, whole. Secrets were masked when they were read. */
void config_json(const struct cfg_shown *shown, int n, struct buf *out);

#endif

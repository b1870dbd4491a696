/*
 * json_finding.h: what the doctor found.
 */
#ifndef VIEW_JSON_FINDING_H
#define VIEW_JSON_FINDING_H

#include "setup/doctor.h"

/* An object, whole. */
void finding_json(const struct finding *f, struct buf *out);

#endif

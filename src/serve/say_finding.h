/*
 * say_finding.h: what the doctor found.
 */
#ifndef SERVE_SAY_FINDING_H
#define SERVE_SAY_FINDING_H

#include "recover/doctor.h"

/* An object, whole. */
void finding_json(const struct finding *f, struct buf *out);

#endif

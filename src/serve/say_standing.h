/*
 * say_standing.h: how a watch stands, and what persons have said of it.
 */
#ifndef SERVE_SAY_STANDING_H
#define SERVE_SAY_STANDING_H

#include "serve/standing.h"

/* Objects, whole. */
void told_json(const struct told *t, struct buf *out);
void standing_json(const struct standing *st, struct buf *out);

#endif

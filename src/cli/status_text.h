/*
 * status_text.h: how a watch stands, for a person.
 */
#ifndef CLI_STATUS_TEXT_H
#define CLI_STATUS_TEXT_H

#include "cli/cli.h"
#include "serve/standing.h"

void standing_text(const struct standing *st, bool color, struct buf *out);

#endif

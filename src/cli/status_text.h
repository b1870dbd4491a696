/*
 * status_text.h: how a watch stands, for a person.
 */
#ifndef CLI_STATUS_TEXT_H
#define CLI_STATUS_TEXT_H

#include "cli/cli.h"
#include "view/watch_status.h"

void watch_status_text(const struct watch_status *st, bool color, struct buf *out);

#endif

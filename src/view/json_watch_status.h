/*
 * json_watch_status.h: how a watch stands, and what persons have said of it.
 */
#ifndef VIEW_JSON_WATCH_STATUS_H
#define VIEW_JSON_WATCH_STATUS_H

#include "view/watch_status.h"

/* Objects, whole. */
void override_json(const struct override *t, struct buf *out);
void watch_status_json(const struct watch_status *st, struct buf *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * api_watches.h: one watch as JSON: its configuration, and its state as the daemon that is
 * asked knows it.
 */
#ifndef HTTP_API_WATCHES_H
#define HTTP_API_WATCHES_H

#include "daemon/overview.h"
#include "watch/settings.h"

/* A watch where it is, with what the overview has of it. */
struct watch_view {
	const struct watch *watch;
	const struct database *database;
	bool builtin;                          /* it stands in no file */
	const struct overview_watch *overview; /* NULL: the daemon has nothing to do with it */
	int64_t now_ms, started_ms;            /* CLOCK_BOOTTIME; since when the daemon is there */
};

/* An object that is still open. */
void watch_json(const struct watch_view *v, struct buf *out);
/* What it is told to do: members for the same object. */
void watch_rules_json(const struct watch *w, struct buf *out);
/* What the configuration says of it, with origins: ,"config":[…] */
void watch_config_json(const struct watch *w, const struct settings *s, struct buf *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * api_watches.h: watches: their configuration, and their state as this daemon knows it.
 */
#ifndef HTTP_API_WATCHES_H
#define HTTP_API_WATCHES_H

#include "http/api.h"

/* A watch and its database, with its part of the overview. */
struct watch_view {
	const struct watch *watch;
	const struct database *database;
	bool builtin;                          /* it is in no file */
	const struct overview_watch *overview; /* NULL: the daemon does not handle it */
	int64_t now_ms, started_ms;            /* CLOCK_BOOTTIME; when the daemon started */
};

/* A struct watch_view; and the same with its configuration. */
extern const struct record watch_record, watch_detail_record, trend_record, claimed_record,
	status_record;
/* All records that only the API has; ends with NULL. */
extern const struct record *const api_records[];

#endif

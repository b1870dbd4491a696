/* SPDX-License-Identifier: Apache-2.0
 * schedule.h: "every 15m" as pg_cron, cron and systemd understand it.
 */
#ifndef CLI_SCHEDULE_H
#define CLI_SCHEDULE_H

#include "base/buf.h"

#include <stdint.h>

struct schedule {
	char cron[24];    /* "*\/15 * * * *", or "5 seconds" */
	int64_t every_us; /* what that means */
};

/* The next rhythm that cron knows; `seconds`: pg_cron 1.5 and later know those too. */
struct schedule schedule_for(int64_t every_us, bool seconds);

/* What somebody else than the database is to run, and when. */
struct timed_call {
	const char *name; /* of the watch */
	const char *url;  /* of the database; its password is left out */
	const char *sql;
	int64_t every_us;
};

/* A line for crontab(5). */
void schedule_cron_line(const struct timed_call *t, struct buf *out);
/* A service and a timer for systemd. */
void schedule_systemd(const struct timed_call *t, struct buf *out);

#endif

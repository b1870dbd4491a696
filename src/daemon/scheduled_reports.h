/* SPDX-License-Identifier: Apache-2.0
 * scheduled_reports.h: sends reports when they are due.
 *
 * Due times depend only on the clock, and a report's id on its name and due time: the leader adds
 * it to the outbox, and adding it again is ignored. So it is sent once, whichever daemon leads and
 * however often daemons are started. A report that was missed because no daemon ran is sent late,
 * within one day.
 *
 * With several databases, one database loop sends for all: that of the first one that the daemon
 * serves. A report may take seconds: it is made in its own thread, with its own sessions, and
 * delays no scan.
 */
#ifndef DAEMON_SCHEDULED_REPORTS_H
#define DAEMON_SCHEDULED_REPORTS_H

#include "alert/alerts.h"
#include "daemon/settings.h"

/* A time of the week, or of the day, in UTC. */
struct mailing_time {
	int weekday; /* 0: Monday; -1: none, a time of the day */
	int64_t us;  /* since midnight */
};

struct mailing {
	const char *name;
	int64_t every_us; /* whole days; whole weeks if a weekday is given */
	struct mailing_time at;
	int64_t since_us; /* the period that the report covers */
	int form;         /* index of report_form_names */
	struct text_list sinks;
	struct cfg_mark mark;
};

struct mailing_list {
	int n;
	struct mailing *items;
};

extern const struct section reports_section;

/* From a configuration that was read with this section. */
static inline const struct mailing_list *settings_reports(const struct settings *s)
{
	return s->sections[SECTION_REPORTS];
}

#define MAILING_LATE_US (INT64_C(86400) * 1000000)

/* The last time, not after `now_us`, at which it was due. Pure. */
int64_t mailing_due_us(const struct mailing *m, int64_t now_us);
/* "report/weekly@2026-11-16T08:00:00.000Z" */
void mailing_id(const struct mailing *m, int64_t due_us, struct buf *out);

struct scheduled_reports;
/* For one database loop; `setups` holds the configuration in force. */
struct scheduled_reports *scheduled_reports_new(struct live_settings_box *setups);
/*
 * One round: start what is due, if this loop sends: its database is the first that the daemon
 * serves, and it leads there. Never waits.
 */
void scheduled_reports_tick(struct scheduled_reports *m, const struct live_settings *setup,
                            const struct database *d, bool leads, int64_t now_us);
/* Waits for a report that is being made. */
void scheduled_reports_free(struct scheduled_reports *m);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * reports.h: reports that are sent by themselves, as the user described them: how
 * often, at what time of the week, over which period, and to which sinks. Plain data;
 * when one is due, daemon/scheduled_reports.h knows.
 */
#ifndef WATCH_REPORTS_H
#define WATCH_REPORTS_H

#include "config/options.h"
#include "watch/alerts.h"

/* The forms of a report: text, markdown, html, json, NULL. */
extern const char *const report_form_names[];

/* A time of the week, or of the day, in UTC. */
struct mailing_time {
	int weekday; /* 0: Monday; -1: none, it is a time of the day */
	int64_t us;  /* since midnight */
};

struct mailing {
	const char *name;
	int64_t every_us; /* whole days; whole weeks where a weekday is given */
	struct mailing_time at;
	int64_t since_us; /* the period that is reported */
	int form;         /* index of report_form_names */
	struct text_list sinks;
	struct cfg_mark mark;
};

struct mailing_list {
	int n;
	struct mailing *items;
};

extern const struct opt_row mailing_rows[];
/* Reads the list `reports:`; problems land in the reader. */
void read_mailings(struct cfg_reader *r, const struct cfg_node *node, void *target);
/* Sinks must be there, and of a kind that takes a document. */
void mailings_check(struct cfg_reader *r, const struct mailing_list *all,
                    const struct sink_list *sinks);

#endif

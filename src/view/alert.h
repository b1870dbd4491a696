/* SPDX-License-Identifier: Apache-2.0
 * alert.h: the state of alert rules, and the messages sent for them.
 */
#ifndef VIEW_ALERT_H
#define VIEW_ALERT_H

#include "alert/alert_store.h"
#include "view/output.h"

/* A rule that applies to a watch, and its state. */
struct alert_standing {
	struct alert_rule rule;
	const char *database, *watch; /* watch ALERT_ANY: the database as a whole */
	const struct alert_row *row;  /* NULL: it never fired */
};

/*
 * All rules for a database's watches, and for itself; rows of watches that are not configured (the
 * built-in queue) are included. The tables may be missing.
 */
MUST_CHECK defib_err alerts_standing(struct store *s, const struct settings *all,
                                     const struct database *d, struct arena *a,
                                     struct alert_standing **out, int *n, struct failure *f);
/* "above 10", "below 90 %"; "" if a rule has no limit. */
void alert_standing_json(const struct alert_settings *s, const struct alert_standing *st,
                         struct buf *out);
/* The newest messages; the tables may be missing. */
MUST_CHECK defib_err deliveries_of(struct store *s, int limit, struct arena *a,
                                   struct delivery_row **out, int *n, struct failure *f);
void delivery_json(const char *database, const struct delivery_row *row, struct buf *out);

/* A list under a name, in one document: {"alerts":[…]}, for the API. */
MUST_CHECK defib_err alerts_json(struct store *s, const struct settings *all,
                                 const struct database *d, struct arena *a, struct buf *out,
                                 int *count, struct failure *f);
MUST_CHECK defib_err deliveries_json(struct store *s, const struct database *d, int limit,
                                     struct arena *a, struct buf *out, int *count,
                                     struct failure *f);

/* Tables for a terminal: titles, then one row each. */
void alerts_head(struct table *t);
void alert_standing_row(struct table *t, const struct alert_standing *st);
void deliveries_head(struct table *t);
void delivery_row_text(struct table *t, const char *database, const struct delivery_row *r);

#endif

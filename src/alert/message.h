/* SPDX-License-Identifier: Apache-2.0
 * message.h: the text of an alert, and the forms in which receivers take it.
 *
 * A message is first a document (JSON). The outbox stores it, and a webhook or a command gets it
 * unchanged:
 *
 *   {"id": …, "kind": "alert", "status": "firing", "rule": "stuck_warning",
 *    "severity": "warning", "source": "defib", "database": "main", "watch": "pages",
 *    "value": 12, "limit": 10, "unit": "jobs", "fired_at": …, "at": …, "repeat": 0,
 *    "topic": "defib/main/pages/stuck_warning", "text": "WARNING pages (main): 12 jobs …"}
 *
 * A report or a test is a document too; for every kind, `text` is for people. Alertmanager and
 * PagerDuty take alerts and tests only.
 */
#ifndef ALERT_MESSAGE_H
#define ALERT_MESSAGE_H

#include "alert/rules.h"

#include <jansson.h>

struct alert_message {
	const struct alert_rule *rule;
	const char *source;   /* which installation sent it */
	const char *database; /* by its name in the configuration */
	const char *watch;    /* ALERT_ANY: of the database as a whole */
	const struct alert *alert;
	enum alert_change change;
	int64_t at_us;
	const char *link; /* a URL for people; NULL: not known */
};

/* Identifies the subject: receivers group messages by it. */
void message_topic(const struct alert_message *m, struct buf *out);
/* Unique, and the same whichever daemon makes it. */
void message_id(const struct alert_message *m, struct buf *out);
void message_document(const struct alert_message *m, struct buf *out);
/* What `defib alert test` sends; `status` "firing" or "resolved". */
void message_test(const char *source, const char *status, int64_t at_us, struct buf *out);

/* ---- forms ---- */

/* False: such a document has no such form (a report is not an alert). */
bool form_alertmanager(const json_t *document, struct buf *out);
bool form_pagerduty(const json_t *document, const char *key, struct buf *out);
/* A member's text; "" if it has none. */
const char *document_text(const json_t *document, const char *name);

#endif

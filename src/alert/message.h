/* SPDX-License-Identifier: Apache-2.0
 * message.h: what is said of an alert, and the forms that receivers want it in.
 *
 * A message is first a document (JSON), which is what the outbox keeps and what a
 * webhook or a command gets as it is:
 *
 *   {"id": …, "kind": "alert", "status": "firing", "rule": "stuck_warning",
 *    "severity": "warning", "source": "defib", "database": "main", "watch": "pages",
 *    "value": 12, "limit": 10, "unit": "jobs", "fired_at": …, "at": …, "repeat": 0,
 *    "topic": "defib/main/pages/stuck_warning", "text": "WARNING pages (main): 12 jobs …"}
 *
 * A report or a test is a document too; whatever its kind, `text` is for people. Alertmanager
 * and PagerDuty take alerts and tests only.
 */
#ifndef ALERT_MESSAGE_H
#define ALERT_MESSAGE_H

#include "alert/rules.h"
#include "base/text.h"

#include <jansson.h>

struct alert_message {
	const struct alert_rule *rule;
	const char *source;   /* which installation speaks */
	const char *database; /* by its name in the configuration */
	const char *watch;    /* ALERT_ANY: of the database as a whole */
	const struct alert *alert;
	enum alert_change change;
	int64_t at_us;
	const char *link; /* where people look; NULL: not known */
};

/* By what receivers tell that messages are of the same thing. */
void message_topic(const struct alert_message *m, struct buf *out);
/* Unlike any other's, and the same whoever makes it. */
void message_id(const struct alert_message *m, struct buf *out);
void message_document(const struct alert_message *m, struct buf *out);
/* What `defib alert test` sends; `status` "firing" or "resolved". */
void message_test(const char *source, const char *status, int64_t at_us, struct buf *out);

/* ---- forms ---- */

/* False: such a document has none (a report is no alert). */
bool form_alertmanager(const json_t *document, struct buf *out);
bool form_pagerduty(const json_t *document, const char *key, struct buf *out);
/* A member's text; "" where it has none. */
const char *document_text(const json_t *document, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * alert.h: the state of alert rules, and the messages sent for them.
 */
#ifndef VIEW_ALERT_H
#define VIEW_ALERT_H

#include "alert/alert_store.h"
#include "alert/sinks.h"
#include "view/record.h"

/* A struct alert_status. */
extern const struct record alert_record;
/* A sink, and what it answered to a message. */
struct sink_view {
	const struct alert_sink *sink;
	const struct sink_answer *answer; /* NULL: nothing was sent */
};
extern const struct record sink_record;
/* A struct delivery_row. */
extern const struct record delivery_record;

#endif

/* SPDX-License-Identifier: Apache-2.0
 * sender.h: messages on their way, a thread each while they are: a sink that hangs
 * keeps nobody waiting but its own next message. One a sink at a time.
 */
#ifndef DAEMON_SENDER_H
#define DAEMON_SENDER_H

#include "alert/outbox.h"
#include "alert/sinks.h"
#include "daemon/live_settings.h"

struct senders {
	struct live_settings_box *setups;
	int wake; /* eventfd: written when one comes back */
	atomic_bool stop;
	struct sender *away; /* a list */
};

struct sender_result {
	const char *sink; /* texts are the sender's: until senders_free_result() */
	struct delivery delivery;
	bool memory; /* the message is in no outbox */
	struct sink_answer answer;
	struct sender *sender;
};

/* Whether a message is on its way to that sink. */
bool senders_busy(const struct senders *c, const char *sink);
bool senders_any(const struct senders *c);
/* Send it; the texts are copied. `setup` is held until it is back. */
void senders_send(struct senders *c, struct live_settings *setup, const struct alert_sink *sink,
                  const struct delivery *d, bool memory);
/* One that is back, if any; `memory`: only such. */
bool senders_next(struct senders *c, bool memory, struct sender_result *out);
/* It could not be noted: it comes again. */
void senders_put_back(struct senders *c, struct sender_result *r);
void senders_free_result(struct senders *c, struct sender_result *r);
/* Those on their way are called back. */
void senders_recall(struct senders *c);

#endif

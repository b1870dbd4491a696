/*
 * courier.h: messages on their way, a thread each while they are: a sink that hangs
 * keeps nobody waiting but its own next message. One a sink at a time.
 */
#ifndef SERVE_COURIER_H
#define SERVE_COURIER_H

#include "alert/outbox.h"
#include "alert/sinks.h"
#include "serve/setup.h"

struct couriers {
	struct setup_box *setups;
	int wake; /* eventfd: written when one comes back */
	atomic_bool stop;
	struct courier *away; /* a list */
};

struct courier_result {
	const char *sink; /* texts are the courier's: until couriers_free_result() */
	struct delivery delivery;
	bool memory; /* the message is in no outbox */
	struct sink_answer answer;
	struct courier *courier;
};

/* Whether a message is on its way to that sink. */
bool couriers_busy(const struct couriers *c, const char *sink);
bool couriers_any(const struct couriers *c);
/* Send it; the texts are copied. `setup` is held until it is back. */
void couriers_send(struct couriers *c, struct setup *setup, const struct alert_sink *sink,
                   const struct delivery *d, bool memory);
/* One that is back, if any; `memory`: only such. */
bool couriers_next(struct couriers *c, bool memory, struct courier_result *out);
/* It could not be noted: it comes again. */
void couriers_put_back(struct couriers *c, struct courier_result *r);
void couriers_free_result(struct couriers *c, struct courier_result *r);
/* Those on their way are called back. */
void couriers_recall(struct couriers *c);

#endif

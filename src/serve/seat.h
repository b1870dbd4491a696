/*
 * seat.h: what a thread of a desk keeps between calls: a session that reads, one that
 * writes, and the watches that were bound to each. Sessions are opened when first
 * needed; a bound watch is good for one session and one configuration.
 */
#ifndef SERVE_SEAT_H
#define SERVE_SEAT_H

#include "serve/api.h"

#define SEAT_WATCHES_MAX 64

/* One session and what was bound in it. */
struct seat_side {
	struct session session;
	struct seat_watch *kept[SEAT_WATCHES_MAX];
	int nkept;
	int64_t opened; /* which opening of the session they belong to */
};

struct desk_seat {
	struct seat_side reads, writes;
	struct setup_box *setups;
	struct setup *setup; /* what is kept belongs to; held; NULL: nothing is kept */
};

void seat_init(struct desk_seat *s, struct setup_box *setups, const char *url, const char *name,
               int64_t timeout_ms);
/* Gives the call its session, open. */
MUST_CHECK defib_err seat_take(struct desk_seat *s, struct api_call *c, struct failure *f);
/* Nobody has come for a while: keep nothing. Also before a seat is given up. */
void seat_rest(struct desk_seat *s);

#endif

/*
 * station_lead.h: which of its watches a station leads (life/leader.h).
 */
#ifndef SERVE_STATION_LEAD_H
#define SERVE_STATION_LEAD_H

#include "serve/station.h"

/* Renew what is led and ask for what is not; says in the log what turns. */
MUST_CHECK defib_err station_ask_to_lead(struct station *s, struct failure *f);
/* The database is away: nothing is led until it was asked again. */
void station_step_down(struct station *s);

#endif

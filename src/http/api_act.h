/* SPDX-License-Identifier: Apache-2.0
 * api_act.h: acts on jobs, and what handlers that change something share. A change takes the path
 * of the command of the same name: the same guards, the same ledger, the same answer.
 */
#ifndef HTTP_API_ACT_H
#define HTTP_API_ACT_H

#include "http/api.h"

/* Overriding a guard requires an admin; false after answering with a problem. */
bool api_may_override(struct api_call *c, bool asked);
/* A key in the form of facts.h; NULL after answering with a problem: there is no such job. */
const char *api_job_named(struct api_call *c, const struct watch *w, const char *text);
/* A term of the call's watch (watch/terms.h); false after answering with a problem. */
bool api_term_named(struct api_call *c, const char *text, struct term *out);
/* The call's watch, ready for writes, with a ledger if there can be one. */
bool api_writable(struct api_call *c, struct bound *out);
/* A member that is a duration; false after answering with a problem. */
bool api_body_duration(struct api_call *c, const char *name, int64_t *us);

/* Answers 202 with the order, or a problem. */
struct background_order;
void call_background(struct api_call *c, const struct background_order *o, const struct bound *b);

#endif

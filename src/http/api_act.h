/* SPDX-License-Identifier: Apache-2.0
 * api_act.h: handlers that change something on a person's word. All of them go the way
 * of the command of the same name: the same guards, the same ledger, the same answer.
 *
 * api_act.c    the routes; one job, or many by name or terms
 * api_undo.c   take back a batch, or the newest change of a job
 * api_scan.c   one pass at once
 * api_overrides.c   words to the daemons: pause, resume, raise, override-guard
 */
#ifndef HTTP_API_ACT_H
#define HTTP_API_ACT_H

#include "http/api.h"
#include "recover/bound.h"
#include "watch/terms.h"

/* Whether the call is about the built-in queue. */
bool acts_on_queue(const struct api_call *c);
/* Going past a guard takes an admin; false after a problem was answered. */
bool may_override(struct api_call *c, bool asked);
/* A key as facts.h writes it; NULL after a problem was answered: there is no such job. */
const char *job_named(struct api_call *c, const struct watch *w, const char *text);
/* A term of the call's watch (watch/terms.h); false after a problem was answered. */
bool term_named(struct api_call *c, const char *text, struct term *out);
/* The call's watch, ready to be written to, with a ledger where there can be one. */
bool writable(struct api_call *c, struct bound *out);
/* A member that is a duration; false after a problem was answered. */
bool body_duration(struct api_call *c, const char *name, int64_t *us);

void call_act(struct api_call *c);
void call_acts(struct api_call *c);
void call_end(struct api_call *c);
void call_undo_job(struct api_call *c);
void call_undo(struct api_call *c);
void call_scan(struct api_call *c);
void call_set_override(struct api_call *c);
void call_clear_override(struct api_call *c);
void call_override_guard(struct api_call *c);

#endif

/*
 * api_delete.c: DELETE, and POST …/end, of a job: whoever asks wants it gone, and asks again
 * when he hears nothing. So the answer is 204 as soon as the row is marked (`end`), and
 * the same, with nothing written, when it is marked already or past it; what takes its
 * time is its worker's. A job of the built-in queue is cancelled.
 */
#include "http/api_act.h"

#include "base/text.h"
#include "recover/acts.h"
#include "recover/by_hand.h"
#include "recover/carry.h"
#include "worker/queue_cancel.h"
#include "worker/wake.h"

static void missing(struct api_call *c, const char *job)
{
	api_problem(c, 404, "watch %s has no job %s", c->watch->name, job);
}

static void end_in_queue(struct api_call *c, struct bound *b, const char *job, const char *reason)
{
	struct carrier name = {0};
	struct candidate one;
	struct failure f = {0};
	carrier_begin(&name, c->actor);
	const struct queue_cancel q = {
		.session = c->session, .bound = b, .actor = c->actor, .reason = reason, .batch = name.name};
	if (queue_cancel(&q, job, &c->arena, &one, &f)) {
		api_failed(c, &f);
	} else if (one.outcome == OUTCOME_MISSING) {
		missing(c, job);
	} else {
		/* Refused is what was over: it needs no end. */
		c->out->status = 204;
		if (one.outcome == OUTCOME_RECOVERED)
			wake_send(c->session->store, c->database->url);
	}
}

static void end_in_table(struct api_call *c, struct bound *b, const char *job, const char *reason)
{
	const struct end_options o = {.job = job,
	                              .actor = c->actor,
	                              .reason = reason,
	                              .ledger_off = c->setup->settings.ledger == LEDGER_OFF,
	                              .bound = b};
	struct failure f = {0};
	enum ending ending = ENDING_MISSING;
	defib_err err = end_job(c->session, c->watch, &o, &ending, &f);
	/* A text that the key's type cannot hold names no row. */
	if (err && strncmp(f.sqlstate, "22", 2) != 0)
		api_failed(c, &f);
	else if (ending == ENDING_MISSING)
		missing(c, job);
	else if (ending == ENDING_LOCKED)
		api_problem(c, 409, "job %s is locked by another transaction; try again", job);
	else
		c->out->status = 204;
}

void call_end(struct api_call *c)
{
	static const char *const members[] = {"reason", NULL};
	const char *reason = NULL;
	struct failure f = {0};
	struct bound bound;
	bool queue = acts_on_queue(c);
	const char *job = job_named(c, c->watch, c->parts[1]);
	if (!job || !api_body_takes(c, members) || !api_body_text(c, "reason", &reason))
		return;
	if (!queue && act_configured(act_kind_named("end"), c->watch, &f)) {
		api_failed_as(c, 422, &f);
		return;
	}
	if (!writable(c, &bound))
		return;
	if (queue)
		end_in_queue(c, &bound, job, reason);
	else
		end_in_table(c, &bound, job, reason);
}

/* SPDX-License-Identifier: Apache-2.0
 * worker_steps.c: what is run for a job of a workflow: its next step, or the
 * undo of its last one. For a child that is a program and what it reads, for a
 * handler a function. A job for which nothing has to be run is settled at once.
 */
#include "worker/worker_inside.h"

#include "base/log.h"
#include "watch/pass_environment.h"

#include <assert.h>

/* How long a job waits for a worker that knows its workflow. */
#define UNKNOWN_DELAY_MS 60000

/* Not for us: another worker, or this one after a look at its configuration, may know better. */
static bool leave_to_others(struct job *j, const char *why)
{
	struct buf text = BUF_INIT;
	buf_addf(&text, "kind %s: %s", j->claim.kind ? j->claim.kind : "none", why);
	log_event(LOG_ERROR, buf_text(&text), LOG_STR("job", j->claim.key));
	j->as = SETTLE_RETRY;
	j->delay_ms = UNKNOWN_DELAY_MS;
	j->error = buf_detach(&text);
	return false;
}

static bool nothing_to_run(struct job *j, const struct step_end *end, const char *result)
{
	job_at_step(j, end);
	j->as = SETTLE_DONE;
	j->result = result ? mem_strdup(result) : NULL;
	return false;
}

/* A job that is none of our workflows; it may still be one of somebody's. */
static bool plan_other(struct job *j, const struct worker_pool *p)
{
	static const struct step_end nothing_done = {.side = STEP_SIDE_UNDO};
	if (j->claim.undoing && !j->claim.steps)
		return nothing_to_run(j, &nothing_done, NULL);
	if (j->claim.undoing || j->claim.steps || !(p->command || p->handler))
		return leave_to_others(j, "this worker's configuration has no such workflow");
	return true;
}

static const struct workflow *workflow_of(const struct job *j, const struct worker_pool *p)
{
	const char *name = j->claim.workflow ? j->claim.workflow : j->claim.kind;
	return p->workflows ? workflow_named(p->workflows, name) : NULL;
}

bool steps_choose(struct job *j, const struct worker_pool *p, struct arena *a,
                  const struct workflow_step **step, struct step_records *recorded)
{
	const struct workflow *w = workflow_of(j, p);
	*step = NULL;
	if (!w)
		return plan_other(j, p);
	if (!step_records_parse(j->claim.steps, a, recorded))
		return leave_to_others(j, "the record of its steps cannot be read");
	struct step_choice c = workflow_choose(w, recorded, j->claim.undoing, a);
	if (!c.step)
		return nothing_to_run(j, &c.end, c.result);
	job_at_step(j, &c.end);
	*step = c.step;
	return true;
}

bool steps_plan(struct job *j, const struct worker_pool *p, struct child_options *o,
                struct arena *a)
{
	const struct workflow_step *step;
	struct step_records recorded;
	struct buf input = BUF_INIT;
	if (!steps_choose(j, p, a, &step, &recorded))
		return false;
	if (!step)
		return true;
	const struct text_list *argv = j->step_end.side == STEP_SIDE_UNDO ? &step->undo : &step->run;
	assert(argv->n > 0 && argv->items[argv->n] == NULL);
	workflow_input(&j->step_end, &recorded, j->claim.payload, &input);
	o->argv = (char *const *)argv->items;
	o->pass = pass_environment_both(&p->pass_environment, &workflow_of(j, p)->pass_environment, a);
	o->payload = arena_strdup(a, buf_text(&input));
	o->payload_len = input.len;
	if (step->timeout_us)
		o->timeout_ms = step->timeout_us / 1000;
	buf_release(&input);
	return true;
}

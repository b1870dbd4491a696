/* job.c: see job.h. */
#include "worker/job.h"

#include "base/text.h"

#include <stdlib.h>

static char *copy(const char *text)
{
	return text ? mem_strdup(text) : NULL;
}

struct job *job_new(int pool, int64_t worker, const struct claimed *c)
{
	struct job *j = mem_alloc(sizeof *j);
	j->pool = pool;
	j->slot = -1;
	j->worker = worker;
	j->claim = *c;
	j->claim.key = copy(c->key);
	j->claim.queue = copy(c->queue);
	j->claim.kind = copy(c->kind);
	j->claim.payload = copy(c->payload);
	j->claim.step = copy(c->step);
	j->claim.steps = copy(c->steps);
	j->claim.workflow = copy(c->workflow);
	j->delay_ms = -1;
	return j;
}

void job_free(struct job *j)
{
	free((char *)j->claim.key);
	free((char *)j->claim.queue);
	free((char *)j->claim.kind);
	free((char *)j->claim.payload);
	free((char *)j->claim.step);
	free((char *)j->claim.steps);
	free((char *)j->claim.workflow);
	job_off_step(j);
	free(j->result);
	free(j->error);
	job_said_free(atomic_load(&j->said));
	free(j);
}

void job_at_step(struct job *j, const struct step_end *end)
{
	job_off_step(j);
	j->step_end = *end;
	j->step_end.name = copy(end->name);
	j->step_end.passed = copy(end->passed);
}

void job_off_step(struct job *j)
{
	free((char *)j->step_end.name);
	free((char *)j->step_end.passed);
	j->step_end = (struct step_end){0};
}

/* Only one thread runs a job, so nothing is said between the two exchanges. */
void job_say(struct job *j, const char *step, const char *text)
{
	struct job_said *s = mem_alloc(sizeof *s);
	struct job_said *old = atomic_exchange(&j->said, NULL);
	s->step = copy(step ? step : old ? old->step : NULL);
	s->text = copy(text ? text : old ? old->text : NULL);
	job_said_free(old);
	job_said_free(atomic_exchange(&j->said, s));
}

struct job_said *job_take_said(struct job *j)
{
	return atomic_load(&j->said) ? atomic_exchange(&j->said, NULL) : NULL;
}

void job_said_free(struct job_said *s)
{
	if (!s)
		return;
	free(s->step);
	free(s->text);
	free(s);
}

struct settlement job_end(const struct job *j)
{
	return (struct settlement){.key = j->claim.key,
	                           .epoch = j->claim.epoch,
	                           .as = j->as,
	                           .result = j->result,
	                           .error = j->error,
	                           .delay_ms = j->delay_ms,
	                           .step = j->step_end};
}

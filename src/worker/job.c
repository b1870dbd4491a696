/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/job.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static char *job_copy(const char *text)
{
	return text ? mem_strdup(text) : NULL;
}

static size_t size_of(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static const char *job_put(char **to, const char *text)
{
	size_t n = size_of(text);
	if (n == 0)
		return NULL;
	char *at = memcpy(*to, text, n);
	*to += n;
	return at;
}

/* One allocation: there are thousands of jobs. */
struct job *job_new(int pool, int64_t worker, const struct claimed *c)
{
	struct job *j = mem_alloc(sizeof *j + size_of(c->key) + size_of(c->queue) + size_of(c->kind) +
	                          size_of(c->payload) + size_of(c->step) + size_of(c->steps) +
	                          size_of(c->workflow) + size_of(c->database));
	char *texts = (char *)(j + 1);
	j->pool = pool;
	j->slot = -1;
	j->worker = worker;
	j->claim = *c;
	j->claim.key = job_put(&texts, c->key);
	j->claim.queue = job_put(&texts, c->queue);
	j->claim.kind = job_put(&texts, c->kind);
	j->claim.payload = job_put(&texts, c->payload);
	j->claim.step = job_put(&texts, c->step);
	j->claim.steps = job_put(&texts, c->steps);
	j->claim.workflow = job_put(&texts, c->workflow);
	j->claim.database = job_put(&texts, c->database);
	j->delay_ms = -1;
	j->ran_ms = -1;
	return j;
}

void job_free(struct job *j)
{
	job_off_step(j);
	free(j->result);
	free(j->error);
	free(j->why);
	free(atomic_load(&j->progress));
	free(j->says);
	free(j);
}

/* ---- the running step ---- */

static void set_step(struct job *j, const char *name)
{
	char text[JOB_STEP_MAX] = "";
	uint64_t words[JOB_STEP_MAX / 8];
	if (name)
		utf8_copy(text, sizeof text, name);
	memcpy(words, text, sizeof words);
	atomic_fetch_add(&j->step_version, 1);
	for (int i = 0; i < JOB_STEP_MAX / 8; i++)
		atomic_store(&j->step_now[i], words[i]);
	atomic_fetch_add(&j->step_version, 1);
}

const char *job_step(const struct job *j, char out[JOB_STEP_MAX])
{
	uint64_t words[JOB_STEP_MAX / 8];
	unsigned before, after;
	do {
		before = atomic_load(&j->step_version);
		for (int i = 0; i < JOB_STEP_MAX / 8; i++)
			words[i] = atomic_load(&j->step_now[i]);
		after = atomic_load(&j->step_version);
	} while (before != after || before % 2);
	memcpy(out, words, sizeof words);
	return out[0] ? out : j->claim.step;
}

void job_at_step(struct job *j, const struct step_end *end)
{
	job_off_step(j);
	j->step_end = *end;
	j->step_end.name = job_copy(end->name);
	j->step_end.passed = job_copy(end->passed);
	if (end->name)
		set_step(j, end->name);
}

void job_off_step(struct job *j)
{
	free((char *)j->step_end.name);
	free((char *)j->step_end.passed);
	j->step_end = (struct step_end){0};
}

/* ---- progress ---- */

void job_say(struct job *j, const char *step, const char *text)
{
	struct job_progress *news = mem_alloc(sizeof *news);
	if (!j->says)
		j->says = mem_alloc(sizeof *j->says);
	if (step && !j->step_end.name)
		set_step(j, step);
	if (step)
		utf8_copy(j->says->step, sizeof j->says->step, step);
	if (text)
		utf8_copy(j->says->text, sizeof j->says->text, text);
	*news = *j->says;
	free(atomic_exchange(&j->progress, news));
}

struct job_progress *job_take_progress(struct job *j)
{
	return atomic_load(&j->progress) ? atomic_exchange(&j->progress, NULL) : NULL;
}

int64_t delay_limited(int64_t ms)
{
	return ms > DELAY_MOST_MS ? DELAY_MOST_MS : ms < 0 ? -1 : ms;
}

struct settlement job_end(const struct job *j)
{
	return (struct settlement){.key = j->claim.key,
	                           .epoch = j->claim.epoch,
	                           .as = j->as,
	                           .result = j->result,
	                           .error = j->error,
	                           .delay_ms = delay_limited(j->delay_ms),
	                           .step = j->step_end};
}

/* hand.c: see hand.h. */
#include "worker/hand.h"

#include "base/text.h"

#include <assert.h>

void hand_init(struct hand *h)
{
	*h = (struct hand){0};
	pthread_mutex_init(&h->lock, NULL);
}

static char *copy(const char *text)
{
	return text ? mem_strdup(text) : NULL;
}

static void free_job(struct hand_job *j)
{
	free((char *)j->claim.key);
	free((char *)j->claim.queue);
	free((char *)j->claim.kind);
	free((char *)j->claim.payload);
	free((char *)j->claim.step);
	free((char *)j->claim.steps);
	free((char *)j->claim.workflow);
	free((char *)j->step_end.name);
	free((char *)j->step_end.passed);
	free(j->result);
	free(j->error);
	free(j);
}

void hand_release(struct hand *h)
{
	while (h->first) {
		struct hand_job *j = h->first;
		h->first = j->next;
		free_job(j);
	}
	pthread_mutex_destroy(&h->lock);
}

struct hand_job *hand_add(struct hand *h, struct source *src, int pool, int64_t worker,
                          const struct claimed *c)
{
	struct hand_job *j = mem_alloc(sizeof *j);
	j->source = src;
	j->pool = pool;
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
	pthread_mutex_lock(&h->lock);
	j->next = h->first;
	if (h->first)
		h->first->prev = j;
	h->first = j;
	h->count++;
	pthread_mutex_unlock(&h->lock);
	return j;
}

void hand_at_step(struct hand_job *j, const struct step_end *end)
{
	assert(j->step_end.side == STEP_SIDE_NONE && end->side != STEP_SIDE_NONE);
	j->step_end = *end;
	j->step_end.name = copy(end->name);
	j->step_end.passed = copy(end->passed);
}

void hand_off_step(struct hand_job *j)
{
	free((char *)j->step_end.name);
	free((char *)j->step_end.passed);
	j->step_end = (struct step_end){0};
}

void hand_remove(struct hand *h, struct hand_job *j)
{
	pthread_mutex_lock(&h->lock);
	if (j->prev)
		j->prev->next = j->next;
	else
		h->first = j->next;
	if (j->next)
		j->next->prev = j->prev;
	h->count--;
	assert(h->count >= 0);
	pthread_mutex_unlock(&h->lock);
	free_job(j);
}

int64_t hand_count(struct hand *h)
{
	pthread_mutex_lock(&h->lock);
	int64_t n = h->count;
	pthread_mutex_unlock(&h->lock);
	return n;
}

/* Pools of one watch differ by kind; a key means the same job in all of them. */
static bool same_jobs(const struct source *a, const struct source *b)
{
	return a == b || (a->keys && b->keys && text_eq(a->keys, b->keys));
}

static bool is(const struct hand_job *j, const struct source *src, const char *key, int64_t epoch)
{
	if (!key)
		return !src || j->source == src;
	return (!src || same_jobs(j->source, src)) && text_eq(j->claim.key, key) &&
	       j->claim.epoch == epoch;
}

bool hand_has(struct hand *h, const struct source *src, const char *key, int64_t epoch)
{
	bool found = false;
	pthread_mutex_lock(&h->lock);
	for (const struct hand_job *j = h->first; j && !found; j = j->next)
		found = is(j, src, key, epoch);
	pthread_mutex_unlock(&h->lock);
	return found;
}

int hand_stop(struct hand *h, const struct source *src, const char *key, int64_t epoch, bool lost)
{
	int n = 0;
	pthread_mutex_lock(&h->lock);
	for (struct hand_job *j = h->first; j; j = j->next) {
		if (!is(j, src, key, epoch))
			continue;
		n += !j->stop;
		j->stop = true;
		j->lost = j->lost || lost;
	}
	pthread_mutex_unlock(&h->lock);
	return n;
}

bool hand_stopped(struct hand *h, const struct hand_job *j, bool *lost)
{
	pthread_mutex_lock(&h->lock);
	bool stop = j->stop;
	*lost = j->lost;
	pthread_mutex_unlock(&h->lock);
	return stop;
}

void hand_claim_begin(struct hand *h)
{
	pthread_mutex_lock(&h->lock);
	h->claims_begun++;
	pthread_mutex_unlock(&h->lock);
}

void hand_claim_end(struct hand *h)
{
	pthread_mutex_lock(&h->lock);
	h->claims_ended++;
	pthread_mutex_unlock(&h->lock);
}

bool hand_quiet(struct hand *h, uint64_t *claims)
{
	pthread_mutex_lock(&h->lock);
	bool quiet = h->claims_begun == h->claims_ended;
	*claims = h->claims_begun;
	pthread_mutex_unlock(&h->lock);
	return quiet;
}

void hand_progress(struct hand *h, struct hand_job *j, const char *step, const char *text)
{
	pthread_mutex_lock(&h->lock);
	if (step)
		utf8_copy(j->step, sizeof j->step, step);
	if (text)
		utf8_copy(j->progress, sizeof j->progress, text);
	j->progressed = true;
	pthread_mutex_unlock(&h->lock);
}

bool hand_take_progress(struct hand *h, struct progress_note *out)
{
	bool found = false;
	pthread_mutex_lock(&h->lock);
	for (struct hand_job *j = h->first; j && !found; j = j->next) {
		if (!j->progressed)
			continue;
		found = true;
		j->progressed = false;
		out->source = j->source;
		out->epoch = j->claim.epoch;
		out->worker = j->worker;
		snprintf(out->key, sizeof out->key, "%s", j->claim.key);
		snprintf(out->step, sizeof out->step, "%s", j->step);
		snprintf(out->progress, sizeof out->progress, "%s", j->progress);
	}
	pthread_mutex_unlock(&h->lock);
	return found;
}

static const char *step_of(const struct hand_job *j)
{
	if (j->step_end.name)
		return j->step_end.name;
	return j->step[0] ? j->step : j->claim.step;
}

int hand_beats(struct hand *h, const struct source *src, int64_t worker, struct arena *a,
               struct beat **out)
{
	int n = 0;
	pthread_mutex_lock(&h->lock);
	*out = ARENA_ARRAY(a, struct beat, h->count);
	for (const struct hand_job *j = h->first; j; j = j->next) {
		const char *step = step_of(j);
		if (j->lost || j->worker != worker || !same_jobs(j->source, src))
			continue;
		(*out)[n++] = (struct beat){.key = arena_strdup(a, j->claim.key),
		                            .epoch = j->claim.epoch,
		                            .attempt = j->claim.attempt,
		                            .step = step ? arena_strdup(a, step) : NULL};
	}
	pthread_mutex_unlock(&h->lock);
	return n;
}

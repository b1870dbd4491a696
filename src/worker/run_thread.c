/* run_thread.c: see run_thread.h. */
#include "worker/run_thread.h"

struct handler_job {
	struct hand_job *job;
	struct hand *hand;
	const struct worker_pool *pool;
	struct handler_job *next;
};

struct threads {
	struct threads_options options;
	pthread_t *all;
	int running; /* threads that were started */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct handler_job *first, *last;
	bool stop;
};

const struct claimed *handler_claim(const struct handler_job *j)
{
	return &j->job->claim;
}

bool handler_should_stop(struct handler_job *j)
{
	bool lost;
	return hand_stopped(j->hand, j->job, &lost);
}

defib_err handler_progress(struct handler_job *j, const char *step, const char *text)
{
	bool lost;
	hand_progress(j->hand, j->job, step, text);
	(void)hand_stopped(j->hand, j->job, &lost);
	return lost ? DEFIB_LEASE_LOST : DEFIB_OK;
}

static void replace(char **old, const char *text)
{
	free(*old);
	*old = text ? mem_strdup(text) : NULL;
}

void handler_result(struct handler_job *j, const char *json)
{
	replace(&j->job->result, json);
}

void handler_error(struct handler_job *j, const char *text)
{
	replace(&j->job->error, text);
}

void handler_delay(struct handler_job *j, int64_t delay_ms)
{
	j->job->delay_ms = delay_ms;
}

static struct handler_job *take(struct threads *t)
{
	pthread_mutex_lock(&t->lock);
	while (!t->first && !t->stop)
		pthread_cond_wait(&t->changed, &t->lock);
	struct handler_job *j = t->first;
	if (j) {
		t->first = j->next;
		if (!t->first)
			t->last = NULL;
	}
	pthread_mutex_unlock(&t->lock);
	return j;
}

static void *thread_main(void *arg)
{
	struct threads *t = arg;
	struct handler_job *j;
	while ((j = take(t)) != NULL) {
		j->job->as = j->pool->handler(j, j->pool->handler_ctx);
		t->options.ended(t->options.ctx, j->job);
		free(j);
	}
	return NULL;
}

defib_err threads_start(const struct threads_options *o, struct threads **out, struct failure *f)
{
	struct threads *t = mem_alloc(sizeof *t);
	t->options = *o;
	t->all = mem_alloc(sizeof *t->all * (size_t)o->count);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->changed, NULL);
	while (t->running < o->count && pthread_create(&t->all[t->running], NULL, thread_main, t) == 0)
		t->running++;
	if (t->running == 0) {
		threads_stop(t);
		return fail(f, DEFIB_IO, "cannot start threads for handlers");
	}
	*out = t;
	return DEFIB_OK;
}

void threads_add(struct threads *t, struct hand_job *job, const struct worker_pool *pool)
{
	struct handler_job *j = mem_alloc(sizeof *j);
	*j = (struct handler_job){.job = job, .hand = t->options.hand, .pool = pool};
	pthread_mutex_lock(&t->lock);
	if (t->last)
		t->last->next = j;
	else
		t->first = j;
	t->last = j;
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

void threads_stop(struct threads *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	for (int i = 0; i < t->running; i++)
		pthread_join(t->all[i], NULL);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	free(t->all);
	free(t);
}

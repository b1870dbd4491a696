/* SPDX-License-Identifier: Apache-2.0
 * worker_jobs.c: a job from the moment the engine starts it to its end: into a child process or a
 * handler's thread, and out. Then it belongs to the engine again.
 */

#include "worker/worker_jobs.h"

#include "base/log.h"
#include "watch/options_values.h"
#include "worker/run_lines.h"
#include "worker/run_thread.h"
#include "worker/token.h"
#include "worker/worker_state.h"
#include "worker/worker_turns.h"

#include <assert.h>
#include <jansson.h>
#include <sys/epoll.h>
#include <unistd.h>

/* A job whose program got no session is not given up: this many tries, this far apart. */
#define SESSION_TRIES 3
#define SESSION_WAIT_MS 1000
#define HOST_LOG_EVERY_MS 60000 /* what this host lacks is logged once, not for each job */
#define BEGIN_MOST 4            /* most starts before ended children are checked */

static void step_waiting(struct worker *w, struct child_run *r, int64_t now);

/* ---- steps of workflows ---- */

/* How long a job waits for a worker that knows its workflow. */
#define UNKNOWN_DELAY_MS 60000

/* Not for us: another worker, or this one with a new configuration, may know it. */
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

/* A job that is none of our workflows; it may belong to another worker's. */
static bool plan_other(struct job *j, const struct worker_pool *p)
{
	static const struct step_end nothing_done = {.side = STEP_SIDE_UNDO};
	if (j->claim.undoing && !j->claim.steps)
		return nothing_to_run(j, &nothing_done, NULL);
	if (j->claim.undoing || j->claim.steps || !(p->command || p->handler || p->lines))
		return leave_to_others(j, "this worker's configuration has no such workflow");
	return true;
}

static const struct workflow *jobs_workflow_of(const struct job *j, const struct worker_pool *p)
{
	const char *name = j->claim.workflow ? j->claim.workflow : j->claim.kind;
	return p->workflows ? workflow_named(p->workflows, name) : NULL;
}

/*
 * The step of a job, and what is recorded of its workflow; *step is NULL if it has none. False:
 * there is nothing to run, and the job's end is set.
 */
static bool steps_choose(struct job *j, const struct worker_pool *p, struct arena *a,
                         const struct workflow_step **step, struct step_records *recorded)
{
	const struct workflow *w = jobs_workflow_of(j, p);
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

/*
 * The options to start a child with, if the job is a workflow; other jobs are unchanged. False:
 * there is nothing to run, and the job's end is set.
 */
static bool steps_plan(struct job *j, const struct worker_pool *p, struct child_options *o,
                       struct arena *a)
{
	const struct workflow_step *step;
	struct step_records recorded;
	AUTO_BUF input = BUF_INIT;
	if (!steps_choose(j, p, a, &step, &recorded))
		return false;
	if (!step)
		return true;
	const struct text_list *argv = j->step_end.side == STEP_SIDE_UNDO ? &step->undo : &step->run;
	assert(argv->n > 0 && argv->items[argv->n] == NULL);
	workflow_input(&j->step_end, &recorded, j->claim.payload, &input);
	o->argv = (char *const *)argv->items;
	o->pass =
		pass_environment_both(&p->pass_environment, &jobs_workflow_of(j, p)->pass_environment, a);
	o->payload = arena_strdup(a, buf_text(&input));
	o->payload_len = input.len;
	if (step->timeout_us)
		o->timeout_ms = ms_from_us(step->timeout_us);
	return true;
}

/* ---- ends ---- */

static enum settle_as settle_of(enum child_end end)
{
	static const enum settle_as as[] = {
		[CHILD_RUNNING] = SETTLE_FAILED,      [CHILD_DONE] = SETTLE_DONE,
		[CHILD_FAILED] = SETTLE_FAILED,       [CHILD_RETRY] = SETTLE_RETRY,
		[CHILD_PERMANENT] = SETTLE_PERMANENT, [CHILD_KILLED] = SETTLE_CRASHED,
		[CHILD_TIMED_OUT] = SETTLE_TIMED_OUT, [CHILD_STOPPED] = SETTLE_STOPPED,
		[CHILD_UNSERVED] = SETTLE_FAILED,
	};
	return as[end];
}

/* A result is JSON; any other output is stored as a JSON string. */
static char *result_json(const char *text)
{
	struct buf out = BUF_INIT;
	json_auto_t *json = json_read(text, JSON_DECODE_ANY);
	size_t len = strlen(text);
	while (len > 0 && strchr(" \t\r\n", text[len - 1]))
		len--;
	buf_addn(&out, text, len);
	if (!json) {
		char *plain = buf_detach(&out);
		buf_add_json(&out, plain);
		free(plain);
	}
	return buf_detach(&out);
}

static void drop_child(struct worker *w, struct child_run *r)
{
	if (!r->child)
		return;
	epoll_ctl(w->epoll, EPOLL_CTL_DEL, child_fd(r->child), NULL);
	child_free(r->child);
	r->child = NULL;
}

static void drop_run(struct worker *w, struct child_run *r)
{
	drop_child(w, r);
	r->job->run = NULL;
	w->places[r->job->pool].running--;
	w->runs[r->at] = w->runs[--w->nruns];
	w->runs[r->at]->at = r->at;
	free(r);
}

/* The job's error names the step; an undo's error is in the step's own record. */
static char *error_of(const struct job *j, const char *text)
{
	struct buf out = BUF_INIT;
	if (j->step_end.side == STEP_SIDE_RUN && j->step_end.name)
		buf_addf(&out, "%s: ", j->step_end.name);
	buf_add(&out, text);
	return buf_detach(&out);
}

static const char *error_text(const struct worker *w, const struct child_run *r, enum child_end end)
{
	const char *given = w->options.pools[r->job->pool].no_session_error;
	if (end != CHILD_UNSERVED)
		return child_error(r->child);
	return given ? given : NO_SESSION_ERROR;
}

static void child_ended(struct worker *w, struct job *j, enum child_end end, int64_t now)
{
	struct child_run *r = j->run;
	size_t len = 0;
	j->ran_ms = now - j->began_ms;
	const char *result = child_result(r->child, &len);
	j->as = settle_of(end);
	if (end == CHILD_DONE && len > 0)
		j->result = result_json(result);
	if (end != CHILD_DONE)
		j->error = error_of(j, error_text(w, r, end));
	drop_run(w, r);
	turn_thread_over(w, j);
}

void worker_served(struct worker *w, bool served)
{
	pthread_mutex_lock(&w->lock);
	w->messages.served += served;
	w->messages.unserved += !served;
	pthread_mutex_unlock(&w->lock);
	if (!served)
		turn_thread_wake(w);
}

/* Whether a job got its session; an end with another cause says nothing about that. */
static void tell_served(struct worker *w, enum child_end end)
{
	bool served =
		end == CHILD_DONE || end == CHILD_FAILED || end == CHILD_RETRY || end == CHILD_PERMANENT;
	if (served || end == CHILD_UNSERVED)
		worker_served(w, served);
}

/* It got no session. It stays in hand and in its slot; false: it was tried often enough. */
static bool wait_for_session(struct worker *w, struct child_run *r, int64_t now)
{
	bool again = ++r->unserved < SESSION_TRIES;
	log_event(LOG_WARN, "no session for a job", LOG_STR("source", w->sources[r->job->pool]->name),
	          LOG_STR("job", r->job->claim.key), LOG_INT("try", r->unserved),
	          LOG_INT("of", SESSION_TRIES), LOG_STR("because", child_error(r->child)));
	if (!again)
		return false;
	drop_child(w, r);
	r->due_ms = now + SESSION_WAIT_MS;
	return true;
}

static void note_progress(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	bool first = !w->messages.progress;
	w->messages.progress = true;
	pthread_mutex_unlock(&w->lock);
	if (first)
		turn_thread_wake(w);
}

/* "STEP<tab>text", or just text. */
static void take_progress(struct worker *w, struct job *j, const char *line)
{
	const char *tab = strchr(line, '\t');
	char step[128];
	if (tab)
		snprintf(step, sizeof step, "%.*s", (int)(tab - line), line);
	job_say(j, tab ? step : NULL, tab ? tab + 1 : line);
	note_progress(w);
}

void jobs_step_child(struct worker *w, struct child_run *r, int64_t now)
{
	struct job *j = r->job;
	int64_t wants = -1;
	if (!r->child) {
		step_waiting(w, r, now);
		return;
	}
	if (atomic_load(&j->stop))
		child_stop(r->child, CHILD_STOPPED, now);
	enum child_end end = child_step(r->child, now, &wants);
	const char *line = child_progress(r->child);
	if (line)
		take_progress(w, j, line);
	r->due_ms = wants < 0 ? INT64_MAX : now + wants;
	tell_served(w, end);
	if (end == CHILD_RUNNING || (end == CHILD_UNSERVED && wait_for_session(w, r, now)))
		return;
	child_ended(w, j, end, now);
}

int64_t jobs_step_children(struct worker *w, int64_t now, bool all)
{
	int64_t due = INT64_MAX;
	for (int i = w->nruns - 1; i >= 0; i--)
		if (all || w->runs[i]->due_ms <= now)
			jobs_step_child(w, w->runs[i], now);
	for (int i = 0; i < w->nruns; i++)
		if (w->runs[i]->due_ms < due)
			due = w->runs[i]->due_ms;
	return due;
}

/* ---- handlers ---- */

/* A handler need not say why it failed; the step that failed is always named. */
static void name_step(struct job *j)
{
	char *text = j->error;
	if (j->as == SETTLE_DONE || !j->step_end.name)
		return;
	j->error = error_of(j, text ? text : settle_names[j->as]);
	free(text);
}

void jobs_on_handler_ended(void *ctx, struct job *j)
{
	name_step(j);
	turn_thread_over(ctx, j);
}

void jobs_on_progress(void *ctx)
{
	note_progress(ctx);
}

/* Its job can be freed for others only when this process dies, which other workers notice. */
void jobs_on_stuck(void *ctx, const struct job *j, int64_t asked_ms_ago)
{
	const struct worker *w = ctx;
	log_event(LOG_CRITICAL, "a handler will not stop", LOG_STR("source", w->sources[j->pool]->name),
	          LOG_STR("job", j->claim.key), LOG_INT("epoch", j->claim.epoch),
	          LOG_INT("asked_ms_ago", asked_ms_ago));
	if (w->options.stuck)
		w->options.stuck(w->options.stuck_ctx, w->sources[j->pool]->name, j->claim.key);
	else
		_exit(WORKER_EXIT_STUCK);
}

/* The client keeps such a job until it ends; but a worker that stops does not wait for that. */
void jobs_on_stuck_client(void *ctx, const struct job *j, int64_t asked_ms_ago)
{
	struct worker *w = ctx;
	log_event(LOG_CRITICAL, "the program beside this worker does not stop a job",
	          LOG_STR("source", w->sources[j->pool]->name), LOG_STR("job", j->claim.key),
	          LOG_INT("epoch", j->claim.epoch), LOG_INT("asked_ms_ago", asked_ms_ago));
	if (worker_stopping(w))
		_exit(WORKER_EXIT_STUCK);
}

int64_t jobs_step_handlers(struct worker *w, int64_t now, bool stop_asked)
{
	if (w->lines)
		return lines_look(w->lines, now, stop_asked, worker_stopping(w));
	if (!w->threads)
		return INT64_MAX;
	/* A stop lets handlers finish; a job that has not begun has nothing to finish. */
	if (stop_asked || worker_stopping(w))
		threads_return(w->threads, worker_stopping(w));
	return threads_look(w->threads, now);
}

/* ---- starts ---- */

#define JOB_ENV_MAX 13

static void job_env(const struct worker *w, const struct job *j, char **env, struct arena *a)
{
	const struct claimed *c = &j->claim;
	const char *step = j->step_end.name ? j->step_end.name : c->step;
	const char *workflow = c->workflow ? c->workflow : c->kind;
	char token[TOKEN_SIZE];
	int n = 0;
	token_of(c, j->worker, token);
	env[n++] = arena_printf(a, "DEFIB_JOB_ID=%s", c->key);
	env[n++] = arena_printf(a, "DEFIB_TOKEN=%s", token);
	env[n++] = arena_printf(a, "DEFIB_EPOCH=%lld", (long long)c->epoch);
	env[n++] = arena_printf(a, "DEFIB_ATTEMPT=%lld", (long long)c->attempt);
	env[n++] = arena_printf(a, "DEFIB_MAX_ATTEMPTS=%lld", (long long)c->max_attempts);
	env[n++] = arena_printf(a, "DEFIB_QUEUE=%s", c->queue ? c->queue : "");
	env[n++] = arena_printf(a, "DEFIB_KIND=%s", c->kind ? c->kind : "");
	env[n++] = arena_printf(a, "DEFIB_STEP=%s", step ? step : "");
	env[n++] = arena_printf(a, "DEFIB_WORKER=%s", w->options.name);
	if (j->step_end.side != STEP_SIDE_NONE)
		env[n++] = arena_printf(a, "DEFIB_WORKFLOW=%s", workflow ? workflow : "");
	if (j->step_end.side == STEP_SIDE_UNDO)
		env[n++] = arena_strdup(a, "DEFIB_UNDO=1");
	env[n] = NULL;
	assert(n < JOB_ENV_MAX);
}

static void watch_child(struct worker *w, struct child_run *r, struct child *child)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = r};
	r->child = child;
	r->due_ms = child_first_ms(child);
	epoll_ctl(w->epoll, EPOLL_CTL_ADD, child_fd(child), &ev);
}

static void add_run(struct worker *w, struct job *j, struct child *child)
{
	struct child_run *r = mem_alloc(sizeof *r);
	*r = (struct child_run){.job = j, .at = w->nruns};
	if (w->nruns == w->cap_runs) {
		w->cap_runs = w->cap_runs ? w->cap_runs * 2 : 16;
		w->runs = mem_grow(w->runs, sizeof(struct child_run *) * (size_t)w->cap_runs);
	}
	w->runs[w->nruns++] = r;
	w->places[j->pool].running++;
	j->run = r;
	watch_child(w, r, child);
}

/*
 * A resource that this host lacks (descriptors, processes, memory) is not the job's failure: the
 * job is released as if it had not been claimed, and the engine pauses claims until a program can
 * be started.
 */
static void host_lacks(struct worker *w, struct job *j, const struct failure *f, int64_t now)
{
	job_off_step(j);
	j->as = SETTLE_RELEASED;
	if (now >= w->host_logged_ms)
		log_event(LOG_CRITICAL, "this host cannot start programs: jobs are released",
		          LOG_STR("because", f->what),
		          LOG_STR("next", "raise its limits (ulimit -n and -u, LimitNOFILE=, TasksMax=, "
		                          "memory), or run fewer jobs at once"));
	w->host_logged_ms = now + HOST_LOG_EVERY_MS;
}

static void tell_host(struct worker *w, bool lacks)
{
	pthread_mutex_lock(&w->lock);
	w->messages.lacking += lacks;
	w->messages.able += !lacks;
	bool news = lacks || w->counts.paused;
	pthread_mutex_unlock(&w->lock);
	if (news)
		turn_thread_wake(w);
}

/* Start the program of a job; NULL: there is none to run, and the job's end is set. */
static struct child *jobs_launch(struct worker *w, struct job *j, int64_t now)
{
	const struct worker_pool *p = &w->options.pools[j->pool];
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	struct child *child = NULL;
	char *env[JOB_ENV_MAX];
	struct child_options o = {
		.argv = p->command,
		.pass = p->pass_environment.items,
		.env = env,
		.job = j->claim.key,
		.payload = j->claim.payload,
		.payload_len = j->claim.payload ? strlen(j->claim.payload) : 0,
		.timeout_ms = j->claim.timeout_ms ? j->claim.timeout_ms : p->timeout_ms,
		.grace_ms = p->grace_ms,
		.keeper = w->keeper,
	};
	bool runs = steps_plan(j, p, &o, &a);
	job_env(w, j, env, &a);
	defib_err err = runs ? child_start(&o, now, &child, &f) : DEFIB_OK;
	if (runs && (!err || err == DEFIB_IO))
		tell_host(w, err == DEFIB_IO);
	if (err == DEFIB_IO) {
		host_lacks(w, j, &f, now);
	} else if (err) {
		log_event(LOG_ERROR, f.what, LOG_STR("job", j->claim.key));
		j->as = SETTLE_FAILED;
		j->error = error_of(j, f.what);
	}
	return child;
}

static void start_child(struct worker *w, struct job *j, int64_t now)
{
	j->began_ms = now;
	struct child *child = jobs_launch(w, j, now);
	if (child)
		add_run(w, j, child);
	else
		turn_thread_over(w, j);
}

/* Between two tries: it was asked to stop, or its time has come. */
static void step_waiting(struct worker *w, struct child_run *r, int64_t now)
{
	struct job *j = r->job;
	bool stop = atomic_load(&j->stop);
	if (!stop && now < r->due_ms)
		return;
	job_off_step(j);
	j->as = SETTLE_STOPPED;
	struct child *child = stop ? NULL : jobs_launch(w, j, now);
	if (child) {
		watch_child(w, r, child);
		return;
	}
	drop_run(w, r);
	turn_thread_over(w, j);
}

static void start_handler(struct worker *w, struct job *j, const struct worker_pool *p)
{
	AUTO_ARENA a = ARENA_INIT;
	struct step_records recorded;
	const struct workflow_step *step;
	bool runs = steps_choose(j, p, &a, &step, &recorded);
	if (runs)
		threads_add(w->threads, j, p, step);
	else
		turn_thread_over(w, j);
}

void jobs_start(struct worker *w, struct job *j)
{
	struct worker_pool *p = &w->options.pools[j->pool];
	j->began_ms = clock_boot_ms();
	if (p->handler) {
		start_handler(w, j, p);
		return;
	}
	/* Steps of workflows are programs of the configuration, whoever runs other jobs. */
	if (p->lines && !jobs_workflow_of(j, p) && !j->claim.undoing && !j->claim.steps) {
		lines_add(w->lines, j, p);
		return;
	}
	pthread_mutex_lock(&w->lock);
	j->queued = NULL;
	*w->begin_end = j;
	w->begin_end = &j->queued;
	pthread_mutex_unlock(&w->lock);
	w->turn_thread.nudge = true;
}

static bool has_place(const struct worker *w, const struct job *j)
{
	const struct places *p = &w->places[j->pool];
	return p->running < atomic_load(&p->most);
}

/* The first job that there is a place for, or that need not begin; NULL: none. */
static struct job *first_to_begin(struct worker *w, bool *stopping)
{
	pthread_mutex_lock(&w->lock);
	*stopping = w->stops > 0;
	struct job **at = &w->begin;
	while (*at && !*stopping && !atomic_load(&(*at)->stop) && !has_place(w, *at))
		at = &(*at)->queued;
	struct job *j = *at;
	if (j)
		*at = j->queued;
	if (j && w->begin_end == &j->queued)
		w->begin_end = at;
	pthread_mutex_unlock(&w->lock);
	return j;
}

bool jobs_begin(struct worker *w, int64_t now)
{
	bool stopping;
	for (int i = 0; i < BEGIN_MOST; i++) {
		struct job *j = first_to_begin(w, &stopping);
		if (!j)
			return false;
		/* A job that has not begun when a stop is requested has nothing to finish. */
		j->as = atomic_load(&j->stop) ? SETTLE_STOPPED : SETTLE_RELEASED;
		if (stopping || j->as == SETTLE_STOPPED)
			turn_thread_over(w, j);
		else
			start_child(w, j, now);
	}
	return true;
}

void jobs_return(struct worker *w, int pool)
{
	struct job *out = NULL, **at = &w->begin;
	pthread_mutex_lock(&w->lock);
	w->begin_end = &w->begin;
	while (*at) {
		struct job *j = *at;
		if (j->pool == pool) {
			*at = j->queued;
			j->queued = out;
			out = j;
		} else {
			at = w->begin_end = &j->queued;
		}
	}
	pthread_mutex_unlock(&w->lock);
	while (out) {
		struct job *j = out;
		out = j->queued;
		j->as = SETTLE_RELEASED;
		turn_thread_over(w, j);
	}
}

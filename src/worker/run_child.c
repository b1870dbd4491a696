/* SPDX-License-Identifier: Apache-2.0
 * run_child.c: the life of a child from its start to its end, as steps that never block.
 *
 *   running --time limit or child_stop: TERM--> stopping --grace over: KILL--> killed
 *      \__________________________ exit of the child itself __________________/
 *                                         |
 *                    the rest of the group is killed, pipes are read until
 *                    empty and closed, the child is reaped: the end
 *
 * A grandchild that holds a pipe open delays nothing, because the end of a pipe is never waited
 * for. The group is signalled before the leader is reaped: until then its number cannot be reused.
 */

#include "worker/run_child.h"

#include "base/clock.h"
#include "base/log.h"
#include "worker/child_output.h"
#include "worker/child_spawn.h"
#include "worker/oom_kills.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The most that one step reads from a child; the descriptor stays readable for the rest. */
#define STEP_BYTES (64 * 1024)
/* When the first step is due: until then, output stays in the pipes. */
#define FIRST_STEP_MS 20
#define NEVER_MS INT64_MAX

struct child {
	struct spawned proc;
	int epoll;
	struct keeper *keeper;
	struct child_output output;
	int64_t timeout_ms, grace_ms;
	int64_t due_ms;   /* when the time limit or the grace is over; or NEVER_MS */
	int64_t first_ms; /* when the first step is due */
	bool stepped;
	bool unwatched;           /* its pipes cannot be polled: the host lacks memory */
	enum child_end stopping;  /* CHILD_RUNNING: it was not asked to stop */
	int64_t oom_kills_before; /* -1: not known */
	enum child_end end;
	int exit_code, signal;
	struct buf error, stderr_tail;
	char *job;
};

static void (*const sinks[SPAWN_PIPES])(struct child_output *, const char *, size_t) = {
	[SPAWN_STDOUT] = child_output_stdout,
	[SPAWN_STDERR] = child_output_stderr,
	[SPAWN_RESULT] = child_output_result,
	[SPAWN_PROGRESS] = child_output_progress,
};

/* ---- start ---- */

static int64_t child_later(int64_t now_ms, int64_t ms)
{
	return ms > NEVER_MS - now_ms ? NEVER_MS : now_ms + ms;
}

static bool child_watch(struct child *c, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	return epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* One event: no line of a program can look like another line of the log. */
static void on_line(void *ctx, const char *line)
{
	const struct child *c = ctx;
	log_output(c->job, line);
}

defib_err child_start(const struct child_options *o, int64_t now_ms, struct child **out,
                      struct failure *f)
{
	assert(o->timeout_ms >= 0 && o->grace_ms >= 0);
	*out = NULL;
	struct child *c = mem_alloc(sizeof(*c));
	c->keeper = o->keeper;
	c->output.on_line = on_line;
	c->output.on_line_ctx = c;
	c->timeout_ms = o->timeout_ms;
	c->grace_ms = o->grace_ms;
	c->due_ms = o->timeout_ms ? child_later(now_ms, o->timeout_ms) : NEVER_MS;
	c->first_ms = child_later(now_ms, FIRST_STEP_MS);
	c->oom_kills_before = oom_kills_lately(now_ms);
	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (c->epoll < 0) {
		defib_err err = fail(f, DEFIB_IO, "cannot watch %s: %s", o->argv[0], strerror(errno));
		free(c);
		return err;
	}
	defib_err err = child_spawn(o, &c->proc, f);
	if (err != DEFIB_OK) {
		close(c->epoll);
		free(c);
		return err;
	}
	if (!child_watch(c, c->proc.pidfd)) {
		err = fail(f, DEFIB_IO, "cannot watch %s: %s", o->argv[0], strerror(errno));
		child_free(c);
		return err;
	}
	c->job = o->job ? mem_strdup(o->job) : NULL;
	*out = c;
	return DEFIB_OK;
}

int child_fd(const struct child *c)
{
	return c->epoll;
}

int64_t child_first_ms(const struct child *c)
{
	return c->first_ms < c->due_ms ? c->first_ms : c->due_ms;
}

/* ---- output ---- */

static void close_pipe(struct child *c, int i)
{
	/* Removed explicitly: a process that was just forked may hold a copy of the descriptor. */
	if (c->stepped)
		epoll_ctl(c->epoll, EPOLL_CTL_DEL, c->proc.pipes[i], NULL);
	close(c->proc.pipes[i]);
	c->proc.pipes[i] = -1;
}

static void read_pipe(struct child *c, int i, size_t most)
{
	char bytes[8192];
	while (most) {
		size_t want = most < sizeof(bytes) ? most : sizeof(bytes);
		ssize_t n = read(c->proc.pipes[i], bytes, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			close_pipe(c, i);
			return;
		}
		sinks[i](&c->output, bytes, (size_t)n);
		most -= (size_t)n;
	}
}

/* With the first step, and again if that failed. */
static void watch_pipes(struct child *c)
{
	if (c->stepped && !c->unwatched)
		return;
	c->stepped = true;
	c->unwatched = false;
	for (int i = 0; i < SPAWN_PIPES; i++)
		if (c->proc.pipes[i] >= 0 && !child_watch(c, c->proc.pipes[i]) && errno != EEXIST)
			c->unwatched = true;
}

static void read_pipes(struct child *c)
{
	for (int i = 0; i < SPAWN_PIPES; i++)
		if (c->proc.pipes[i] >= 0)
			read_pipe(c, i, STEP_BYTES);
}

/* Read what is in the pipes now, and no more: another process may hold them and keep writing. */
static void drain_pipes(struct child *c)
{
	for (int i = 0; i < SPAWN_PIPES; i++) {
		int pending = 0;
		if (c->proc.pipes[i] >= 0 && ioctl(c->proc.pipes[i], FIONREAD, &pending) == 0)
			read_pipe(c, i, (size_t)pending);
		if (c->proc.pipes[i] >= 0)
			close_pipe(c, i);
	}
	child_output_close(&c->output);
}

/* ---- how it ended ---- */

enum exit_seen { STILL_RUNS, EXITED, EXIT_STOLEN };

/* WNOWAIT leaves it to be reaped, and its number reserved. */
static enum exit_seen see_exit(const struct child *c, siginfo_t *info)
{
	info->si_pid = 0;
	if (waitid(P_PIDFD, (id_t)c->proc.pidfd, info, WEXITED | WNOHANG | WNOWAIT) < 0)
		return errno == ECHILD ? EXIT_STOLEN : STILL_RUNS;
	return info->si_pid ? EXITED : STILL_RUNS;
}

static void child_reap(struct child *c)
{
	siginfo_t info;
	while (waitid(P_PIDFD, (id_t)c->proc.pidfd, &info, WEXITED) < 0 && errno == EINTR) {
	}
}

static bool maybe_out_of_memory(const struct child *c)
{
	return c->oom_kills_before < 0 || oom_kills() > c->oom_kills_before;
}

static void add_status(struct child *c)
{
	/* A shell returns 128 + signal if a program that it ran was killed. */
	bool by_kill = c->signal == SIGKILL || c->exit_code == 128 + SIGKILL;
	const char *name = c->signal ? sigabbrev_np(c->signal) : NULL;
	if (name)
		buf_addf(&c->error, "killed by SIG%s", name);
	else if (c->signal)
		buf_addf(&c->error, "killed by signal %d", c->signal);
	else
		buf_addf(&c->error, "exit code %d", c->exit_code);
	if (by_kill && !c->stopping && maybe_out_of_memory(c))
		buf_add(&c->error, " (out of memory?)");
}

static enum child_end child_judge_status(const struct child *c)
{
	if (c->stopping)
		return c->stopping;
	if (c->signal)
		return CHILD_KILLED;
	switch (c->exit_code) {
	case CHILD_EXIT_DONE:
		return c->output.result_too_long ? CHILD_FAILED : CHILD_DONE;
	case CHILD_EXIT_RETRY:
		return CHILD_RETRY;
	case CHILD_EXIT_PERMANENT:
		return CHILD_PERMANENT;
	case CHILD_EXIT_UNSERVED:
		return CHILD_UNSERVED;
	default:
		return CHILD_FAILED;
	}
}

static void add_why_stopped(struct child *c)
{
	if (c->stopping == CHILD_TIMED_OUT && c->timeout_ms) {
		buf_add(&c->error, "time limit of ");
		duration_text(c->timeout_ms * 1000, &c->error);
		buf_add(&c->error, " has passed; ");
	} else if (c->stopping) {
		buf_add(&c->error, c->stopping == CHILD_STOPPED ? "stopped; " : "timed out; ");
	}
}

static void child_explain(struct child *c)
{
	child_output_add_tail(&c->output, &c->stderr_tail);
	if (c->end == CHILD_DONE)
		return;
	add_why_stopped(c);
	add_status(c);
	if (c->output.result_too_long)
		buf_addf(&c->error, ", result of more than %d bytes", CHILD_RESULT_MAX);
	if (c->output.tail.len) {
		buf_add(&c->error, ": ");
		child_output_add_last_line(&c->output, &c->error);
	}
}

/* Other code in this process waited for our child, so how it ended is lost. */
static void explain_stolen(struct child *c)
{
	child_output_add_tail(&c->output, &c->stderr_tail);
	buf_add(&c->error, "another part of this process collected its exit code (waitpid(-1)?)");
}

static void child_finish(struct child *c, enum exit_seen seen, const siginfo_t *info)
{
	if (seen == EXITED)
		group_signal_held(&c->proc.group, SIGKILL);
	else
		group_signal(&c->proc.group, SIGKILL);
	drain_pipes(c);
	epoll_ctl(c->epoll, EPOLL_CTL_DEL, c->proc.pidfd, NULL);
	if (c->keeper)
		keeper_drop(c->keeper, c->proc.group.id); /* before the number is free */
	if (seen == EXIT_STOLEN) {
		c->end = c->stopping ? c->stopping : CHILD_FAILED;
		explain_stolen(c);
		return;
	}
	child_reap(c);
	if (info->si_code == CLD_EXITED)
		c->exit_code = info->si_status;
	else
		c->signal = info->si_status;
	c->end = child_judge_status(c);
	child_explain(c);
}

/* ---- stopping it ---- */

static void child_stop_as(struct child *c, enum child_end as, int64_t now_ms)
{
	assert(!c->stopping);
	c->stopping = as;
	c->due_ms = child_later(now_ms, c->grace_ms);
	if (!c->grace_ms)
		return; /* SIGKILL is already due */
	group_signal(&c->proc.group, SIGTERM);
	group_signal(&c->proc.group,
	             SIGCONT); /* a stopped process would not receive the other signal */
}

static void enforce_limits(struct child *c, int64_t now_ms)
{
	if (!c->stopping && now_ms >= c->due_ms)
		child_stop_as(c, CHILD_TIMED_OUT, now_ms);
	if (c->stopping && now_ms >= c->due_ms) {
		group_signal(&c->proc.group, SIGKILL);
		c->due_ms = NEVER_MS;
	}
}

void child_stop(struct child *c, enum child_end as, int64_t now_ms)
{
	assert(as == CHILD_STOPPED || as == CHILD_TIMED_OUT);
	siginfo_t info;
	if (c->end != CHILD_RUNNING || c->stopping || see_exit(c, &info) != STILL_RUNS)
		return;
	child_stop_as(c, as, now_ms);
	enforce_limits(c, now_ms);
}

enum child_end child_step(struct child *c, int64_t now_ms, int64_t *wait_ms)
{
	*wait_ms = -1;
	if (c->end != CHILD_RUNNING)
		return c->end;
	siginfo_t info;
	enum exit_seen seen = see_exit(c, &info);
	if (seen != STILL_RUNS) {
		child_finish(c, seen, &info);
		return c->end;
	}
	watch_pipes(c);
	read_pipes(c);
	enforce_limits(c, now_ms);
	if (c->due_ms != NEVER_MS)
		*wait_ms = c->due_ms - now_ms;
	if (c->unwatched && (*wait_ms < 0 || *wait_ms > FIRST_STEP_MS))
		*wait_ms = FIRST_STEP_MS;
	return CHILD_RUNNING;
}

/* ---- results ---- */

const char *child_result(const struct child *c, size_t *len)
{
	*len = c->output.result.len;
	return buf_text(&c->output.result);
}

const char *child_error(const struct child *c)
{
	return buf_text(&c->error);
}

const char *child_stderr(const struct child *c)
{
	return buf_text(&c->stderr_tail);
}

const char *child_progress(struct child *c)
{
	return child_output_fetch_progress(&c->output);
}

pid_t child_pid(const struct child *c)
{
	return c->proc.group.id;
}

int child_signal(const struct child *c)
{
	return c->signal;
}

void child_free(struct child *c)
{
	if (!c)
		return;
	if (c->end == CHILD_RUNNING) {
		group_signal(&c->proc.group, SIGKILL);
		if (c->keeper)
			keeper_drop(c->keeper, c->proc.group.id);
		child_reap(c);
	}
	spawned_close(&c->proc);
	close(c->epoll);
	child_output_release(&c->output);
	buf_release(&c->error);
	buf_release(&c->stderr_tail);
	free(c->job);
	free(c);
}

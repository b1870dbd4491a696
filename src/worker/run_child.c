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
#include "worker/child_inside.h"

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
};

static void (*const sinks[SPAWN_PIPES])(struct child_output *, const char *, size_t) = {
	[SPAWN_STDERR] = output_stderr,
	[SPAWN_RESULT] = output_result,
	[SPAWN_PROGRESS] = output_progress,
};

/* ---- start ---- */

static int64_t later(int64_t now_ms, int64_t ms)
{
	return ms > NEVER_MS - now_ms ? NEVER_MS : now_ms + ms;
}

static bool watch(struct child *c, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	return epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

defib_err child_start(const struct child_options *o, int64_t now_ms, struct child **out,
                      struct failure *f)
{
	assert(o->timeout_ms >= 0 && o->grace_ms >= 0);
	*out = NULL;
	struct child *c = mem_alloc(sizeof(*c));
	c->keeper = o->keeper;
	c->timeout_ms = o->timeout_ms;
	c->grace_ms = o->grace_ms;
	c->due_ms = o->timeout_ms ? later(now_ms, o->timeout_ms) : NEVER_MS;
	c->first_ms = later(now_ms, FIRST_STEP_MS);
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
	if (!watch(c, c->proc.pidfd)) {
		err = fail(f, DEFIB_IO, "cannot watch %s: %s", o->argv[0], strerror(errno));
		child_free(c);
		return err;
	}
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
		if (c->proc.pipes[i] >= 0 && !watch(c, c->proc.pipes[i]) && errno != EEXIST)
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
	output_close(&c->output);
}

/* ---- how it ended ---- */

enum sight { STILL_RUNS, EXITED, EXIT_STOLEN };

/* WNOWAIT leaves it to be reaped, and its number reserved. */
static enum sight see_exit(const struct child *c, siginfo_t *info)
{
	info->si_pid = 0;
	if (waitid(P_PIDFD, (id_t)c->proc.pidfd, info, WEXITED | WNOHANG | WNOWAIT) < 0)
		return errno == ECHILD ? EXIT_STOLEN : STILL_RUNS;
	return info->si_pid ? EXITED : STILL_RUNS;
}

static void reap(struct child *c)
{
	siginfo_t info;
	while (waitid(P_PIDFD, (id_t)c->proc.pidfd, &info, WEXITED) < 0 && errno == EINTR) {
	}
}

static bool maybe_out_of_memory(const struct child *c)
{
	return c->oom_kills_before < 0 || oom_kills() > c->oom_kills_before;
}

static void say_status(struct child *c)
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

static enum child_end judge_status(const struct child *c)
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

static void say_why_stopped(struct child *c)
{
	if (c->stopping == CHILD_TIMED_OUT && c->timeout_ms) {
		buf_add(&c->error, "time limit of ");
		duration_text(c->timeout_ms * 1000, &c->error);
		buf_add(&c->error, " has passed; ");
	} else if (c->stopping) {
		buf_add(&c->error, c->stopping == CHILD_STOPPED ? "stopped; " : "timed out; ");
	}
}

static void explain(struct child *c)
{
	output_add_tail(&c->output, &c->stderr_tail);
	if (c->end == CHILD_DONE)
		return;
	say_why_stopped(c);
	say_status(c);
	if (c->output.result_too_long)
		buf_addf(&c->error, ", result of more than %d bytes", CHILD_RESULT_MAX);
	if (c->output.tail.len) {
		buf_add(&c->error, ": ");
		output_add_last_line(&c->output, &c->error);
	}
}

/* Other code in this process waited for our child, so how it ended is lost. */
static void explain_stolen(struct child *c)
{
	output_add_tail(&c->output, &c->stderr_tail);
	buf_add(&c->error, "another part of this process collected its exit code (waitpid(-1)?)");
}

static void finish(struct child *c, enum sight sight, const siginfo_t *info)
{
	if (sight == EXITED)
		group_signal_held(&c->proc.group, SIGKILL);
	else
		group_signal(&c->proc.group, SIGKILL);
	drain_pipes(c);
	epoll_ctl(c->epoll, EPOLL_CTL_DEL, c->proc.pidfd, NULL);
	if (c->keeper)
		keeper_drop(c->keeper, c->proc.group.id); /* before the number is free */
	if (sight == EXIT_STOLEN) {
		c->end = c->stopping ? c->stopping : CHILD_FAILED;
		explain_stolen(c);
		return;
	}
	reap(c);
	if (info->si_code == CLD_EXITED)
		c->exit_code = info->si_status;
	else
		c->signal = info->si_status;
	c->end = judge_status(c);
	explain(c);
}

/* ---- stopping it ---- */

static void stop(struct child *c, enum child_end as, int64_t now_ms)
{
	assert(!c->stopping);
	c->stopping = as;
	c->due_ms = later(now_ms, c->grace_ms);
	if (!c->grace_ms)
		return; /* SIGKILL is already due */
	group_signal(&c->proc.group, SIGTERM);
	group_signal(&c->proc.group,
	             SIGCONT); /* a stopped process would not receive the other signal */
}

static void enforce_limits(struct child *c, int64_t now_ms)
{
	if (!c->stopping && now_ms >= c->due_ms)
		stop(c, CHILD_TIMED_OUT, now_ms);
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
	stop(c, as, now_ms);
	enforce_limits(c, now_ms);
}

enum child_end child_step(struct child *c, int64_t now_ms, int64_t *wait_ms)
{
	*wait_ms = -1;
	if (c->end != CHILD_RUNNING)
		return c->end;
	siginfo_t info;
	enum sight sight = see_exit(c, &info);
	if (sight != STILL_RUNS) {
		finish(c, sight, &info);
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
	return output_fetch_progress(&c->output);
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
		reap(c);
	}
	spawned_close(&c->proc);
	close(c->epoll);
	output_release(&c->output);
	buf_release(&c->error);
	buf_release(&c->stderr_tail);
	free(c);
}

/* ---- out-of-memory kills ---- */

/*
 * memory.events of our control group counts its processes that any out-of-memory killer chose. The
 * root group and version 1 have no such file; there the machine's count in /proc/vmstat must do.
 */

#define LINE_MAX_BYTES 512
#define LATELY_MS 1000

static const char unified_group[] = "0::";
static const char kill_count[] = "oom_kill ";

/* The rest of the first line that starts with `lead`, without its newline. */
static bool line_after(const char *path, const char *lead, char *out, size_t size)
{
	bool found = false;
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	char line[PATH_MAX + LINE_MAX_BYTES];
	while (!found && fgets(line, sizeof(line), file)) {
		found = text_starts(line, lead);
		if (found) {
			line[strcspn(line, "\n")] = '\0';
			snprintf(out, size, "%s", line + strlen(lead));
		}
	}
	fclose(file);
	return found;
}

int64_t oom_kills_in(const char *path)
{
	char number[32];
	int64_t kills;
	if (!line_after(path, kill_count, number, sizeof(number)) || !int_parse(number, &kills))
		return -1;
	return kills;
}

int64_t oom_kills(void)
{
	char group[PATH_MAX], events[PATH_MAX + 64];
	int64_t kills = -1;
	if (line_after("/proc/self/cgroup", unified_group, group, sizeof(group))) {
		snprintf(events, sizeof(events), "/sys/fs/cgroup%s/memory.events", group);
		kills = oom_kills_in(events);
	}
	return kills >= 0 ? kills : oom_kills_in("/proc/vmstat");
}

int64_t oom_kills_lately(int64_t now_ms)
{
	static _Atomic int64_t kills = -1, until_ms = INT64_MIN;
	if (now_ms >= atomic_load(&until_ms)) {
		atomic_store(&kills, oom_kills());
		atomic_store(&until_ms, now_ms + LATELY_MS);
	}
	return atomic_load(&kills);
}

/*
 * ---- what is kept of its output ----
 * A bounded part of an unbounded stream. Every function drops what exceeds its bound and keeps
 * accepting, because a full pipe would stop the child.
 */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Well-formed UTF-8; other bytes, and control characters except tab and newline, become U+FFFD. */
static void add_clean(struct buf *out, const char *bytes, size_t n)
{
	/* A NUL after the bytes lets utf8_len look ahead safely. */
	AUTO_BUF copy = BUF_INIT;
	buf_addn(&copy, bytes, n);
	for (size_t i = 0; i < n;) {
		const char *at = copy.data + i;
		size_t len = utf8_len(at);
		bool control = (unsigned char)*at < 0x20 && *at != '\t' && *at != '\n';
		if (len && !control)
			buf_addn(out, at, len);
		else if (*at != '\r')
			buf_add(out, "\xef\xbf\xbd");
		i += len ? len : 1;
	}
}

void output_result(struct child_output *o, const char *bytes, size_t n)
{
	assert(o->result.len <= CHILD_RESULT_MAX);
	size_t room = CHILD_RESULT_MAX - o->result.len;
	buf_addn(&o->result, bytes, least(n, room));
	o->result_too_long |= n > room;
}

static void keep_last(struct buf *b, size_t n)
{
	if (b->len <= n)
		return;
	memmove(b->data, b->data + b->len - n, n + 1);
	b->len = n;
}

void output_stderr(struct child_output *o, const char *bytes, size_t n)
{
	size_t take = least(n, CHILD_STDERR_TAIL);
	buf_addn(&o->tail, bytes + n - take, take);
	if (o->tail.len >= (size_t)2 * CHILD_STDERR_TAIL)
		keep_last(&o->tail, CHILD_STDERR_TAIL);
}

static void end_line(struct child_output *o)
{
	buf_clear(&o->line);
	add_clean(&o->line, buf_text(&o->partial), o->partial.len);
	buf_clear(&o->partial);
	o->line_is_new = true;
}

void output_progress(struct child_output *o, const char *bytes, size_t n)
{
	while (n) {
		const char *end = memchr(bytes, '\n', n);
		size_t part = end ? (size_t)(end - bytes) : n;
		assert(o->partial.len <= CHILD_PROGRESS_MAX);
		buf_addn(&o->partial, bytes, least(part, CHILD_PROGRESS_MAX - o->partial.len));
		if (end)
			end_line(o);
		size_t used = part + (end ? 1 : 0);
		bytes += used;
		n -= used;
	}
}

void output_close(struct child_output *o)
{
	if (o->partial.len)
		end_line(o);
}

const char *output_fetch_progress(struct child_output *o)
{
	if (!o->line_is_new)
		return NULL;
	o->line_is_new = false;
	return buf_text(&o->line);
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0';
}

/* Where the last CHILD_STDERR_TAIL bytes start (not inside a character), and their trimmed end. */
static size_t tail_bounds(const struct child_output *o, size_t *end)
{
	const char *text = buf_text(&o->tail);
	size_t start = 0;
	if (o->tail.len > CHILD_STDERR_TAIL)
		start = o->tail.len - CHILD_STDERR_TAIL;
	/* A character has at most three continuation bytes. */
	for (int i = 0; i < 3 && ((unsigned char)text[start] & 0xc0) == 0x80; i++)
		start++;
	*end = o->tail.len;
	while (*end > start && is_blank(text[*end - 1]))
		(*end)--;
	return start;
}

void output_add_tail(const struct child_output *o, struct buf *out)
{
	size_t end, start = tail_bounds(o, &end);
	add_clean(out, buf_text(&o->tail) + start, end - start);
}

void output_add_last_line(const struct child_output *o, struct buf *out)
{
	size_t end, start = tail_bounds(o, &end);
	const char *text = buf_text(&o->tail) + start;
	const char *newline = memrchr(text, '\n', end - start);
	const char *line = newline ? newline + 1 : text;
	add_clean(out, line, (size_t)(text + (end - start) - line));
}

void output_release(struct child_output *o)
{
	buf_release(&o->result);
	buf_release(&o->tail);
	buf_release(&o->partial);
	buf_release(&o->line);
}

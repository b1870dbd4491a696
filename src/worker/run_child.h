/* SPDX-License-Identifier: Apache-2.0
 * run_child.h: a job as a child process, in a process group of its own.
 *
 * Payload on stdin, facts in the environment, the result from descriptor 3
 * (DEFIB_RESULT_FD), progress lines from descriptor 4 (DEFIB_PROGRESS_FD), the
 * tail of stderr as the error; stdout goes to our stderr, beside the log. Its
 * exit is seen at once through a pidfd, and is the end: what is left of its
 * group is killed then.
 * Children do not outlive a killed worker: the parent-death signal for the
 * child itself, and the keeper (keeper.h) for its whole group.
 */
#ifndef WORKER_RUN_CHILD_H
#define WORKER_RUN_CHILD_H

#include "base/text.h"
#include "worker/keeper.h"

#include <stdint.h>
#include <sys/types.h>

#define CHILD_RESULT_MAX (1024 * 1024)
#define CHILD_STDERR_TAIL 4096

/* Exit codes by which a program says more than success or failure. */
enum child_exit_code {
	CHILD_EXIT_DONE = 0,
	CHILD_EXIT_RETRY = 75,     /* EX_TEMPFAIL: try again later, whatever the attempts */
	CHILD_EXIT_PERMANENT = 65, /* EX_DATAERR: never again */
	CHILD_EXIT_UNSERVED = 69,  /* EX_UNAVAILABLE: it got no session to work in */
};

enum child_end {
	CHILD_RUNNING,
	CHILD_DONE,
	CHILD_FAILED, /* an error; attempts decide */
	CHILD_RETRY,
	CHILD_PERMANENT,
	CHILD_UNSERVED,  /* it could not begin: no session could be had for it */
	CHILD_KILLED,    /* by a signal that was not ours, the OOM killer's too */
	CHILD_TIMED_OUT, /* by us, at its time limit */
	CHILD_STOPPED,   /* by us, because it was asked to stop (cancel, shutdown, lost lease) */
};

struct child_options {
	char *const *argv; /* ends with NULL */
	/* Its environment is a clean one (base/program_env.h) and what is named here; lists end
	 * with NULL and may be NULL. */
	const char *const *pass; /* as a configuration has it: NAME or NAME=value */
	char *const *env;        /* facts of the job, "NAME=value" */
	const char *payload;     /* stdin; may be NULL */
	size_t payload_len;
	int64_t timeout_ms;    /* 0: none */
	int64_t grace_ms;      /* between TERM and KILL of the group */
	struct keeper *keeper; /* may be NULL */
};

struct child;

/*
 * Start it. `now_ms` is CLOCK_BOOTTIME; all waiting is the caller's (child_fd).
 * The kernel binds the parent-death signal to the calling thread: call from one
 * that lives as long as the worker, or the child is killed when the thread ends.
 * DEFIB_CONFIG: this program cannot be run; DEFIB_IO: not now, for want of a resource.
 */
MUST_CHECK defib_err child_start(const struct child_options *o, int64_t now_ms, struct child **out,
                                 struct failure *f);
/*
 * One epoll descriptor that is readable whenever child_step has something to do; before the first
 * step, when the child has ended. So one that is over before the first step is due wakes its
 * caller once, and not also when it closes its descriptors.
 */
int child_fd(const struct child *c);
int64_t child_first_ms(const struct child *c);
/*
 * Do what is due: feed stdin, read result, stderr and progress, see the exit,
 * enforce time limit and grace. Never blocks. Returns the end, or
 * CHILD_RUNNING; then *wait_ms says when to come back at the latest (-1: only
 * when the descriptor is readable).
 */
enum child_end child_step(struct child *c, int64_t now_ms, int64_t *wait_ms);
/*
 * Ask it to stop: TERM now, KILL of the group after the grace. Its end is then
 * `as` (CHILD_STOPPED or CHILD_TIMED_OUT), whatever it exits with; the first
 * call counts, and none when it had ended by itself.
 */
void child_stop(struct child *c, enum child_end as, int64_t now_ms);
/* After the end: what it said. */
const char *child_result(const struct child *c, size_t *len); /* "" when none; bounded */
const char *child_error(
	const struct child *c); /* "exit code 3: last line…", "killed by SIGKILL (out of memory?)" */
const char *child_stderr(const struct child *c); /* the tail of it, clean UTF-8 */
/* The latest complete progress line since the last call, or NULL. */
const char *child_progress(struct child *c);
pid_t child_pid(const struct child *c);
int child_signal(const struct child *c); /* that ended it; 0: none */
/* Frees it; kills and reaps the group first when it still runs. */
void child_free(struct child *c);

/* ---- out-of-memory kills ---- */

/*
 * How often the kernel's out-of-memory killer struck where our
 * children run: in our control group, or on the whole machine where that
 * cannot be read. A rise during a child's life explains a SIGKILL.
 */

/* -1: not known. */
int64_t oom_kills(void);
/* The same, as it was at most a second ago: reading it costs as much as starting a child. */
int64_t oom_kills_lately(int64_t now_ms);
/* The number on the line "oom_kill N" of such a file (memory.events, vmstat); -1: none. */
int64_t oom_kills_in(const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * run_child.h: a job as a child process, in a process group of its own.
 *
 * The payload is on stdin, facts are in the environment, the result is read from descriptor 3
 * (DEFIB_RESULT_FD), progress lines from descriptor 4 (DEFIB_PROGRESS_FD), and the tail of stderr
 * is the error; stdout goes to our stderr, beside the log. A pidfd shows its exit at once. The exit
 * is the end of the job: the rest of its group is killed then. Children do not outlive a killed
 * worker: the parent-death signal kills the child itself, and the keeper (keeper.h) its whole
 * group.
 */
#ifndef WORKER_RUN_CHILD_H
#define WORKER_RUN_CHILD_H

#include "base/text.h"
#include "worker/keeper.h"

#include <sys/types.h>

/* Exit codes with a meaning beyond success or failure. */
enum child_exit_code {
	CHILD_EXIT_DONE = 0,
	CHILD_EXIT_RETRY = 75,     /* EX_TEMPFAIL: retry later */
	CHILD_EXIT_PERMANENT = 65, /* EX_DATAERR: do not retry */
	CHILD_EXIT_UNSERVED = 69,  /* EX_UNAVAILABLE: it got no database session */
};

enum child_end {
	CHILD_RUNNING,
	CHILD_DONE,
	CHILD_FAILED, /* an error; attempts decide */
	CHILD_RETRY,
	CHILD_PERMANENT,
	CHILD_UNSERVED,  /* it could not begin: it got no session */
	CHILD_KILLED,    /* by a signal that was not ours, including the OOM killer's */
	CHILD_TIMED_OUT, /* by us, at its time limit */
	CHILD_STOPPED,   /* by us, because it was asked to stop (cancel, shutdown, lost lease) */
};

struct child_options {
	char *const *argv; /* ends with NULL */
	/*
	 * Its environment is a clean one (base/program_env.h) plus what is named here; lists end with
	 * NULL and may be NULL.
	 */
	const char *const *pass; /* as in a configuration: NAME or NAME=value */
	char *const *env;        /* facts of the job, "NAME=value" */
	const char *job;         /* its key, for the log; may be NULL */
	const char *payload;     /* stdin; may be NULL */
	size_t payload_len;
	int64_t timeout_ms;    /* 0: none */
	int64_t grace_ms;      /* between SIGTERM and SIGKILL to the group */
	struct keeper *keeper; /* may be NULL */
};

struct child;

/*
 * Start it. `now_ms` is CLOCK_BOOTTIME; the caller does all waiting (child_fd). The kernel binds
 * the parent-death signal to the calling thread: call from one that lives as long as the worker, or
 * the child is killed when the thread ends. DEFIB_CONFIG: this program cannot be run; DEFIB_IO: not
 * now, a resource is missing.
 */
MUST_CHECK defib_err child_start(const struct child_options *o, int64_t now_ms, struct child **out,
                                 struct failure *f);
/*
 * One epoll descriptor that is readable whenever child_step() has something to do; before the first
 * step, only when the child has ended. So a child that ends before its first step wakes the caller
 * once, not again for each closed descriptor.
 */
int child_fd(const struct child *c);
int64_t child_first_ms(const struct child *c);
/*
 * Do what is due: feed stdin, read result, stderr and progress, see the exit, enforce time limit
 * and grace. Never blocks. Returns the end, or CHILD_RUNNING; then *wait_ms is when to call again
 * at the latest (-1: only when the descriptor is readable).
 */
enum child_end child_step(struct child *c, int64_t now_ms, int64_t *wait_ms);
/*
 * Ask it to stop: SIGTERM now, SIGKILL to the group after the grace. Its end is then `as`
 * (CHILD_STOPPED or CHILD_TIMED_OUT), whatever its exit code. Only the first call counts, and none
 * after it has ended by itself.
 */
void child_stop(struct child *c, enum child_end as, int64_t now_ms);
/* After the end: its output. */
const char *child_result(const struct child *c, size_t *len); /* "" if none; bounded */
const char *child_error(
	const struct child *c); /* "exit code 3: last line…", "killed by SIGKILL (out of memory?)" */
const char *child_stderr(const struct child *c); /* its tail, clean UTF-8 */
/* The latest complete progress line since the last call, or NULL. */
const char *child_progress(struct child *c);
pid_t child_pid(const struct child *c);
int child_signal(const struct child *c); /* that ended it; 0: none */
/* Frees it; if it still runs, kills and reaps the group first. */
void child_free(struct child *c);

#endif

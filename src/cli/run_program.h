/* SPDX-License-Identifier: Apache-2.0
 * run_program.h: one program as a child of ours, as if we were not there: its
 * stdio is ours, the terminal is its own, signals that we get are passed on.
 *
 * It has a process group of its own, so that what it forks can be told from
 * what others do. Whoever of that group loses its parent comes to us to be
 * collected. We never kill it: a `defib run` that is killed leaves it running.
 */
#ifndef CLI_RUN_PROGRAM_H
#define CLI_RUN_PROGRAM_H

#include "base/fail.h"
#include "daemon/settings.h"

#include <stdint.h>
#include <sys/types.h>

struct run_program {
	pid_t pid;  /* also of its group */
	int go;     /* the child waits at the other end until it may begin */
	bool tty;   /* it has the terminal, which was ours */
	bool over;  /* it has ended */
	int status; /* as waitpid says; once it is over */
	int asked;  /* how often we were told to end after that */
};

/* It is the user's own program and has our environment, but for two things. */
struct run_environment {
	const char *application;            /* the name that its sessions shall have */
	const struct service_token *tokens; /* which open our own door: they are taken out */
	int ntokens;
};

/* Fork it, with the signals that are passed on blocked here; it does nothing before run_go(). */
MUST_CHECK defib_err run_fork(struct run_program *p, char *const *argv,
                              const struct run_environment *env, struct failure *f);
/* Let it begin; false: it could not be executed, and `f` says why. */
MUST_CHECK bool run_go(struct run_program *p, const char *name, struct failure *f);
/* Instead of run_go(): it ends without having done anything. */
void run_forget(struct run_program *p);
/* Pass on signals and collect the dead, until it has ended or the time is over (-1: none). */
void run_wait(struct run_program *p, int64_t most_ms);
/* Take the terminal back. */
void run_end(struct run_program *p);
/* Its exit status as a shell has it: 128 and the signal for a killed one. */
int run_code(const struct run_program *p);
/* "exit 1", "signal 9 (KILL)" */
void run_ending(const struct run_program *p, char *out, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* run_program.c: see run_program.h. */
#include "cli/run_program.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, 0};

/* All that run_wait() takes up. */
static void wanted(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	sigaddset(set, SIGCONT);
	for (const int *s = passed_on; *s; s++)
		sigaddset(set, *s);
}

/* ---- the beginning ---- */

/* In the child: wait to be sent, then become the program. Tells why if that fails. */
static void become(char *const *argv, const struct run_environment *env, int go,
                   const sigset_t *before)
{
	char word;
	if (TEMP_FAILURE_RETRY(read(go, &word, 1)) != 1)
		_exit(127); /* nobody is there who could see our end */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGTTOU, SIG_DFL);
	sigprocmask(SIG_SETMASK, before, NULL);
	/* Here and not before: our own sessions keep their name. */
	setenv("PGAPPNAME", env->application, 1);
	for (int i = 0; i < env->ntokens; i++)
		if (env->tokens[i].env)
			unsetenv(env->tokens[i].env);
	execvp(argv[0], argv);
	int error = errno;
	(void)!write(go, &error, sizeof error);
	_exit(127);
}

/* Whoever reads from a terminal must be in front on it, and gets its Ctrl-C. */
static void hand_terminal(struct run_program *p)
{
	p->tty = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
	if (!p->tty)
		return;
	signal(SIGTTOU, SIG_IGN);
	(void)tcsetpgrp(STDIN_FILENO, p->pid);
}

defib_err run_fork(struct run_program *p, char *const *argv, const struct run_environment *env,
                   struct failure *f)
{
	sigset_t set, before;
	int ends[2];
	*p = (struct run_program){.go = -1};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return fail(f, DEFIB_IO, "cannot create a socket for %s: %s", argv[0], strerror(errno));
	wanted(&set);
	sigprocmask(SIG_BLOCK, &set, &before);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	p->pid = fork();
	if (p->pid == 0) {
		setpgid(0, 0);
		close(ends[0]);
		become(argv, env, ends[1], &before);
	}
	close(ends[1]);
	p->go = ends[0];
	if (p->pid < 0) {
		close(p->go);
		return fail(f, DEFIB_IO, "cannot start %s: %s", argv[0], strerror(errno));
	}
	/* Both do it: whichever comes first, the group is there afterwards. */
	setpgid(p->pid, p->pid);
	return DEFIB_OK;
}

bool run_go(struct run_program *p, const char *name, struct failure *f)
{
	int error = 0;
	hand_terminal(p);
	bool sent = TEMP_FAILURE_RETRY(write(p->go, "", 1)) == 1;
	/* The socket is closed by exec: then there is nothing to read. */
	bool failed = sent && TEMP_FAILURE_RETRY(read(p->go, &error, sizeof error)) == sizeof error;
	close(p->go);
	p->go = -1;
	if (!failed)
		return true;
	run_wait(p, -1);
	run_end(p);
	fail(f, DEFIB_USAGE, "cannot run %s: %s", name, strerror(error));
	return false;
}

void run_forget(struct run_program *p)
{
	close(p->go);
	p->go = -1;
	(void)TEMP_FAILURE_RETRY(waitpid(p->pid, &p->status, 0));
}

/* ---- while it runs ---- */

/* Ctrl-Z stops the program: we stop with it, and the shell has its terminal. */
static void stop_with_it(const struct run_program *p)
{
	if (!p->tty)
		return; /* whoever stopped it will let it go on */
	(void)tcsetpgrp(STDIN_FILENO, getpgrp());
	raise(SIGSTOP);
	(void)tcsetpgrp(STDIN_FILENO, p->pid);
	kill(-p->pid, SIGCONT);
}

/* Whoever of its descendants lost their parent has come to us. */
static void collect(struct run_program *p)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (pid != p->pid)
			continue;
		if (WIFSTOPPED(status)) {
			stop_with_it(p);
		} else {
			p->over = true;
			p->status = status;
		}
	}
}

void run_wait(struct run_program *p, int64_t most_ms)
{
	int64_t end = clock_boot_ms() + most_ms;
	sigset_t set;
	wanted(&set);
	for (;;) {
		bool was_over = p->over;
		collect(p);
		int64_t left = most_ms < 0 ? 1000 : end - clock_boot_ms();
		if (p->over && !was_over)
			return;
		if (left <= 0)
			return;
		struct timespec wait = {left / 1000, left % 1000 * 1000000};
		int got = sigtimedwait(&set, NULL, &wait);
		if (got <= 0 || got == SIGCHLD || got == SIGCONT)
			continue;
		kill(-p->pid, got);
		p->asked += p->over && (got == SIGTERM || got == SIGINT);
	}
}

void run_end(struct run_program *p)
{
	if (p->tty)
		(void)tcsetpgrp(STDIN_FILENO, getpgrp());
	p->tty = false;
}

int run_code(const struct run_program *p)
{
	assert(p->over);
	return WIFSIGNALED(p->status) ? 128 + WTERMSIG(p->status) : WEXITSTATUS(p->status);
}

void run_ending(const struct run_program *p, char *out, size_t size)
{
	assert(p->over);
	if (!WIFSIGNALED(p->status)) {
		snprintf(out, size, "exit %d", WEXITSTATUS(p->status));
		return;
	}
	const char *name = sigabbrev_np(WTERMSIG(p->status));
	snprintf(out, size, "signal %d (%s)", WTERMSIG(p->status), name ? name : "unknown");
}

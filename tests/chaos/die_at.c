/* SPDX-License-Identifier: Apache-2.0
 * die_at.c: run a program that is killed as it enters its Nth system call of those that others
 * can notice.
 *
 *   die_at N FROM COUNT-FILE PROGRAM ARGUMENT...
 *
 * N 0 kills nobody. FROM is "start", or a file: calls count once it exists. The count of such
 * calls goes into COUNT-FILE, with the last one's name. The exit status is the program's; 137
 * when it was killed.
 *
 * Calls of all threads count together, which strace cannot do: it counts each thread's. Processes
 * that the program starts are not traced. A call counts when others can see that it was made: it
 * writes, sends, locks, creates, removes, renames, starts or signals. Between two of them a death
 * leaves the same world as at the second, so every death is one of these.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

static const struct {
	unsigned long number;
	const char *name;
} seen_by_others[] = {
	{SYS_write, "write"},
	{SYS_writev, "writev"},
	{SYS_pwrite64, "pwrite64"},
	{SYS_sendto, "sendto"},
	{SYS_sendmsg, "sendmsg"},
	{SYS_connect, "connect"},
	{SYS_shutdown, "shutdown"},
	{SYS_fsync, "fsync"},
	{SYS_fdatasync, "fdatasync"},
	{SYS_ftruncate, "ftruncate"},
	{SYS_fallocate, "fallocate"},
	{SYS_rename, "rename"},
	{SYS_renameat, "renameat"},
	{SYS_renameat2, "renameat2"},
	{SYS_link, "link"},
	{SYS_linkat, "linkat"},
	{SYS_unlink, "unlink"},
	{SYS_unlinkat, "unlinkat"},
	{SYS_mkdir, "mkdir"},
	{SYS_mkdirat, "mkdirat"},
	{SYS_fcntl, "fcntl"},
	{SYS_flock, "flock"},
	{SYS_openat, "openat"},
	{SYS_clone, "clone"},
	{SYS_clone3, "clone3"},
	{SYS_vfork, "vfork"},
	{SYS_fork, "fork"},
	{SYS_kill, "kill"},
	{SYS_tgkill, "tgkill"},
	{SYS_pidfd_send_signal, "pidfd_send_signal"},
	{SYS_exit_group, "exit_group"},
};

static long limit, count;
static const char *from;
static const char *last = "none";

static bool counting(void)
{
	static bool begun;
	return begun = begun || strcmp(from, "start") == 0 || access(from, F_OK) == 0;
}

static bool sees(unsigned long number, const unsigned long long *args)
{
	if (number == SYS_openat && !(args[2] & O_CREAT))
		return false;
	if (number == SYS_fcntl && args[1] != F_SETLK && args[1] != F_SETLKW &&
	    args[1] != F_OFD_SETLK && args[1] != F_OFD_SETLKW)
		return false;
	for (size_t i = 0; i < sizeof seen_by_others / sizeof *seen_by_others; i++) {
		if (seen_by_others[i].number == number) {
			last = seen_by_others[i].name;
			return true;
		}
	}
	return false;
}

/* Whether the process has just been killed. */
static bool at_call(pid_t thread, pid_t program)
{
	struct ptrace_syscall_info info;
	if (!counting() || ptrace(PTRACE_GET_SYSCALL_INFO, thread, (void *)sizeof info, &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY ||
	    !sees((unsigned long)info.entry.nr, (const unsigned long long *)info.entry.args))
		return false;
	if (++count != limit)
		return false;
	kill(program, SIGKILL);
	return true;
}

static void start(char **argv)
{
	raise(SIGSTOP); /* until it is traced */
	execv(argv[0], argv);
	perror(argv[0]);
	_exit(127);
}

/* What to pass on to a thread that has stopped: a signal, or none. */
static int signal_of(pid_t thread, int status, pid_t program)
{
	int sign = WSTOPSIG(status);
	if (sign == (SIGTRAP | 0x80)) {
		at_call(thread, program);
		return 0;
	}
	if (status >> 16) /* an event: a thread that was born, an exec, a stop of the group */
		return 0;
	return sign;
}

static void follow(pid_t program, int *ended)
{
	int status;
	pid_t thread;
	while ((thread = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
		if (thread <= 0)
			continue;
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			if (thread == program)
				*ended = status;
			continue;
		}
		int sign = signal_of(thread, status, program);
		ptrace(PTRACE_SYSCALL, thread, NULL, (void *)(long)sign);
	}
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	limit = strtol(argv[1], NULL, 10);
	from = argv[2];
	pid_t program = fork();
	if (program == 0)
		start(argv + 4);
	int status, ended = 0;
	if (program < 0 || waitpid(program, &status, WUNTRACED) != program ||
	    ptrace(PTRACE_SEIZE, program, NULL,
	           (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
	                    PTRACE_O_EXITKILL)) != 0) {
		perror("die_at");
		return 2;
	}
	kill(program, SIGCONT);
	follow(program, &ended);
	FILE *file = fopen(argv[3], "w");
	if (!file || fprintf(file, "%ld %s\n", count, last) < 0 || fclose(file) != 0)
		return 2;
	return WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
}

/* SPDX-License-Identifier: Apache-2.0
 * child_spawn.c: from options to a running program.
 *
 * The child is cloned with shared memory, and our thread waits until it has run the program or
 * ended (as with vfork): no page tables are copied, and what it writes into the plan is our result.
 * So between clone and exec it makes only async-signal-safe calls, on a stack of its own; path,
 * environment and descriptors are prepared before.
 *
 *   parent: clone, waits ---------------------------------------- it runs, or the plan says why not
 *   child:         group of its own, death signal, keeper's list, exec
 *
 * The keeper's list has the group before the program runs, so there is no moment at which a killed
 * worker could leave a process behind.
 *
 * Stdin is a sealed file in memory and not a pipe: a child that never reads it blocks nothing,
 * there is no SIGPIPE to handle, and /dev/stdin can be opened.
 *
 * The death signal is bound to the thread that cloned: the child dies with it. Callers start
 * children from a thread that lives as long as the worker.
 */

#include "worker/child_spawn.h"

#include "base/program_env.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define CHILD_STACK (32 * 1024)

/*
 * The child runs in shared memory and must leave nothing in the records of sanitizers: its
 * functions are marked, and descriptors and signals are changed by direct system calls.
 */
#define BARE __attribute__((no_sanitize("address"), no_sanitize("thread")))

/* The thread sanitizer treats every clone as a fork; the C library has a second name for it. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
#define clone __clone
#endif
#endif

/* The child's descriptors; it gets no others. */
enum spawn_slot { SLOT_STDIN, SLOT_STDOUT, SLOT_STDERR, SLOT_RESULT, SLOT_PROGRESS, SLOTS };

static char own_env[][32] = {"DEFIB_RESULT_FD=3", "DEFIB_PROGRESS_FD=4"};
static_assert(SLOT_RESULT == 3 && SLOT_PROGRESS == 4, "as the environment says");
static_assert(SLOT_STDERR == SLOT_STDOUT + SPAWN_STDERR, "pipes follow each other");
static_assert(SLOT_RESULT == SLOT_STDOUT + SPAWN_RESULT, "pipes follow each other");
static_assert(SLOT_PROGRESS == SLOT_STDOUT + SPAWN_PROGRESS, "pipes follow each other");

enum spawn_stage { STAGE_RUNS, STAGE_GROUP, STAGE_DEATH, STAGE_DESCRIPTORS, STAGE_EXEC };
static const char *const stage_doing[] = {
	[STAGE_GROUP] = "cannot make a process group for",
	[STAGE_DEATH] = "cannot set the parent-death signal of",
	[STAGE_DESCRIPTORS] = "cannot set up the descriptors of",
	[STAGE_EXEC] = "cannot run",
};

struct spawn_plan {
	char *path;
	char *const *argv;
	char **env;
	int fds[SLOTS]; /* for the child's slots; all are above the slot numbers */
	pid_t parent;
	bool handles_sigchld;   /* our process */
	struct timespec before; /* the clone, by CLOCK_BOOTTIME */
	struct keeper *keeper;  /* may be NULL */
	/* Written by the child. */
	struct group group;
	bool listed;            /* with the keeper */
	enum spawn_stage stage; /* where it failed, with this error */
	int error;
};

static const int passing_errors[] = {EAGAIN, ENOMEM, EMFILE, ENFILE, ETXTBSY, ENOSPC, 0};

static defib_err spawn_fail(struct failure *f, const char *doing, const char *program, int error)
{
	defib_err code = DEFIB_CONFIG;
	for (const int *e = passing_errors; *e; e++)
		if (*e == error)
			code = DEFIB_IO;
	return fail(f, code, "%s %s: %s", doing, program, strerror(error));
}

static void spawn_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void spawned_close(struct spawned *s)
{
	spawn_close_fd(&s->pidfd);
	for (int i = 0; i < SPAWN_PIPES; i++)
		spawn_close_fd(&s->pipes[i]);
}

/* ---- before the clone: program and environment ---- */

static char **env_make(const struct child_options *o, struct arena *a)
{
	struct program_env env;
	program_env_init(&env, a);
	program_env_pass(&env, o->pass);
	for (char *const *e = o->env; e && *e; e++)
		program_env_put(&env, *e);
	for (size_t i = 0; i < sizeof(own_env) / sizeof(own_env[0]); i++)
		program_env_put(&env, own_env[i]);
	return env.entries;
}

static bool is_program(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	       faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

/* As execvp finds it, in the child's PATH; NULL if it is not found. */
static char *program_path(const char *name, char *const *env)
{
	if (strchr(name, '/'))
		return mem_strdup(name);
	const char *dirs = "/usr/local/bin:/usr/bin:/bin";
	for (; *env; env++)
		if (text_starts(*env, "PATH="))
			dirs = *env + strlen("PATH=");
	AUTO_BUF path = BUF_INIT;
	for (;;) {
		size_t n = strcspn(dirs, ":");
		buf_clear(&path);
		buf_addf(&path, "%.*s/%s", n ? (int)n : 1, n ? dirs : ".", name);
		if (is_program(path.data))
			return buf_detach(&path);
		if (!dirs[n])
			break;
		dirs += n + 1;
	}
	return NULL;
}

/* ---- before the clone: descriptors ---- */

/* Move it above the child's slots; -1 stays -1. */
static int above_slots(int fd)
{
	if (fd < 0 || fd >= SLOTS)
		return fd;
	int lifted = fcntl(fd, F_DUPFD_CLOEXEC, SLOTS);
	int error = errno == EINVAL ? EMFILE : errno; /* EINVAL: no number above the slots is allowed */
	close(fd);
	errno = error;
	return lifted;
}

static bool spawn_write_all(int fd, const char *bytes, size_t n)
{
	while (n) {
		ssize_t done = write(fd, bytes, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return false;
		bytes += done;
		n -= (size_t)done;
	}
	return true;
}

static int open_stdin(const char *payload, size_t n)
{
	if (!payload || !n)
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create("payload", flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL) /* kernels before 6.3 do not know the flag */
		fd = memfd_create("payload", flags);
	if (fd < 0)
		return -1;
	if (!spawn_write_all(fd, payload, n) || lseek(fd, 0, SEEK_SET) < 0) {
		int error = errno;
		close(fd);
		errno = error;
		return -1;
	}
	fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
	return fd;
}

static bool open_pipe(int *ours, int *childs)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	*ours = ends[0];
	*childs = above_slots(ends[1]);
	return *childs >= 0 && fcntl(*ours, F_SETFL, O_NONBLOCK) == 0;
}

static bool spawn_open_all(struct spawn_plan *p, const struct child_options *o, struct spawned *s)
{
	p->fds[SLOT_STDIN] = above_slots(open_stdin(o->payload, o->payload_len));
	if (p->fds[SLOT_STDIN] < 0)
		return false;
	for (int i = 0; i < SPAWN_PIPES; i++)
		if (!open_pipe(&s->pipes[i], &p->fds[SLOT_STDOUT + i]))
			return false;
	return true;
}

/* ---- after the clone, in the child: only async-signal-safe calls ---- */

BARE static _Noreturn void give_up(struct spawn_plan *p, enum spawn_stage stage)
{
	p->error = errno;
	p->stage = stage;
	syscall(SYS_exit_group, 127);
	__builtin_unreachable();
}

BARE static bool take_slots(const struct spawn_plan *p)
{
	bool ok = true;
	for (int i = 0; i < SLOTS; i++)
		ok = syscall(SYS_dup3, p->fds[i], i, 0) == i && ok;
	/* Also descriptors that a host program or its libraries opened without close-on-exec. */
	return close_range(SLOTS, ~0U, 0) == 0 && ok;
}

/*
 * Every signal has been blocked since before the clone, so no handler of the parent runs here. The
 * default action, and the empty signal set, are all zeros.
 */
BARE static void reset_signals(void)
{
	static const char plain[128];
	for (int sig = 1; sig < NSIG; sig++)
		syscall(SYS_rt_sigaction, sig, plain, NULL, NSIG / 8); /* KILL and STOP cannot be set */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, plain, NULL, NSIG / 8);
}

BARE static int child_main(void *plan)
{
	struct spawn_plan *p = plan;
	if (setpgid(0, 0) < 0)
		give_up(p, STAGE_GROUP);
	/* The parent may have died before the death signal was set. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != p->parent)
		give_up(p, STAGE_DEATH);
	p->group = group_since(getpid(), &p->before);
	p->listed = p->keeper && keeper_list(p->keeper, p->group);
	if (!take_slots(p))
		give_up(p, STAGE_DESCRIPTORS);
	reset_signals();
	execve(p->path, p->argv, p->env);
	give_up(p, STAGE_EXEC);
}

/* ---- after the clone, in the parent ---- */

/*
 * Returns when the child runs the program or has ended. A SIGCHLD without a handler is not blocked:
 * the kernel then drops it, while otherwise each child that ends meanwhile would wake another
 * thread.
 */
static pid_t clone_quietly(struct spawn_plan *p, int *pidfd)
{
	alignas(16) char stack[CHILD_STACK];
	sigset_t all, before;
	sigfillset(&all);
	if (!p->handles_sigchld)
		sigdelset(&all, SIGCHLD);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = clone(child_main, stack + CHILD_STACK,
	                  CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, p, pidfd);
	int error = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return pid;
}

static defib_err report_fail(const struct spawn_plan *p, struct failure *f)
{
	defib_err code = spawn_fail(f, stage_doing[p->stage], p->argv[0], p->error);
	if (p->stage == STAGE_EXEC && p->error == ENOENT && is_program(p->path))
		fail_next(f, "the file exists, but the interpreter named in its first line does not");
	return code;
}

static defib_err spawn_launch(struct spawn_plan *p, struct keeper *keeper, struct spawned *s,
                              struct failure *f)
{
	siginfo_t info;
	p->parent = getpid();
	p->keeper = keeper;
	clock_gettime(CLOCK_BOOTTIME, &p->before);
	pid_t pid = clone_quietly(p, &s->pidfd);
	if (pid < 0)
		return spawn_fail(f, "cannot fork for", p->argv[0], errno);
	/* A child that ended before it recorded its group has no start time, and is not listed. */
	s->group = p->group.id ? p->group : (struct group){.id = pid};
	if (keeper && p->group.id)
		keeper_listed(keeper, pid, p->listed);
	if (p->stage == STAGE_RUNS)
		return DEFIB_OK;
	if (keeper)
		keeper_drop(keeper, pid); /* before it is reaped, which frees the number */
	while (waitid(P_PIDFD, (id_t)s->pidfd, &info, WEXITED) < 0 && errno == EINTR) {
	}
	return report_fail(p, f);
}

static defib_err refuse_blind(struct spawn_plan *p, struct failure *f)
{
	struct sigaction now;
	sigaction(SIGCHLD, NULL, &now);
	p->handles_sigchld = now.sa_handler != SIG_DFL;
	if (now.sa_handler != SIG_IGN && !(now.sa_flags & SA_NOCLDWAIT))
		return DEFIB_OK;
	fail(f, DEFIB_USAGE, "this process ignores SIGCHLD, so the exit of a child cannot be seen");
	fail_next(f, "set SIGCHLD to its default action before starting children");
	return DEFIB_USAGE;
}

static defib_err plan_run(struct spawn_plan *p, const struct child_options *o, struct spawned *s,
                          struct arena *a, struct failure *f)
{
	p->argv = o->argv;
	p->env = env_make(o, a);
	p->path = program_path(o->argv[0], p->env);
	if (!p->path)
		return spawn_fail(f, stage_doing[STAGE_EXEC], o->argv[0], ENOENT);
	if (!spawn_open_all(p, o, s))
		return spawn_fail(f, stage_doing[STAGE_DESCRIPTORS], o->argv[0], errno);
	return spawn_launch(p, o->keeper, s, f);
}

defib_err child_spawn(const struct child_options *o, struct spawned *out, struct failure *f)
{
	assert(o->argv && o->argv[0]);
	struct spawn_plan p = {0};
	AUTO_ARENA a = ARENA_INIT;
	*out = (struct spawned){.pidfd = -1};
	for (int i = 0; i < SPAWN_PIPES; i++)
		out->pipes[i] = -1;
	for (int i = 0; i < SLOTS; i++)
		p.fds[i] = -1;
	defib_err err = refuse_blind(&p, f);
	if (err == DEFIB_OK)
		err = plan_run(&p, o, out, &a, f);
	if (err != DEFIB_OK)
		spawned_close(out);
	for (int i = 0; i < SLOTS; i++)
		spawn_close_fd(&p.fds[i]);
	free(p.path);
	return err;
}

/*
 * child_spawn.c: from options to a running program.
 *
 * The worker has threads, so between fork and exec only async-signal-safe
 * calls are allowed: path, environment and descriptors are made before.
 *
 * Parent and child talk over one socket that exec closes:
 *
 *   parent: fork, setpgid, pidfd, keeper_add, "go" ------ reads: end of file = it runs,
 *   child:       setpgid, death signal, waits for "go"      a report = why it does not
 *
 * The child does nothing of its own before the keeper knows its group, so there
 * is no moment at which a killed worker could leave something behind.
 *
 * Stdin is a sealed file in memory and not a pipe: a child that never reads it
 * blocks nobody, there is no SIGPIPE to care for, and /dev/stdin can be opened.
 *
 * The death signal is bound to the thread that forked: a child dies with it.
 * Callers start children from a thread that lives as long as the worker.
 */
#include "worker/child_spawn.h"

#include "base/program_env.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* What the child's descriptors are; SYNC is closed by exec, the others are all it gets. */
enum slot { SLOT_STDIN, SLOT_STDOUT, SLOT_STDERR, SLOT_RESULT, SLOT_PROGRESS, SLOT_SYNC, SLOTS };

static char own_env[][32] = {"DEFIB_RESULT_FD=3", "DEFIB_PROGRESS_FD=4"};
static_assert(SLOT_RESULT == 3 && SLOT_PROGRESS == 4, "as the environment says");
static_assert(SLOT_RESULT == SLOT_STDERR + SPAWN_RESULT, "pipes follow each other");
static_assert(SLOT_PROGRESS == SLOT_STDERR + SPAWN_PROGRESS, "pipes follow each other");

struct plan {
	char *path;
	char *const *argv;
	char **env;
	int fds[SLOTS]; /* what the child puts into its slots; all of them lie above the slots */
	int sync;       /* our end */
	pid_t parent;
};

enum stage { STAGE_GROUP, STAGE_DEATH, STAGE_DESCRIPTORS, STAGE_EXEC };
static const char *const stage_doing[] = {
	[STAGE_GROUP] = "cannot make a process group for",
	[STAGE_DEATH] = "cannot set the parent-death signal of",
	[STAGE_DESCRIPTORS] = "cannot set up the descriptors of",
	[STAGE_EXEC] = "cannot run",
};

struct report {
	enum stage stage;
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

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void spawned_close(struct spawned *s)
{
	close_fd(&s->pidfd);
	for (int i = 0; i < SPAWN_PIPES; i++)
		close_fd(&s->pipes[i]);
}

/* ---- before the fork: program and environment */

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

/* As execvp finds it, in the PATH the child will have; NULL when it is nowhere. */
static char *program_path(const char *name, char *const *env)
{
	if (strchr(name, '/'))
		return mem_strdup(name);
	const char *dirs = "/usr/local/bin:/usr/bin:/bin";
	for (; *env; env++)
		if (text_starts(*env, "PATH="))
			dirs = *env + strlen("PATH=");
	struct buf path = BUF_INIT;
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
	buf_release(&path);
	return NULL;
}

/* ---- before the fork: descriptors */

/* Out of the way of the child's slots; -1 stays -1. */
static int above_slots(int fd)
{
	if (fd < 0 || fd >= SLOTS)
		return fd;
	int lifted = fcntl(fd, F_DUPFD_CLOEXEC, SLOTS);
	int error = errno;
	close(fd);
	errno = error;
	return lifted;
}

static bool write_all(int fd, const char *bytes, size_t n)
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
	if (!write_all(fd, payload, n) || lseek(fd, 0, SEEK_SET) < 0) {
		int error = errno;
		close(fd);
		errno = error;
		return -1;
	}
	fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
	return fd;
}

/* Our stderr: chatter of jobs belongs with the log, not among data on our stdout. */
static int open_stdout(void)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, SLOTS);
	return fd >= 0 || errno != EBADF ? fd : open("/dev/null", O_WRONLY | O_CLOEXEC);
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

static bool open_sync(struct plan *p)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return false;
	p->sync = ends[0];
	p->fds[SLOT_SYNC] = above_slots(ends[1]);
	return p->fds[SLOT_SYNC] >= 0;
}

static bool open_all(struct plan *p, const struct child_options *o, struct spawned *s)
{
	p->fds[SLOT_STDIN] = above_slots(open_stdin(o->payload, o->payload_len));
	if (p->fds[SLOT_STDIN] < 0)
		return false;
	p->fds[SLOT_STDOUT] = above_slots(open_stdout());
	if (p->fds[SLOT_STDOUT] < 0)
		return false;
	for (int i = 0; i < SPAWN_PIPES; i++)
		if (!open_pipe(&s->pipes[i], &p->fds[SLOT_STDERR + i]))
			return false;
	return open_sync(p);
}

/* ---- after the fork, in the child: only async-signal-safe calls */

static _Noreturn void give_up(enum stage stage)
{
	struct report r = {stage, errno};
	send(SLOT_SYNC, &r, sizeof(r), MSG_NOSIGNAL);
	_exit(127);
}

static void take_slots(const struct plan *p)
{
	bool ok = true;
	for (int i = 0; i < SLOT_SYNC; i++)
		ok = dup2(p->fds[i], i) == i && ok;
	ok = dup3(p->fds[SLOT_SYNC], SLOT_SYNC, O_CLOEXEC) == SLOT_SYNC && ok;
	/* Also what a host program or its libraries left without close-on-exec. */
	ok = close_range(SLOTS, ~0U, 0) == 0 && ok;
	if (!ok)
		give_up(STAGE_DESCRIPTORS);
}

/* Every signal is blocked since before the fork, so no handler of the parent's runs here. */
static void reset_signals(void)
{
	struct sigaction plain = {.sa_handler = SIG_DFL};
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &plain, NULL); /* KILL, STOP and libc's own two cannot be set */
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child_main(const struct plan *p)
{
	take_slots(p);
	if (setpgid(0, 0) < 0)
		give_up(STAGE_GROUP);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		give_up(STAGE_DEATH);
	/* The parent may have died before the death signal was set. */
	char go;
	if (getppid() != p->parent || recv(SLOT_SYNC, &go, 1, 0) != 1)
		_exit(127);
	reset_signals();
	execve(p->path, p->argv, p->env);
	give_up(STAGE_EXEC);
}

/* ---- after the fork, in the parent */

static pid_t fork_quietly(const struct plan *p)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = fork();
	if (pid == 0)
		child_main(p);
	int error = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return pid;
}

/* It does not run: it has ended, or is ended here, and nobody else will hear of it. */
static void reap(pid_t pid)
{
	siginfo_t info;
	kill(pid, SIGKILL);
	while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0 && errno == EINTR) {
	}
}

/* Let it go on and hear whether it runs. */
static bool runs(const struct plan *p, struct report *r)
{
	/* Where it has ended already this fails, and a report may lie behind the reset. */
	send(p->sync, "g", 1, MSG_NOSIGNAL);
	ssize_t n;
	do {
		n = recv(p->sync, r, sizeof(*r), 0);
	} while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	return n != sizeof(*r);
}

static defib_err report_fail(const struct plan *p, const struct report *r, struct failure *f)
{
	assert(r->stage <= STAGE_EXEC);
	defib_err code = spawn_fail(f, stage_doing[r->stage], p->argv[0], r->error);
	if (r->stage == STAGE_EXEC && r->error == ENOENT && is_program(p->path))
		fail_next(f, "it is there: what its first line names to run it with is not");
	return code;
}

static defib_err launch(struct plan *p, struct keeper *keeper, struct spawned *s, struct failure *f)
{
	p->parent = getpid();
	pid_t pid = fork_quietly(p);
	if (pid < 0)
		return spawn_fail(f, "cannot fork for", p->argv[0], errno);
	/* Both sides do it, so that whoever is second finds it done. */
	setpgid(pid, pid);
	s->pidfd = pidfd_open(pid, 0);
	if (s->pidfd < 0) {
		int error = errno;
		reap(pid);
		return spawn_fail(f, "cannot watch", p->argv[0], error);
	}
	s->group = group_of(pid);
	if (keeper)
		keeper_add(keeper, pid);
	close_fd(&p->fds[SLOT_SYNC]); /* else the child's exec would be no end of file */
	struct report r;
	if (runs(p, &r))
		return DEFIB_OK;
	if (keeper)
		keeper_drop(keeper, pid); /* before the reaping, which frees the number */
	reap(pid);
	return report_fail(p, &r, f);
}

static defib_err refuse_blind(struct failure *f)
{
	struct sigaction now;
	sigaction(SIGCHLD, NULL, &now);
	if (now.sa_handler != SIG_IGN && !(now.sa_flags & SA_NOCLDWAIT))
		return DEFIB_OK;
	fail(f, DEFIB_USAGE, "this process ignores SIGCHLD, so the exit of a child cannot be seen");
	fail_next(f, "set SIGCHLD to its default action before starting children");
	return DEFIB_USAGE;
}

static defib_err plan_run(struct plan *p, const struct child_options *o, struct spawned *s,
                          struct arena *a, struct failure *f)
{
	p->argv = o->argv;
	p->env = env_make(o, a);
	p->path = program_path(o->argv[0], p->env);
	if (!p->path)
		return spawn_fail(f, stage_doing[STAGE_EXEC], o->argv[0], ENOENT);
	if (!open_all(p, o, s))
		return spawn_fail(f, stage_doing[STAGE_DESCRIPTORS], o->argv[0], errno);
	return launch(p, o->keeper, s, f);
}

defib_err child_spawn(const struct child_options *o, struct spawned *out, struct failure *f)
{
	assert(o->argv && o->argv[0]);
	*out = (struct spawned){.pidfd = -1, .pipes = {-1, -1, -1}};
	struct plan p = {.fds = {-1, -1, -1, -1, -1, -1}, .sync = -1};
	struct arena a = ARENA_INIT;
	defib_err err = refuse_blind(f);
	if (err == DEFIB_OK)
		err = plan_run(&p, o, out, &a, f);
	if (err != DEFIB_OK)
		spawned_close(out);
	for (int i = 0; i < SLOTS; i++)
		close_fd(&p.fds[i]);
	close_fd(&p.sync);
	free(p.path);
	arena_release(&a);
	return err;
}

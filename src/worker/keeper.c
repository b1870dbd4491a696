/* SPDX-License-Identifier: Apache-2.0
 * keeper.c: the keeper is forked without exec from a process that has threads,
 * so it only makes system calls and allocates nothing. Its list is a static
 * array whose pages cost memory only where they are used. Start it early: it
 * keeps the pages that its worker had at that moment.
 *
 * The worker's death shows twice: its end of the socket closes, and its pidfd
 * becomes readable. The second is needed because a process that the worker
 * forked may hold a copy of the socket for as long as it likes.
 *
 * All signals are blocked: whoever sends TERM to everything (a service manager,
 * a terminal) means the worker, and the keeper has to outlive it by a moment.
 *
 * Out of its reach is a descendant that left the group (setsid); only a control
 * group holds that.
 */
#include "worker/keeper.h"

#include "base/log.h"
#include "base/mem.h"
#include "worker/group.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEPER_GROUPS_MAX 16384
#define SEND_LIMIT_US 250000
#define STOP_LIMIT_MS 1000

enum order { ORDER_ADD, ORDER_DROP, ORDER_STOP };

struct message {
	enum order order;
	struct group group;
};

struct keeper {
	pid_t pid;
	int pidfd, socket;
	atomic_int listed;
	atomic_bool lost; /* said once that it does not listen */
};

/* ---- the keeper's own process */

enum { KEEPER_SOCKET, KEEPER_WORKER, KEEPER_FDS };

static struct group groups[KEEPER_GROUPS_MAX];
static int group_count;

static void drop(pid_t id)
{
	for (int i = 0; i < group_count; i++) {
		if (groups[i].id == id) {
			groups[i] = groups[--group_count];
			return;
		}
	}
}

static void obey(const struct message *m)
{
	switch (m->order) {
	case ORDER_ADD:
		if (group_count < KEEPER_GROUPS_MAX)
			groups[group_count++] = m->group;
		return;
	case ORDER_DROP:
		drop(m->group.id);
		return;
	case ORDER_STOP:
		_exit(0);
	}
}

/* Take what has arrived; false: no more can come. */
static bool take_orders(void)
{
	for (;;) {
		struct message m;
		ssize_t n = recv(KEEPER_SOCKET, &m, sizeof(m), MSG_DONTWAIT);
		if (n == sizeof(m))
			obey(&m);
		else
			return n < 0 && (errno == EAGAIN || errno == EINTR);
	}
}

static _Noreturn void keep(void)
{
	struct pollfd fds[KEEPER_FDS] = {
		[KEEPER_SOCKET] = {.fd = KEEPER_SOCKET, .events = POLLIN},
		[KEEPER_WORKER] = {.fd = KEEPER_WORKER, .events = POLLIN},
	};
	bool worker_lives = true, more = true;
	while (worker_lives && more) {
		if (poll(fds, KEEPER_FDS, -1) < 0)
			continue;
		worker_lives = !fds[KEEPER_WORKER].revents;
		/* Last orders count even when their giver is dead: a drop may be among them. */
		more = take_orders();
	}
	for (int i = 0; i < group_count; i++)
		group_signal(&groups[i], SIGKILL);
	_exit(0);
}

static _Noreturn void keeper_main(int socket, int worker)
{
	/* First out of the way of the two places, then into them. */
	socket = fcntl(socket, F_DUPFD, KEEPER_FDS);
	worker = fcntl(worker, F_DUPFD, KEEPER_FDS);
	bool ok = dup2(socket, KEEPER_SOCKET) == KEEPER_SOCKET;
	ok = dup2(worker, KEEPER_WORKER) == KEEPER_WORKER && ok;
	ok = close_range(KEEPER_FDS, ~0U, 0) == 0 && ok;
	setsid();
	prctl(PR_SET_NAME, "defib-keeper");
	ok = chdir("/") == 0 && ok; /* else it would pin the file system the worker runs in */
	if (!ok || send(KEEPER_SOCKET, "", 1, MSG_NOSIGNAL) != 1)
		_exit(1);
	keep();
}

/* ---- the worker's side */

static void wait_exit(struct keeper *k)
{
	siginfo_t info;
	while (waitid(P_PIDFD, (id_t)k->pidfd, &info, WEXITED) < 0 && errno == EINTR) {
	}
}

static pid_t fork_keeper(int socket, int worker)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = fork();
	if (pid == 0)
		keeper_main(socket, worker);
	int error = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return pid;
}

/* Fork it and hear that it is ready; what is opened here is closed by the caller. */
static bool launch(struct keeper *k, int *worker, int *theirs)
{
	int ends[2];
	*worker = pidfd_open(getpid(), 0);
	if (*worker < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return false;
	k->socket = ends[0];
	*theirs = ends[1];
	struct timeval limit = {.tv_usec = SEND_LIMIT_US};
	setsockopt(k->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	k->pid = fork_keeper(*theirs, *worker);
	if (k->pid < 0)
		return false;
	close(*theirs); /* else its death would be no end of file */
	*theirs = -1;
	k->pidfd = pidfd_open(k->pid, 0);
	if (k->pidfd < 0) /* it goes when the socket closes; without a pidfd nobody can wait for it */
		return false;
	char ready;
	ssize_t n;
	do {
		n = recv(k->socket, &ready, 1, 0);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		errno = ECHILD;
	return n == 1;
}

defib_err keeper_start(struct keeper **out, struct failure *f)
{
	struct keeper *k = mem_alloc(sizeof(*k));
	*k = (struct keeper){.pid = -1, .pidfd = -1, .socket = -1};
	int worker = -1, theirs = -1;
	bool ok = launch(k, &worker, &theirs);
	int error = errno;
	if (worker >= 0)
		close(worker);
	if (theirs >= 0)
		close(theirs);
	*out = ok ? k : NULL;
	if (ok)
		return DEFIB_OK;
	keeper_stop(k);
	return fail(f, DEFIB_IO, "cannot start the keeper of child processes: %s", strerror(error));
}

/*
 * Messages are whole or not there, so threads need no lock. A bare system call, as a child that
 * shares our memory needs it (child_spawn.c).
 */
static bool tell(const struct keeper *k, enum order order, struct group group)
{
	struct message m;
	memset(&m, 0, sizeof(m)); /* padding too: the whole of it is sent */
	m.order = order;
	m.group = group;
	ssize_t n;
	do {
		n = syscall(SYS_sendto, k->socket, &m, sizeof(m), MSG_NOSIGNAL, NULL, 0);
	} while (n < 0 && errno == EINTR);
	return n == sizeof(m);
}

static void lose(struct keeper *k, pid_t group, int error)
{
	if (error && !atomic_exchange(&k->lost, true))
		log_event(
			LOG_ERROR, "the keeper process does not answer: children may outlive a killed worker",
			LOG_INT("keeper", k->pid), LOG_INT("group", group), LOG_STR("why", strerror(error)));
}

bool keeper_tell(const struct keeper *k, struct group group)
{
	return tell(k, ORDER_ADD, group);
}

void keeper_told(struct keeper *k, pid_t group, int unheard)
{
	if (atomic_fetch_add(&k->listed, 1) == KEEPER_GROUPS_MAX)
		log_event(LOG_ERROR, "the keeper's list is full: children may outlive a killed worker",
		          LOG_INT("keeper", k->pid), LOG_INT("groups", KEEPER_GROUPS_MAX));
	lose(k, group, unheard);
}

void keeper_add(struct keeper *k, pid_t group)
{
	assert(group > 1);
	keeper_told(k, group, keeper_tell(k, group_of(group)) ? 0 : errno);
}

void keeper_drop(struct keeper *k, pid_t group)
{
	assert(group > 1);
	atomic_fetch_sub(&k->listed, 1);
	if (!tell(k, ORDER_DROP, (struct group){.id = group}))
		lose(k, group, errno);
}

void keeper_stop(struct keeper *k)
{
	if (!k)
		return;
	if (k->pidfd >= 0) {
		struct pollfd exit = {.fd = k->pidfd, .events = POLLIN};
		/* One that was stopped or hangs must not hold us up, nor kill when the socket closes. */
		if (!tell(k, ORDER_STOP, (struct group){0}) || poll(&exit, 1, STOP_LIMIT_MS) != 1)
			pidfd_send_signal(k->pidfd, SIGKILL, NULL, 0);
		wait_exit(k);
		close(k->pidfd);
	}
	if (k->socket >= 0)
		close(k->socket);
	free(k);
}

pid_t keeper_pid(const struct keeper *k)
{
	return k->pid;
}

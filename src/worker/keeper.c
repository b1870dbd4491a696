/* SPDX-License-Identifier: Apache-2.0
 * keeper.c: the keeper is forked without exec from a process that has threads, so it only makes
 * system calls and allocates nothing. The list is in memory that both share: adding a group wakes
 * no process, and what a worker wrote before it was killed is there. Pages that were never used
 * cost nothing. Start the keeper early: it keeps the pages that its worker had at that moment.
 *
 * An entry is free (0), being written (-1) or a group. Its start is written before its number, and
 * only its writer frees it.
 *
 * The worker's death shows in two ways: its end of the socket closes, and its pidfd becomes
 * readable. The second is needed because a process that the worker forked may hold a copy of the
 * socket for any time.
 *
 * All signals are blocked: a TERM to all processes (from a service manager or a terminal) is meant
 * for the worker, and the keeper must outlive it by a moment.
 *
 * The keeper cannot reach a descendant that left the group (setsid); only a control group holds
 * that.
 */

#include "worker/keeper.h"

#include "base/log.h"
#include "base/mem.h"
#include "life/process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUPS_MAX 16384
#define STOP_LIMIT_MS 1000
#define BEING_WRITTEN (-1)
/* A child that shares our memory must leave nothing in the records of sanitizers. */
#define BARE __attribute__((no_sanitize("address"), no_sanitize("thread")))

struct entry {
	_Atomic pid_t id;
	uint64_t start;
};

/* Shared by both processes. */
struct list {
	atomic_int used; /* entries after these were never used */
	struct entry entries[GROUPS_MAX];
};

struct keeper {
	pid_t pid;
	int pidfd, socket;
	struct list *list;
	atomic_bool failed; /* logged once that it has ended or that its list is full */
};

/* ---- the keeper's own process ---- */

enum { KEEPER_SOCKET, KEEPER_WORKER, KEEPER_FDS };

static _Noreturn void kill_all(struct list *list)
{
	int used = atomic_load(&list->used);
	for (int i = 0; i < used; i++) {
		const struct entry *e = &list->entries[i];
		struct group group = {.id = atomic_load(&e->id), .start = e->start};
		if (group.id > 1)
			group_signal(&group, SIGKILL);
	}
	_exit(0);
}

/* A byte is the order to exit. It counts even if the sender is dead by now. */
static _Noreturn void keeper_keep(struct list *list)
{
	struct pollfd fds[KEEPER_FDS] = {
		[KEEPER_SOCKET] = {.fd = KEEPER_SOCKET, .events = POLLIN},
		[KEEPER_WORKER] = {.fd = KEEPER_WORKER, .events = POLLIN},
	};
	char order;
	while (poll(fds, KEEPER_FDS, -1) <= 0) {
	}
	if (recv(KEEPER_SOCKET, &order, 1, MSG_DONTWAIT) == 1)
		_exit(0);
	kill_all(list);
}

static _Noreturn void keeper_main(struct list *list, int socket, int worker)
{
	/* First move both out of the way of the two slots, then into them. */
	socket = fcntl(socket, F_DUPFD, KEEPER_FDS);
	worker = fcntl(worker, F_DUPFD, KEEPER_FDS);
	bool ok = dup2(socket, KEEPER_SOCKET) == KEEPER_SOCKET;
	ok = dup2(worker, KEEPER_WORKER) == KEEPER_WORKER && ok;
	ok = close_range(KEEPER_FDS, ~0U, 0) == 0 && ok;
	setsid();
	prctl(PR_SET_NAME, "defib-keeper");
	ok = chdir("/") == 0 && ok; /* otherwise it would keep the worker's file system busy */
	if (!ok || send(KEEPER_SOCKET, "", 1, MSG_NOSIGNAL) != 1)
		_exit(1);
	keeper_keep(list);
}

/* ---- the worker's side ---- */

static void wait_exit(struct keeper *k)
{
	siginfo_t info;
	while (waitid(P_PIDFD, (id_t)k->pidfd, &info, WEXITED) < 0 && errno == EINTR) {
	}
}

static pid_t fork_keeper(struct list *list, int socket, int worker)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = fork();
	if (pid == 0)
		keeper_main(list, socket, worker);
	int error = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return pid;
}

/* Fork it and wait until it is ready; the caller closes what is opened here. */
static bool keeper_launch(struct keeper *k, int *worker, int *theirs)
{
	int ends[2];
	*worker = pidfd_open(getpid(), 0);
	if (*worker < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return false;
	k->socket = ends[0];
	*theirs = ends[1];
	k->list =
		mmap(NULL, sizeof(*k->list), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (k->list == MAP_FAILED)
		return false;
	k->pid = fork_keeper(k->list, *theirs, *worker);
	if (k->pid < 0)
		return false;
	close(*theirs); /* otherwise its death would not be an end of file */
	*theirs = -1;
	k->pidfd = pidfd_open(k->pid, 0);
	if (k->pidfd < 0) /* it exits when the socket closes; without a pidfd we cannot wait for it */
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
	*k = (struct keeper){.pid = -1, .pidfd = -1, .socket = -1, .list = MAP_FAILED};
	int worker = -1, theirs = -1;
	bool ok = keeper_launch(k, &worker, &theirs);
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

BARE static bool take_entry(struct list *list, int i, struct group group)
{
	struct entry *e = &list->entries[i];
	pid_t none = 0;
	if (atomic_load(&e->id) != 0 || !atomic_compare_exchange_strong(&e->id, &none, BEING_WRITTEN))
		return false;
	int used = atomic_load(&list->used);
	while (used <= i && !atomic_compare_exchange_weak(&list->used, &used, i + 1)) {
	}
	e->start = group.start;
	atomic_store(&e->id, group.id);
	return true;
}

BARE bool keeper_list(struct keeper *k, struct group group)
{
	for (int i = 0; i < GROUPS_MAX; i++)
		if (take_entry(k->list, i, group))
			return true;
	return false;
}

static bool is_gone(const struct keeper *k)
{
	struct pollfd exit = {.fd = k->pidfd, .events = POLLIN};
	return poll(&exit, 1, 0) == 1;
}

void keeper_listed(struct keeper *k, pid_t group, bool listed)
{
	bool gone = is_gone(k);
	if ((gone || !listed) && !atomic_exchange(&k->failed, true))
		log_event(LOG_ERROR,
		          gone ? "the keeper process has ended: children may outlive a killed worker"
		               : "the keeper's list is full: children may outlive a killed worker",
		          LOG_INT("keeper", k->pid), LOG_INT("group", group));
}

void keeper_drop(struct keeper *k, pid_t group)
{
	int used = atomic_load(&k->list->used);
	assert(group > 1);
	for (int i = 0; i < used; i++) {
		if (atomic_load(&k->list->entries[i].id) != group)
			continue;
		atomic_store(&k->list->entries[i].id, 0);
		return;
	}
}

void keeper_stop(struct keeper *k)
{
	if (!k)
		return;
	if (k->pidfd >= 0) {
		struct pollfd exit = {.fd = k->pidfd, .events = POLLIN};
		/* A keeper that was stopped or hangs must not delay us, nor kill when the socket closes. */
		if (send(k->socket, "", 1, MSG_NOSIGNAL) != 1 || poll(&exit, 1, STOP_LIMIT_MS) != 1)
			pidfd_send_signal(k->pidfd, SIGKILL, NULL, 0);
		wait_exit(k);
		close(k->pidfd);
	}
	if (k->socket >= 0)
		close(k->socket);
	if (k->list != MAP_FAILED)
		munmap(k->list, sizeof(*k->list));
	free(k);
}

pid_t keeper_pid(const struct keeper *k)
{
	return k->pid;
}

/* ---- process groups ---- */

/*
 * Signals to a job's process group, and to no other.
 *
 * The keeper calls this after a fork without exec, and so does a child that still shares its
 * parent's memory (child_spawn.c). process_start() makes only system calls.
 */

#define USER_HZ 100UL /* unit of start times, whatever the kernel's own tick is */
#define NS 1000000000UL

struct group group_of(pid_t leader)
{
	assert(leader > 1);
	return (struct group){.id = leader, .start = process_start(leader)};
}

/* As fs/proc/array.c computes it from nanoseconds. */
static uint64_t ticks(const struct timespec *t)
{
	uint64_t ns = (uint64_t)t->tv_sec * NS + (uint64_t)t->tv_nsec;
	return ns / (NS / USER_HZ);
}

struct group group_since(pid_t leader, const struct timespec *before)
{
	struct timespec now;
	assert(leader > 1);
	syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
	uint64_t start = ticks(&now);
	return start == ticks(before) ? (struct group){leader, start} : group_of(leader);
}

bool group_signal_held(const struct group *g, int signal)
{
	assert(g->id > 1);
	return kill(-g->id, signal) == 0;
}

bool group_signal(const struct group *g, int signal)
{
	/* 0 and 1 would mean our own group, and all processes. */
	assert(g->id > 1);
	uint64_t start = process_start(g->id);
	bool recycled = start && g->start && start != g->start;
	return !recycled && kill(-g->id, signal) == 0;
}

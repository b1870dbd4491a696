/* SPDX-License-Identifier: Apache-2.0
 * fellows.c: one epoll descriptor over a pidfd of each watched worker, and an eventfd.
 *
 * The eventfd ("bell") is in the same epoll: it is readable while there is an unreported death of a
 * worker that was never watched, so that one descriptor signals all deaths.
 *
 * life/process.h says whether a worker is gone. If that is not known, the process with its pid is
 * watched, and its end is the worker's end too, whether it was the same process or a later one. If
 * that one does not end, the worker is found by its lease.
 */
#include "life/fellows.h"

#include "base/log.h"
#include "base/mem.h"
#include "life/process.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define FELLOWS_MAX 4096

enum fellow_state {
	FELLOW_UNWATCHED, /* no descriptor available: tried again at the next set */
	FELLOW_WATCHED,
	FELLOW_GONE,     /* not reported yet */
	FELLOW_REPORTED, /* kept while it is in the set, so that it is reported only once */
	FELLOW_STATES,
};

struct fellow {
	int64_t id;
	struct incarnation who;
	enum fellow_state state;
	int pidfd; /* -1 unless watched */
};

struct fellows {
	struct incarnation self;
	struct fellow **all; /* sorted by id; never moved, because epoll points to it */
	int n;
	int max;
	int in_state[FELLOW_STATES];
	int epoll_fd, bell_fd;
	bool short_logged; /* logged that some cannot be watched */
};

/* At most half of the descriptors: database sessions matter more than quick detection. */
static int most_watched(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur / 2 > FELLOWS_MAX)
		return FELLOWS_MAX;
	return (int)(files.rlim_cur / 2);
}

defib_err fellows_open(struct fellows **out, struct failure *f)
{
	struct fellows *x = mem_alloc(sizeof *x);
	struct epoll_event bell = {.events = EPOLLIN, .data.ptr = NULL};
	*out = NULL;
	x->max = most_watched();
	x->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	x->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (x->epoll_fd < 0 || x->bell_fd < 0 ||
	    epoll_ctl(x->epoll_fd, EPOLL_CTL_ADD, x->bell_fd, &bell) != 0) {
		int err = errno;
		fellows_close(x);
		return fail(f, DEFIB_IO, "cannot watch processes: %s", strerror(err));
	}
	defib_err err = incarnation_self(&x->self, f);
	if (err) {
		fellows_close(x);
		return err;
	}
	*out = x;
	return DEFIB_OK;
}

/* The bell is readable exactly while there is an unreported death. */
static void ring(struct fellows *x, bool on)
{
	uint64_t value = 1;
	ssize_t n =
		on ? write(x->bell_fd, &value, sizeof value) : read(x->bell_fd, &value, sizeof value);
	assert(n == sizeof value);
	(void)n;
}

/* The only place where a fellow's state changes. */
static void fellows_become(struct fellows *x, struct fellow *w, enum fellow_state state)
{
	int gone_before = x->in_state[FELLOW_GONE];
	if (w->state == FELLOW_WATCHED) {
		/* Closing is not enough: a forked child may hold the same open file. */
		epoll_ctl(x->epoll_fd, EPOLL_CTL_DEL, w->pidfd, NULL);
		close(w->pidfd);
		w->pidfd = -1;
	}
	x->in_state[w->state]--;
	x->in_state[state]++;
	w->state = state;
	if ((gone_before > 0) != (x->in_state[FELLOW_GONE] > 0))
		ring(x, gone_before == 0);
}

static void fellows_forget(struct fellows *x, struct fellow *w)
{
	fellows_become(x, w, FELLOW_UNWATCHED);
	x->in_state[FELLOW_UNWATCHED]--;
	free(w);
}

void fellows_close(struct fellows *x)
{
	if (!x)
		return;
	for (int i = 0; i < x->n; i++)
		fellows_forget(x, x->all[i]);
	free(x->all);
	if (x->epoll_fd >= 0)
		close(x->epoll_fd);
	if (x->bell_fd >= 0)
		close(x->bell_fd);
	free(x);
}

static void fellows_watch(struct fellows *x, struct fellow *w)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = w};
	assert(w->state == FELLOW_UNWATCHED);
	int fd;
	if (process_life(&w->who, &x->self, &fd) == PROCESS_GONE) {
		fellows_become(x, w, FELLOW_GONE);
		return;
	}
	if (fd < 0)
		return;
	if (x->in_state[FELLOW_WATCHED] >= x->max ||
	    epoll_ctl(x->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
		close(fd);
		return;
	}
	fellows_become(x, w, FELLOW_WATCHED);
	w->pidfd = fd;
}

struct wanted {
	int64_t id;
	const struct incarnation *who;
};

static int fellows_by_id(const void *a, const void *b)
{
	int64_t x = ((const struct wanted *)a)->id, y = ((const struct wanted *)b)->id;
	return (x > y) - (x < y);
}

/* The workers whose exit can be seen from here, sorted by id, without duplicates. */
static int wanted_here(const struct fellows *x, const int64_t *ids, const struct incarnation *who,
                       int n, struct wanted *out)
{
	int here = 0, once = 0;
	for (int i = 0; i < n; i++)
		if (incarnation_same_host(&x->self, &who[i]) && who[i].pid > 0)
			out[here++] = (struct wanted){ids[i], &who[i]};
	qsort(out, (size_t)here, sizeof *out, fellows_by_id);
	for (int i = 0; i < here; i++)
		if (once == 0 || out[once - 1].id != out[i].id)
			out[once++] = out[i];
	return once;
}

static struct fellow *fellows_add(struct fellows *x, const struct wanted *want)
{
	struct fellow *w = mem_alloc(sizeof *w);
	w->id = want->id;
	w->who = *want->who;
	w->state = FELLOW_UNWATCHED;
	w->pidfd = -1;
	x->in_state[FELLOW_UNWATCHED]++;
	return w;
}

static bool is_the_same(const struct fellow *w, const struct wanted *want)
{
	return w->id == want->id && w->who.pid == want->who->pid && w->who.start == want->who->start &&
	       strcmp(w->who.nonce, want->who->nonce) == 0;
}

/* Merge two sorted lists: keep, forget, add. */
static void merge(struct fellows *x, const struct wanted *want, int nwant)
{
	struct fellow **next = mem_alloc(sizeof(struct fellow *) * (size_t)(nwant + 1));
	int old = 0;
	for (int i = 0; i < nwant; i++) {
		while (old < x->n && x->all[old]->id <= want[i].id && !is_the_same(x->all[old], &want[i]))
			fellows_forget(x, x->all[old++]);
		bool known = old < x->n && x->all[old]->id == want[i].id;
		next[i] = known ? x->all[old++] : fellows_add(x, &want[i]);
	}
	while (old < x->n)
		fellows_forget(x, x->all[old++]);
	free(x->all);
	x->all = next;
	x->n = nwant;
}

/* Logged each time it begins: workers that are left out are found by their lease. */
static void tell_if_short(struct fellows *x)
{
	int left_out = x->in_state[FELLOW_UNWATCHED];
	if (left_out > 0 && !x->short_logged) {
		log_event(LOG_WARN, "cannot watch every worker process of this host; leases cover the rest",
		          LOG_INT("watched", x->in_state[FELLOW_WATCHED]), LOG_INT("left_out", left_out),
		          LOG_INT("most", x->max));
	}
	x->short_logged = left_out > 0;
}

void fellows_set(struct fellows *x, const int64_t *ids, const struct incarnation *who, int n)
{
	assert(n >= 0);
	struct wanted *want = mem_alloc(sizeof *want * (size_t)(n + 1));
	int nwant = wanted_here(x, ids, who, n, want);
	merge(x, want, nwant);
	free(want);
	for (int i = 0; i < x->n; i++)
		if (x->all[i]->state == FELLOW_UNWATCHED)
			fellows_watch(x, x->all[i]);
	tell_if_short(x);
}

int fellows_fd(const struct fellows *x)
{
	return x->epoll_fd;
}

static struct fellow *first_gone(const struct fellows *x)
{
	int i = 0;
	while (i < x->n && x->all[i]->state != FELLOW_GONE)
		i++;
	assert(i < x->n); /* the bell rings only if one is gone */
	return x->all[i];
}

bool fellows_dead(struct fellows *x, int64_t *id, bool *seen)
{
	struct epoll_event event;
	if (TEMP_FAILURE_RETRY(epoll_wait(x->epoll_fd, &event, 1, 0)) != 1)
		return false;
	struct fellow *w = event.data.ptr ? event.data.ptr : first_gone(x);
	*id = w->id;
	*seen = event.data.ptr != NULL;
	fellows_become(x, w, FELLOW_REPORTED);
	return true;
}

int fellows_count(const struct fellows *x)
{
	return x->in_state[FELLOW_WATCHED];
}

/*
 * server_clock.c: who is connected, and takes too long. The library's own time limit starts
 * anew with each byte; a client that sends one now and then would stay for ever. So a
 * thread looks at all connections twice a second and cuts those whose time is over.
 *
 * Nor may those that are slow keep out those that are not, and probes least of all: whoever
 * restarts the daemon because /healthz is not answered would restart it for a crowd of strangers.
 * So a few connections are always free: where there are fewer, those go that have been at one
 * request for the longest, once they had time enough to send a request that is meant.
 *
 * A connection leaves the list before its descriptor is closed, and is cut under the
 * list's lock: never is a descriptor cut that has become somebody else's.
 */
#include "http/server_inside.h"

#include "base/clock.h"
#include "daemon/metrics.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TICK_MS 250
#define FAIR_MS 300 /* a request that is meant is here by then */

static void note_number(struct http *h)
{
	metrics_set(h->api->metrics, METRIC_HTTP_CONNECTIONS, h->nconnections, NO_LABELS);
}

/* The one that has been at its request, or at taking its answer, for the longest. */
static struct connection *slowest(struct http *h, int64_t now_ms)
{
	struct connection *found = NULL;
	int64_t since = now_ms - FAIR_MS;
	for (struct connection *c = h->connections; c; c = c->next) {
		int phase = atomic_load(&c->phase);
		int64_t at = atomic_load(&c->since_ms);
		if (!c->cut && (phase == PHASE_READING || phase == PHASE_SENDING) && at <= since) {
			since = at;
			found = c;
		}
	}
	return found;
}

/* Under the lock. Those that are cut already count no more: they go in a moment. */
static void make_room(struct http *h)
{
	int64_t now_ms = clock_boot_ms();
	struct connection *c;
	while (h->nconnections - h->ncut > h->crowd && (c = slowest(h, now_ms))) {
		c->cut = true;
		h->ncut++;
		shutdown(c->fd, SHUT_RDWR);
	}
}

struct connection *connection_add(struct http *h, int fd)
{
	struct connection *c = mem_alloc(sizeof *c);
	c->fd = fd;
	connection_phase(c, PHASE_READING);
	pthread_mutex_lock(&h->lock);
	c->next = h->connections;
	if (c->next)
		c->next->before = c;
	h->connections = c;
	h->nconnections++;
	note_number(h);
	make_room(h);
	pthread_mutex_unlock(&h->lock);
	return c;
}

void connection_remove(struct http *h, struct connection *c)
{
	pthread_mutex_lock(&h->lock);
	if (c->next)
		c->next->before = c->before;
	if (c->before)
		c->before->next = c->next;
	else
		h->connections = c->next;
	h->nconnections--;
	h->ncut -= c->cut;
	note_number(h);
	pthread_mutex_unlock(&h->lock);
	free(c);
}

void connection_phase(struct connection *c, enum phase phase)
{
	atomic_store(&c->since_ms, clock_boot_ms());
	atomic_store(&c->phase, phase);
}

bool connections_busy(struct http *h)
{
	bool busy = false;
	pthread_mutex_lock(&h->lock);
	for (struct connection *c = h->connections; c; c = c->next)
		busy = busy || atomic_load(&c->phase) != PHASE_READING;
	pthread_mutex_unlock(&h->lock);
	return busy;
}

static void cut_late(struct http *h)
{
	const int64_t limits[] = {[PHASE_READING] = h->request_ms, [PHASE_SENDING] = SEND_MS};
	int64_t now = clock_boot_ms();
	pthread_mutex_lock(&h->lock);
	for (struct connection *c = h->connections; c; c = c->next) {
		int phase = atomic_load(&c->phase);
		bool timed = phase == PHASE_READING || phase == PHASE_SENDING;
		if (timed && now - atomic_load(&c->since_ms) > limits[phase])
			shutdown(c->fd, SHUT_RDWR);
	}
	make_room(h);
	pthread_mutex_unlock(&h->lock);
}

static void *tick(void *arg)
{
	struct http *h = arg;
	struct pollfd woken = {.fd = h->wake_clock, .events = POLLIN};
	while (poll(&woken, 1, TICK_MS) <= 0) {
		cut_late(h);
		streams_look(h);
		request_pools_tick(h->pools);
	}
	return NULL;
}

void clock_start(struct http *h)
{
	sigset_t every, before;
	h->wake_clock = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &before);
	if (h->wake_clock < 0 || pthread_create(&h->clock, NULL, tick, h) != 0)
		abort();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void clock_stop(struct http *h)
{
	eventfd_write(h->wake_clock, 1);
	pthread_join(h->clock, NULL);
	close(h->wake_clock);
}

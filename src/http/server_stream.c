/*
 * server_stream.c: answers without an end. A stream with nothing to say is suspended: it
 * costs a few bytes and no thread. The lock of a stream is held for moments only, and
 * never while its owner is called: so the owner may wake it from within his own lock.
 */
#include "http/server_inside.h"

#include "daemon/metrics.h"

#include <assert.h>
#include <poll.h>

#define BLOCK 4096

struct http_stream {
	struct http *http;
	struct MHD_Connection *socket;
	int fd;
	const struct http_stream_ops *ops;
	void *ctx;
	atomic_bool left; /* the client closed it */
	pthread_mutex_t lock;
	bool suspended;
	bool woken; /* since it last had nothing to say */
	struct http_stream *next, *before;
};

struct http_stream *http_stream(struct api_call *c, const char *type,
                                const struct http_stream_ops *ops, void *ctx)
{
	struct request *r = c->http;
	assert(c->route->where == API_MEMORY && r && !r->stream);
	struct http *h = r->http;
	if (atomic_load(&h->stopping)) {
		api_problem(c, 503, "the daemon stops");
		return NULL;
	}
	struct http_stream *s = mem_alloc(sizeof *s);
	*s = (struct http_stream){
		.http = h, .socket = r->socket, .fd = r->at->fd, .ops = ops, .ctx = ctx};
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_lock(&h->lock);
	s->next = h->streams;
	if (s->next)
		s->next->before = s;
	h->streams = s;
	pthread_mutex_unlock(&h->lock);
	metrics_add(h->api->metrics, METRIC_HTTP_STREAMS, 1, NO_LABELS);
	c->out->type = type;
	r->stream = s;
	return s;
}

void http_stream_wake(struct http_stream *s)
{
	pthread_mutex_lock(&s->lock);
	s->woken = true;
	if (s->suspended) {
		s->suspended = false;
		MHD_resume_connection(s->socket);
	}
	pthread_mutex_unlock(&s->lock);
}

/* True: it was woken in the meantime and is to be pulled again. */
static bool suspend_unless_woken(struct http_stream *s)
{
	pthread_mutex_lock(&s->lock);
	bool again = s->woken;
	s->woken = false;
	if (!again) {
		s->suspended = true;
		MHD_suspend_connection(s->socket);
	}
	pthread_mutex_unlock(&s->lock);
	return again;
}

static ssize_t pull(void *arg, uint64_t at, char *to, size_t max)
{
	struct http_stream *s = arg;
	(void)at;
	for (;;) {
		if (atomic_load(&s->http->stopping) || atomic_load(&s->left))
			return MHD_CONTENT_READER_END_OF_STREAM;
		ssize_t n = s->ops->pull(s->ctx, to, max);
		if (n > 0)
			return n;
		if (n < 0)
			return MHD_CONTENT_READER_END_OF_STREAM;
		if (!suspend_unless_woken(s))
			return 0;
	}
}

void stream_end(void *arg)
{
	struct http_stream *s = arg;
	struct http *h = s->http;
	pthread_mutex_lock(&h->lock);
	if (s->next)
		s->next->before = s->before;
	if (s->before)
		s->before->next = s->next;
	else
		h->streams = s->next;
	pthread_mutex_unlock(&h->lock);
	metrics_add(h->api->metrics, METRIC_HTTP_STREAMS, -1, NO_LABELS);
	s->ops->gone(s->ctx);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

struct MHD_Response *stream_response(struct http_stream *s)
{
	return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, pull, s, stream_end);
}

void streams_wake(struct http *h)
{
	pthread_mutex_lock(&h->lock);
	for (struct http_stream *s = h->streams; s; s = s->next)
		http_stream_wake(s);
	pthread_mutex_unlock(&h->lock);
}

/* The library does not look at a socket that is suspended. */
void streams_look(struct http *h)
{
	pthread_mutex_lock(&h->lock);
	for (struct http_stream *s = h->streams; s; s = s->next) {
		struct pollfd end = {.fd = s->fd, .events = POLLRDHUP};
		if (poll(&end, 1, 0) > 0) {
			atomic_store(&s->left, true);
			http_stream_wake(s);
		}
	}
	pthread_mutex_unlock(&h->lock);
}

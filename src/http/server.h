/* SPDX-License-Identifier: Apache-2.0
 * server.h: the daemon's HTTP server: sockets, limits, and the headers of every answer.
 *
 * One or two threads read sockets (libmicrohttpd with epoll) and never wait for anything else: a
 * call that needs a database is suspended and answered from its request pool (request_pool.h); an
 * idle stream is suspended until it is woken. A client's use of resources is bounded: connections,
 * the size of headers and bodies, the time until a request is complete and until its answer is
 * received.
 *
 * server.c          start, stop, a request from its first byte to its answer
 * server_sockets.c  setting up the library, time limits, heads that could be parsed in two ways
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "http/api.h"

#include <sys/types.h>

struct http;

struct http_options {
	const struct service *service; /* as configured; copied */
	const char *listen;            /* instead of service->listen; NULL: that one */
	struct api *api;               /* must outlive the server */
};

/* Listens; queries no database. NULL after a failure, which is one line. */
struct http *http_start(const struct http_options *o, struct failure *f);
/*
 * Apply other tokens and hosts after a reload; the rest needs a restart. Keeps the old ones on
 * failure.
 */
MUST_CHECK defib_err http_reload(struct http *h, const struct service *s, struct failure *f);
/* Ends streams, waits for calls in request pools, closes everything. */
void http_stop(struct http *h);

/* ---- streams: a handler takes over the connection instead of filling c->out ---- */

struct http_stream;

struct http_stream_ops {
	/*
	 * Up to `max` bytes into `to`. 0: nothing now, pull again after a wake; -1: the end. Called in
	 * a thread that reads sockets: it must not block.
	 */
	ssize_t (*pull)(void *ctx, char *to, size_t max);
	/* The client disconnected, or the server stops: the last call, once; no wake may follow. */
	void (*gone)(void *ctx);
};

/*
 * From a handler of a route that is answered from memory (API_MEMORY): answer 200 with `type`
 * ("text/event-stream") and whatever `pull` returns until the end. Headers set with api_header()
 * are sent. The stream belongs to the server and is valid until `gone`. NULL after answering with a
 * problem: `gone` is not called then.
 */
struct http_stream *http_stream(struct api_call *c, const char *type,
                                const struct http_stream_ops *ops, void *ctx);
/*
 * There is something to pull. From any thread, also within the lock that `pull` and `gone` take
 * themselves, and before http_stream() has returned to its caller.
 */
void http_stream_wake(struct http_stream *s);

/* Ends those whose client left while there was nothing to send. */
void streams_look(struct http *h);

#endif

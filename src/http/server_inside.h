/* SPDX-License-Identifier: Apache-2.0
 * server_inside.h: what the files of the HTTP server share.
 */
#ifndef HTTP_SERVER_INSIDE_H
#define HTTP_SERVER_INSIDE_H

#include "base/address.h"
#include "http/request_pool.h"
#include "http/server.h"

#include <microhttpd.h>
#include <stdatomic.h>

/* The phase of a connection, which determines its time limit. */
enum phase {
	PHASE_READING,   /* until a request is complete: request_timeout */
	PHASE_WORKING,   /* as long as the call takes, which is bounded */
	PHASE_SENDING,   /* until the answer is received: SEND_MS */
	PHASE_STREAMING, /* as long as the client likes, while it receives what it is sent */
};
#define SEND_MS 60000
#define ROOM_PART 32 /* one connection in this many is kept free */

struct connection {
	int fd;
	atomic_int phase;
	atomic_int_least64_t since_ms; /* CLOCK_BOOTTIME */
	bool cut;                      /* to make room; under the list's lock */
	struct connection *next, *before;
};

/* What a reload replaces. */
struct http_rules {
	struct auth *auth;
	struct text_list hosts;
	struct arena arena;
};

struct http {
	struct MHD_Daemon *mhd;
	struct api *api;
	struct request_pools *pools;
	struct address at;
	char address[80], url[96]; /* with the real port: "127.0.0.1:8080", "http://…" */
	bool tls;
	size_t max_body;
	int64_t request_ms;
	struct buf said; /* messages of the library while it starts */
	atomic_bool started, stopping;

	pthread_rwlock_t rules_lock;
	struct http_rules *rules;
	pthread_mutex_t failed_logins_lock;
	struct failed_logins failed_logins;

	pthread_mutex_t lock; /* of the two lists */
	struct connection *connections;
	struct http_stream *streams;
	int nconnections;
	int crowd; /* this many connections leave no room for a probe: see server_sockets.c */
	int ncut;  /* of them are about to be closed */
	pthread_t clock;
	int wake_clock; /* eventfd */
};

/* A request from its first line to the end of its answer. */
struct request {
	struct http *http;
	struct MHD_Connection *socket;
	struct connection *at;
	char *target;
	struct buf body;
	size_t read; /* of the body, including what is not stored */
	bool begun, too_big, handed;
	bool ends;        /* the connection ends with the answer */
	int64_t began_us; /* CLOCK_BOOTTIME, when it was complete */
	char actor[128];
	struct api_request asked;
	struct api_call call;
	struct api_answer answer;
	struct pooled_request turn;
	struct http_stream *stream; /* instead of an answer */
};

/* ---- server_sockets.c: setting up the library ---- */

struct http_calls {
	MHD_AccessHandlerCallback on_request;
	void *(*on_target)(void *cls, const char *target, struct MHD_Connection *socket);
	MHD_RequestCompletedCallback on_end;
	MHD_NotifyConnectionCallback on_connection;
};
/* Listens and starts; fills in where. */
MUST_CHECK defib_err server_start(struct http *h, const struct service *s,
                                  const struct http_calls *calls, struct failure *f);

/* ---- request heads that could be parsed in two ways ---- */

/*
 * Why the head of a request is refused, or NULL. `chunked`: its body has no length; lenient parsing
 * by the library does no harm if the connection ends after it.
 */
const char *strict_refusal(struct MHD_Connection *socket, const char *method, const char *url,
                           const char *version, bool *chunked);

/* ---- connections, and those that take too long ---- */

struct connection *connection_add(struct http *h, int fd);
void connection_remove(struct http *h, struct connection *c);
void connection_phase(struct connection *c, enum phase phase);
/* Whether a client waits for an answer, or receives one. */
bool connections_busy(struct http *h);
void clock_start(struct http *h);
void clock_stop(struct http *h);

/* ---- answers ---- */

/* ---- answers without an end ---- */

/* Ends those whose client left while there was nothing to send. */
void streams_look(struct http *h);

#endif

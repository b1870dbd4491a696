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
	struct buf start_messages; /* messages of the library while it starts */
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

#endif

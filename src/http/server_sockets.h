/* SPDX-License-Identifier: Apache-2.0
 * server_sockets.h: setting up the library, time limits of connections, and heads that could be
 * parsed in two ways.
 */
#ifndef HTTP_SERVER_SOCKETS_H
#define HTTP_SERVER_SOCKETS_H

#include "http/server_inside.h"

#define SEND_MS 60000
struct http_calls {
	MHD_AccessHandlerCallback on_request;
	void *(*on_target)(void *cls, const char *target, struct MHD_Connection *socket);
	MHD_RequestCompletedCallback on_end;
	MHD_NotifyConnectionCallback on_connection;
};
/* Listens and starts; fills in where. */
MUST_CHECK defib_err server_start(struct http *h, const struct service *s,
                                  const struct http_calls *calls, struct failure *f);

/*
 * Why the head of a request is refused, or NULL. `chunked`: its body has no length; lenient parsing
 * by the library does no harm if the connection ends after it.
 */
const char *server_head_refusal(struct MHD_Connection *socket, const char *method, const char *url,
                                const char *version, bool *chunked);

struct connection *connection_add(struct http *h, int fd);
void connection_remove(struct http *h, struct connection *c);
void connection_phase(struct connection *c, enum phase phase);
/* Whether a client waits for an answer, or receives one. */
bool connections_busy(struct http *h);
void connections_clock_start(struct http *h);
void connections_clock_stop(struct http *h);

#endif

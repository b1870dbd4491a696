/* SPDX-License-Identifier: Apache-2.0
 * service.h: how the daemon serves over HTTP, as the user described it: where it
 * listens, who may ask, and the limits on what anybody may take of it. Plain data;
 * what is made of it, http/server.h knows.
 */
#ifndef WATCH_SERVICE_H
#define WATCH_SERVICE_H

#include "config/options.h"

/* What each may: see, act on jobs, steer the daemon (pause, raise, guards, alerts). */
enum role { ROLE_NONE, ROLE_VIEWER, ROLE_OPERATOR, ROLE_ADMIN };
extern const char *const role_names[]; /* "none", "viewer", "operator", "admin", NULL */

struct service_token {
	const char *name; /* who it stands for in the ledger: "web:NAME" */
	int role;         /* enum role */
	const char *file, *env;
	struct cfg_mark at;
};

struct service_tls {
	const char *certificate, *key; /* paths; both NULL: none */
};

struct service {
	const char *listen; /* ADDR:PORT; NULL: nowhere */
	int ntokens;
	struct service_token *tokens;
	struct service_tls tls;
	int64_t max_connections, max_body;
	int64_t request_timeout_us, database_timeout_us;
	struct text_list hosts;
	const char *spool;     /* where new work waits while its database is away; NULL: nowhere */
	struct text_list mask; /* members that viewers see masked, wherever they stand */
	struct cfg_mark at;
};

/* Which of several installations this is, for persons who have many windows open. */
struct environment {
	const char *name, *color; /* NULL: not given */
};

/* The option tables, for the reference. */
extern const struct opt_row service_rows[], environment_rows[];

/* Reads the map `http:` into a struct service; problems land in the reader. */
void read_service(struct cfg_reader *r, const struct cfg_node *node, void *target);

#endif

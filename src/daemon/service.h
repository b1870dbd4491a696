/* SPDX-License-Identifier: Apache-2.0
 * service.h: how the daemon serves over HTTP, as the user described it: where it
 * listens, who may ask, and the limits on what anybody may take of it. Plain data;
 * what is made of it, http/server.h knows.
 */
#ifndef DAEMON_SERVICE_H
#define DAEMON_SERVICE_H

#include "view/viewer.h"
#include "watch/settings.h"
#include "worker/stored_jobs.h"

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

extern const struct section http_section, environment_section;

/* What a configuration that was read with them says. */
static inline const struct service *settings_http(const struct settings *s)
{
	return s->sections[SECTION_HTTP];
}

static inline const struct environment *settings_environment(const struct settings *s)
{
	return s->sections[SECTION_ENVIRONMENT];
}

/* Whom messages come from: the environment's name, else "defib". */
const char *message_source(const struct settings *s);

/*
 * Where new work waits that came over HTTP while its database was away: stored jobs, a folder a
 * database below http.spool, which its database loop drains. Its folder is NULL where nothing is
 * kept.
 */
struct stored_jobs http_spool_queue(const struct settings *s, const struct database *d,
                                    struct arena *a);

#endif

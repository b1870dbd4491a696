/* SPDX-License-Identifier: Apache-2.0
 * settings.h: the configuration as the daemon has it: which one is in force, and what its sections
 * http: and environment: say.
 *
 * A configuration is counted: whoever reads it holds it, and the last to drop it frees it. A
 * reload puts another one in its place; work that is under way ends with the one it began with.
 */
#ifndef DAEMON_SETTINGS_H
#define DAEMON_SETTINGS_H

#include "view/viewer.h"
#include "watch/settings.h"
#include "worker/stored_jobs.h"

#include <pthread.h>

/* One configuration, whole. */
struct live_settings {
	struct settings settings;
	struct arena arena; /* everything in the settings lives here */
	struct arena shown; /* of settings.shown, which only HTTP asks for */
	bool *chosen;       /* per watch: whether the daemon scans it */
	bool queue;         /* also the built-in queue, where a database has it */
	/*
	 * One a watch, and one more for the workflows alone: another number means that workers
	 * of the watch cannot take the change while they run.
	 */
	uint64_t *shapes;
	int64_t number; /* 1 at the start, one more with each reload */
	int uses;
};

/* Where the one in force is found. */
struct live_settings_box {
	pthread_mutex_t lock;
	struct live_settings *now;
};

/* The first one; the box takes the caller's use of it. */
void live_settings_box_init(struct live_settings_box *b, struct live_settings *first);
/* Another is in force; takes the caller's use of it. */
void live_settings_box_put(struct live_settings_box *b, struct live_settings *next);
void live_settings_box_release(struct live_settings_box *b);

struct live_settings *live_settings_new(void);    /* one use, all zero */
void live_settings_free(struct live_settings *s); /* one that never was in a box */
/* Fills in `shapes`, by what was read. */
void live_settings_shapes(struct live_settings *s, const struct cfg_reader *r);
struct live_settings *live_settings_hold(struct live_settings_box *b);
/* Once more one that is held already. */
struct live_settings *live_settings_hold_same(struct live_settings_box *b, struct live_settings *s);
/* Whether this one, which is held, is still in force. */
bool live_settings_in_force(struct live_settings_box *b, const struct live_settings *s);
void live_settings_drop(struct live_settings_box *b, struct live_settings *s);

/*
 * ---- how the daemon serves over HTTP, as the user described it ----
 * Where it listens, who may ask, and the limits on what a client may use. Plain data; http/server.h
 * acts on it.
 */

struct service_token {
	const char *name; /* its owner, in the ledger as "web:NAME" */
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

/* Which of several installations this is, for people with many windows open. */
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

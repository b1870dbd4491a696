/* SPDX-License-Identifier: Apache-2.0
 * settings.h: the configuration as the daemon has it: which one is in force, and its sections http:
 * and environment:.
 *
 * A configuration is reference-counted: every reader holds it, and the last one to drop it frees
 * it. A reload replaces the one in force; work that is under way finishes with the one it began
 * with.
 */
#ifndef DAEMON_SETTINGS_H
#define DAEMON_SETTINGS_H

#include "daemon/metrics.h"
#include "view/viewer.h"
#include "worker/stored_jobs.h"

#include <pthread.h>

/* One complete configuration. */
struct live_settings {
	struct settings settings;
	struct arena arena; /* everything in the settings lives here */
	struct arena shown; /* of settings.shown, which only HTTP uses */
	bool *chosen;       /* per watch: whether the daemon scans it */
	bool queue;         /* also the built-in queue, if a database has it */
	/*
	 * One per watch, and one more for the workflows alone: another number means that running
	 * workers of the watch cannot apply the change.
	 */
	uint64_t *shapes;
	int64_t number; /* 1 at the start, one more with each reload */
	int uses;
};

/* Holds the configuration in force. */
struct live_settings_box {
	pthread_mutex_t lock;
	struct live_settings *now;
};

/* The first one; the box takes over the caller's reference. */
void live_settings_box_init(struct live_settings_box *b, struct live_settings *first);
/* Replace the one in force; takes over the caller's reference. */
void live_settings_box_put(struct live_settings_box *b, struct live_settings *next);
void live_settings_box_release(struct live_settings_box *b);

struct live_settings *live_settings_new(void);    /* one reference, all zero */
void live_settings_free(struct live_settings *s); /* one that never was in a box */
/* Fills in `shapes` from what was read. */
void live_settings_shapes(struct live_settings *s, const struct cfg_reader *r);
struct live_settings *live_settings_hold(struct live_settings_box *b);
/* Another reference to one that is already held. */
struct live_settings *live_settings_hold_same(struct live_settings_box *b, struct live_settings *s);
/* Whether this one, which is held, is still in force. */
bool live_settings_in_force(struct live_settings_box *b, const struct live_settings *s);
void live_settings_drop(struct live_settings_box *b, struct live_settings *s);

/*
 * ---- how the daemon serves over HTTP, as the user configured it ----
 * Where it listens, who may call, and the limits on what a client may use. Plain data;
 * http/server.h acts on it.
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
	const char *spool; /* where new jobs wait while their database is unavailable; NULL: nowhere */
	struct text_list mask; /* members that are masked for viewers, wherever they occur */
	struct cfg_mark at;
};

/* Which of several installations this is, for users with many windows open. */
struct environment {
	const char *name, *color; /* NULL: not given */
};

struct metrics_settings {
	struct metric_aliases aliases;
};

extern const struct section http_section, environment_section, metrics_section;

/* From a configuration that was read with these sections. */
static inline const struct service *settings_http(const struct settings *s)
{
	return s->sections[SECTION_HTTP];
}

static inline const struct environment *settings_environment(const struct settings *s)
{
	return s->sections[SECTION_ENVIRONMENT];
}

static inline const struct metrics_settings *settings_metrics(const struct settings *s)
{
	return s->sections[SECTION_METRICS];
}

/* The sender of messages: the environment's name, else "defib". */
const char *message_source(const struct settings *s);

/*
 * Where new jobs wait that arrived over HTTP while their database was unavailable: stored jobs, one
 * directory per database below http.spool, drained by its database loop. Its folder is NULL if
 * nothing is stored.
 */
struct stored_jobs http_spool_queue(const struct settings *s, const struct database *d,
                                    struct arena *a);

#endif

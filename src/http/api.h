/* SPDX-License-Identifier: Apache-2.0
 * api.h: the API under /api/v1: a table of routes, and the data that a handler gets.
 *
 * The room `http` serves the state of a daemon, the acts of the commands, workers in any language,
 * the ledger as a stream, and the page. server.c reads sockets, auth.c identifies callers, api.c
 * routes; begin there.
 *
 * A route that needs a database runs in that database's request pool (request_pool.c: a few threads
 * with a session each behind a bounded queue), never in the thread that reads sockets. If the
 * database is known to be unavailable, or its queue is full, the answer is 503 with Retry-After at
 * once, and no handler is called. The rest is answered from memory.
 *
 * api.c         finds the route, checks role, body and parameters, calls the handler
 * api_values.c  the address, parameters and body of a call, and problems
 * api_*.c       handlers, a table of routes each:
 *   api_watches.c  watches: state, numbers, explanations, configuration
 *   api_read.c     lists and stories of jobs; workers; incidents
 *   api_act.c      acts on one job, on many by name or terms, or on all in the background
 *   api_control.c  undo, a scan at once, overrides
 *   api_work.c     enqueue, claim, settle, progress
 *   api_worker.c   register, beat, leave
 *   api_history.c  the ledger, reports, trends, alerts
 */
#ifndef HTTP_API_H
#define HTTP_API_H

#include "daemon/daemon.h"
#include "http/auth.h"
#include "view/record.h"

#include <jansson.h>

/* ---- routes and calls ---- */

enum api_where {
	API_MEMORY,   /* answered from the overview and the settings */
	API_WATCH,    /* {watch} is in the path: in the request pool of its database */
	API_DATABASE, /* in the request pool of ?database=NAME; without it, of the first */
	API_SPOOLED,  /* the same; with http.spool also while it is unavailable: c->away says why */
};

/*
 * A watch with its statements in a session of the request pool, made once per session and
 * configuration.
 */
struct api_watch {
	const struct watch *watch;
	struct binding binding;
	struct watch_sql sql;
	struct ledger ledger; /* not ready: it does not exist, or is off */
};

struct heartbeats;
struct daemon;
struct metrics;
struct events;

/* Shared by the whole service. */
struct api {
	struct live_settings_box *setups;
	struct overview *overview;
	struct heartbeats *beats; /* NULL: not recorded */
	struct metrics *metrics;
	struct events *events;
	const char *name; /* of this daemon */
	int64_t started_us;
	/*
	 * How long ago the slowest database loop made a round (daemon_idle_ms); tests pass their own.
	 */
	int64_t (*idle_ms)(void *ctx);
	void *idle_ctx;
};

#define API_HEADERS_MAX 8
struct api_answer {
	int status;       /* 200 unless set */
	const char *type; /* "application/json" unless set */
	struct buf body;
	struct {
		const char *name, *value;
	} headers[API_HEADERS_MAX];
	int nheaders;
};

struct api_call;
struct api_request;
typedef void (*api_fn)(struct api_call *c);

struct api_route {
	const char *method, *path; /* "/watches/{watch}/jobs/{key}/retry", below /api/v1 */
	enum role role;            /* at least this one */
	enum api_where where;
	/*
	 * What a GET takes as parameters and other methods as members of the body: "limit after". If a
	 * database is used, ?database= is always accepted. All else is refused. NULL: nothing is
	 * checked (probes and the page, whose callers may add parameters).
	 */
	const char *takes;
	bool body;  /* takes a JSON object, which may be omitted */
	bool write; /* changes something: the session may write, and the ledger names the actor */
	const char *summary; /* one line */
	api_fn run;
};
/* clang-format off */
#define API_GET(path, role, where, takes, summary, run) \
	{"GET", path, role, where, takes, false, false, summary, run}
#define API_POST(path, role, where, takes, summary, run) \
	{"POST", path, role, where, takes, true, true, summary, run}
/* clang-format on */

#define API_PARTS_MAX 4
struct api_call {
	const struct api *api;
	const struct api_route *route;
	struct live_settings *setup; /* held for the call */
	struct arena arena;          /* of the call */
	enum role role;
	const char *actor;                /* "web:NAME", for the ledger */
	const char *parts[API_PARTS_MAX]; /* decoded, in the order of the path: {watch}, {key} */
	int nparts;
	json_t *body; /* an object; empty if none was sent */
	/* With API_WATCH and API_DATABASE: */
	const struct database *database;
	struct session *session;    /* ready */
	const struct failure *away; /* with API_SPOOLED: why there is no session */
	const struct watch *watch;
	struct thread_sessions *sessions; /* what the thread of the request pool keeps between calls */
	struct api_answer *out;
	struct failure failure; /* a failure that a handler stores here is the answer: api_failed() */
	const struct api_request *request;
	const struct uri *uri; /* for api_query() */
	void *http;            /* for http_stream() */
};

/*
 * Finds the watch that {watch} names, and its database; false after a problem. Every database may
 * have the built-in queue: ?database= selects one.
 */
bool api_watch_named(struct api_call *c);
/* Tables of routes; each ends with method NULL. */
extern const struct api_route api_watch_routes[];   /* api_watches.c: watches, stats, doctor */
extern const struct api_route api_read_routes[];    /* api_read.c: jobs, workers, incidents */
extern const struct api_route api_act_routes[];     /* api_act.c: acts on jobs */
extern const struct api_route api_worker_routes[];  /* api_worker.c: enqueue, claim, beat, settle */
extern const struct api_route api_history_routes[]; /* api_history.c: reports, trends, alerts */
extern const struct api_route api_event_routes[];   /* events.c: the ledger as a stream */
extern const struct api_route api_status_routes[];  /* probes.c: state of the daemon */
extern const struct api_route api_index_routes[];   /* the list of routes */
/* The same, but with full paths. */
extern const struct api_route probe_routes[]; /* probes.c: /healthz, /readyz, /metrics */
extern const struct api_route page_routes[];  /* page.c: files for browsers */

/* ---- from a request to its answer: called by server.c ---- */

/* A request as it arrived. */
struct api_request {
	const char *method, *target; /* "/api/v1/watches?…", as sent */
	const char *content_type;    /* NULL: none */
	const char *accept;
	const char *last_event_id;
	const char *if_none_match;
	const char *worker_secret;
	const char *body; /* complete */
	size_t nbody;
	enum role role;
	const char *actor;
};

enum api_next {
	API_ANSWERED,       /* in c->out */
	API_NEEDS_DATABASE, /* call api_run() with a session in the request pool of c->database */
};

/* Finds the route, checks, answers what needs no database. `out` and `r` must outlive the call. */
enum api_next api_begin(const struct api *api, const struct api_request *r, struct api_call *c,
                        struct api_answer *out);
void api_run(struct api_call *c);
/* Also if it was not answered. The answer remains, but its headers are freed. */
void api_end(struct api_call *c);
void api_answer_clear(struct api_answer *a);
void api_answer_release(struct api_answer *a);

#endif

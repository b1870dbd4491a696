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

#include <jansson.h>

/*
 * ---- the address of a request ----
 * The parts of its path and the pairs of its query. They are split first and then decoded once, so
 * a key may contain "/" as %2F. Refused rather than guessed: bad percent-escapes, control
 * characters such as %00, bytes that are not UTF-8, "." and "..", and anything beyond the limits
 * below.
 */

#define URI_MAX 8192 /* bytes of the whole, as sent */
#define URI_PARTS_MAX 12
#define URI_PAIRS_MAX 64

struct uri {
	const char *parts[URI_PARTS_MAX];
	int nparts;
	struct {
		const char *name, *value;
	} pairs[URI_PAIRS_MAX];
	int npairs;
};

/* Everything lives in the arena. Returns NULL, or why it is refused. */
const char *uri_parse(const char *target, struct arena *a, struct uri *out);

/* The part of a target that may be logged: its path. A query can contain a token. */
const char *uri_loggable(const char *target, struct arena *a);

/* ---- routes and calls ---- */

enum api_where {
	API_MEMORY,   /* answered from the overview and the settings */
	API_WATCH,    /* {watch} is in the path: in the request pool of its database */
	API_DATABASE, /* in the request pool of ?database=NAME; without it, of the first */
	API_KEPT,     /* the same; with http.spool also while it is unavailable: c->away says why */
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
	const struct failure *away; /* with API_KEPT: why there is no session */
	const struct watch *watch;
	struct thread_sessions *sessions; /* what the thread of the request pool keeps between calls */
	struct api_answer *out;
	struct failure failure; /* a failure that a handler stores here is the answer: api_failed() */
	const struct api_request *request;
	const struct uri *uri; /* for api_query() */
	void *http;            /* for http_stream() */
};

/* Query parameters; NULL: not given. */
const char *api_query(const struct api_call *c, const char *name);
/* All values of a parameter that may be repeated; the next after `at` (0: the first). */
const char *api_query_next(const struct api_call *c, const char *name, int *at);
/* A number within bounds; false after answering with a problem. */
bool api_query_int(struct api_call *c, const char *name, int64_t least, int64_t most, int64_t *n);
/* "90s", "7d" as microseconds; false after answering with a problem. */
bool api_query_duration(struct api_call *c, const char *name, int64_t *us);
/* Members of the body; false after answering with a problem. Absent or null: *out stays. */
bool api_body_text(struct api_call *c, const char *name, const char **out);
bool api_body_int(struct api_call *c, const char *name, int64_t least, int64_t most, int64_t *out);
bool api_body_bool(struct api_call *c, const char *name, bool *out);
/* Whether it names an event of the ledger, or is NULL; false after answering with a problem. */
bool api_event_known(struct api_call *c, const char *event);
/* Refuses members (parameters) that are not in `names`, which are separated by spaces. */
bool api_body_takes(struct api_call *c, const char *names);
bool api_query_takes(struct api_call *c, const char *names);

/* The watch, masked for the caller's role; see viewer_watch(). */
const struct watch *api_seen(struct api_call *c, const struct watch *w);
/*
 * Finds the watch that {watch} names, and its database; false after a problem. Every database may
 * have the built-in queue: ?database= selects one.
 */
bool api_watch_named(struct api_call *c);
/* The watch of the call, bound and compiled; the request pool keeps it. False after a problem. */
bool api_bound(struct api_call *c, struct api_watch **out);

/*
 * Problem details (RFC 9457): {"type":"about:blank","title":…,"status":…,"detail":…,"next":…}.
 * Returns false, so that callers can write `return api_problem(…)`.
 */
bool api_problem(struct api_call *c, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
/*
 * The same from a failure; its class decides the status (a lost database: 503, Retry-After). A text
 * that a key's type does not accept is the caller's mistake (400), not the database's.
 */
bool api_failed(struct api_call *c, const struct failure *f);
/* The same with a status that the handler chose. */
bool api_failed_as(struct api_call *c, int status, const struct failure *f);
void api_header(struct api_call *c, const char *name, const char *value);

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

/* The page with status 404: its script says that there is no such view. */
void page_missing(struct api_call *c);

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

/*
 * ---- what the handlers of routes (api_*.c) share ----
 * A change takes the path of the command of the same name: the same guards, the same ledger, the
 * same answer.
 */

/* Overriding a guard requires an admin; false after answering with a problem. */
bool may_override(struct api_call *c, bool asked);
/* A key in the form of facts.h; NULL after answering with a problem: there is no such job. */
const char *job_named(struct api_call *c, const struct watch *w, const char *text);
/* A term of the call's watch (watch/terms.h); false after answering with a problem. */
bool term_named(struct api_call *c, const char *text, struct term *out);
/* The call's watch, ready for writes, with a ledger if there can be one. */
bool writable(struct api_call *c, struct bound *out);
/* A member that is a duration; false after answering with a problem. */
bool body_duration(struct api_call *c, const char *name, int64_t *us);

/* Answers 202 with the order, or a problem. */
struct background_order;
void call_background(struct api_call *c, const struct background_order *o, const struct bound *b);

void call_undo_job(struct api_call *c);
void call_undo(struct api_call *c);
void call_scan(struct api_call *c);
void call_set_override(struct api_call *c);
void call_clear_override(struct api_call *c);
void call_override_guard(struct api_call *c);

/* ---- reading ---- */

void read_ledger(struct api_call *c);

/* ---- one watch: its configuration, and its state as this daemon knows it ---- */

/* A watch and its database, with its part of the overview. */
struct watch_view {
	const struct watch *watch;
	const struct database *database;
	bool builtin;                          /* it is in no file */
	const struct overview_watch *overview; /* NULL: the daemon does not handle it */
	int64_t now_ms, started_ms;            /* CLOCK_BOOTTIME; when the daemon started */
};

/* An object that is still open. */
void watch_json(const struct watch_view *v, struct buf *out);

/*
 * ---- workers in any language that use only HTTP (docs/clients.md) ----
 * Such a worker is not a visible process and holds no session: only its lease proves its life. Its
 * incarnation has no host (registry.h), so that no daemon looks for its pid or its lock. Calls of
 * one worker may go through different daemons: everything is in the database.
 */

/* Where jobs come from: {"queue": …, "kinds": […]} or {"watch": …}; NULL after a problem. */
struct source *source_named(struct api_call *c);
/* A worker that was declared dead gets 410; if queue tables are missing, says so. */
bool worker_failed(struct api_call *c, struct failure *f);
/* Any JSON as the text that was sent; NULL: absent or null. In the call's arena. */
const char *json_as_sent(struct api_call *c, const json_t *value);

void call_enqueue(struct api_call *c);
void call_claim(struct api_call *c);
void call_settle(struct api_call *c);
void call_progress(struct api_call *c);

/*
 * ---- ownership of workers ----
 * A registration returns a secret, of which only the hash is stored. A caller that acts for the
 * worker sends it (Defib-Worker-Secret), so an operator's token alone cannot end workers of others
 * or settle their jobs. An admin may; if that affects a job, it is in the ledger.
 */

#define WORKER_SECRET_HEADER "Defib-Worker-Secret"
#define WORKER_SECRET_BYTES 65 /* hexadecimal, including the terminating 0 */

/*
 * The worker of the path, if the caller may act for it; false after answering with a problem. `own`
 * is false if an admin acts in its name. A worker that does not exist is let through: the caller
 * gets the answer that it is gone.
 */
bool worker_allowed(struct api_call *c, int64_t *id, bool *own);

/* Jobs of a watch on which an admin acts in a worker's name. */
struct in_its_name {
	int64_t worker;
	const char *watch;       /* NULL: the built-in queue */
	const char *act;         /* "ended the worker", "settled", "claimed" */
	const char *const *jobs; /* none: "*" */
	int n;
};
/* The same, in a transaction of its own. */
MUST_CHECK defib_err worker_note_alone(struct api_call *c, const struct in_its_name *what,
                                       struct failure *f);

#endif

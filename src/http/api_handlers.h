/* SPDX-License-Identifier: Apache-2.0
 * api_handlers.h: what the handlers of routes (api_*.c) share.
 *
 * api_watches.c    watches: state, numbers, explanations, configuration
 * api_read.c       lists and stories of jobs; workers     api_ledger.c  the ledger
 * api_act.c        one job, or many by name or terms      api_undo.c    a batch, or a job
 * api_scan.c       one pass at once                       api_overrides.c  pause, raise, guards
 * api_enqueue.c    jobs into a queue                      api_worker.c  register, beat, leave
 * api_work.c       claim, settle, progress                api_report.c  reports and alerts
 *
 * What changes something goes the way of the command of the same name: the same guards, the
 * same ledger, the same answer.
 */
#ifndef HTTP_API_HANDLERS_H
#define HTTP_API_HANDLERS_H

#include "daemon/overview.h"
#include "http/api.h"
#include "recover/bound.h"
#include "watch/settings.h"
#include "watch/terms.h"
#include "worker/source.h"

/* Whether the call is about the built-in queue. */
bool acts_on_queue(const struct api_call *c);
/* Going past a guard takes an admin; false after a problem was answered. */
bool may_override(struct api_call *c, bool asked);
/* A key as facts.h writes it; NULL after a problem was answered: there is no such job. */
const char *job_named(struct api_call *c, const struct watch *w, const char *text);
/* A term of the call's watch (watch/terms.h); false after a problem was answered. */
bool term_named(struct api_call *c, const char *text, struct term *out);
/* The call's watch, ready to be written to, with a ledger where there can be one. */
bool writable(struct api_call *c, struct bound *out);
/* A member that is a duration; false after a problem was answered. */
bool body_duration(struct api_call *c, const char *name, int64_t *us);

void call_act(struct api_call *c);
void call_acts(struct api_call *c);
void call_end(struct api_call *c);
void call_undo_job(struct api_call *c);
void call_undo(struct api_call *c);
void call_scan(struct api_call *c);
void call_set_override(struct api_call *c);
void call_clear_override(struct api_call *c);
void call_override_guard(struct api_call *c);

/* ---- reading ---- */

void read_ledger(struct api_call *c);
void read_workers(struct api_call *c);
void read_worker(struct api_call *c);

/*
 * A failure of what the caller asked for: a word that a key's type cannot take is his slip
 * (400), not the database's trouble.
 */
bool read_failed(struct api_call *c, struct failure *f);
/* A parameter that is true or false; false after a problem. */
bool read_flag(struct api_call *c, const char *name, bool *out);

/* ---- one watch: its configuration, and its state as this daemon knows it ---- */

/* A watch where it is, with what the overview has of it. */
struct watch_view {
	const struct watch *watch;
	const struct database *database;
	bool builtin;                          /* it stands in no file */
	const struct overview_watch *overview; /* NULL: the daemon has nothing to do with it */
	int64_t now_ms, started_ms;            /* CLOCK_BOOTTIME; since when the daemon is there */
};

/* An object that is still open. */
void watch_json(const struct watch_view *v, struct buf *out);
/* Its rules: members for the same object. */
void watch_rules_json(const struct watch *w, struct buf *out);
/* What the configuration says of it, with origins: ,"config":[…] */
void watch_config_json(const struct watch *w, const struct settings *s, struct buf *out);

/*
 * ---- workers in any language that speak nothing but HTTP (docs/clients.md) ----
 * Such a worker is no process that anybody here can see, and holds no session: only its lease
 * proves its life. Its incarnation says so by being of no host (registry.h), so that nobody
 * looks for its pid or its lock. Calls of one worker may come through different daemons:
 * everything is in the database.
 */

/* Where jobs come from: {"queue": …, "kinds": […]} or {"watch": …}; NULL after a problem. */
struct source *source_named(struct api_call *c);
/* The worker of the path; false after a problem was answered. */
bool worker_named(struct api_call *c, int64_t *id);
/* A worker that was declared dead is 410; what the queue misses are its tables. */
bool worker_failed(struct api_call *c, struct failure *f);
/* Any JSON as the text that was sent; NULL: absent or null. In the call's arena. */
const char *json_as_sent(struct api_call *c, const json_t *value);

void call_enqueue(struct api_call *c);
void call_register(struct api_call *c);
void call_beat(struct api_call *c);
void call_leave(struct api_call *c);
void call_claim(struct api_call *c);
void call_settle(struct api_call *c);
void call_progress(struct api_call *c);

/*
 * ---- whose a worker is ----
 * A registration answers a secret, of which only the hash is kept. Who acts for the worker sends
 * it (Defib-Worker-Secret), so an operator's token alone ends no worker of others and settles none
 * of their jobs. An admin may; where that changes what becomes of a job, it is in the ledger.
 */

#define WORKER_SECRET_HEADER "Defib-Worker-Secret"
#define WORKER_SECRET_BYTES 65 /* hexadecimal, with the 0 at its end */

/* A new one; false: there is no chance to be had. */
bool worker_secret_make(char out[WORKER_SECRET_BYTES]);
/* Keep its hash with the worker, in the transaction that registers it. */
MUST_CHECK defib_err worker_secret_keep(struct store *s, int64_t worker, const char *secret,
                                        struct failure *f);
/*
 * The worker of the path, if the caller may act for it; false after a problem was answered. `own`
 * is false where it is an admin who acts in its name. One that is not there is let through: the
 * caller is to hear that it is gone.
 */
bool worker_allowed(struct api_call *c, int64_t *id, bool *own);

/* Jobs of a watch that an admin does something to in a worker's name. */
struct in_its_name {
	int64_t worker;
	const char *watch;       /* NULL: the built-in queue */
	const char *act;         /* "ended the worker", "settled", "claimed" */
	const char *const *jobs; /* none: "*" */
	int n;
};
/* Note it, inside a transaction. Nothing where the ledger is off. */
MUST_CHECK defib_err worker_note(struct api_call *c, const struct in_its_name *what,
                                 struct failure *f);
/* The same, in a transaction of its own. */
MUST_CHECK defib_err worker_note_alone(struct api_call *c, const struct in_its_name *what,
                                       struct failure *f);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * status.h: the state of one watch, from what the database stores: its leader's status, who leads,
 * and operator overrides. It can be read from any host without a connection to the daemon, and also
 * shows a daemon that is gone.
 */
#ifndef VIEW_STATUS_H
#define VIEW_STATUS_H

#include "alert/alert_store.h"
#include "recover/attach.h"
#include "recover/leader_status.h"

#include <jansson.h>

/* Worst first. X(enum, name, is trouble, color, in words) */
#define WATCH_STATUS_LIST(X)                                                                       \
	X(NO_LEADER, "no_leader", true, RED, "no daemon leads this watch")                             \
	X(SILENT, "silent", true, RED, "its leader has finished no scan for too long")                 \
	X(FAILED, "failed", true, RED, "the last scan failed")                                         \
	X(HELD, "held", true, YELLOW, "a guard holds stuck jobs back")                                 \
	X(ALERTING, "alerting", true, RED, "alerts are firing")                                        \
	X(STUCK, "stuck", true, RED, "jobs are stuck and nothing recovers them")                       \
	X(DOUBT, "doubt", false, YELLOW,                                                               \
	  "in doubt: the daemon was away, so silence proves nothing yet")                              \
	X(PAUSED, "paused", false, YELLOW, "paused; nothing is stuck")                                 \
	X(WELL, "well", false, GREEN, "well")

enum watch_state {
#define X(id, name, trouble, color, words) WATCH_STATUS_##id,
	WATCH_STATUS_LIST(X)
#undef X
};
extern const char *const watch_status_names[]; /* by enum watch_state */

/* What is known about a watch. Its state is the worst of it. */
struct watch_status_facts {
	bool leads, silent, failed, paused;
	int firing;         /* alerts, of the watch and of its database */
	const json_t *info; /* from its status; NULL: no pass yet */
};
enum watch_state watch_status_judge(const struct watch_status_facts *f);

struct watch_status {
	const char *database, *watch;
	struct leader_status led;
	const struct override *overrides[4]; /* in force, for this watch or for all */
	int noverrides;
	const struct attachment *attached; /* NULL: not attached, or not read */
	enum watch_state is;
	int firing;        /* alerts, of the watch and of its database … */
	const char *alert; /* … and the text of the first */
};

/* What daemons and operators have stored in one database. */
struct stored_status {
	bool there; /* the tables of daemons exist */
	struct leader_rows led;
	struct override *overrides;
	struct attachment *attachments; /* none before stored_status_attachments() */
	struct alert_row *alerts;       /* all that ever fired */
	int noverrides, nattachments, nalerts;
};

/* Read all of it; nothing if the tables do not exist. */
MUST_CHECK defib_err stored_status_read(struct store *s, struct arena *a, struct stored_status *out,
                                        struct failure *f);
/* Also read which of its watches are attached, for callers that show everything about a watch. */
MUST_CHECK defib_err stored_status_attachments(struct store *s, struct arena *a,
                                               struct stored_status *l, struct failure *f);
void watch_status_init(struct watch_status *st, const struct database *d, const char *watch,
                       const struct stored_status *l);
void watch_status_release(struct watch_status *st);
bool watch_status_trouble(const struct watch_status *st);

void watch_status_text(const struct watch_status *st, bool color, struct buf *out);

/* A complete object. */
void watch_status_json(const struct watch_status *st, struct buf *out);

/*
 * ---- operator overrides ----
 * Pause, raise or override, set or cleared, for the commands and their HTTP routes. They are stored
 * in the database; the daemon that leads the watch, now or after a restart, reads them within about
 * a second.
 */

/* What was done for one watch, or for all of them ("*"). */
struct override_answer {
	const char *watch, *name;
	const struct override *in_force; /* NULL: it was cleared … */
	bool was;                        /* … and there was one */
};

/* Set it for `for_us` (0: until it is cleared). */
MUST_CHECK defib_err override_set(struct store *s, const struct override *said, int64_t for_us,
                                  struct arena *a, struct override_answer *out, struct failure *f);
/*
 * Clear it: for one watch, or for all and then for each. *still is an override for all watches,
 * which also applies to this one and cannot be cleared for a single watch. NULL: none.
 */
MUST_CHECK defib_err override_clear(struct store *s, const char *watch, const char *name,
                                    struct arena *a, struct override_answer **out, int *n,
                                    const struct override **still, struct failure *f);
/* A complete object. */
void override_answer_json(const struct database *d, const struct override_answer *w,
                          struct buf *out);
/* The document around the objects, which are separated by commas. */
void override_answers_json(const char *answers, struct buf *out);

/* "by cli:anna at … until …, because …" */
void override_text(const struct override *t, struct buf *out);
/*
 * A line for users who list jobs of a watch: nothing of it is recovered, because recovery is
 * paused. "" if it is not paused, or if that cannot be read.
 */
void pause_line(struct store *s, const char *watch, struct buf *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * watch_status.h: the state of one watch, from what the database stores: its leader's status, who
 * leads, operator overrides and alerts. It can be read from any host without a connection to the
 * daemon, and also shows a daemon that is gone.
 */
#ifndef ALERT_WATCH_STATUS_H
#define ALERT_WATCH_STATUS_H

#include "alert/alert_store.h"
#include "recover/attach.h"
#include "recover/explain.h"
#include "recover/leader_status.h"

#include <jansson.h>

/* Worst first; its words are in view/status.c. X(enum, name, is trouble) */
#define WATCH_STATUS_LIST(X)                                                                       \
	X(NO_LEADER, "no_leader", true)                                                                \
	X(SILENT, "silent", true)                                                                      \
	X(FAILED, "failed", true)                                                                      \
	X(HELD, "held", true)                                                                          \
	X(ALERTING, "alerting", true)                                                                  \
	X(STUCK, "stuck", true)                                                                        \
	X(DOUBT, "doubt", false)                                                                       \
	X(PAUSED, "paused", false)                                                                     \
	X(WELL, "well", false)

enum watch_state {
#define X(id, name, trouble) WATCH_STATUS_##id,
	WATCH_STATUS_LIST(X)
#undef X
};
extern const char *const watch_status_names[]; /* by enum watch_state; ends with NULL */

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
	int firing;          /* alerts, of the watch and of its database … */
	const char *alert;   /* … and the text of the first */
	const char *numbers; /* JSON: what its table has now; NULL: not asked for */
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

/* What the leading daemon holds back, if there is one and its status can be read. */
void explain_guard(struct store *s, const struct database *d, const struct watch *w,
                   struct arena *a, struct explained *x);

#endif

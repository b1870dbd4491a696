/* SPDX-License-Identifier: Apache-2.0
 * status.h: the state of one watch, from what its leader wrote, who leads and what operators
 * have set, as it is stored in the database: it can be read from any host without a
 * connection to the daemon, and a daemon that is gone shows as well as one that runs.
 * Also the workers of the registry.
 */
#ifndef VIEW_STATUS_H
#define VIEW_STATUS_H

#include "alert/states.h"
#include "ledger/retention.h"
#include "life/roster.h"
#include "recover/attach.h"
#include "recover/leader_status.h"
#include "view/viewer.h"
#include "watch/settings.h"

#include <jansson.h>

/* The worst first. X(enum, name, is trouble, in words) */
#define WATCH_STATUS_LIST(X)                                                                       \
	X(NO_LEADER, "no_leader", true, "no daemon leads this watch")                                  \
	X(SILENT, "silent", true, "its leader has finished no scan for too long")                      \
	X(FAILED, "failed", true, "the last scan failed")                                              \
	X(HELD, "held", true, "a guard holds stuck jobs back")                                         \
	X(ALERTING, "alerting", true, "alerts are firing")                                             \
	X(STUCK, "stuck", true, "jobs are stuck and nothing recovers them")                            \
	X(DOUBT, "doubt", false, "in doubt: the daemon was away, so silence proves nothing yet")       \
	X(PAUSED, "paused", false, "paused; nothing is stuck")                                         \
	X(WELL, "well", false, "well")

enum watch_state {
#define X(id, name, trouble, words) WATCH_STATUS_##id,
	WATCH_STATUS_LIST(X)
#undef X
};
extern const char *const watch_status_names[]; /* by enum watch_state */

/* What is known of a watch. Its state is the worst of it. */
struct watch_status_facts {
	bool leads, silent, failed, paused;
	int firing;         /* alerts, of the watch and of its database */
	const json_t *info; /* of its status; NULL: no pass yet */
};
enum watch_state watch_status_judge(const struct watch_status_facts *f);

struct watch_status {
	const char *database, *watch;
	struct leader_status led;
	const struct override *overrides[4]; /* in force, for this watch or for all */
	int noverrides;
	const struct attachment *attached; /* NULL: not attached, or not asked for */
	enum watch_state is;
	int firing;        /* alerts, of the watch and of its database … */
	const char *alert; /* … and what the first of them says */
};

/* What daemons and operators have stored in one database. */
struct stored_status {
	bool there; /* the tables of daemons are */
	struct leader_rows led;
	struct override *overrides;
	struct attachment *attachments; /* none before stored_status_attachments() */
	struct alert_row *alerts;       /* all that ever fired */
	int noverrides, nattachments, nalerts;
};

/* Read all of it; nothing where the tables are not there. */
MUST_CHECK defib_err stored_status_read(struct store *s, struct arena *a, struct stored_status *out,
                                        struct failure *f);
/* And which of its watches are attached, for a caller that shows all of a watch. */
MUST_CHECK defib_err stored_status_attachments(struct store *s, struct arena *a,
                                               struct stored_status *l, struct failure *f);
void watch_status_init(struct watch_status *st, const struct database *d, const char *watch,
                       const struct stored_status *l);
void watch_status_release(struct watch_status *st);
bool watch_status_trouble(const struct watch_status *st);

void watch_status_text(const struct watch_status *st, bool color, struct buf *out);

/* An object, whole. */
void watch_status_json(const struct watch_status *st, struct buf *out);
/* What retention keeps and has removed in one database: an object, and lines. */
void retention_json(const struct database *d, const struct retention_state *st, struct buf *out);
void retention_text(const struct database *d, const struct retention_state *st, struct buf *out);

/* ---- workers ---- */

/* An object that is still open. A viewer sees neither whole names nor processes. */
void worker_json(const struct roster_row *w, enum role role, struct arena *a, struct buf *out);

/* Results that a worker keeps because the database refuses them: an object, and a line. */
void worker_spool_json(const struct database *d, const char *name, const json_t *spool,
                       struct buf *out);
void worker_spool_text(const struct database *d, const char *name, const json_t *spool,
                       struct buf *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * viewer.h: what a client of the HTTP API may see of jobs.
 *
 * A watch masks columns for everyone. A viewer sees less: owners are masked, and so is what `http:
 * {mask: …}` names, wherever it occurs, also inside JSON in a column. A viewer cannot search for
 * what it cannot see either: many searches would reveal it letter by letter.
 */
#ifndef VIEW_VIEWER_H
#define VIEW_VIEWER_H

#include "watch/terms.h"

/* Privileges: see, act on jobs, control the daemon (pause, raise, guards, alerts). */
enum role { ROLE_NONE, ROLE_VIEWER, ROLE_OPERATOR, ROLE_ADMIN };
extern const char *const role_names[]; /* "none", "viewer", "operator", "admin", NULL */

/*
 * The watch as this role sees it, for rendering: the watch itself, or a copy that masks more. NULL
 * is a watch that the configuration no longer has; a role that sees everything gets NULL back.
 * `mask` is that of `http:`.
 */
const struct watch *viewer_watch(const struct watch *w, const struct text_list *mask,
                                 enum role role, struct arena *a);
/* Whether the term searches for something that this role may not see. */
bool viewer_hides(const struct watch *w, const struct text_list *mask, enum role role,
                  const struct term *t);
/* How far this role may search by any~. */
enum term_reach viewer_reach(const struct watch *w, const struct text_list *mask, enum role role);
/* Whether this role sees everything that a watch does not mask for everybody. */
bool viewer_sees_all(enum role role);

struct secrets;

/* For whom a record is shown (record.h). */
struct viewer {
	const struct watch *watch; /* as viewer_watch() says; NULL: of no watch */
	const char *database;
	enum role role;                /* of the command line: ROLE_ADMIN */
	const struct secrets *secrets; /* instead of the record's own; NULL: those */
	int64_t now_us;                /* for ages in words; 0: not known */
};

/* The user of the command line, who may read the database. */
struct viewer viewer_local(const struct watch *w, const char *database);
/* One text that is not a column of a watch, such as a worker's name. */
void viewer_text(const char *text, enum role role, struct buf *out);

#endif

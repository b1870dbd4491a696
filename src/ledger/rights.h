/* SPDX-License-Identifier: Apache-2.0
 * rights.h: what each kind of command needs to do with defib's own tables.
 *
 * One table says it. `defib init --print` writes its GRANTs for a DBA, doctor names
 * what a role lacks of it, and the tests run every command under a role that has
 * exactly that. PostgreSQL only: who has an SQLite file may do everything in it.
 */
#ifndef LEDGER_RIGHTS_H
#define LEDGER_RIGHTS_H

#include "store/store.h"

/* By what a role does; each has all that it needs, so that one is enough. */
enum rights_group {
	RIGHTS_VIEW,   /* scan, list, show, explain, status, ledger, report, … */
	RIGHTS_ACT,    /* scan --fix, acts by hand, undo, pause and raise */
	RIGHTS_DAEMON, /* defib daemon */
	RIGHTS_WORK,   /* defib work, enqueue, the functions for other languages */
	RIGHTS_RUN,    /* defib run, on a table that was attached */
	RIGHTS_GROUPS
};
extern const char *const rights_names[]; /* "view" …, NULL at the end */
extern const char *const rights_of_commands[RIGHTS_GROUPS];

/* The GRANTs of a group for a role (quoted), one a line, in any database. */
void rights_grants(enum rights_group group, const char *role, struct buf *out);
/* The statements that give the session's role what it lacks, of what is there; "" for none. */
MUST_CHECK defib_err rights_lacking(struct store *s, enum rights_group group, struct arena *a,
                                    const char **grants, struct failure *f);

#endif

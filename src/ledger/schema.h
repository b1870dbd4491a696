/* SPDX-License-Identifier: Apache-2.0
 * schema.h: defib's own tables as versioned scripts.
 */
#ifndef LEDGER_SCHEMA_H
#define LEDGER_SCHEMA_H

#include "store/store.h"

/* The parts of the schema, each a script of its own. */
enum schema_part { SCHEMA_LEDGER, SCHEMA_DAEMON, SCHEMA_QUEUE, SCHEMA_PARTS };

/* The script's text for an engine. */
const char *schema_script(enum schema_part part, enum store_engine engine);
/* Run the statements of a script, one by one, in the caller's transaction. */
MUST_CHECK defib_err schema_run(struct store *s, const char *script, struct failure *f);
/*
 * For this transaction, keep others from changing our schema, which is created if it is missing:
 * concurrent CREATE … IF NOT EXISTS conflict. Only the schema's owner can take this lock, and only
 * the owner needs it. DEFIB_CONSTRAINT: another transaction created the schema; begin again.
 * DEFIB_PERMISSION: see schema_refuse_shared().
 */
MUST_CHECK defib_err schema_lock(struct store *s, struct failure *f);
/*
 * DEFIB_PERMISSION if code of another role could run in our schema with the rights of whoever uses
 * it. Nothing is created there: another role can have put something else under its name, and CREATE
 * OR REPLACE FUNCTION leaves a function to the role that owns it.
 */
MUST_CHECK defib_err schema_refuse_shared(struct store *s, struct failure *f);
/* Run the parts up to `last` in one transaction. Repeating it changes nothing. */
MUST_CHECK defib_err schema_install(struct store *s, enum schema_part last, struct failure *f);

/* Whether the role may run them if nothing exists yet. */
MUST_CHECK defib_err schema_may_install(struct store *s, bool *may, struct failure *f);

/* Whether one of our tables exists and the role may use it: missing, no privilege, or usable. */
enum schema_presence { SCHEMA_MISSING, SCHEMA_CLOSED, SCHEMA_THERE };
/* "leader" is defib.leader, or defib_leader on SQLite. `write`: to insert, update and delete. */
MUST_CHECK defib_err schema_look(struct store *s, const char *table, bool write,
                                 enum schema_presence *out, struct failure *f);
/* Whether it exists and may be read. */
MUST_CHECK defib_err schema_has(struct store *s, const char *table, bool *there, struct failure *f);
/*
 * The same; if it does not exist and `create` is set, the parts up to `last` are installed.
 * DEFIB_PERMISSION, with advice: it exists but may not be read (with `create`: written), or may not
 * be created.
 */
MUST_CHECK defib_err schema_ready(struct store *s, const char *table, enum schema_part last,
                                  bool create, bool *there, struct failure *f);

/* DEFIB_PERMISSION: the role lacks a privilege; the failure says who can grant it, and how. */
defib_err schema_refused(struct failure *f, const char *what);

/* ---- rights ---- */

/*
 * The privileges that each kind of command needs on defib's own tables.
 *
 * They are defined in one table. `defib init --print` writes its GRANTs for a DBA, doctor names
 * those that a role lacks, and the tests run every command under a role that has exactly these.
 * PostgreSQL only: a role that can open an SQLite file may do everything in it.
 */

/* By what a role does; each group is complete by itself. */
enum rights_group {
	RIGHTS_VIEW,   /* scan, list, show, explain, status, ledger, report, … */
	RIGHTS_ACT,    /* scan --fix, acts by hand, undo, pause and raise */
	RIGHTS_DAEMON, /* defib daemon */
	RIGHTS_WORK,   /* defib work, enqueue, the functions for other languages */
	RIGHTS_RUN,    /* defib run, on an attached table */
	RIGHTS_GROUPS
};
extern const char *const rights_names[]; /* "view" …, NULL at the end */

/* The GRANTs of a group for a role (quoted), one per line, for any database. */
void rights_grants(enum rights_group group, const char *role, struct buf *out);
/* The statements that grant the session's role what it lacks on existing objects; "" if nothing. */
MUST_CHECK defib_err rights_lacking(struct store *s, enum rights_group group, struct arena *a,
                                    const char **grants, struct failure *f);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * programs.h: foreign programs that run under `defib run`, as the database knows them
 * (defib.program).
 *
 * A row is written before the program runs its first instruction, and is deleted when all its jobs
 * are recovered. Any process of this host that finds a row whose watcher and program are gone takes
 * over, so nothing depends on `defib run` surviving to the end.
 */
#ifndef LIFE_PROGRAMS_H
#define LIFE_PROGRAMS_H

#include "life/incarnation.h"
#include "store/store.h"

#define PROGRAM_NAME_SIZE 64 /* of an application_name, including the NUL */

struct program {
	const char *application; /* the name of its sessions */
	const char *watch;
	const char *watcher, *leader; /* incarnations */
	const char *command;
	const char *role;      /* that runs it */
	const char *ending;    /* how it ended; NULL: not known */
	bool clean;            /* with exit status 0 */
	int64_t ended_boot_us; /* when its watcher saw its end, by the clock since boot; 0: not on this
	                          host */
	int64_t ended_at_us;   /* the same by the database's clock; 0: not known */
	bool old;              /* it ended some time ago */
};

/* "defib-run:NAME:NONCE"; characters that a session's name cannot hold are left out of NAME. */
void program_application(const char *name, const char *nonce, char out[PROGRAM_NAME_SIZE]);

MUST_CHECK defib_err program_add(struct store *s, const struct program *p, struct failure *f);
/* Record the program's end, for the process that finishes what its watcher began. */
MUST_CHECK defib_err program_ended(struct store *s, const struct program *p, struct failure *f);
/* Delete claims of the program whose jobs were recovered, or cannot be. */
MUST_CHECK defib_err claims_forget(struct store *s, const struct program *p, const int64_t *claims,
                                   int n, struct failure *f);
/*
 * The last row to be deleted: *removed is false, and the row stays, while the program has a claim
 * left.
 */
MUST_CHECK defib_err program_remove(struct store *s, const struct program *p, bool *removed,
                                    struct failure *f);
/* How many sessions have this name now. */
MUST_CHECK defib_err program_sessions(struct store *s, const char *application, int64_t *n,
                                      struct failure *f);

/*
 * Programs of a watch (NULL: of all) that are gone from this host, with their watchers. *n is 0 if
 * the tables do not exist.
 */
MUST_CHECK defib_err programs_gone(struct store *s, const char *watch, struct arena *a,
                                   struct program **out, int *n, struct failure *f);
/*
 * Programs of all watches whose end was not seen, and cannot be seen from here. The caller has
 * checked that the table exists and may be read.
 */
MUST_CHECK defib_err programs_running(struct store *s, struct arena *a, struct program **out,
                                      int *n, struct failure *f);
#endif

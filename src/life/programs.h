/* SPDX-License-Identifier: Apache-2.0
 * programs.h: programs that know nothing of us and run under `defib run`, as
 * the database knows them (defib.program).
 *
 * A row is written before the program runs its first instruction, and goes
 * when all it had is freed. Who finds a row whose watcher and program are gone
 * from this host takes over: nothing depends on `defib run` living to the end.
 */
#ifndef LIFE_PROGRAMS_H
#define LIFE_PROGRAMS_H

#include "life/incarnation.h"
#include "store/store.h"

#define PROGRAM_NAME_SIZE 64 /* of an application_name, with its end */

struct program {
	const char *application; /* the name of its sessions */
	const char *watch;
	const char *watcher, *leader; /* incarnations */
	const char *command;
	const char *ending;    /* how it ended; NULL: not known */
	bool clean;            /* with exit status 0 */
	int64_t ended_boot_us; /* when its watcher saw its end, by the clock since boot; 0: not here */
	int64_t ended_at_us;   /* the same as the database knows it; 0: not known */
	bool old;              /* it ended a good while ago */
};

/* "defib-run:NAME:NONCE"; what a session's name cannot hold is left out of NAME. */
void program_application(const char *name, const char *nonce, char out[PROGRAM_NAME_SIZE]);

MUST_CHECK defib_err program_add(struct store *s, const struct program *p, struct failure *f);
/* The program's end, for whoever has to finish what its watcher began. */
MUST_CHECK defib_err program_ended(struct store *s, const struct program *p, struct failure *f);
/* Claims of the program whose jobs were freed, or which nobody can free. */
MUST_CHECK defib_err claims_forget(struct store *s, const struct program *p, const int64_t *claims,
                                   int n, struct failure *f);
/* The last thing that goes: *removed is false, and its row stays, while it has a claim left. */
MUST_CHECK defib_err program_remove(struct store *s, const struct program *p, bool *removed,
                                    struct failure *f);
/* How many sessions have its name at this moment. */
MUST_CHECK defib_err program_sessions(struct store *s, const char *application, int64_t *n,
                                      struct failure *f);

/*
 * Programs of a watch (NULL: of all) that are gone from this host, with their
 * watchers. *n is 0 where the tables are not there.
 */
MUST_CHECK defib_err programs_gone(struct store *s, const char *watch, struct arena *a,
                                   struct program **out, int *n, struct failure *f);
/*
 * Programs of all watches whose end nobody has seen or can see from here. The caller knows that
 * the table is there and may be read.
 */
MUST_CHECK defib_err programs_running(struct store *s, struct arena *a, struct program **out,
                                      int *n, struct failure *f);
/* Whether a process group has a member. */
bool group_lives(pid_t group);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * crew.h: the daemon, workers and page workers: processes of ours.
 */
#ifndef CLI_DEMO_CREW_H
#define CLI_DEMO_CREW_H

#include "cli/demo/demo.h"

/* crew */
void demo_crew_init(struct demo *d);
MUST_CHECK defib_err demo_crew_start(struct demo *d, enum demo_role role, struct failure *f);
/* Detect and restart ended processes; the end of the daemon ends the demonstration. */
MUST_CHECK defib_err demo_crew_tend(struct demo *d, struct failure *f);
/* "w1", without the run's name. */
const char *demo_label(const char *name);
int demo_alive(const struct demo *d, enum demo_role role);
void demo_crew_stop(struct demo *d);
/* Jobs of this process were recovered. */
void demo_given_up(struct demo *d, pid_t pid);
/* Whether this process is a page worker, according to its environment. */
bool demo_pages_wanted(void);
int demo_pages_run(void);

/* A running member, at random; NULL: there is none. */
struct demo_member *demo_member_at_work(struct demo *d, enum demo_role role);
void demo_kill(struct demo *d, struct demo_member *m);
void demo_freeze(struct demo_member *m);
void demo_thaw(struct demo_member *m);
void demo_signal_all(const struct demo *d, enum demo_role role, int signal);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * acts.h: what happens to the crew, when, and what came of it.
 */
#ifndef CLI_DEMO_ACTS_H
#define CLI_DEMO_ACTS_H

#include "cli/demo/demo.h"

/* acts */
void demo_acts_tick(struct demo *d, int64_t now_ms);
bool demo_acts_over(const struct demo *d);
const char *demo_act_title(const struct demo *d, int act);
/* "4 jobs after 7 ms", and what else there is to say of it. */
void demo_act_outcome(const struct demo *d, int act, struct buf *recovered, struct buf *more);
/* The ledger shows: a job of this process was recovered; a page; the poisoned job was held; the
 * frozen worker came back, or a late result of it was refused. */
void demo_act_recovered(struct demo *d, pid_t pid, int64_t job, int64_t took_us);
void demo_act_page(struct demo *d, int64_t took_us);
void demo_act_held(struct demo *d);
void demo_act_back(struct demo *d, bool late);
/* The poisoned job has killed this one. */
void demo_act_victim(struct demo *d, const struct demo_member *m);

#endif

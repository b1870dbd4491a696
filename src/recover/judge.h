/* SPDX-License-Identifier: Apache-2.0
 * judge.h: is this job stuck, and what is the evidence? Pure: takes facts and returns a judgement.
 */
#ifndef RECOVER_JUDGE_H
#define RECOVER_JUDGE_H

#include "watch/facts.h"

/* All rules, in the order in which they are tried; ends with id NULL. */
extern const struct judge_rule judge_rules[];

struct judgement judge(const struct watch *w, const struct facts *f);

#endif

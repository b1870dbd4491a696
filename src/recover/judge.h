/* SPDX-License-Identifier: Apache-2.0
 * judge.h: is this job stuck, and by which evidence. Pure: facts in, verdict out.
 */
#ifndef RECOVER_JUDGE_H
#define RECOVER_JUDGE_H

#include "watch/facts.h"

/* All rules of judge(), in the order in which they are tried; ends with id NULL. */
extern const struct judge_rule judge_rules[];
/* Those of rows that wait; likewise. */
extern const struct judge_rule waiting_rules[];
/* The rule of a sign that is older than its limit. */
const struct judge_rule *judge_sign_rule(enum sign s);

struct judgement judge(const struct watch *w, const struct facts *f);
/*
 * The same for people: an excused job is not stuck. What was measured stays, to say what it is
 * excused from.
 */
struct judgement judge_shown(const struct watch *w, const struct facts *f);

#endif

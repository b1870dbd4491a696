/* SPDX-License-Identifier: Apache-2.0
 * refusal.h: why an operator's act left a job alone, and what the operator can do about it, in the
 * words of the caller: options of a command, members of an HTTP body.
 */
#ifndef VIEW_REFUSAL_H
#define VIEW_REFUSAL_H

#include "recover/candidate.h"

enum caller { CALLER_COMMAND, CALLER_HTTP };

/* NULL: there is nothing to do about it. */
const char *refusal_next(const struct candidate *c, enum caller caller);
/* The sentence, and what to do next, as text for a command. */
void refusal_text(const struct candidate *c, struct buf *out);

#endif

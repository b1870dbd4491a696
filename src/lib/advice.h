/* SPDX-License-Identifier: Apache-2.0
 * advice.h: what to do about a failure, in commands of the program. Rooms below name an advice
 * (base/fail.h); the library, the program and the service show these words.
 */
#ifndef LIB_ADVICE_H
#define LIB_ADVICE_H

#include "base/fail.h"

/* "" without advice; %s stands for what it is about. */
const char *advice_text(enum failure_advice advice);
/*
 * What to do next: what fail_next() said, or the words of the advice, which replace it in the
 * failure; "" if there is nothing.
 */
const char *failure_next(struct failure *f);

#endif

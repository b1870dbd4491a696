/* SPDX-License-Identifier: Apache-2.0
 * advice.h: what to do about a failure, in commands of the program. Rooms below name an advice
 * (base/fail.h); the library, the program and the service show these words.
 */
#ifndef LIB_ADVICE_H
#define LIB_ADVICE_H

#include "base/fail.h"

/* "" without advice; `about` may be NULL. Stays valid until the thread asks again. */
const char *advice_text(enum failure_advice advice, const char *about);
/* What to do next: what fail_next() said, or the words of the advice; "" if there is nothing. */
const char *failure_next(const struct failure *f);

#endif

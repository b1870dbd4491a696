/* SPDX-License-Identifier: Apache-2.0
 * place.h: a directory, a database, jobs in it, and their removal.
 */
#ifndef CLI_DEMO_PLACE_H
#define CLI_DEMO_PLACE_H

#include "cli/demo/demo.h"

/* place */
MUST_CHECK defib_err demo_place_make(struct demo *d, struct failure *f);
MUST_CHECK defib_err demo_place_fill(struct demo *d, struct failure *f);
MUST_CHECK defib_err demo_poison(struct demo *d, struct failure *f);
void demo_place_remove(struct demo *d);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * bound.h: a watch prepared on a session: types read, statements compiled and checked, the ledger
 * found or created.
 */
#ifndef RECOVER_BOUND_H
#define RECOVER_BOUND_H

#include "ledger/ledger.h"
#include "recover/decide.h"
#include "watch/compile.h"

struct bound {
	struct arena arena;
	struct binding binding;
	struct watch_sql sql;
	struct ledger ledger;
	bool ready;
};

enum bound_ledger { LEDGER_NONE, LEDGER_FIND, LEDGER_CREATE };

/* Open the session if necessary; what is already prepared is kept. */
MUST_CHECK defib_err bound_open(struct bound *b, struct session *session, const struct watch *w,
                                enum bound_ledger ledger, struct failure *f);
void bound_release(struct bound *b);
/* DEFIB_CONFIG, with what to add, if the watch does not define the act. */
MUST_CHECK defib_err bound_can(const struct watch *w, int act, struct failure *f);
/* DEFIB_REFUSED if the remedy could loop forever; `remedy` if `forced`. */
MUST_CHECK defib_err bound_refuse_loop(const struct bound *b, const struct watch *w, bool forced,
                                       enum remedy remedy, struct failure *f);

#endif

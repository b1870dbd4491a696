/* SPDX-License-Identifier: Apache-2.0
 * doctor_attach.c: whether a table tells who takes its rows, as its watch is
 * now. A watch needs that only where programs run under `defib run`.
 */
#include "recover/attach.h"
#include "setup/doctor_check.h"

void check_attached(struct examination *x)
{
	struct failure f = {0};
	enum attached is = ATTACHED_NOT;
	const char *fix = arena_printf(&x->arena, "run defib attach %s", x->watch->name);
	defib_err err = store_begin(x->store, TX_READ, &f);
	if (!err) {
		err = attach_state(x->store, &x->binding, &is, &f);
		store_rollback(x->store); /* nothing was written */
	}
	if (err)
		unclear(x, &f);
	else if (is == ATTACHED_FRESH)
		found(x, FINDING_OK, NULL,
		      "attached: defib run recovers the jobs of an ended program at once");
	else if (is == ATTACHED_NOT)
		found(x, FINDING_OK, NULL, "not attached; only defib run needs it");
	else
		found(x, is == ATTACHED_UNSAFE ? FINDING_FAIL : FINDING_WARN, fix, "%s",
		      attached_words[is]);
}

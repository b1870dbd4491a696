/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/advice.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* %s: what it is about. */
static const char *const advice_texts[ADVISE_COUNT] = {
	[ADVISE_NONE] = "",
	[ADVISE_CREATE_TABLES] = "have a DBA run the output of defib init --print, which includes the "
							 "grants for this role",
	[ADVISE_CREATE_QUEUE] = "defib init creates the queue's tables",
	[ADVISE_CREATE_LEASES] = "create them with: defib init (a DBA: defib init --print)",
	[ADVISE_GRANT] = "defib doctor gives the grants",
	[ADVISE_GRANT_UPDATE] = "grant UPDATE on that table to this role; defib doctor gives the "
							"statement",
	[ADVISE_MEND_SEQUENCE] = "defib doctor gives the statement that sets it right",
	[ADVISE_VERIFY_LEDGER] = "run: defib ledger verify",
	[ADVISE_FIND_INDEX] = "run `defib doctor` to see which index is missing, or raise the watch's "
						  "statement_timeout",
	[ADVISE_OWN_WORKERS] = "use defib's own workers (defib work), or judge rows by age",
	[ADVISE_ATTACH] = "run: defib db attach %s",
	[ADVISE_COUNT_STATES] = "defib status %s --numbers counts its jobs by state",
};

const char *advice_text(enum failure_advice advice)
{
	return advice_texts[advice];
}

const char *failure_next(struct failure *f)
{
	const char *text = advice_texts[f->advice], *place = strstr(text, "%s");
	AUTO_BUF words = BUF_INIT;
	if (f->advice == ADVISE_NONE)
		return f->next;
	buf_addn(&words, text, place ? (size_t)(place - text) : strlen(text));
	if (place) {
		buf_add(&words, f->next);
		buf_add(&words, place + strlen("%s"));
	}
	snprintf(f->next, sizeof f->next, "%s", buf_text(&words));
	f->advice = ADVISE_NONE;
	return f->next;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* causes.c: see causes.h. */
#include "ledger/causes.h"

#include "base/text.h"

const char *hold_cause_words(const char *cause)
{
	static const struct {
		const char *name, *words;
	} causes[] = {
#define X(id, name, words) {name, words},
		HOLD_CAUSE_LIST(X)
#undef X
	};
	for (size_t i = 0; cause && i < sizeof causes / sizeof *causes; i++)
		if (text_eq(causes[i].name, cause))
			return causes[i].words;
	return cause ? cause : causes[0].words;
}

bool hold_by_person(const char *cause)
{
	return text_eq(cause, HOLD_BY_HAND) || text_eq(cause, HOLD_UNDONE);
}

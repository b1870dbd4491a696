/* SPDX-License-Identifier: Apache-2.0 */
/* words.c: see words.h. */
#include "watch/words.h"

#include "base/text.h"

#include <assert.h>
#include <stddef.h>

const char *const verdict_names[] = {
#define X(id, name, why) name,
	VERDICT_LIST(X)
#undef X
		NULL,
};

const char *const remedy_names[] = {
#define X(id, name) name,
	REMEDY_LIST(X)
#undef X
		NULL,
};

const char *const time_type_names[] = {
#define X(id, name) name,
	TIME_TYPE_LIST(X)
#undef X
		NULL,
};

const char *verdict_why(enum verdict v)
{
	static const char *const why[] = {
#define X(id, name, text) text,
		VERDICT_LIST(X)
#undef X
	};
	assert(v >= 0 && v < VERDICT_COUNT);
	return why[v];
}

const char *act_name(int act)
{
	static const char *const names[] = {
#define X(id, name) name,
		REMEDY_LIST(X) ACT_LIST(X)
#undef X
	};
	assert(act >= 0 && act < ACT_COUNT);
	return names[act];
}

int word_index(const char *const *names, const char *name)
{
	for (int i = 0; names[i] != NULL; i++)
		if (text_eq(names[i], name))
			return i;
	return -1;
}

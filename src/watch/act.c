/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/act.h"

#include <assert.h>

const struct act_kind act_kinds[ACT_COUNT] = {
#define KIND(act, name, who, marks, event, outcome, count, example, reason, done, becomes, would,  \
             route, title, about)                                                                  \
	{act, name, BY_HAND_##who, marks, count, example, reason, done, becomes, would, title, about},
#define X(id, ...) KIND(REMEDY_##id, __VA_ARGS__)
	REMEDY_LIST(X)
#undef X
#define X(id, ...) KIND(ACT_##id, __VA_ARGS__)
		ACT_LIST(X)
#undef X
};

const char *const remedy_names[] = {
#define X(id, name, ...) name,
	REMEDY_LIST(X)
#undef X
		NULL,
};

static const struct act_kind *kind(int act)
{
	assert(act >= 0 && act < ACT_COUNT);
	return &act_kinds[act];
}

const char *act_name(int act)
{
	return kind(act)->verb;
}

bool act_has(int act, unsigned marks)
{
	return (kind(act)->marks & marks) != 0;
}

const struct act_kind *act_kind_named(const char *verb)
{
	for (int act = 0; act < ACT_COUNT; act++)
		if (act_kinds[act].by_hand != BY_HAND_NO && text_eq(act_kinds[act].verb, verb))
			return &act_kinds[act];
	return NULL;
}

void acts_of_many(const char *names[ACT_COUNT + 1])
{
	int n = 0;
	for (const struct act_kind *k = act_kinds; k < act_kinds + ACT_COUNT; k++)
		if (k->by_hand == BY_HAND_MANY)
			names[n++] = k->verb;
	names[n] = NULL;
}

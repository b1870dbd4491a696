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
#define X(id, name, event) name,
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

const char *remedy_event(enum remedy r)
{
	static const char *const events[] = {
#define X(id, name, event) event,
		REMEDY_LIST(X)
#undef X
	};
	assert(r >= 0 && r < REMEDY_COUNT);
	return events[r];
}

int word_index(const char *const *names, const char *name)
{
	for (int i = 0; names[i] != NULL; i++)
		if (text_eq(names[i], name))
			return i;
	return -1;
}

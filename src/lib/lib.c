/* SPDX-License-Identifier: Apache-2.0
 * lib.c: what every call of defib.h does: check what a caller hands in, once, so that rooms
 * further in can rely on it, and answer in public terms.
 */
#include "lib/lib.h"

#include "base/log.h"

#include <jansson.h>

defib_err lib_begin(struct failure *f)
{
	return mem_reserve() ? DEFIB_OK : fail(f, DEFIB_MEMORY, "memory is refused; nothing was done");
}

defib_err lib_answer(defib_err err, const struct failure *f, defib_message *message)
{
	if (message) {
		snprintf(message->what, sizeof message->what, "%s", err ? f->what : "");
		snprintf(message->next, sizeof message->next, "%s", err ? f->next : "");
	}
	return err;
}

defib_err lib_options(void *to, size_t known, const void *from, const char *what, struct failure *f)
{
	size_t given = 0;
	if (from)
		memcpy(&given, from, sizeof given);
	if (given < sizeof given)
		return fail(f, DEFIB_USAGE, "%s: the first member must be the struct's size", what);
	/* A newer program may know more than we do; it must not have asked for it. */
	for (size_t i = known; i < given; i++)
		if (((const char *)from)[i] != 0)
			return fail(f, DEFIB_USAGE, "%s: sets options that this version does not know", what);
	memset(to, 0, known);
	memcpy(to, from, given < known ? given : known);
	return DEFIB_OK;
}

bool lib_is_json(const char *text)
{
	json_t *json = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
	json_decref(json);
	return json != NULL;
}

defib_err defib_log(const char *level, int json)
{
	enum log_level least;
	if (!log_level_parse(level, &least))
		return DEFIB_USAGE;
	log_setup(least, json ? LOG_JSON : LOG_LOGFMT);
	return DEFIB_OK;
}

void defib_set_log(void (*line)(void *ctx, const char *level, const char *text), void *ctx)
{
	log_divert(line, ctx);
}

void defib_set_out_of_memory(int (*refused)(void *ctx, size_t bytes), void *ctx)
{
	mem_on_refused(refused, ctx);
}

/* SPDX-License-Identifier: Apache-2.0
 * fail.c: the one error convention. Messages are truncated to a fixed size, so that reporting a
 * failure needs no memory.
 */
#include "base/fail.h"

#include "base/text.h"

#include <assert.h>
#include <stdarg.h>

/* In parentheses, because it is also a macro for clang-tidy. */
defib_err(fail)(struct failure *f, defib_err code, const char *fmt, ...)
{
	assert(code != DEFIB_OK);
	if (!f)
		return code;
	/* The old text may be among the arguments, so it is replaced last. */
	char what[sizeof(f->what)];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	fail_clear(f);
	f->code = code;
	memcpy(f->what, what, sizeof(what));
	return code;
}

void fail_next(struct failure *f, const char *fmt, ...)
{
	if (!f)
		return;
	char next[sizeof(f->next)];
	va_list args;
	va_start(args, fmt);
	vsnprintf(next, sizeof(next), fmt, args);
	va_end(args);
	memcpy(f->next, next, sizeof(next));
	f->advice = ADVISE_NONE;
}

void fail_advise(struct failure *f, enum failure_advice advice, const char *about)
{
	if (!f)
		return;
	fail_next(f, "%s", about ? about : "");
	f->advice = advice;
}

bool fail_nearest(struct failure *f, const char *word, const char *const *names)
{
	const char *near = text_nearest(word, names);
	if (near)
		fail_next(f, "did you mean \"%s\"?", near);
	return near != NULL;
}

void fail_prefix(struct failure *f, const char *fmt, ...)
{
	if (!f)
		return;
	char prefix[256], what[sizeof(f->what)];
	va_list args;
	va_start(args, fmt);
	vsnprintf(prefix, sizeof(prefix), fmt, args);
	va_end(args);
	/* A long message loses its end on purpose. */
	int room = (int)(sizeof(what) - strlen(prefix) - sizeof(": "));
	snprintf(what, sizeof(what), "%s: %.*s", prefix, room, f->what);
	memcpy(f->what, what, sizeof(what));
}

void fail_clear(struct failure *f)
{
	if (f)
		memset(f, 0, sizeof(*f));
}

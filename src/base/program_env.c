/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program_env.h"

#include <unistd.h>

static const char *const always[] = {"PATH",   "HOME", "USER", "LOGNAME",  "SHELL",
                                     "TMPDIR", "TZ",   "LANG", "LANGUAGE", NULL};

static size_t name_length(const char *entry)
{
	return strcspn(entry, "=");
}

static bool env_same_name(const char *a, const char *b)
{
	size_t n = name_length(a);
	return n == name_length(b) && memcmp(a, b, n) == 0;
}

static bool passes_always(const char *entry)
{
	for (const char *const *name = always; *name; name++)
		if (env_same_name(entry, *name))
			return true;
	return text_starts(entry, "LC_");
}

void program_env_put(struct program_env *e, char *entry)
{
	for (int i = 0; i < e->n; i++) {
		if (env_same_name(e->entries[i], entry)) {
			e->entries[i] = entry;
			return;
		}
	}
	if (e->n + 1 >= e->cap) {
		int cap = e->cap ? 2 * e->cap : 32;
		char **more = ARENA_ARRAY(e->arena, char *, cap);
		for (int i = 0; i < e->n; i++)
			more[i] = e->entries[i];
		e->entries = more;
		e->cap = cap;
	}
	e->entries[e->n++] = entry;
}

void program_env_init(struct program_env *e, struct arena *a)
{
	*e = (struct program_env){.arena = a, .cap = 32, .entries = ARENA_ARRAY(a, char *, 32)};
	for (char **ours = environ; ours && *ours; ours++)
		if (passes_always(*ours))
			program_env_put(e, *ours);
}

static void pass_ours(struct program_env *e, const char *name)
{
	for (char **ours = environ; ours && *ours; ours++)
		if (env_same_name(*ours, name))
			program_env_put(e, *ours);
}

void program_env_pass(struct program_env *e, const char *const *entries)
{
	for (; entries && *entries; entries++)
		if (strchr(*entries, '='))
			program_env_put(e, arena_strdup(e->arena, *entries));
		else
			pass_ours(e, *entries);
}

static bool has(const struct program_env *e, const char *name)
{
	for (int i = 0; i < e->n; i++)
		if (env_same_name(e->entries[i], name))
			return true;
	return false;
}

void program_env_withheld(const struct program_env *e, const char *begin, struct buf *out)
{
	for (char **ours = environ; ours && *ours; ours++)
		if (text_starts(*ours, begin) && !has(e, *ours))
			buf_addf(out, "%s%.*s", out->len ? ", " : "", (int)name_length(*ours), *ours);
}

bool program_env_entry_ok(const char *entry)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	size_t n = strspn(entry, letters);
	return n > 0 && (entry[0] < '0' || entry[0] > '9') && (!entry[n] || entry[n] == '=');
}

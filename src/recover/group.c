/* SPDX-License-Identifier: Apache-2.0 */
/* group.c: see group.h. */
#include "recover/group.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#include <ctype.h>

#define PARTS_MAX 24 /* watches of a group that have a field of their own */

/* A label is arbitrary text; the name of a field is one word. */
static char *field_name(const struct watch *w)
{
	char *name = mem_strdup(w->label ? w->label : w->name);
	for (char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && (unsigned char)*p < 0x80)
			*p = '_';
	return name;
}

void group_tell(const char *group, const struct group_part *parts, int n)
{
	struct log_field fields[PARTS_MAX + 4];
	char *names[PARTS_MAX];
	int64_t total = 0, rest = 0;
	int k = 0, named = n < PARTS_MAX ? n : PARTS_MAX;
	for (int i = 0; i < n; i++) {
		total += parts[i].recovered;
		rest += i < named ? 0 : parts[i].recovered;
	}
	fields[k++] = LOG_STR("group", group);
	fields[k++] = LOG_INT("total", total);
	for (int i = 0; i < named; i++) {
		names[i] = field_name(parts[i].watch);
		fields[k++] = LOG_INT(names[i], parts[i].recovered);
	}
	if (named < n)
		fields[k++] = LOG_INT("others", rest);
	fields[k] = (struct log_field){NULL, NULL, 0};
	log_write(total ? LOG_WARN : LOG_DEBUG, total ? "stuck jobs reset" : "no stuck jobs", fields);
	for (int i = 0; i < named; i++)
		free(names[i]);
}

void groups_tell(struct group_part *parts, int n)
{
	for (int from = 0, to; from < n; from = to) {
		const char *group = parts[from].watch->group;
		to = from + 1;
		for (int i = to; group && i < n; i++)
			if (text_eq(parts[i].watch->group, group)) {
				struct group_part moved = parts[i];
				for (int k = i; k > to; k--)
					parts[k] = parts[k - 1];
				parts[to++] = moved;
			}
		if (group)
			group_tell(group, &parts[from], to - from);
	}
}

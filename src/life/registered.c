/* SPDX-License-Identifier: Apache-2.0 */
/* registered.c: see registered.h. */
#include "life/registered.h"

#include <string.h>

bool serves_watch(const char *serves, const char *watch)
{
	size_t len = strlen(watch);
	if (!serves)
		return true;
	for (const char *line = serves; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, watch, len) == 0 && (line[len] == '\0' || line[len] == '\n'))
			return true;
	}
	return false;
}

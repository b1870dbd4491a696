/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: see json.h. */
#include "base/json.h"

#include "base/mem.h"

enum { PER_BYTE = 8, LEAST = 4096 };

/*
 * If memory is refused, jansson usually reports "invalid token", so a rejected text is parsed a
 * second time, when there is room.
 */
json_t *json_read_bytes(const char *bytes, size_t n, size_t flags)
{
	json_t *value = json_loadb(bytes, n, flags, NULL);
	if (value)
		return value;
	free(mem_grow(NULL, LEAST + n * PER_BYTE)); /* returns when there is room */
	return json_loadb(bytes, n, flags, NULL);
}

json_t *json_read(const char *text, size_t flags)
{
	return json_read_bytes(text, strlen(text), flags);
}

void json_use_our_memory(void)
{
	json_set_alloc_funcs(mem_alloc, free);
}

/* SPDX-License-Identifier: Apache-2.0
 * json.h: reading JSON so that refused memory is never taken for a mistake in the text. A spooled
 * result would be set aside as damaged, or a good payload refused as bad. Memory that is refused is
 * waited for as in mem.h.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stddef.h>

/* NULL: it is not JSON. `flags` are jansson's. */
json_t *json_read(const char *text, size_t flags);
json_t *json_read_bytes(const char *bytes, size_t n, size_t flags);
/*
 * For a whole program: everything that jansson allocates is allocated as in mem.h. A library must
 * not: its host may use jansson too.
 */
void json_use_our_memory(void);

#endif

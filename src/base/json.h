/* SPDX-License-Identifier: Apache-2.0
 * json.h: reads JSON so that refused memory is never mistaken for an error in the text: a spooled
 * result would be set aside as damaged, or a valid payload rejected. Refused memory is waited for
 * as in mem.h.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stddef.h>

/* NULL: the text is not JSON. `flags` are jansson's. */
json_t *json_read(const char *text, size_t flags);
json_t *json_read_bytes(const char *bytes, size_t n, size_t flags);
/*
 * For a whole program: jansson allocates as in mem.h. A library must not do this: its host may use
 * jansson too.
 */
void json_use_our_memory(void);

#endif

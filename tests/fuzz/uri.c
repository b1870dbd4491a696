/* SPDX-License-Identifier: Apache-2.0
 * uri.c: the target of an HTTP request, before authentication.
 */
#include "fuzz.h"
#include "http/api.h"
#include "http/api_values.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	char *text = fuzz_text(bytes, n);
	struct arena a = ARENA_INIT;
	struct uri uri = {0};
	if (!uri_parse(text, &a, &uri)) {
		MUST(uri.nparts <= URI_PARTS_MAX && uri.npairs <= URI_PAIRS_MAX);
		for (int i = 0; i < uri.nparts; i++)
			MUST(strcmp(uri.parts[i], "..") != 0);
	}
	MUST(strchr(uri_loggable(text, &a), '?') == NULL);
	arena_release(&a);
	free(text);
	return 0;
}

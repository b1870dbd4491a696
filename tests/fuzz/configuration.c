/* SPDX-License-Identifier: Apache-2.0
 * configuration.c: an arbitrary configuration file, read as `defib config check` reads it.
 */
#include "fuzz.h"

#include "watch/settings.h"

static const char *environment(const char *name)
{
	return name[0] == 'N' ? "17" : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const struct section *const no_sections[] = {NULL};
	char *text = fuzz_text(bytes, n);
	struct arena a = ARENA_INIT;
	struct cfg_node *root = NULL;
	struct failure f = {0};
	if (cfg_parse(text, "fuzz.yaml", &a, &root, &f) == DEFIB_OK) {
		struct cfg_reader reader;
		struct settings settings = {0};
		cfg_reader_init(&reader, &a);
		reader.getenv = environment;
		settings_read(&reader, root, no_sections, &settings);
		cfg_reader_release(&reader);
	} else {
		MUST(f.what[0] != '\0');
	}
	arena_release(&a);
	free(text);
	return 0;
}

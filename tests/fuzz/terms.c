/* SPDX-License-Identifier: Apache-2.0
 * terms.c: the terms of --where, on the page and in the API.
 */
#include "fuzz.h"

#include "watch/settings.h"
#include "watch/terms.h"

static const char yaml[] =
	"databases: [{name: main, url: 'sqlite:x.db'}]\n"
	"watches:\n"
	"  - name: ocr\n    table: q\n    key: id\n    running: status_id = 6\n    kind: type\n"
	"    owner: worker\n    alive_at: at\n    stuck_after: 10m\n    show: [number, url]\n"
	"    states: {3: COMPLETE, 6: PROCESSING}\n    requeue: status_id = 3\n";

static const char *no_environment(const char *name)
{
	(void)name;
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const struct section *const no_sections[] = {NULL};
	static struct arena kept = ARENA_INIT;
	static struct settings settings;
	struct failure f = {0};
	if (!settings.nwatches) {
		struct cfg_node *root = NULL;
		struct cfg_reader reader;
		cfg_reader_init(&reader, &kept);
		reader.getenv = no_environment;
		MUST(cfg_parse(yaml, "terms.yaml", &kept, &root, &f) == DEFIB_OK);
		settings_read(&reader, root, no_sections, &settings);
		cfg_reader_release(&reader);
		MUST(settings.nwatches == 1);
	}
	char *text = fuzz_text(bytes, n);
	struct arena a = ARENA_INIT;
	struct term term;
	bool unknown = false;
	if (term_parse(&settings.watches[0], text, &a, &term, &unknown, &f))
		MUST(f.what[0] != '\0');
	else
		MUST(term.what <= TERM_RECOVERED && term.op <= TERM_UNDER);
	arena_release(&a);
	free(text);
	return 0;
}

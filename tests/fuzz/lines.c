/* SPDX-License-Identifier: Apache-2.0
 * lines.c: a line of the program beside a worker, and a payload on its way to that program. A
 * result that is read is valid JSON; whatever a payload is, its line is one line of JSON.
 */
#include "fuzz.h"

#include "base/text.h"
#include "worker/lines.h"

#include <jansson.h>

#define FLAGS (JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL)

static void read_one(const char *text, struct arena *a)
{
	struct line_fields fields;
	struct failure f = {0};
	if (line_read(text, strlen(text), a, &fields, &f) || !fields.result)
		return;
	json_t *result = json_read(fields.result, FLAGS);
	MUST(result);
	json_decref(result);
}

static void write_one(const char *text)
{
	struct claimed c = {.key = text, .kind = text, .queue = text, .payload = text, .epoch = 1};
	struct buf out = BUF_INIT;
	line_add_job(&out, 1, &c, 1, 0);
	MUST(strchr(out.data, '\n') == out.data + out.len - 1);
	json_t *line = json_read(out.data, FLAGS);
	MUST(line && json_object_get(line, "payload"));
	json_decref(line);
	buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	char *text = fuzz_text(bytes, n);
	struct arena a = ARENA_INIT;
	read_one(text, &a);
	write_one(text);
	arena_release(&a);
	free(text);
	return 0;
}

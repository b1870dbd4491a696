/* SPDX-License-Identifier: Apache-2.0
 * documents.c: texts of columns for a viewer or a log, with what the watch masks masked; and
 * documents of the ledger that guards compare. A value of a masked member never appears in the
 * output.
 */
#include "fuzz.h"

#include "base/text.h"
#include "recover/look.h"
#include "recover/masked.h"

static void must_hide(const struct watch *w, const char *text)
{
	AUTO_BUF document = BUF_INIT;
	AUTO_BUF out = BUF_INIT;
	AUTO_BUF words = BUF_INIT;
	size_t n = strlen(text);
	/* Letters only, so that no escape changes it; long, because a mask leaves a few characters. */
	if (n < 12 || strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != n)
		return;
	buf_addf(&document, "{\"a\":[{\"token\":\"%s\"}],\"b\":\"x\"}", text);
	masked_document(w, NULL, buf_text(&document), &out);
	masked_text(w, NULL, "note", buf_text(&document), &out);
	masked_exactly(w, NULL, "note", buf_text(&document), &out);
	buf_addf(&words, "could not send %s: token=%s", buf_text(&document), text);
	masked_free_text(w, NULL, buf_text(&words), &out);
	MUST(!strstr(buf_text(&out), text));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const char *const names[] = {"token"};
	static const struct column_set all;
	struct watch w = {.name = "w", .mask = {.n = 1, .items = (const char **)names}};
	struct arena a = ARENA_INIT;
	AUTO_SECRETS secrets = {0};
	AUTO_BUF out = BUF_INIT;
	const char *key[WATCH_KEYS_MAX], *first = NULL;
	char *text = fuzz_text(bytes, n), *rest = text, *other = strsep(&rest, "\n");
	secrets_document(&secrets, &w, other);
	masked_document(&w, &secrets, text, &out);
	masked_text(&w, &secrets, "note", other, &out);
	masked_exactly(&w, &secrets, "note", other, &out);
	masked_free_text(&w, &secrets, rest ? rest : other, &out);
	masked_free_text(&w, &secrets, other, &out);
	must_hide(&w, other);
	(void)job_key(other, 2, &a, key);
	MUST(!rest || columns_same(rest, other, &all, &a, &first) ||
	     !columns_same(rest, rest, &all, &a, &first) || strcmp(rest, other) != 0);
	(void)columns_same_in("token = 1", STORE_SQLITE, other, rest ? rest : other);
	arena_release(&a);
	free(text);
	return 0;
}

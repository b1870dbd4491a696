/* SPDX-License-Identifier: Apache-2.0
 * expressions.c: a user's SQL. Every byte is preserved, whatever it is; and a checked text can be
 * rendered.
 */
#include "fuzz.h"

#include "watch/lexer.h"

static bool any(void *ctx, const char *name, struct buf *out)
{
	(void)ctx;
	buf_add(out, name);
	return name[0] != 'x';
}

static void lex(const char *text, enum store_engine engine)
{
	struct sql_lexer lx;
	const char *at = text;
	sql_lexer_init(&lx, text, engine);
	for (struct sql_token t = sql_next(&lx); t.type != SQL_END; t = sql_next(&lx)) {
		MUST(t.text == at && t.len > 0);
		at += t.len;
		if (t.type == SQL_OPEN_ENDED)
			break;
	}
	MUST(*at == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const enum store_engine engines[] = {STORE_POSTGRES, STORE_SQLITE};
	char *text = fuzz_text(bytes, n);
	for (int i = 0; i < 2; i++) {
		struct failure f = {0};
		struct buf out = BUF_INIT;
		const char *at = text;
		lex(text, engines[i]);
		(void)!sql_check(text, engines[i], &f);
		(void)sql_names(text, engines[i], "status");
		(void)!sql_render(text, engines[i], any, NULL, &out, &f);
		while (sql_next_statement(&at, engines[i], &out))
			MUST(at > text && at <= text + strlen(text));
		buf_release(&out);
	}
	free(text);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_cursor.c: see ledger_cursor.h. */
#include "http/ledger_cursor.h"

#include "base/mem.h"
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool plain(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

static int hex(char c)
{
	static const char digits[] = "0123456789ABCDEF";
	const char *at = c ? strchr(digits, toupper((unsigned char)c)) : NULL;
	return at ? (int)(at - digits) : -1;
}

static bool decode_name(const char *text, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++) {
		if (plain(text[i])) {
			buf_addch(out, text[i]);
			continue;
		}
		int high = text[i] == '%' && i + 2 < n ? hex(text[i + 1]) : -1;
		int low = high < 0 ? -1 : hex(text[i + 2]);
		if (low < 0 || high + low == 0)
			return false;
		buf_addch(out, (char)(high * 16 + low));
		i += 2;
	}
	return n > 0;
}

static void encode_name(const char *name, struct buf *out)
{
	for (; *name; name++) {
		if (plain(*name))
			buf_addch(out, *name);
		else
			buf_addf(out, "%%%02X", (unsigned char)*name);
	}
}

static bool parse_place(struct ledger_cursor *c, const char *text, size_t n)
{
	const char *equals = memchr(text, '=', n);
	struct buf name = BUF_INIT, number = BUF_INIT;
	int64_t id = -1;
	bool good = equals && decode_name(text, (size_t)(equals - text), &name);
	if (good) {
		buf_addn(&number, equals + 1, n - (size_t)(equals - text) - 1);
		good = isdigit((unsigned char)*buf_text(&number)) && int_parse(buf_text(&number), &id);
	}
	struct ledger_place *p = good ? ledger_cursor_at(c, buf_text(&name)) : NULL;
	good = p && p->id < 0; /* named once */
	if (good)
		p->id = id;
	buf_release(&name);
	buf_release(&number);
	return good;
}

bool ledger_cursor_parse(struct ledger_cursor *c, const char *text)
{
	*c = (struct ledger_cursor){0};
	bool more = *text != '\0';
	while (more) {
		size_t n = strcspn(text, ",");
		if (!parse_place(c, text, n)) {
			ledger_cursor_release(c);
			return false;
		}
		more = text[n] == ',';
		text += n + 1;
	}
	return true;
}

struct ledger_place *ledger_cursor_at(struct ledger_cursor *c, const char *database)
{
	for (int i = 0; i < c->n; i++)
		if (text_eq(c->places[i].database, database))
			return &c->places[i];
	if (c->n == LEDGER_CURSOR_MAX)
		return NULL;
	c->places[c->n] = (struct ledger_place){mem_strdup(database), -1};
	return &c->places[c->n++];
}

void ledger_cursor_text(const struct ledger_cursor *c, struct buf *out)
{
	const char *between = "";
	for (int i = 0; i < c->n; i++) {
		if (c->places[i].id < 0)
			continue;
		buf_add(out, between);
		encode_name(c->places[i].database, out);
		buf_addf(out, "=%lld", (long long)c->places[i].id);
		between = ",";
	}
}

void ledger_cursor_release(struct ledger_cursor *c)
{
	for (int i = 0; i < c->n; i++)
		free(c->places[i].database);
	*c = (struct ledger_cursor){0};
}

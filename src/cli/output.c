/*
 * output.c: text for people: colours, padding, counts.
 */
#include "cli/cli.h"

#include "base/text.h"

#include <wchar.h>

void out_color(struct buf *out, bool on, enum color color, const char *text)
{
	static const char *const codes[] = {"",         "\033[1m",  "\033[31m",
	                                    "\033[32m", "\033[33m", "\033[2m"};
	if (!on || color == COLOR_NONE) {
		buf_add(out, text);
		return;
	}
	buf_addf(out, "%s%s\033[0m", codes[color], text);
}

int out_width(const char *text)
{
	int width = 0;
	mbstate_t state = {0};
	while (*text) {
		wchar_t wc;
		size_t n = mbrtowc(&wc, text, MB_CUR_MAX, &state);
		if (n == (size_t)-1 || n == (size_t)-2) {
			state = (mbstate_t){0};
			n = 1;
			width++;
		} else {
			int w = wcwidth(wc);
			width += w < 0 ? 1 : w;
		}
		text += n;
	}
	return width;
}

/* Whether a terminal would obey it: the controls of ASCII, and those that UTF-8 spells C2 80…9F. */
static bool is_control(const char *text)
{
	unsigned char c = (unsigned char)text[0];
	return c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text[1] < 0xa0);
}

/* What comes from a table may hold anything, also what is no text. */
static void add_visible(struct buf *out, const char *text)
{
	while (*text) {
		size_t n = utf8_len(text);
		if (n == 0 || is_control(text))
			buf_addch(out, '?');
		else
			buf_addn(out, text, n);
		text += n ? n : 1;
	}
}

void out_padded(struct buf *out, const char *text, int width)
{
	add_visible(out, text);
	for (int have = out_width(text); have < width; have++)
		buf_addch(out, ' ');
}

void out_count(struct buf *out, int64_t n)
{
	char digits[32];
	int len = snprintf(digits, sizeof digits, "%lld", (long long)n);
	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0 && digits[i - 1] != '-')
			buf_addch(out, ',');
		buf_addch(out, digits[i]);
	}
}

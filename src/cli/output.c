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

void out_visible(struct buf *out, const char *text)
{
	const char *begin = text;
	for (; *text && text - begin < OUT_TEXT_MAX;) {
		size_t n = utf8_len(text);
		if (n == 0 || utf8_steers(text))
			buf_addch(out, '?');
		else
			buf_addn(out, text, n);
		text += n ? n : 1;
	}
	if (*text) {
		buf_add(out, "… (");
		out_count(out, (int64_t)strlen(begin));
		buf_add(out, " bytes)");
	}
}

void out_padded(struct buf *out, const char *text, int width)
{
	out_visible(out, text);
	for (int have = out_width(text); have < width; have++)
		buf_addch(out, ' ');
}

void out_json(const char *json)
{
	struct buf out = BUF_INIT, one = BUF_INIT;
	while (*json) {
		size_t n = utf8_len(json);
		n = n ? n : 1;
		if (n > 1 && utf8_steers(json)) {
			/* Between quotes anyway: nothing but a string holds such a character. */
			char text[8] = {0};
			memcpy(text, json, n);
			buf_clear(&one);
			buf_add_json(&one, text);
			buf_addn(&out, one.data + 1, one.len - 2);
		} else {
			buf_addn(&out, json, n);
		}
		json += n;
	}
	puts(buf_text(&out));
	buf_release(&one);
	buf_release(&out);
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

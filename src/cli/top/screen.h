/* SPDX-License-Identifier: Apache-2.0
 * top/screen.h: the terminal of `defib top`: taken with curses, and given back on every way out.
 */
#ifndef CLI_TOP_SCREEN_H
#define CLI_TOP_SCREEN_H

#include "cli/top/lines.h"

/* Keys that are no characters; those are themselves. */
enum top_key {
	TOP_KEY_NONE = -1,
	TOP_KEY_UP = 0x110000, /* behind all of Unicode */
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_TAB,
	TOP_KEY_BACK_TAB,
	TOP_KEY_ENTER,
	TOP_KEY_ESCAPE,
	TOP_KEY_ERASE,
	TOP_KEY_RESIZE,
};

/* One line was printed where it returns false: this terminal is not known. */
bool top_screen_open(bool color);
void top_screen_close(void);
struct top_size top_screen_size(void);
/* `cursor` is the column of the last line where one types; -1: nowhere. */
void top_screen_draw(const struct top_line *lines, int n, int cursor);
/* The next key that was pressed; TOP_KEY_NONE: none is waiting. */
int top_screen_key(void);

#endif

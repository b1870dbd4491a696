/* SPDX-License-Identifier: Apache-2.0
 * screen.h: the terminal: opened with curses, restored on every exit. No other file uses it.
 */
#ifndef CLI_TOP_SCREEN_H
#define CLI_TOP_SCREEN_H

#include "cli/top/model.h"

/* Keys that are not characters; a character is its own code. */
enum top_key {
	TOP_KEY_NONE = -1,
	TOP_KEY_UP = 0x110000, /* above all of Unicode */
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

/* Returns false, after printing one line, if this terminal is not known. */
bool top_screen_open(bool color);
void top_screen_close(void);
struct top_size top_screen_size(void);
/* Whether the terminal shows only ASCII; also before it is opened. */
bool top_screen_is_ascii(void);
/* `cursor` is the input column in the last line; -1: none. */
void top_screen_draw(const struct top_line *lines, int n, int cursor);
/* The next key that was pressed; TOP_KEY_NONE: none. */
int top_screen_key(void);

#endif

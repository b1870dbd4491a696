/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/top/screen.h"

#include "cli/top/model.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

/* Wide characters of curses. */
#define _XOPEN_SOURCE_EXTENDED 1
#include <curses.h>
/* Our own names for colours are used here. */
#undef COLOR_RED
#undef COLOR_GREEN
#undef COLOR_YELLOW

static bool is_open, has_color;
static SCREEN *screen;

void top_screen_close(void)
{
	if (!is_open)
		return;
	is_open = false;
	endwin();
	delscreen(screen);
}

static void set_up_colors(bool wanted)
{
	has_color = wanted && has_colors();
	if (!has_color)
		return;
	start_color();
	use_default_colors();
	init_pair(COLOR_RED, 1, -1);
	init_pair(COLOR_GREEN, 2, -1);
	init_pair(COLOR_YELLOW, 3, -1);
}

bool top_screen_open(bool color)
{
	const char *term = getenv("TERM");
	screen = newterm(NULL, stdout, stdin);
	if (!screen) {
		cli_usage("top cannot draw on the terminal \"%s\"; set TERM to one that terminfo knows",
		          term ? term : "");
		return false;
	}
	is_open = true;
	/* Any exit() restores the terminal. */
	if (atexit(top_screen_close) != 0)
		abort();
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(50);
	set_up_colors(color);
	return true;
}

bool top_screen_is_ascii(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
}

struct top_size top_screen_size(void)
{
	int width = getmaxx(stdscr), height = getmaxy(stdscr);
	return (struct top_size){width < 1 ? 1 : width, height < 1 ? 1 : height, top_screen_is_ascii()};
}

static attr_t attributes(const struct top_span *s)
{
	attr_t how = (s->inverse ? A_REVERSE : 0) | (s->bold ? A_BOLD : 0);
	bool painted = s->color == COLOR_RED || s->color == COLOR_GREEN || s->color == COLOR_YELLOW;
	if (s->color == COLOR_DIM)
		how |= A_DIM;
	if (painted && has_color)
		how |= (attr_t)COLOR_PAIR(s->color);
	else if (painted && s->color == COLOR_RED)
		how |= A_BOLD;
	return how;
}

void top_screen_draw(const struct top_line *lines, int n, int cursor)
{
	int last = getmaxy(stdscr) - 1;
	erase();
	for (int i = 0; i < n; i++) {
		move(i, 0);
		for (int k = 0; k < lines[i].n; k++) {
			attrset(attributes(&lines[i].spans[k]));
			addstr(lines[i].spans[k].text);
		}
		attrset(A_NORMAL);
	}
	curs_set(cursor >= 0 ? 1 : 0);
	if (cursor >= 0)
		move(last, cursor < getmaxx(stdscr) ? cursor : getmaxx(stdscr) - 1);
	refresh();
}

/* Curses' key codes, and what a terminal may send instead. */
static const struct {
	bool function;
	wint_t from;
	int to;
} keys[] = {
	{true, KEY_UP, TOP_KEY_UP},           {true, KEY_DOWN, TOP_KEY_DOWN},
	{true, KEY_PPAGE, TOP_KEY_PAGE_UP},   {true, KEY_NPAGE, TOP_KEY_PAGE_DOWN},
	{true, KEY_HOME, TOP_KEY_HOME},       {true, KEY_END, TOP_KEY_END},
	{true, KEY_BTAB, TOP_KEY_BACK_TAB},   {true, KEY_ENTER, TOP_KEY_ENTER},
	{true, KEY_BACKSPACE, TOP_KEY_ERASE}, {true, KEY_RESIZE, TOP_KEY_RESIZE},
	{false, '\t', TOP_KEY_TAB},           {false, '\r', TOP_KEY_ENTER},
	{false, '\n', TOP_KEY_ENTER},         {false, 27, TOP_KEY_ESCAPE},
	{false, 127, TOP_KEY_ERASE},          {false, '\b', TOP_KEY_ERASE},
};

int top_screen_key(void)
{
	wint_t got;
	int kind = get_wch(&got);
	if (kind == ERR)
		return TOP_KEY_NONE;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (keys[i].function == (kind == KEY_CODE_YES) && keys[i].from == got)
			return keys[i].to;
	return kind == KEY_CODE_YES ? TOP_KEY_RESIZE : (int)got;
}

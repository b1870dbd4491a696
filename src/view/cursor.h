/* SPDX-License-Identifier: Apache-2.0
 * cursor.h: where a list goes on, as one word that no shell touches.
 *
 * It carries the order it was made in, so that it cannot be used with another.
 */
#ifndef VIEW_CURSOR_H
#define VIEW_CURSOR_H

#include "recover/browse.h"

struct cursor {
	const char *watch;
	enum list_sort sort;
	bool desc;
	int nkeys;
	struct browse_position at;
};

void cursor_text(const struct cursor *x, struct buf *out);
/* False when the word is none of ours. */
bool cursor_parse(const char *text, struct arena *a, struct cursor *out);

#endif

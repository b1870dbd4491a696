/* events.c: see events.h. */
#include "ledger/events.h"

#include "base/text.h"

#include <ctype.h>

#define EVENT_ROW(name, meaning) {#name, meaning},
const struct event_name event_names[] = {EVENT_LIST(EVENT_ROW){NULL, NULL}};

#define EVENT_TEXT(name, meaning) #name,
static const char *const texts[] = {EVENT_LIST(EVENT_TEXT) NULL};

bool event_known(const char *name, const char **near)
{
	struct buf upper = BUF_INIT;
	bool known = false;
	for (const char *const *text = texts; *text; text++)
		known = known || text_eq(*text, name);
	for (const char *c = name; *c; c++)
		buf_addch(&upper, *c == '-' ? '_' : (char)toupper((unsigned char)*c));
	*near = known ? name : text_nearest(buf_text(&upper), texts);
	buf_release(&upper);
	return known;
}

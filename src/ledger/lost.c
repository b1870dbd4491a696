/* SPDX-License-Identifier: Apache-2.0 */
/* lost.c: see lost.h. */
#include "ledger/lost.h"

/* A member of the evidence that reads like a time of ours; a shown column may only be named so. */
#define POINT(name)                                                                                \
	"CASE WHEN {member l.evidence|" name "} LIKE '____-__-__T__:__:__%Z' THEN {iso_point "         \
	"{member l.evidence|" name "}} END"

static void add_elapsed(const char *until, struct buf *out)
{
	buf_add(out, "{elapsed_s coalesce(" POINT("lost_at") ", " POINT("alive_at") ", CASE WHEN ");
	buf_add(out, POINT("expires_at") " <= ");
	buf_add(out, until);
	buf_add(out, " THEN " POINT("expires_at") " END, " POINT("started_at") ")|");
	buf_add(out, until);
	buf_add(out, "}");
}

void sql_seconds_lost(const char *until, struct buf *out)
{
	struct buf point = BUF_INIT;
	buf_addf(&point, "{stamp_point %s}", until);
	add_elapsed(buf_text(&point), out);
	buf_release(&point);
}

void sql_seconds_to_detection(struct buf *out)
{
	add_elapsed("(" POINT("now") ")", out);
}

/* lost.c: see lost.h. */
#include "ledger/lost.h"

/* A member of the evidence that reads like a time of ours; a shown column may only be named so. */
static void add_instant(enum store_engine engine, const char *name, struct buf *out)
{
	bool pg = engine == STORE_POSTGRES;
	buf_addf(out,
	         pg ? "CASE WHEN l.evidence->>'%s' LIKE '____-__-__T__:__:__%%Z' THEN "
	              "(l.evidence->>'%s')::timestamptz END"
	            : "CASE WHEN json_valid(l.evidence) THEN CASE WHEN l.evidence->>'%s' LIKE "
	              "'____-__-__T__:__:__%%Z' THEN julianday(l.evidence->>'%s') END END",
	         name, name);
}

static void add_since(enum store_engine engine, const char *until, struct buf *out)
{
	struct buf expires = BUF_INIT;
	add_instant(engine, "expires_at", &expires);
	buf_add(out, "coalesce(");
	add_instant(engine, "lost_at", out);
	buf_add(out, ", ");
	add_instant(engine, "alive_at", out);
	buf_addf(out, ", CASE WHEN %s <= %s THEN %s END, ", buf_text(&expires), until,
	         buf_text(&expires));
	add_instant(engine, "started_at", out);
	buf_add(out, ")");
	buf_release(&expires);
}

/* Both of the engine's own form: a timestamp, or a Julian day. */
static void add_elapsed(enum store_engine engine, const char *until, struct buf *out)
{
	struct buf since = BUF_INIT;
	add_since(engine, until, &since);
	/* greatest() would take 0 for a null. */
	if (engine == STORE_POSTGRES)
		buf_addf(out,
		         "CASE WHEN %s > %s THEN 0 ELSE round(extract(epoch FROM %s - %s)::numeric, 3) END",
		         buf_text(&since), until, until, buf_text(&since));
	else
		buf_addf(out, "max(0.0, round((%s - %s) * 86400.0, 3))", until, buf_text(&since));
	buf_release(&since);
}

void sql_seconds_lost(enum store_engine engine, const char *until, struct buf *out)
{
	struct buf day = BUF_INIT;
	buf_addf(&day, engine == STORE_POSTGRES ? "%s" : "julianday(%s)", until);
	add_elapsed(engine, buf_text(&day), out);
	buf_release(&day);
}

void sql_seconds_to_detection(enum store_engine engine, struct buf *out)
{
	struct buf now = BUF_INIT;
	buf_add(&now, "(");
	add_instant(engine, "now", &now);
	buf_add(&now, ")");
	add_elapsed(engine, buf_text(&now), out);
	buf_release(&now);
}

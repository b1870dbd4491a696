/* events.c: see events.h. */
#include "ledger/events.h"

#include "base/text.h"

#include <assert.h>
#include <ctype.h>

#define EVENT_ROW(name, counts, remedy, persons, meaning, label, phrase)                           \
	{#name, EVENT_##counts, remedy, persons, meaning, label, phrase},
const struct event_name event_names[] = {EVENT_LIST(EVENT_ROW){.name = NULL}};

#define EVENT_TEXT(name, counts, remedy, persons, meaning, label, phrase) #name,
static const char *const texts[] = {EVENT_LIST(EVENT_TEXT) NULL};

const struct event_name *event_named(const char *name)
{
	for (const struct event_name *e = event_names; e->name; e++)
		if (text_eq(e->name, name))
			return e;
	return NULL;
}

bool event_known(const char *name, const char **near)
{
	struct buf upper = BUF_INIT;
	bool known = event_named(name) != NULL;
	for (const char *c = name; *c; c++)
		buf_addch(&upper, *c == '-' ? '_' : (char)toupper((unsigned char)*c));
	*near = known ? name : text_nearest(buf_text(&upper), texts);
	buf_release(&upper);
	return known;
}

/* What needs no verdict, and what persons do not do: a person acts on what was found before. */
#define UNJUDGED EVENT_ROLLED_BACK
#define NOT_BY_PERSONS EVENT_DETECTED

unsigned event_counts(const char *name, bool judged, bool by_person)
{
	const struct event_name *e = event_named(name);
	unsigned counts = e ? e->counts : 0;
	counts &= judged ? ~0U : UNJUDGED;
	return counts & (by_person ? ~(unsigned)NOT_BY_PERSONS : ~0U);
}

/* ---- in SQL ---- */

void event_judged_sql(struct buf *sql, const char *alias)
{
	buf_addf(sql, "(coalesce(%s.verdict, 'none') <> 'none')", alias);
}

/* ('A', 'B'): those that `wanted` says yes to. */
static void add_names(struct buf *sql, bool (*wanted)(const struct event_name *e, unsigned numbers),
                      unsigned numbers)
{
	bool any = false;
	for (const struct event_name *e = event_names; e->name; e++)
		if (wanted(e, numbers)) {
			buf_addf(sql, "%s'%s'", any ? ", " : "(", e->name);
			any = true;
		}
	assert(any);
	buf_add(sql, ")");
}

static bool counts_as(const struct event_name *e, unsigned numbers)
{
	return (e->counts & numbers) != 0;
}

static bool by_persons(const struct event_name *e, unsigned ignored)
{
	(void)ignored;
	return e->by_persons;
}

void event_by_person_sql(struct buf *sql, const char *alias)
{
	buf_addf(sql, "(coalesce(%s.rule, '') = '" EVENT_BY_HAND "' OR %s.event IN ", alias, alias);
	add_names(sql, by_persons, 0);
	buf_add(sql, ")");
}

void event_counts_sql(struct buf *sql, const char *alias, unsigned numbers, enum event_by by)
{
	/* One statement has one condition: what needs a verdict and what needs none are asked apart. */
	assert((numbers & UNJUDGED) == 0 || (numbers & ~(unsigned)UNJUDGED) == 0);
	buf_addf(sql, "(%s.event IN ", alias);
	add_names(sql, counts_as, numbers);
	if ((numbers & UNJUDGED) == 0) {
		buf_add(sql, " AND ");
		event_judged_sql(sql, alias);
	}
	if (numbers & NOT_BY_PERSONS)
		by = BY_AUTOMATION;
	if (by != BY_ANYBODY) {
		buf_add(sql, by == BY_PERSONS ? " AND " : " AND NOT ");
		event_by_person_sql(sql, alias);
	}
	buf_add(sql, ")");
}

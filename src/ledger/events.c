/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/events.h"

#include <assert.h>
#include <ctype.h>

#define EVENT_ROW(name, counts, marks, remedy, meaning, label, phrase, tone, picture)              \
	{ENTRY_##name, EVENT_##counts, marks, remedy, meaning, label, phrase, tone, picture},
const struct event_name event_names[] = {EVENT_LIST(EVENT_ROW){.name = NULL}};

#define EVENT_TEXT(name, counts, marks, remedy, meaning, label, phrase, tone, picture) ENTRY_##name,
static const char *const texts[] = {EVENT_LIST(EVENT_TEXT) NULL};

static const char *const of_acts[ACT_COUNT] = {
#define X(id, name, by_hand, marks, event, ...) ENTRY_##event,
	REMEDY_LIST(X) ACT_LIST(X)
#undef X
};

const char *act_event(int act)
{
	assert(act >= 0 && act < ACT_COUNT);
	return of_acts[act];
}

const struct event_name *event_named(const char *name)
{
	for (const struct event_name *e = event_names; e->name; e++)
		if (text_eq(e->name, name))
			return e;
	return NULL;
}

bool event_known(const char *name, const char **near)
{
	AUTO_BUF upper = BUF_INIT;
	bool known = event_named(name) != NULL;
	for (const char *c = name; *c; c++)
		buf_addch(&upper, *c == '-' ? '_' : (char)toupper((unsigned char)*c));
	*near = known ? name : text_nearest(buf_text(&upper), texts);
	return known;
}

bool event_marked(const char *name, unsigned marks)
{
	const struct event_name *e = event_named(name);
	return e && (e->marks & marks) != 0;
}

/*
 * Events that need no verdict, and that operators do not cause: an operator acts on what was found
 * before.
 */
#define UNJUDGED COUNTS_ROLLED_BACK
#define NOT_BY_PERSONS COUNTS_DETECTED

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

/* (alias.event IN ('A', 'B')): the events with one of these counts or marks. */
static void events_add_names(struct buf *sql, const char *alias, unsigned counts, unsigned marks)
{
	bool any = false;
	buf_addf(sql, "(%s.event IN ", alias);
	for (const struct event_name *e = event_names; e->name; e++)
		if ((e->counts & counts) != 0 || (e->marks & marks) != 0) {
			buf_addf(sql, "%s'%s'", any ? ", " : "(", e->name);
			any = true;
		}
	assert(any);
	buf_add(sql, "))");
}

void event_marked_sql(struct buf *sql, const char *alias, unsigned marks)
{
	events_add_names(sql, alias, 0, marks);
}

void event_by_person_sql(struct buf *sql, const char *alias)
{
	buf_addf(sql, "(coalesce(%s.rule, '') = '" RULE_BY_HAND "' OR ", alias);
	event_marked_sql(sql, alias, MARK_PERSONS);
	buf_add(sql, ")");
}

void event_counts_sql(struct buf *sql, const char *alias, unsigned numbers, enum event_by by)
{
	/*
	 * One statement has one condition: numbers with and without a verdict are queried separately.
	 */
	assert((numbers & UNJUDGED) == 0 || (numbers & ~(unsigned)UNJUDGED) == 0);
	buf_add(sql, "(");
	events_add_names(sql, alias, numbers, 0);
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

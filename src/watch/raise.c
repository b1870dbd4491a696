/* SPDX-License-Identifier: Apache-2.0
 * raise.c: hours of high load, known in advance, at which thresholds are raised:
 *
 *   raise: [{days: [fri, sat], from: "18:00", to: "02:00", factor: 2.5}]
 *
 * All in UTC: a daemon and its database may stand in different zones, and no
 * hour happens twice there. A span that ends before it begins goes over
 * midnight and belongs to the day on which it begins. Where spans overlap the
 * greatest factor holds. Thresholds are never made shorter this way: that would
 * take living workers for dead.
 */
#include "watch/options_values.h"

#include "base/clock.h"
#include "base/text.h"

#include <assert.h>

#define HOUR_US (INT64_C(3600) * US_PER_S)
#define DAY_US (24 * HOUR_US)
#define EVERY_DAY 0x7f

const char *const day_names[] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun", NULL};

struct raise_options {
	struct text_list days;
	const char *from, *to;
	double factor;
};

#define R(member) offsetof(struct raise_options, member)
const struct opt_row raise_rows[] = {
	{.name = "days",
     .type = OPT_TEXT_LIST,
     .offset = R(days),
     .help =
         "the days on which it begins: mon, tue, wed, thu, fri, sat, sun; if not given, every day"},
	{.name = "from",
     .type = OPT_TEXT,
     .offset = R(from),
     .standard = "00:00",
     .help = "begins, in UTC"},
	{.name = "to",
     .type = OPT_TEXT,
     .offset = R(to),
     .standard = "24:00",
     .help = "ends, in UTC; before `from`: on the next day"},
	{.name = "factor",
     .type = OPT_NUMBER,
     .offset = R(factor),
     .required = true,
     .help = "stuck_after and overdue_after are this many times longer, 1 to 100"},
	{.name = NULL},
};
#undef R

bool raise_factor_ok(double factor)
{
	return factor >= 1 && factor <= RAISE_MOST;
}

static bool two_digits(const char *text, int64_t *n)
{
	if (text[0] < '0' || text[0] > '9' || text[1] < '0' || text[1] > '9')
		return false;
	*n = 10 * (text[0] - '0') + (text[1] - '0');
	return true;
}

bool daytime_parse(const char *text, int64_t *us)
{
	int64_t hours, minutes;
	if (strlen(text) != 5 || text[2] != ':' || !two_digits(text, &hours) ||
	    !two_digits(text + 3, &minutes) || minutes > 59 || hours * 60 + minutes > 24 * 60)
		return false;
	*us = (hours * 60 + minutes) * 60 * US_PER_S;
	return true;
}

static unsigned read_days(struct cfg_reader *r, const struct cfg_node *node,
                          const struct text_list *days)
{
	unsigned set = days->n ? 0 : EVERY_DAY;
	for (int i = 0; i < days->n; i++) {
		int day = word_index(day_names, days->items[i]);
		if (day < 0)
			cfg_problem(r, node->at,
			            "\"%s\" is not a day; days are mon, tue, wed, thu, fri, sat and sun",
			            days->items[i]);
		else
			set |= 1U << day;
	}
	return set;
}

static void read_span(struct cfg_reader *r, const struct cfg_node *node, struct raise_span *out)
{
	struct raise_options o = {0};
	int errors = r->nerrors;
	cfg_read(r, raise_rows, node, &o);
	if (r->nerrors > errors)
		return;
	out->factor = o.factor;
	out->days = read_days(r, node, &o.days);
	if (!daytime_parse(o.from, &out->from_us) || !daytime_parse(o.to, &out->to_us))
		cfg_problem(r, node->at, "from and to are times of the day in UTC such as \"18:00\"");
	else if (out->from_us == out->to_us)
		cfg_problem(r, node->at,
		            "from and to are the same moment; leave both out for the whole day");
	if (!raise_factor_ok(o.factor))
		cfg_problem(r, node->at, "factor is from 1 to %d: thresholds can only be raised",
		            RAISE_MOST);
}

void read_raise(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct raise_list *list = target;
	*list = (struct raise_list){0};
	if (!node)
		return;
	if (node->kind != CFG_LIST) {
		cfg_problem(r, node->at,
		            "expects a list such as [{days: [fri], from: \"18:00\", to: \"23:30\", "
		            "factor: 2.5}]");
		return;
	}
	list->items = ARENA_ARRAY(r->arena, struct raise_span, node->n + 1);
	for (int i = 0; i < node->n; i++) {
		char number[16];
		snprintf(number, sizeof number, "%d", i + 1);
		size_t mark = cfg_enter(r, number);
		read_span(r, node->items[i], &list->items[list->n++]);
		cfg_leave(r, mark);
	}
}

/* Whether the span is in force at this time of this day (mon is 0). */
static bool is_now(const struct raise_span *s, int day, int64_t time_us)
{
	int before = (day + 6) % 7;
	bool today = s->days & (1U << day), yesterday = s->days & (1U << before);
	if (s->from_us < s->to_us)
		return today && time_us >= s->from_us && time_us < s->to_us;
	return (today && time_us >= s->from_us) || (yesterday && time_us < s->to_us);
}

double watch_raise(const struct watch *w, int64_t now_us)
{
	int64_t time_us = now_us % DAY_US, day = now_us / DAY_US;
	double factor = 1;
	assert(now_us >= 0);
	/* 1970 began on a Thursday. */
	for (int i = 0; i < w->raise.n; i++)
		if (is_now(&w->raise.items[i], (int)((day + 3) % 7), time_us) &&
		    w->raise.items[i].factor > factor)
			factor = w->raise.items[i].factor;
	return factor;
}

static void make_longer(struct threshold *t, double factor, struct arena *a)
{
	int64_t *us = ARENA_ARRAY(a, int64_t, t->n);
	for (int i = 0; i < t->n; i++)
		us[i] = (int64_t)((double)t->us[i] * factor);
	t->us = us;
	t->standard_us = (int64_t)((double)t->standard_us * factor);
}

struct watch *watch_raised(const struct watch *w, double factor, struct arena *a)
{
	struct watch *raised = ARENA_NEW(a, struct watch);
	*raised = *w;
	make_longer(&raised->stuck_after, factor, a);
	make_longer(&raised->overdue_after, factor, a);
	return raised;
}

/* SPDX-License-Identifier: Apache-2.0
 * scheduled_reports_options.c: the option table of reports that are sent by themselves. They
 * are due at times that everybody can work out from the clock alone, so that daemons
 * need not tell each other: hence whole days, and whole weeks where a weekday is given.
 */
#include "daemon/scheduled_reports.h"

#include "base/text.h"
#include "view/report.h"
#include "watch/options_values.h"

#define HOUR_US (INT64_C(3600) * 1000000)
#define DAY_US (24 * HOUR_US)
#define MOST_US (INT64_C(366) * DAY_US)

/* "mon 08:00" or "08:00" */
static bool parse_time(const char *text, struct mailing_time *out)
{
	out->weekday = -1;
	for (int i = 0; day_names[i]; i++)
		if (text_starts(text, day_names[i]) && text[3] == ' ')
			out->weekday = i;
	return daytime_parse(out->weekday >= 0 ? text + 4 : text, &out->us) && out->us < DAY_US;
}

static void read_time(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct mailing_time *out = target;
	const char *text;
	*out = (struct mailing_time){0, 8 * HOUR_US};
	if (node && cfg_text(r, node, &text) && !parse_time(text, out))
		cfg_problem(r, node->at,
		            "\"%s\" is not a time of the week; write \"mon 08:00\" or \"08:00\" (UTC)",
		            text);
}

#define M(member) offsetof(struct mailing, member)
static const struct opt_row mailing_rows[] = {
	{.name = "name",
     .type = OPT_TEXT,
     .offset = M(name),
     .required = true,
     .help = "the report's name, which sinks receive"},
	{.name = "every",
     .type = OPT_DURATION,
     .offset = M(every_us),
     .standard = "7d",
     .help = "how often: whole days, whole weeks where `at` names a weekday"},
	{.name = "at",
     .type = OPT_CUSTOM,
     .offset = M(at),
     .read = read_time,
     .standard = "mon 08:00",
     .help = "when, in UTC: \"mon 08:00\", or \"08:00\" of each day that is due"},
	{.name = "since",
     .type = OPT_DURATION,
     .offset = M(since_us),
     .help = "the period that is reported; as long as `every` if not given"},
	{.name = "format",
     .type = OPT_CHOICE,
     .offset = M(form),
     .choices = report_form_names,
     .standard = "markdown",
     .help = "how it is written"},
	{.name = "sinks",
     .type = OPT_TEXT_LIST,
     .offset = M(sinks),
     .required = true,
     .help = "where it is sent: names of sinks"},
	{.name = NULL},
};
#undef M

static void check_one(struct cfg_reader *r, const struct mailing_list *before,
                      const struct mailing *m)
{
	if (m->name && !*m->name)
		cfg_problem(r, m->mark, "a report needs a name");
	for (int i = 0; m->name && i < before->n; i++)
		if (text_eq(before->items[i].name, m->name))
			cfg_problem(r, m->mark, "two reports are named \"%s\"", m->name);
	int64_t step = m->at.weekday >= 0 ? 7 * DAY_US : DAY_US;
	if (m->every_us <= 0 || m->every_us % step != 0)
		cfg_problem(r, m->mark, "every must be whole %s, such as %s",
		            m->at.weekday >= 0 ? "weeks where at names a weekday" : "days",
		            m->at.weekday >= 0 ? "7d" : "1d");
	if (m->since_us <= 0 || m->since_us > MOST_US)
		cfg_problem(r, m->mark, "since must be a period of at most 366d");
}

static void read_mailings(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct mailing_list *list = target;
	*list = (struct mailing_list){0};
	if (!node)
		return;
	if (node->kind != CFG_LIST) {
		cfg_problem(r, node->at, "expects a list of reports, each starting with \"- name:\"");
		return;
	}
	list->items = ARENA_ARRAY(r->arena, struct mailing, node->n);
	for (int i = 0; i < node->n; i++) {
		struct mailing *m = &list->items[list->n];
		const struct cfg_node *name = cfg_get(node->items[i], "name");
		size_t mark = cfg_enter(r, name && name->kind == CFG_SCALAR ? name->text : "?");
		m->mark = node->items[i]->at;
		cfg_read(r, mailing_rows, node->items[i], m);
		m->since_us = m->since_us ? m->since_us : m->every_us;
		check_one(r, list, m);
		cfg_leave(r, mark);
		list->n++;
	}
}

/* What such a receiver makes of a message is an incident; a report is none. */
static bool takes_documents(const struct alert_sink *s)
{
	return s->type != SINK_ALERTMANAGER && s->type != SINK_PAGERDUTY;
}

/* Sinks must be there, and of a kind that takes a document. */
static void check_mailings(struct cfg_reader *r, const struct settings *s)
{
	const struct mailing_list *all = settings_reports(s);
	const struct sink_list *sinks = settings_sinks(s);
	for (int i = 0; i < all->n; i++)
		for (int k = 0; k < all->items[i].sinks.n; k++) {
			const struct mailing *m = &all->items[i];
			const char *name = m->sinks.items[k];
			const struct alert_sink *sink = alert_sink_named(sinks, name);
			if (!sink)
				cfg_problem(r, m->mark, "report %s: there is no sink \"%s\" under sinks:", m->name,
				            name);
			else if (!takes_documents(sink))
				cfg_problem(r, m->mark,
				            "report %s: sink %s is of type %s, which accepts alerts only; use a "
				            "webhook, a command or the log",
				            m->name, name, sink_types[sink->type]);
		}
}

const struct section reports_section = {
	.id = SECTION_REPORTS,
	.row = {.name = "reports",
            .type = OPT_CUSTOM,
            .size = sizeof(struct mailing_list),
            .read = read_mailings,
            .help = "reports that are sent on a schedule; a list"},
	.title = "A report",
	.rows = mailing_rows,
	.check = check_mailings,
};

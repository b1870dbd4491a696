/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/scheduled_reports.h"

#include "alert/alert_store.h"
#include "alert/options.h"
#include "base/clock.h"
#include "base/log.h"
#include "view/report.h"
#include "view/report_forms.h"
#include "watch/options_values.h"

#include <assert.h>

#define AGAIN_US (INT64_C(60) * US_PER_S) /* pause after one that could not be added */
#define STATEMENT_MS 10000
#define MOST 64 /* reports of a configuration that are remembered as sent */

struct scheduled_reports {
	struct live_settings_box *setups;
	int64_t number;        /* of the configuration that `sent` belongs to */
	int64_t sent[MOST];    /* the due time for which each was last added */
	int64_t not_before_us; /* after a failure */
	bool running;          /* there is a thread to join */
	pthread_t thread;
	/* private to the thread */
	struct live_settings *setup; /* held */
	int at;                      /* which mailing */
	int64_t due_us;
	atomic_bool over, done;
};

/* ---- when ---- */

int64_t mailing_due_us(const struct mailing *m, int64_t now_us)
{
	/* Day 0 was a Thursday; without a weekday any fixed day will do. */
	int64_t day = m->at.weekday < 0 ? 0 : (m->at.weekday + 4) % 7;
	int64_t first = day * DAY_US + m->at.us;
	assert(m->every_us > 0 && now_us >= first);
	return first + (now_us - first) / m->every_us * m->every_us;
}

void mailing_id(const struct mailing *m, int64_t due_us, struct buf *out)
{
	buf_addf(out, "report/%s@", m->name);
	time_iso(due_us, out);
}

/* ---- what ---- */

/* Sessions and watches of one report. */
struct report_gathering {
	const struct live_settings *setup;
	struct arena arena;
	struct session *sessions;
	struct report_source *sources;
	int n;
};

static void add_source(struct report_gathering *g, const struct watch *w, const struct database *d)
{
	const struct settings *all = &g->setup->settings;
	struct session *session = &g->sessions[d - all->databases];
	*session =
		(struct session){.options = {.url = d->url, .name = d->name, .statement_ms = STATEMENT_MS},
	                     .open = store_open};
	g->sources[g->n++] = (struct report_source){w, d, session};
}

/* Besides other watches, the queue is in the report only if it is used. */
static void reports_add_queue(struct report_gathering *g, const struct database *d)
{
	struct session *session = &g->sessions[d - g->setup->settings.databases];
	struct failure ignored = {0}; /* its watches report an unavailable database */
	bool used = false;
	if (!session->open || settings_watch(&g->setup->settings, BUILTIN_NAME) ||
	    session_ready(session, &ignored) || queue_in_use(session->store, &used, &ignored) || !used)
		return;
	g->sources[g->n++] = (struct report_source){builtin_watch(d->engine, &g->arena), d, session};
}

static void add_sources(struct report_gathering *g)
{
	const struct settings *all = &g->setup->settings;
	g->sessions = ARENA_ARRAY(&g->arena, struct session, all->ndatabases);
	g->sources = ARENA_ARRAY(&g->arena, struct report_source, all->nwatches + all->ndatabases + 1);
	for (int i = 0; i < all->nwatches; i++)
		if (g->setup->chosen[i])
			add_source(g, &all->watches[i], settings_database(all, &all->watches[i]));
	if (all->nwatches == 0)
		add_source(g, builtin_watch(all->databases[0].engine, &g->arena), &all->databases[0]);
	for (int i = 0; i < all->ndatabases && all->nwatches > 0; i++)
		reports_add_queue(g, &all->databases[i]);
}

/* A log gets one line; the others get the document. */
static void sink_text(const struct report *r, const struct mailing *m, const struct alert_sink *s,
                      struct buf *out)
{
	struct report_numbers now, before;
	if (s->type != SINK_LOG) {
		report_render((enum report_form)m->form, r, out);
		return;
	}
	report_total(r, &now, &before);
	buf_addf(out, "report %s, ", m->name);
	report_span(r, out);
	buf_addf(out, ": recovered %lld, before %lld, held %lld", (long long)now.recovered,
	         (long long)before.recovered, (long long)now.held);
	for (int i = 0; i < r->nlost; i++)
		buf_addf(out, ", database %s could not be queried", r->lost[i].database);
}

static const char *reports_document_of(const struct report *r, const struct settings *all,
                                       const struct mailing *m, const struct alert_sink *s,
                                       const char *id, struct arena *a)
{
	AUTO_BUF out = BUF_INIT, text = BUF_INIT, from = BUF_INIT, to = BUF_INIT;
	sink_text(r, m, s, &text);
	time_iso(r->period.from_us, &from);
	time_iso(r->period.to_us, &to);
	const struct {
		const char *name, *value;
	} members[] = {
		{"id", id},
		{"kind", "report"},
		{"status", "report"},
		{"source", message_source(all)},
		{"name", m->name},
		{"from", buf_text(&from)},
		{"to", buf_text(&to)},
		{"at", buf_text(&to)},
		{"format", report_form_names[m->form]},
		{"text", buf_text(&text)},
	};
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		buf_addf(&out, "%s\"%s\":", i ? "," : "{", members[i].name);
		buf_add_json(&out, members[i].value);
	}
	buf_add(&out, "}");
	return arena_strdup(a, buf_text(&out));
}

/* ---- sending ---- */

static defib_err put_in(struct session *session, const struct outgoing *all, int n, struct arena *a,
                        struct failure *f)
{
	bool there = false;
	defib_err err = session_ready(session, f);
	if (!err)
		err = outbox_ready(session->store, true, &there, f);
	if (!err)
		err = store_begin(session->store, TX_WRITE, f);
	if (err)
		return err;
	return store_end(session->store, outbox_put(session->store, all, n, a, f), f);
}

static bool send_report(const struct live_settings *setup, const struct mailing *m, int64_t due_us)
{
	const struct settings *all = &setup->settings;
	struct report_gathering g = {.setup = setup};
	struct period period = {due_us - m->since_us, due_us};
	struct failure f = {0};
	struct report report;
	AUTO_BUF id = BUF_INIT;
	add_sources(&g);
	mailing_id(m, due_us, &id);
	report_gather(g.sources, g.n, &period, all->ledger == LEDGER_OFF, &g.arena, &report);
	struct outgoing *out = ARENA_ARRAY(&g.arena, struct outgoing, m->sinks.n);
	for (int i = 0; i < m->sinks.n; i++) {
		const struct alert_sink *sink = alert_sink_named(settings_sinks(all), m->sinks.items[i]);
		out[i] = (struct outgoing){
			.sink = sink->name,
			.kind = "report",
			.id = buf_text(&id),
			.document = reports_document_of(&report, all, m, sink, buf_text(&id), &g.arena)};
	}
	defib_err err = put_in(g.sources[0].session, out, m->sinks.n, &g.arena, &f);
	if (err)
		log_event(LOG_WARN, "a report could not be put into the outbox", LOG_STR("report", m->name),
		          LOG_STR("because", f.what));
	else
		log_event(LOG_INFO, "a report is in the outbox", LOG_STR("report", m->name),
		          LOG_STR("id", buf_text(&id)), LOG_INT("sinks", m->sinks.n));
	for (int i = 0; i < all->ndatabases; i++)
		session_close(&g.sessions[i]);
	arena_release(&g.arena);
	return !err;
}

static void *reports_thread_main(void *arg)
{
	struct scheduled_reports *m = arg;
	bool done =
		send_report(m->setup, &settings_reports(&m->setup->settings)->items[m->at], m->due_us);
	atomic_store(&m->done, done);
	atomic_store(&m->over, true);
	return NULL;
}

/* ---- for a database loop ---- */

struct scheduled_reports *scheduled_reports_new(struct live_settings_box *setups)
{
	struct scheduled_reports *m = mem_alloc(sizeof *m);
	m->setups = setups;
	return m;
}

static void join(struct scheduled_reports *m, int64_t now_us)
{
	pthread_join(m->thread, NULL);
	m->running = false;
	if (!atomic_load(&m->done))
		m->not_before_us = now_us + AGAIN_US;
	else if (m->setup->number == m->number)
		m->sent[m->at] = m->due_us;
	live_settings_drop(m->setups, m->setup);
}

/* The first database that has a watch of this daemon. */
static const struct database *sender_of(const struct live_settings *s)
{
	const struct settings *all = &s->settings;
	for (int i = 0; i < all->nwatches; i++)
		if (s->chosen[i])
			return settings_database(all, &all->watches[i]);
	return all->nwatches == 0 && all->ndatabases ? &all->databases[0] : NULL;
}

static void reports_begin(struct scheduled_reports *m, int at, int64_t due_us)
{
	m->setup = live_settings_hold(m->setups);
	m->at = at;
	m->due_us = due_us;
	atomic_store(&m->over, false);
	atomic_store(&m->done, false);
	/* After a reload in between, the next tick checks again. */
	bool same = m->setup->number == m->number;
	m->running = same && pthread_create(&m->thread, NULL, reports_thread_main, m) == 0;
	if (!m->running)
		live_settings_drop(m->setups, m->setup);
}

void scheduled_reports_tick(struct scheduled_reports *m, const struct live_settings *setup,
                            const struct database *d, bool leads, int64_t now_us)
{
	const struct mailing_list *all = settings_reports(&setup->settings);
	if (m->running && !atomic_load(&m->over))
		return;
	if (m->running)
		join(m, now_us);
	if (setup->number != m->number) {
		m->number = setup->number;
		memset(m->sent, 0, sizeof m->sent);
	}
	if (!leads || now_us < m->not_before_us || all->n == 0 || sender_of(setup) != d)
		return;
	for (int i = 0; i < all->n && i < MOST && !m->running; i++) {
		int64_t due = mailing_due_us(&all->items[i], now_us);
		if (due > m->sent[i] && now_us - due < MAILING_LATE_US)
			reports_begin(m, i, due);
	}
}

void scheduled_reports_free(struct scheduled_reports *m)
{
	if (m->running)
		join(m, 0);
	free(m);
}

/*
 * ---- the option table ----
 * Every daemon can compute the due times of reports from the clock alone: hence whole days, and
 * whole weeks if a weekday is given.
 */

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
	OPTION(TEXT, "name", M(name), "the report's name, which sinks receive", .required = true),
	OPTION(DURATION, "every", M(every_us),
           "how often: whole days, whole weeks where `at` names a weekday", .standard = "7d"),
	OPTION(CUSTOM, "at", M(at), "when, in UTC: \"mon 08:00\", or \"08:00\" of each day that is due",
           .read = read_time, .standard = "mon 08:00"),
	OPTION(DURATION, "since", M(since_us),
           "the period that is reported; as long as `every` if not given"),
	OPTION(CHOICE, "format", M(form), "the format of the report", .choices = report_form_names,
           .standard = "markdown"),
	OPTION(TEXT_LIST, "sinks", M(sinks), "where it is sent: names of sinks", .required = true),
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

/* Such a receiver turns a message into an incident; a report is not one. */
static bool takes_documents(const struct alert_sink *s)
{
	return s->type != SINK_ALERTMANAGER && s->type != SINK_PAGERDUTY;
}

/* Sinks must exist, and be of a kind that takes a document. */
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
	.row = OPTION(CUSTOM, "reports", 0, "reports that are sent on a schedule; a list",
                  .size = sizeof(struct mailing_list), .read = read_mailings),
	.title = "A report",
	.rows = mailing_rows,
	.check = check_mailings,
};

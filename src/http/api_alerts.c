/* SPDX-License-Identifier: Apache-2.0
 * api_alerts.c: how alerts stand, what became of their messages, and a test message.
 */
#include "http/api.h"

#include "alert/sinks.h"
#include "base/clock.h"
#include "base/text.h"
#include "view/alert.h"
#include "view/output.h"

#define DELIVERIES 100
#define DELIVERIES_MAX 1000

static const char *const alert_takes[] = {"database", NULL};
static const char *const delivery_takes[] = {"database", "limit", NULL};

static void add_sinks(const struct sink_list *s, struct buf *out)
{
	buf_add(out, ",\"sinks\":[");
	for (int i = 0; i < s->n; i++) {
		buf_add(out, i ? ",{\"sink\":" : "{\"sink\":");
		buf_add_json(out, s->items[i].name);
		json_text(out, "type", sink_types[s->items[i].type]);
		buf_add(out, "}");
	}
	buf_add(out, "]");
}

static void get_alerts(struct api_call *c)
{
	struct buf *out = &c->out->body;
	struct failure f = {0};
	int n = 0;
	if (!api_query_takes(c, alert_takes))
		return;
	buf_add(out, "{\"alerts\":[");
	if (alerts_json(c->session->store, &c->setup->settings, c->database, &c->arena, out, &n, &f)) {
		api_failed(c, &f);
		return;
	}
	buf_add(out, "\n]");
	add_sinks(settings_sinks(&c->setup->settings), out);
	buf_add(out, "}\n");
}

static void get_deliveries(struct api_call *c)
{
	struct buf *out = &c->out->body;
	struct failure f = {0};
	int64_t limit = DELIVERIES;
	int n = 0;
	if (!api_query_takes(c, delivery_takes) ||
	    !api_query_int(c, "limit", 1, DELIVERIES_MAX, &limit))
		return;
	buf_add(out, "{\"deliveries\":[");
	if (deliveries_json(c->session->store, c->database, (int)limit, &c->arena, out, &n, &f)) {
		api_failed(c, &f);
		return;
	}
	buf_add(out, "\n]}\n");
}

static void watch_loop_test(struct api_call *c)
{
	const struct sink_list *sinks = settings_sinks(&c->setup->settings);
	const char *name = NULL;
	struct buf *out = &c->out->body;
	if (!api_body_text(c, "sink", &name))
		return;
	if (name && !alert_sink_named(sinks, name)) {
		api_problem(c, 404, "there is no sink \"%s\" in the configuration", name);
		return;
	}
	buf_add(out, "{\"sinks\":[");
	for (int i = 0, n = 0; i < sinks->n; i++) {
		struct sink_answer answer = {0};
		if (name && !text_eq(sinks->items[i].name, name))
			continue;
		sink_test(&sinks->items[i], message_source(&c->setup->settings), clock_wall_us(), &answer);
		buf_add(out, n++ ? ",\n{\"sink\":" : "\n{\"sink\":");
		buf_add_json(out, sinks->items[i].name);
		json_text(out, "type", sink_types[sinks->items[i].type]);
		json_bool(out, "sent", answer.how == SINK_SENT);
		json_text(out, "answer", answer.text);
		buf_add(out, "}");
	}
	buf_add(out, "\n]}\n");
}

const struct api_route api_alert_routes[] = {
	{"GET", "/alerts", ROLE_VIEWER, API_DATABASE, false, false,
     "state of each alert rule, by watch", get_alerts},
	{"GET", "/deliveries", ROLE_VIEWER, API_DATABASE, false, false,
     "messages to sinks and their delivery, newest first", get_deliveries},
	{"POST", "/alerts/test", ROLE_ADMIN, API_DATABASE, true, false,
     "send a test message to a sink, or to all, and return their answers", watch_loop_test},
	{NULL, NULL, ROLE_NONE, API_MEMORY, false, false, NULL, NULL},
};

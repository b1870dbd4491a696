/* SPDX-License-Identifier: Apache-2.0
 * pager_test.c: every default rule from its first crossing to its end, sent in PagerDuty's form to
 * a real receiver over HTTP, which records what it gets.
 */
#include "alert/message.h"
#include "alert/rules_world_test.h"
#include "alert/sinks.h"

#include "base/test.h"

#include <arpa/inet.h>
#include <microhttpd.h>

/* What was received: the server's only thread writes, the test reads when a call has ended. */
struct pager {
	struct MHD_Daemon *server;
	struct buf body; /* of the current request */
	json_t *got;     /* of events */
	char url[64];
};

static enum MHD_Result receive(void *ctx, struct MHD_Connection *c, const char *url,
                               const char *method, const char *version, const char *data,
                               size_t *size, void **seen)
{
	static char head_seen;
	static const char answer[] = "{\"status\":\"success\"}";
	struct pager *p = ctx;
	(void)url, (void)method, (void)version;
	if (!*seen) {
		*seen = &head_seen;
		buf_clear(&p->body);
		return MHD_YES;
	}
	if (*size) {
		buf_addn(&p->body, data, *size);
		*size = 0;
		return MHD_YES;
	}
	json_array_append_new(p->got, json_loads(buf_text(&p->body), 0, NULL));
	struct MHD_Response *r =
		MHD_create_response_from_buffer(sizeof answer - 1, (void *)answer, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result ok = MHD_queue_response(c, MHD_HTTP_ACCEPTED, r);
	MHD_destroy_response(r);
	return ok;
}

static void pager_begin(struct pager *p)
{
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	*p = (struct pager){.got = json_array()};
	p->server = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, receive, p,
	                             MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&here, MHD_OPTION_END);
	assert_non_null(p->server);
	int port = MHD_get_daemon_info(p->server, MHD_DAEMON_INFO_BIND_PORT)->port;
	snprintf(p->url, sizeof p->url, "http://127.0.0.1:%d/v2/enqueue", port);
}

static void pager_end(struct pager *p)
{
	MHD_stop_daemon(p->server);
	buf_release(&p->body);
	json_decref(p->got);
}

static void send_change(const struct pager *p, const struct world *w, enum alert_id id,
                        enum alert_change change)
{
	struct alert_sink sink = {.name = "pager",
	                          .type = SINK_PAGERDUTY,
	                          .url = p->url,
	                          .key = "routing-key",
	                          .timeout_us = 10 * S};
	struct alert_message m = {&w->rules[id],  "defib", "main",    "pages",
	                          &w->alerts[id], change,  w->now_us, NULL};
	struct buf document = BUF_INIT, name = BUF_INIT;
	struct sink_answer answer = {0};
	message_document(&m, &document);
	message_id(&m, &name);
	struct sink_call call = {&sink, "alert", buf_text(&name), buf_text(&document), NULL};
	sink_send(&call, &answer);
	if (answer.how != SINK_SENT)
		fail_msg("%s: %s", alert_names[id], answer.text);
	buf_release(&document);
	buf_release(&name);
}

static const char *member(const json_t *event, const char *name)
{
	const char *text = json_string_value(json_object_get(event, name));
	return text ? text : "";
}

/* As the daemon handles every change: no message is sent twice. */
static void every_default_rule_triggers_and_resolves_one_incident_of_its_own(void **state)
{
	struct pager p;
	(void)state;
	pager_begin(&p);
	for (int i = 0; i < ALERT_COUNT; i++) {
		struct world *w = a_world();
		enum alert_id id = lives[i].id;
		lives[i].make(w, lives[i].above);
		for (int look = 0; look < 6; look++) {
			enum alert_change change = ask(w, id);
			if (change != CHANGE_NONE)
				send_change(&p, w, id, change);
			if (look == 2)
				a_day_later_all_is_well(w);
			else
				w->now_us += S;
		}
		assert_int_equal(json_array_size(p.got), 2 * (i + 1));
		const json_t *trigger = json_array_get(p.got, (size_t)(2 * i));
		const json_t *resolve = json_array_get(p.got, (size_t)(2 * i + 1));
		const json_t *payload = json_object_get(trigger, "payload");
		assert_string_equal(member(trigger, "event_action"), "trigger");
		assert_string_equal(member(resolve, "event_action"), "resolve");
		assert_string_equal(member(trigger, "routing_key"), "routing-key");
		assert_non_null(strstr(member(trigger, "dedup_key"), alert_names[id]));
		assert_string_equal(member(trigger, "dedup_key"), member(resolve, "dedup_key"));
		assert_non_null(strstr(member(payload, "summary"), lives[i].says));
		for (int before = 0; before < i; before++)
			assert_string_not_equal(
				member(json_array_get(p.got, (size_t)(2 * before)), "dedup_key"),
				member(trigger, "dedup_key"));
	}
	pager_end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_default_rule_triggers_and_resolves_one_incident_of_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

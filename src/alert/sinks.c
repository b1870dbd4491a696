/* sinks.c: see sinks.h. */
#include "alert/sinks.h"

#include "alert/message.h"
#include "base/log.h"
#include "base/text.h"

#include <stdarg.h>

/* A receiver may say back what we sent. */
static void hide(char *text, const char *secret)
{
	size_t n = secret ? strlen(secret) : 0;
	for (char *at = text; n >= 4 && (at = strstr(at, secret)) != NULL; at += n)
		memset(at, '*', n);
}

void sink_answered(const struct sink_call *c, struct sink_answer *out, enum sink_end how,
                   const char *fmt, ...)
{
	char text[4 * sizeof out->text];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	hide(text, c->sink->key);
	hide(text, c->sink->url);
	for (int i = 0; i < c->sink->headers.n; i++)
		hide(text, c->sink->headers.values[i]);
	for (char *p = text; *p; p++)
		*p = (unsigned char)*p < 0x20 || *p == 0x7f ? ' ' : *p;
	utf8_copy(out->text, sizeof out->text, text);
	out->how = how;
}

static void sink_log(const struct sink_call *c, struct sink_answer *out)
{
	static const struct {
		const char *severity;
		enum log_level level;
	} levels[] = {{"warning", LOG_WARN}, {"critical", LOG_ERROR}, {"page", LOG_CRITICAL}};
	json_t *d = json_loads(c->document, 0, NULL);
	bool over = !text_eq(document_text(d, "status"), "firing");
	enum log_level level = LOG_INFO;
	for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
		if (!over && text_eq(levels[i].severity, document_text(d, "severity")))
			level = levels[i].level;
	log_event(level, c->kind, LOG_STR("text", document_text(d, "text")),
	          LOG_STR("status", document_text(d, "status")),
	          LOG_STR("rule", document_text(d, "rule")),
	          LOG_STR("watch", document_text(d, "watch")),
	          LOG_STR("database", document_text(d, "database")), LOG_STR("id", c->id));
	json_decref(d);
	sink_answered(c, out, SINK_SENT, "logged");
}

void sink_send(const struct sink_call *c, struct sink_answer *out)
{
	static void (*const senders[])(const struct sink_call *c, struct sink_answer *out) = {
		[SINK_LOG] = sink_log,           [SINK_COMMAND] = sink_command, [SINK_WEBHOOK] = sink_http,
		[SINK_ALERTMANAGER] = sink_http, [SINK_PAGERDUTY] = sink_http,
	};
	*out = (struct sink_answer){0};
	senders[c->sink->type](c, out);
}

const char *const sink_ends[] = {"sent", "try again", "refused"};

void sink_test(const struct alert_sink *sink, const char *source, int64_t at_us,
               struct sink_answer *out)
{
	static const char *const statuses[] = {"firing", "resolved"};
	bool keeps = sink->type == SINK_ALERTMANAGER || sink->type == SINK_PAGERDUTY;
	out->how = SINK_SENT;
	for (int i = 0; i < (keeps ? 2 : 1) && out->how == SINK_SENT; i++) {
		struct buf document = BUF_INIT, id = BUF_INIT;
		message_test(source, statuses[i], at_us, &document);
		buf_addf(&id, "%s/test@%lld.%s", source, (long long)(at_us / 1000), statuses[i]);
		struct sink_call call = {
			.sink = sink, .kind = "test", .id = buf_text(&id), .document = buf_text(&document)};
		sink_send(&call, out);
		buf_release(&document);
		buf_release(&id);
	}
}

/*
 * sink_http.c: messages over HTTP. A try has a time limit, redirects are not followed
 * (a secret would go where nobody sent it), certificates are checked, and of the
 * answer a little is read.
 */
#include "alert/message.h"
#include "alert/sinks.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <curl/curl.h>
#include <pthread.h>

#define READ_MAX 65536  /* more than this is no answer */
#define KEEP 160        /* of it is told */
#define WAIT_MAX_S 3600 /* that a receiver may ask for */
#define ALERTMANAGER_PATH "/api/v2/alerts"

struct request {
	const struct sink_call *call;
	CURL *curl;
	struct curl_slist *headers;
	struct buf url, body;
	size_t read;
	char kept[KEEP];
	char error[CURL_ERROR_SIZE];
};

static void curl_once(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t take(const char *data, size_t size, size_t n, void *ctx)
{
	struct request *q = ctx;
	size_t bytes = size * n;
	if (q->read < KEEP - 1) {
		size_t room = KEEP - 1 - q->read, fits = bytes < room ? bytes : room;
		memcpy(q->kept + q->read, data, fits);
	}
	q->read += bytes;
	return q->read > READ_MAX ? 0 : bytes;
}

static int goes_on(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const struct request *q = ctx;
	(void)a, (void)b, (void)c, (void)d;
	return q->call->stop && atomic_load(q->call->stop) ? 1 : 0;
}

static void add_url(struct request *q)
{
	const struct alert_sink *s = q->call->sink;
	size_t n = strlen(s->url), tail = strlen(ALERTMANAGER_PATH);
	buf_add(&q->url, s->url);
	if (s->type != SINK_ALERTMANAGER ||
	    (n >= tail && text_eq(s->url + n - tail, ALERTMANAGER_PATH)))
		return;
	buf_addf(&q->url, "%s", &ALERTMANAGER_PATH[s->url[n - 1] == '/' ? 1 : 0]);
}

/* False: the sink takes no such message. */
static bool add_body(struct request *q)
{
	const struct alert_sink *s = q->call->sink;
	json_t *d = json_loads(q->call->document, 0, NULL);
	bool ok = d != NULL;
	if (ok && s->type == SINK_ALERTMANAGER)
		ok = form_alertmanager(d, &q->body);
	else if (ok && s->type == SINK_PAGERDUTY)
		ok = form_pagerduty(d, s->key, &q->body);
	else if (ok)
		buf_add(&q->body, s->format == SINK_TEXT ? document_text(d, "text") : q->call->document);
	json_decref(d);
	return ok;
}

static void add_header(struct request *q, const char *name, const char *value)
{
	struct buf line = BUF_INIT;
	buf_addf(&line, "%s: %s", name, value);
	struct curl_slist *more = curl_slist_append(q->headers, buf_text(&line));
	q->headers = more ? more : q->headers;
	buf_release(&line);
}

static void add_headers(struct request *q)
{
	const struct alert_sink *s = q->call->sink;
	bool text = s->type == SINK_WEBHOOK && s->format == SINK_TEXT;
	add_header(q, "Content-Type", text ? "text/plain; charset=utf-8" : "application/json");
	add_header(q, "Idempotency-Key", q->call->id);
	add_header(q, "Expect", "");
	for (int i = 0; i < s->headers.n; i++)
		add_header(q, s->headers.names[i], s->headers.values[i]);
}

static void set_up(struct request *q)
{
	long timeout_ms = (long)(q->call->sink->timeout_us / 1000);
	curl_easy_setopt(q->curl, CURLOPT_URL, buf_text(&q->url));
	curl_easy_setopt(q->curl, CURLOPT_POST, 1L);
	curl_easy_setopt(q->curl, CURLOPT_POSTFIELDS, buf_text(&q->body));
	curl_easy_setopt(q->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body.len);
	curl_easy_setopt(q->curl, CURLOPT_HTTPHEADER, q->headers);
	curl_easy_setopt(q->curl, CURLOPT_USERAGENT, "defib/" DEFIB_VERSION);
	curl_easy_setopt(q->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(q->curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(q->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(q->curl, CURLOPT_TIMEOUT_MS, timeout_ms);
	curl_easy_setopt(q->curl, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
	curl_easy_setopt(q->curl, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(q->curl, CURLOPT_WRITEDATA, q);
	curl_easy_setopt(q->curl, CURLOPT_XFERINFOFUNCTION, goes_on);
	curl_easy_setopt(q->curl, CURLOPT_XFERINFODATA, q);
	curl_easy_setopt(q->curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(q->curl, CURLOPT_ERRORBUFFER, q->error);
}

/* What a status means; the first row that it is within. */
static const struct {
	long from, to;
	enum sink_end how;
	const char *also;
} statuses[] = {
	{200, 299, SINK_SENT, ""},  {300, 399, SINK_REFUSED, ", redirects are not followed"},
	{408, 408, SINK_AGAIN, ""}, {425, 425, SINK_AGAIN, ""},
	{429, 429, SINK_AGAIN, ""}, {400, 499, SINK_REFUSED, ""},
	{0, 999, SINK_AGAIN, ""},
};

static void judge_status(struct request *q, struct sink_answer *out)
{
	long status = 0;
	curl_off_t wait_s = 0;
	size_t i = 0;
	curl_easy_getinfo(q->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(q->curl, CURLINFO_RETRY_AFTER, &wait_s);
	while (status < statuses[i].from || status > statuses[i].to)
		i++;
	bool sent = statuses[i].how == SINK_SENT;
	sink_answered(q->call, out, statuses[i].how, "HTTP %ld%s%s%s", status, statuses[i].also,
	              !sent && q->kept[0] ? ": " : "", sent ? "" : q->kept);
	if (wait_s > 0)
		out->wait_us = (wait_s < WAIT_MAX_S ? wait_s : WAIT_MAX_S) * US_PER_S;
}

static void perform(struct request *q, struct sink_answer *out)
{
	CURLcode code = curl_easy_perform(q->curl);
	long status = 0;
	curl_easy_getinfo(q->curl, CURLINFO_RESPONSE_CODE, &status);
	/* Who answered well and then talked on has the message. */
	if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && status >= 200))
		judge_status(q, out);
	else if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
		sink_answered(q->call, out, SINK_REFUSED, "%s", curl_easy_strerror(code));
	else
		sink_answered(q->call, out, SINK_AGAIN, "%s",
		              q->error[0] ? q->error : curl_easy_strerror(code));
}

void sink_http(const struct sink_call *c, struct sink_answer *out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct request q = {.call = c, .url = BUF_INIT, .body = BUF_INIT};
	pthread_once(&once, curl_once);
	if (!add_body(&q)) {
		sink_answered(c, out, SINK_REFUSED, "%s takes alerts, and no %s", sink_types[c->sink->type],
		              c->kind);
	} else if ((q.curl = curl_easy_init()) == NULL) {
		sink_answered(c, out, SINK_AGAIN, "no memory for a request");
	} else {
		add_url(&q);
		add_headers(&q);
		set_up(&q);
		perform(&q, out);
	}
	curl_easy_cleanup(q.curl);
	curl_slist_free_all(q.headers);
	buf_release(&q.url);
	buf_release(&q.body);
}

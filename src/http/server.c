/* SPDX-License-Identifier: Apache-2.0 */
#include "http/server.h"

#include "base/clock.h"
#include "base/log.h"
#include "http/api_values.h"
#include "http/api_worker.h"
#include "http/server_inside.h"
#include "http/server_sockets.h"
#include "store/spool_folder.h"

#include <assert.h>
#include <poll.h>
#include <unistd.h>

/*
 * A body that is too large by at most this much is read to its end, so that its sender gets the
 * reason.
 */
#define DISCARD_MAX (8 << 20)

/* ---- streams ---- */

#define BLOCK 4096

struct http_stream {
	struct http *http;
	struct MHD_Connection *socket;
	int fd;
	const struct http_stream_ops *ops;
	void *ctx;
	atomic_bool left; /* the client closed it */
	pthread_mutex_t lock;
	bool suspended;
	bool woken; /* since it was last idle */
	struct http_stream *next, *before;
};

struct http_stream *http_stream(struct api_call *c, const char *type,
                                const struct http_stream_ops *ops, void *ctx)
{
	struct request *r = c->http;
	assert(c->route->where == API_MEMORY && r && !r->stream);
	struct http *h = r->http;
	if (atomic_load(&h->stopping)) {
		api_problem(c, 503, "the daemon is stopping");
		return NULL;
	}
	struct http_stream *s = mem_alloc(sizeof *s);
	*s = (struct http_stream){
		.http = h, .socket = r->socket, .fd = r->at->fd, .ops = ops, .ctx = ctx};
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_lock(&h->lock);
	s->next = h->streams;
	if (s->next)
		s->next->before = s;
	h->streams = s;
	pthread_mutex_unlock(&h->lock);
	metrics_add(h->api->metrics, METRIC_HTTP_STREAMS, 1, NO_LABELS);
	c->out->type = type;
	r->stream = s;
	return s;
}

void http_stream_wake(struct http_stream *s)
{
	pthread_mutex_lock(&s->lock);
	s->woken = true;
	if (s->suspended) {
		s->suspended = false;
		MHD_resume_connection(s->socket);
	}
	pthread_mutex_unlock(&s->lock);
}

/* True: it was woken meanwhile and must be pulled again. */
static bool suspend_unless_woken(struct http_stream *s)
{
	pthread_mutex_lock(&s->lock);
	bool again = s->woken;
	s->woken = false;
	if (!again) {
		s->suspended = true;
		MHD_suspend_connection(s->socket);
	}
	pthread_mutex_unlock(&s->lock);
	return again;
}

static ssize_t server_pull(void *arg, uint64_t at, char *to, size_t max)
{
	struct http_stream *s = arg;
	(void)at;
	for (;;) {
		if (atomic_load(&s->http->stopping) || atomic_load(&s->left))
			return MHD_CONTENT_READER_END_OF_STREAM;
		ssize_t n = s->ops->pull(s->ctx, to, max);
		if (n > 0)
			return n;
		if (n < 0)
			return MHD_CONTENT_READER_END_OF_STREAM;
		if (!suspend_unless_woken(s))
			return 0;
	}
}

static void stream_end(void *arg)
{
	struct http_stream *s = arg;
	struct http *h = s->http;
	pthread_mutex_lock(&h->lock);
	if (s->next)
		s->next->before = s->before;
	if (s->before)
		s->before->next = s->next;
	else
		h->streams = s->next;
	pthread_mutex_unlock(&h->lock);
	metrics_add(h->api->metrics, METRIC_HTTP_STREAMS, -1, NO_LABELS);
	s->ops->gone(s->ctx);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void streams_wake(struct http *h)
{
	pthread_mutex_lock(&h->lock);
	for (struct http_stream *s = h->streams; s; s = s->next)
		http_stream_wake(s);
	pthread_mutex_unlock(&h->lock);
}

/* The library does not watch a suspended socket. */
void streams_look(struct http *h)
{
	pthread_mutex_lock(&h->lock);
	for (struct http_stream *s = h->streams; s; s = s->next) {
		struct pollfd end = {.fd = s->fd, .events = POLLRDHUP};
		if (poll(&end, 1, 0) > 0) {
			atomic_store(&s->left, true);
			http_stream_wake(s);
		}
	}
	pthread_mutex_unlock(&h->lock);
}

/* ---- answers ---- */

static const struct {
	const char *name, *value;
} always[] = {
	{"X-Content-Type-Options", "nosniff"},
	{"X-Frame-Options", "DENY"},
	{"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	{"Referrer-Policy", "no-referrer"},
	{"Cache-Control", "no-store"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
};

/* A handler may set its own; two policies would both apply. */
static bool says_itself(const struct api_answer *a, const char *name)
{
	bool says = false;
	for (int i = 0; i < a->nheaders; i++)
		says = says || text_eq(a->headers[i].name, name);
	return says;
}

static void server_add_headers(struct MHD_Response *out, const struct api_answer *a)
{
	for (size_t i = 0; i < sizeof always / sizeof *always; i++)
		if (!says_itself(a, always[i].name))
			MHD_add_response_header(out, always[i].name, always[i].value);
	MHD_add_response_header(out, "Content-Type", a->type);
	for (int i = 0; i < a->nheaders; i++)
		MHD_add_response_header(out, a->headers[i].name, a->headers[i].value);
}

static void count(const struct request *r)
{
	static const char *const classes[] = {"?", "1xx", "2xx", "3xx", "4xx", "5xx"};
	struct metrics *m = r->http->api->metrics;
	int class = r->answer.status / 100;
	metrics_add(m, METRIC_HTTP_REQUESTS, 1, LABELS(classes[class < 6 ? class : 0]));
	if (r->answer.status == 401)
		metrics_add(m, METRIC_HTTP_DENIED, 1, NO_LABELS);
	if (!r->stream)
		metrics_observe(m, METRIC_HTTP_SECONDS, (double)(clock_boot_us() - r->began_us) / 1e6,
		                NO_LABELS);
}

static enum MHD_Result request_answer(struct request *r)
{
	struct api_answer *a = &r->answer;
	struct MHD_Response *out;
	if (r->stream) {
		out = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, server_pull, r->stream,
		                                        stream_end);
	} else {
		size_t n = a->body.len;
		out = n ? MHD_create_response_from_buffer(n, buf_detach(&a->body), MHD_RESPMEM_MUST_FREE)
		        : MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
	}
	if (!out)
		return MHD_NO;
	server_add_headers(out, a);
	if (r->ends || atomic_load(&r->http->stopping))
		MHD_add_response_header(out, "Connection", "close");
	count(r);
	connection_phase(r->at, r->stream ? PHASE_STREAMING : PHASE_SENDING);
	enum MHD_Result queued = MHD_queue_response(r->socket, (unsigned)a->status, out);
	r->stream = NULL; /* now belongs to the response */
	MHD_destroy_response(out);
	return queued;
}

/* ---- the caller ---- */

static const char *header(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->socket, MHD_HEADER_KIND, name);
}

static const struct sockaddr *client(const struct request *r)
{
	return MHD_get_connection_info(r->socket, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
}

static bool is_from_here(struct request *r, const struct http_rules *rules)
{
	struct asked_from q = {.method = r->asked.method,
	                       .host = header(r, "Host"),
	                       .origin = header(r, "Origin"),
	                       .fetch_site = header(r, "Sec-Fetch-Site"),
	                       .listen = r->http->at.host};
	int status;
	const char *why = auth_from_here(&q, &rules->hosts, &status);
	return !why || api_problem(&r->call, status, "%s", why);
}

/* After too many failures guesses are refused; the right token is always accepted. */
static bool refuse_token(struct request *r, uint64_t who)
{
	struct http *h = r->http;
	struct arena *a = &r->call.arena;
	pthread_mutex_lock(&h->failed_logins_lock);
	int64_t wait = failed_logins_wait_s(&h->failed_logins, who, clock_boot_ms());
	failed_logins_add(&h->failed_logins, who, clock_boot_ms());
	pthread_mutex_unlock(&h->failed_logins_lock);
	/* For an address with too many failures, not every one is logged. */
	if (wait == 0)
		log_event(LOG_WARN, "a wrong token was sent", LOG_STR("path", uri_loggable(r->target, a)));
	if (wait > 0) {
		api_header(&r->call, "Retry-After", arena_printf(a, "%lld", (long long)wait));
		return api_problem(&r->call, 429, "too many wrong tokens from this address; wait %lld s",
		                   (long long)wait);
	}
	api_header(&r->call, "WWW-Authenticate", "Bearer realm=\"defib\", error=\"invalid_token\"");
	return api_problem(&r->call, 401, "the token is not valid");
}

static bool server_is_known(struct request *r, const struct http_rules *rules)
{
	struct identity id;
	if (auth_who(rules->auth, header(r, "Authorization"), &id) == AUTH_WRONG)
		return refuse_token(r, failed_logins_who(client(r)));
	r->asked.role = id.role;
	utf8_copy(r->actor, sizeof r->actor, id.actor);
	r->asked.actor = r->actor;
	return true;
}

static bool may_ask(struct request *r)
{
	struct http *h = r->http;
	pthread_rwlock_rdlock(&h->rules_lock);
	bool ok = is_from_here(r, h->rules) && server_is_known(r, h->rules);
	pthread_rwlock_unlock(&h->rules_lock);
	return ok;
}

/* ---- a request ---- */

static void *on_target(void *cls, const char *target, struct MHD_Connection *socket)
{
	struct request *r = mem_alloc(sizeof *r);
	struct buf kept = BUF_INIT;
	buf_addn(&kept, target, strnlen(target, URI_MAX + 1));
	r->http = cls;
	r->socket = socket;
	r->target = buf_detach(&kept);
	r->at = MHD_get_connection_info(socket, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
	return r;
}

static void request_free(struct request *r)
{
	if (r->stream)
		stream_end(r->stream);
	if (r->call.api)
		api_end(&r->call);
	arena_release(&r->call.arena);
	api_answer_release(&r->answer);
	buf_release(&r->body);
	free(r->target);
	free(r);
}

static void on_end(void *cls, struct MHD_Connection *socket, void **context,
                   enum MHD_RequestTerminationCode how)
{
	struct request *r = *context;
	(void)cls, (void)socket, (void)how;
	if (!r)
		return;
	connection_phase(r->at, PHASE_READING);
	request_free(r);
	*context = NULL;
}

static void on_connection(void *cls, struct MHD_Connection *socket, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
	struct http *h = cls;
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = connection_add(
			h, MHD_get_connection_info(socket, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
	} else {
		connection_remove(h, *context);
		*context = NULL;
	}
}

/* A call in a request pool has its answer. */
static void on_done(void *ctx)
{
	struct request *r = ctx;
	MHD_resume_connection(r->socket);
}

static enum MHD_Result refuse_size(struct request *r)
{
	api_problem(&r->call, 413, "the body may have at most %zu bytes", r->http->max_body);
	return request_answer(r);
}

/* The head is complete: requests whose body need not be read are answered now. */
static enum MHD_Result on_head(struct request *r, const char *method, const char *url,
                               const char *version)
{
	const char *length = header(r, "Content-Length");
	int64_t declared = 0;
	r->begun = true;
	r->began_us = clock_boot_us();
	r->asked = (struct api_request){.method = method, .target = r->target};
	r->call.out = &r->answer;
	api_answer_clear(&r->answer);
	const char *why = server_head_refusal(r->socket, method, url, version, &r->ends);
	if (why) {
		r->ends = true;
		api_problem(&r->call, 400, "%s", why);
		return request_answer(r);
	}
	if (!length || !int_parse(length, &declared) || declared <= (int64_t)r->http->max_body)
		return MHD_YES;
	r->too_big = true;
	bool waits = header(r, "Expect") != NULL;
	return waits || declared > (int64_t)r->http->max_body + DISCARD_MAX ? refuse_size(r) : MHD_YES;
}

/* A body without a length that never ends is cut off. */
static enum MHD_Result on_body(struct request *r, const char *bytes, size_t n)
{
	r->read += n;
	if (r->read > r->http->max_body)
		r->too_big = true;
	if (r->too_big)
		buf_release(&r->body);
	else
		buf_addn(&r->body, bytes, n);
	return r->read > r->http->max_body + DISCARD_MAX ? MHD_NO : MHD_YES;
}

/* The request is complete. */
static enum MHD_Result on_whole(struct request *r)
{
	r->handed = true;
	r->began_us = clock_boot_us();
	connection_phase(r->at, PHASE_WORKING);
	if (r->too_big)
		return refuse_size(r);
	if (!may_ask(r))
		return request_answer(r);
	r->asked.content_type = header(r, "Content-Type");
	r->asked.accept = header(r, "Accept");
	r->asked.last_event_id = header(r, "Last-Event-ID");
	r->asked.if_none_match = header(r, "If-None-Match");
	r->asked.worker_secret = header(r, WORKER_SECRET_HEADER);
	r->asked.body = buf_text(&r->body);
	r->asked.nbody = r->body.len;
	r->call.http = r;
	arena_release(&r->call.arena);
	if (api_begin(r->http->api, &r->asked, &r->call, &r->answer) == API_ANSWERED)
		return request_answer(r);
	r->turn = (struct pooled_request){.call = &r->call, .done = on_done, .ctx = r};
	MHD_suspend_connection(r->socket);
	request_pools_put(r->http->pools, &r->turn);
	return MHD_YES;
}

/* Called by the library with the head, with each piece of the body, when complete, when resumed. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *socket, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *nupload, void **context)
{
	struct request *r = *context;
	(void)cls, (void)socket;
	assert(r != NULL);
	if (!r->begun)
		return on_head(r, method, url, version);
	if (*nupload) {
		enum MHD_Result go_on = on_body(r, upload, *nupload);
		*nupload = 0;
		return go_on;
	}
	return r->handed ? request_answer(r) : on_whole(r);
}

/* ---- start and stop ---- */

static const char *server_environment(const char *name)
{
	return getenv(name);
}

static void rules_free(struct http_rules *r)
{
	if (!r)
		return;
	auth_free(r->auth);
	arena_release(&r->arena);
	free(r);
}

static defib_err rules_load(const struct service *s, struct http_rules **out, struct failure *f)
{
	struct http_rules *r = mem_alloc(sizeof *r);
	defib_err err = auth_load(s, server_environment, &r->auth, f);
	if (err) {
		rules_free(r);
		return err;
	}
	r->hosts.n = s->hosts.n;
	r->hosts.items = ARENA_ARRAY(&r->arena, const char *, s->hosts.n + 1);
	for (int i = 0; i < s->hosts.n; i++)
		r->hosts.items[i] = arena_strdup(&r->arena, s->hosts.items[i]);
	*out = r;
	return DEFIB_OK;
}

static defib_err check_reach(const struct http *h, const struct http_rules *r, struct failure *f)
{
	if (h->at.loopback || auth_has_tokens(r->auth))
		return DEFIB_OK;
	fail(f, DEFIB_CONFIG, "%s is reachable from other hosts, and there is no token", h->at.host);
	fail_next(f, "add http: tokens: to the configuration, or listen on 127.0.0.1");
	return DEFIB_CONFIG;
}

defib_err http_reload(struct http *h, const struct service *s, struct failure *f)
{
	struct http_rules *next = NULL;
	defib_err err = rules_load(s, &next, f);
	if (!err)
		err = check_reach(h, next, f);
	if (err) {
		rules_free(next);
		return err;
	}
	pthread_rwlock_wrlock(&h->rules_lock);
	struct http_rules *old = h->rules;
	h->rules = next;
	pthread_rwlock_unlock(&h->rules_lock);
	rules_free(old);
	return DEFIB_OK;
}

static void http_free(struct http *h)
{
	if (h->pools)
		request_pools_free(h->pools);
	rules_free(h->rules);
	buf_release(&h->start_messages);
	pthread_rwlock_destroy(&h->rules_lock);
	pthread_mutex_destroy(&h->failed_logins_lock);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

static struct http *http_new(const struct http_options *o)
{
	struct http *h = mem_alloc(sizeof *h);
	h->api = o->api;
	h->tls = o->service->tls.certificate != NULL;
	h->max_body = (size_t)o->service->max_body;
	h->crowd = (int)(o->service->max_connections - o->service->max_connections / ROOM_PART - 1);
	h->request_ms = o->service->request_timeout_us / 1000;
	h->pools = request_pools_new(o->api, o->service->database_timeout_us / 1000);
	pthread_rwlock_init(&h->rules_lock, NULL);
	pthread_mutex_init(&h->failed_logins_lock, NULL);
	pthread_mutex_init(&h->lock, NULL);
	return h;
}

static const struct http_calls calls = {.on_request = on_request,
                                        .on_target = on_target,
                                        .on_end = on_end,
                                        .on_connection = on_connection};

struct http *http_start(const struct http_options *o, struct failure *f)
{
	const char *listen = o->listen ? o->listen : o->service->listen;
	struct http *h = http_new(o);
	defib_err err = DEFIB_OK;
	if (!listen || !address_parse(listen, &h->at)) {
		err = fail(f, DEFIB_USAGE, "\"%s\" is not an address to listen on", listen ? listen : "");
		fail_next(f, "write 127.0.0.1:8080 or [::1]:8080");
	}
	if (!err && o->service->spool)
		err = folder_ours(NULL, o->service->spool, f);
	if (!err)
		err = rules_load(o->service, &h->rules, f);
	if (!err)
		err = check_reach(h, h->rules, f);
	if (!err)
		err = server_start(h, o->service, &calls, f);
	if (err) {
		http_free(h);
		return NULL;
	}
	connections_clock_start(h);
	log_event(LOG_INFO, "http server started", LOG_STR("address", &h->address[0]),
	          LOG_STR("url", &h->url[0]));
	return h;
}

#define DRAIN_MS 1000

void http_stop(struct http *h)
{
	int listener = MHD_quiesce_daemon(h->mhd);
	connections_clock_stop(h);
	atomic_store(&h->stopping, true);
	request_pools_close(h->pools);
	streams_wake(h);
	/* Answers in progress; a client that does not read its answer is not waited for. */
	int64_t until = clock_boot_ms() + DRAIN_MS;
	while (connections_busy(h) && clock_boot_ms() < until)
		usleep(5000);
	MHD_stop_daemon(h->mhd);
	if (listener >= 0)
		close(listener);
	http_free(h);
}

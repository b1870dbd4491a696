/*
 * server_answer.c: answers and the headers that each carries. Nothing of ours may be
 * framed, sniffed, cached or read by another site, and a page of ours loads only what
 * comes from here.
 */
#include "http/server_inside.h"

#include "base/clock.h"
#include "base/text.h"
#include "daemon/metrics.h"

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

/* A handler may know better; two policies would both hold. */
static bool says_itself(const struct api_answer *a, const char *name)
{
	bool says = false;
	for (int i = 0; i < a->nheaders; i++)
		says = says || text_eq(a->headers[i].name, name);
	return says;
}

static void add_headers(struct MHD_Response *out, const struct api_answer *a)
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

enum MHD_Result request_answer(struct request *r)
{
	struct api_answer *a = &r->answer;
	struct MHD_Response *out;
	if (r->stream) {
		out = stream_response(r->stream);
	} else {
		size_t n = a->body.len;
		out = n ? MHD_create_response_from_buffer(n, buf_detach(&a->body), MHD_RESPMEM_MUST_FREE)
		        : MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
	}
	if (!out)
		return MHD_NO;
	add_headers(out, a);
	if (r->ends || atomic_load(&r->http->stopping))
		MHD_add_response_header(out, "Connection", "close");
	count(r);
	connection_phase(r->at, r->stream ? PHASE_STREAMING : PHASE_SENDING);
	enum MHD_Result queued = MHD_queue_response(r->socket, (unsigned)a->status, out);
	r->stream = NULL; /* the response's now */
	MHD_destroy_response(out);
	return queued;
}

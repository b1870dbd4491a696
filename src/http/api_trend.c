/*
 * api_trend.c: GET /trend: what was found stuck and what was recovered in each hour of a
 * day, or each six hours of a week, of every watch of a database: what the page draws.
 *
 * One counting statement a watch, served by the ledger's index on (watch, at): it reads
 * what happened in the period and answers a few dozen numbers, whatever the ledger holds.
 */
#include "http/api.h"

#include "base/clock.h"
#include "base/text.h"
#include "ledger/digest.h"
#include "view/json.h"
#include "watch/builtin.h"

/* The periods there are; parts begin at whole hours, so that all of them stay the same. */
static const struct span {
	const char *name;
	int buckets;
	int64_t bucket_s;
	bool times; /* also how long recoveries took: that reads the evidence of each */
} spans[] = {
	{"24h", 24, 3600, true},
	{"7d", 28, INT64_C(6) * 3600, false},
};

static const struct span *span_asked(struct api_call *c)
{
	const char *name = api_query(c, "since");
	for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
		if (text_eq(name ? name : spans[0].name, spans[i].name))
			return &spans[i];
	api_problem(c, 400, "since: there is no \"%s\"; 24h or 7d", name);
	return NULL;
}

/* Up to the end of the part that is under way. */
static struct period period_of(const struct span *span, int64_t now_us)
{
	int64_t part_us = span->bucket_s * US_PER_S;
	int64_t to_us = (now_us / part_us + 1) * part_us;
	return (struct period){to_us - span->buckets * part_us, to_us};
}

static void add_counts(const char *name, const struct digest_bucket *buckets, int n, bool recovered,
                       struct buf *out)
{
	buf_addf(out, ",\"%s\":[", name);
	for (int i = 0; i < n; i++)
		buf_addf(out, "%s%lld", i ? "," : "",
		         (long long)(recovered ? buckets[i].recovered : buckets[i].detected));
	buf_add(out, "]");
}

/* False after a problem. */
static bool add_watch(struct api_call *c, const char *watch, const struct span *span,
                      const struct period *p, int *n)
{
	struct store *store = c->session->store;
	struct digest_times times = {0};
	struct digest_bucket *buckets;
	struct buf *out = &c->out->body;
	struct failure f = {0};
	if (digest_trend(store, watch, p, span->buckets, &c->arena, &buckets, &f) ||
	    (span->times && digest_times(store, watch, p, &times, &f)))
		return api_failed(c, &f);
	buf_add(out, (*n)++ ? ",\n{\"watch\":" : "\n{\"watch\":");
	buf_add_json(out, watch);
	add_counts("detected", buckets, span->buckets, false, out);
	add_counts("recovered", buckets, span->buckets, true, out);
	json_seconds(out, "median_s", times.n > 0, times.median_us);
	json_seconds(out, "worst_s", times.n > 0, times.worst_us);
	buf_add(out, "}");
	return true;
}

static bool add_watches(struct api_call *c, const struct span *span, const struct period *p)
{
	const struct settings *s = &c->setup->settings;
	int n = 0;
	for (int i = 0; i < s->nwatches; i++)
		if (settings_database(s, &s->watches[i]) == c->database &&
		    !add_watch(c, s->watches[i].name, span, p, &n))
			return false;
	return settings_watch(s, BUILTIN_NAME) || add_watch(c, BUILTIN_NAME, span, p, &n);
}

static void show_trend(struct api_call *c)
{
	static const char *const takes[] = {"database", "since", NULL};
	const struct span *span = api_query_takes(c, takes) ? span_asked(c) : NULL;
	struct buf *out = &c->out->body;
	struct ledger ledger = {0};
	struct failure f = {0};
	if (!span)
		return;
	if (ledger_open(c->session->store, false, &ledger, &f)) {
		api_failed(c, &f);
		return;
	}
	struct period p = period_of(span, clock_wall_us());
	buf_add(out, "{\"database\":");
	buf_add_json(out, c->database->name);
	json_time(out, "from", true, p.from_us);
	json_time(out, "to", true, p.to_us);
	buf_addf(out, ",\"bucket_s\":%lld,\"watches\":[", (long long)span->bucket_s);
	if (!ledger.ready || add_watches(c, span, &p))
		buf_add(out, "\n]}\n");
}

const struct api_route api_trend_routes[] = {
	{.method = "GET",
     .path = "/trend",
     .role = ROLE_VIEWER,
     .where = API_DATABASE,
     .summary = "what was found stuck and recovered, by hour or six hours",
     .run = show_trend},
	{.method = NULL},
};

/* SPDX-License-Identifier: Apache-2.0
 * probes.c: frequent requests, answered from memory: whether the daemon is alive (/healthz),
 * whether it has started its work (/readyz), its numbers (/metrics), and its state
 * (/api/v1/status).
 *
 * The probes are open, so that an orchestrator needs no token; without one the answer is only yes
 * or no, without names.
 */
#include "http/api.h"

#include "base/clock.h"
#include "store/dialect.h"
#include "view/output.h"

/* A loop without a round for this long hangs; statements end long before. */
#define HANGS_MS 60000

/* ---- is it alive ---- */

static void healthz(struct api_call *c)
{
	int64_t idle = c->api->idle_ms ? c->api->idle_ms(c->api->idle_ctx) : 0;
	bool ok = idle < HANGS_MS;
	c->out->status = ok ? 200 : 503;
	buf_addf(&c->out->body, "{\"ok\":%s", ok ? "true" : "false");
	if (c->role >= ROLE_VIEWER)
		buf_addf(&c->out->body, ",\"idle_ms\":%lld", (long long)idle);
	buf_add(&c->out->body, "}\n");
}

/* ---- has it started ---- */

static const struct overview_database *overview_database_named(const struct overview_view *v,
                                                               const char *name)
{
	for (int i = 0; i < v->ndatabases; i++)
		if (text_eq(v->databases[i].name, name))
			return &v->databases[i];
	return NULL;
}

static bool overview_has_watch(const struct overview_view *v, const char *name,
                               const char *database)
{
	for (int i = 0; i < v->nwatches; i++)
		if (text_eq(v->watches[i].name, name) && text_eq(v->watches[i].database, database))
			return true;
	return false;
}

static const char *database_lacks(const struct overview_view *v, const char *name)
{
	const struct overview_database *d = overview_database_named(v, name);
	if (!d || !d->asked)
		return "not connected yet";
	return d->up ? NULL : "away";
}

struct lacks {
	struct buf json;
	int n;
};

static void lack(struct lacks *l, const char *what, const char *name, const char *why)
{
	buf_addf(&l->json, "%s{\"%s\":", l->n++ ? "," : "", what);
	buf_add_json(&l->json, name);
	json_text(&l->json, "why", why);
	buf_addch(&l->json, '}');
}

/* A watch that another daemon leads counts as one of our own. */
static void find_lacks(struct api_call *c, struct lacks *out)
{
	const struct settings *s = &c->setup->settings;
	struct overview_view v;
	overview_read(c->api->overview, &c->arena, &v);
	for (int i = 0; i < s->ndatabases; i++) {
		const char *why = database_lacks(&v, s->databases[i].name);
		if (why)
			lack(out, "database", s->databases[i].name, why);
	}
	for (int i = 0; i < s->nwatches; i++) {
		const struct database *d = settings_database(s, &s->watches[i]);
		if (c->setup->chosen && !c->setup->chosen[i])
			continue;
		if (!overview_has_watch(&v, s->watches[i].name, d->name))
			lack(out, "watch", s->watches[i].name, "neither led nor followed yet");
	}
}

static void readyz(struct api_call *c)
{
	struct lacks found = {0};
	struct buf *out = &c->out->body;
	find_lacks(c, &found);
	c->out->status = found.n ? 503 : 200;
	buf_addf(out, "{\"ready\":%s", found.n ? "false" : "true");
	if (found.n && c->role >= ROLE_VIEWER)
		buf_addf(out, ",\"waiting_for\":[%s]", buf_text(&found.json));
	buf_add(out, "}\n");
	if (found.n)
		api_header(c, "Retry-After", "1");
	buf_release(&found.json);
}

/* ---- its numbers ---- */

static void metrics(struct api_call *c)
{
	const char *accept = c->request->accept;
	bool open = accept && strstr(accept, "application/openmetrics-text");
	c->out->type = open ? METRICS_OPEN_TYPE : METRICS_TEXT_TYPE;
	const struct metrics_settings *own = settings_metrics(&c->setup->settings);
	metrics_write(c->api->metrics, own ? &own->aliases : NULL, open, &c->out->body);
}

const struct api_route probe_routes[] = {
	API_GET("/healthz", ROLE_NONE, API_MEMORY, NULL, "whether the daemon's loops are running",
            healthz),
	API_GET("/readyz", ROLE_NONE, API_MEMORY, NULL,
            "whether every database is reachable and every watch has a leader", readyz),
	API_GET("/metrics", ROLE_VIEWER, API_MEMORY, NULL, "metrics for Prometheus", metrics),
	{.method = NULL},
};

/* ---- its state ---- */

static void add_databases(struct api_call *c, struct buf *out)
{
	const struct settings *s = &c->setup->settings;
	struct overview_view v;
	overview_read(c->api->overview, &c->arena, &v);
	buf_add(out, ",\"databases\":[");
	for (int i = 0; i < s->ndatabases; i++) {
		const struct database *d = &s->databases[i];
		const struct overview_database *seen = overview_database_named(&v, d->name);
		int64_t since_us = seen ? seen->since_us : 0;
		buf_add(out, i ? ",{\"name\":" : "{\"name\":");
		buf_add_json(out, d->name);
		json_text(out, "engine", dialect_of(d->engine)->name);
		json_bool(out, "asked", seen && seen->asked);
		json_bool(out, "up", seen && seen->up);
		json_text(out, "error", seen ? seen->error : NULL);
		json_time(out, "since", since_us != 0, since_us);
		buf_add(out, "}");
	}
	buf_add(out, "]");
}

static void status(struct api_call *c)
{
	const struct environment *e = settings_environment(&c->setup->settings);
	struct buf *out = &c->out->body;
	int64_t up_us = clock_wall_us() - c->api->started_us;
	buf_add(out, "{\"daemon\":");
	buf_add_json(out, c->api->name);
	json_text(out, "version", DEFIB_VERSION);
	buf_add(out, ",\"environment\":{\"name\":");
	json_value(out, e->name);
	json_text(out, "color", e->color);
	buf_add(out, "}");
	json_time(out, "started", true, c->api->started_us);
	json_number(out, "uptime_s", true, up_us > 0 ? up_us / US_PER_S : 0);
	json_number(out, "setup", true, c->setup->number);
	json_text(out, "role", role_names[c->role]);
	json_text(out, "actor", c->actor);
	add_databases(c, out);
	buf_add(out, "}\n");
}

const struct api_route api_status_routes[] = {
	API_GET("/status", ROLE_VIEWER, API_MEMORY, "", "state of the daemon, from memory", status),
	{.method = NULL},
};

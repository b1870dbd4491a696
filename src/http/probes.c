/* SPDX-License-Identifier: Apache-2.0
 * probes.c: frequent requests, answered from memory: whether the daemon is alive (/healthz),
 * whether it has started its work (/readyz), its numbers (/metrics), and its state
 * (/api/v1/status).
 *
 * The probes are open, so that an orchestrator needs no token; without one the answer is only yes
 * or no, without names.
 */
#include "base/clock.h"
#include "http/api.h"
#include "http/api_values.h"
#include "http/api_watches.h"
#include "store/dialect.h"

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

/* What it waits for: a database, or a watch. */
struct lacking {
	const char *database, *watch, *why;
};

static const struct field lacking_fields[] = {
	{"database", FIELD_AT(struct lacking, database), .optional = true},
	{"watch", FIELD_AT(struct lacking, watch), .optional = true},
	{"why", FIELD_AT(struct lacking, why)},
	{0},
};
static const struct record lacking_record = {.fields = lacking_fields};

struct lacks {
	struct buf json;
	int n;
};

static void lack(struct lacks *l, const struct lacking *what)
{
	const struct viewer v = {.role = ROLE_VIEWER};
	buf_add(&l->json, l->n++ ? "," : "");
	record_json(&lacking_record, what, &v, &l->json);
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
			lack(out, &(struct lacking){.database = s->databases[i].name, .why = why});
	}
	for (int i = 0; i < s->nwatches; i++) {
		const struct database *d = settings_database(s, &s->watches[i]);
		if (c->setup->chosen && !c->setup->chosen[i])
			continue;
		if (!overview_has_watch(&v, s->watches[i].name, d->name))
			lack(out, &(struct lacking){.watch = s->watches[i].name,
			                            .why = "neither led nor followed yet"});
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

struct database_view {
	const struct database *database;
	struct overview_database seen; /* zero: not yet */
};

static const char *engine_of(const void *row)
{
	return dialect_of(((const struct database_view *)row)->database->engine)->name;
}

static const char *name_of(const void *row)
{
	return ((const struct database_view *)row)->database->name;
}

#define AT(member) FIELD_AT(struct database_view, seen.member)
static const struct field database_fields[] = {
	{"name", .text = name_of},
	{"engine", .text = engine_of, .schema = "{enum: [postgres, sqlite]}"},
	{"asked", FIELD_BOOL, AT(asked), .about = "it was queried since the start"},
	{"up", FIELD_BOOL, AT(up)},
	{"error", AT(error), .null = true, .about = "why it is unavailable"},
	{"since", FIELD_TIME, AT(since_us), .zero_null = true},
	{0},
};
#undef AT
static const struct record database_view_record = {.fields = database_fields,
                                                   .size = sizeof(struct database_view)};

static const struct field environment_fields[] = {
	{"name", FIELD_AT(struct environment, name), .null = true},
	{"color", FIELD_AT(struct environment, color), .null = true},
	{0},
};
static const struct record environment_record = {.fields = environment_fields};

struct daemon_view {
	const char *name, *version, *actor;
	const struct environment *environment;
	int64_t started_us, uptime_s, setup;
	enum role role;
	int n;
	struct database_view *databases;
};

static const void *view_environment(const void *row, int i)
{
	(void)i;
	return ((const struct daemon_view *)row)->environment;
}

#define AT(member) FIELD_AT(struct daemon_view, member)
static const struct field status_fields[] = {
	{"daemon", AT(name)},
	{"version", AT(version)},
	{"environment", FIELD_RECORD, .part = view_environment, .of = &environment_record},
	{"started", FIELD_TIME, AT(started_us)},
	{"uptime_s", FIELD_NUMBER, AT(uptime_s)},
	{"setup", FIELD_NUMBER, AT(setup), .about = "raised by one with each reload"},
	{"role", FIELD_WORD, AT(role), .names = role_names, .schema = SCHEMA_REF("Role")},
	{"actor", AT(actor)},
	{"databases", FIELD_LIST, AT(databases), FIELD_N(struct daemon_view, n),
     .of = &database_view_record},
	{0},
};
#undef AT

const struct record status_record = {
	.name = "Status",
	.about = "the state of the daemon",
	.fields = status_fields,
	.size = sizeof(struct daemon_view),
};

static void status(struct api_call *c)
{
	const struct settings *s = &c->setup->settings;
	int64_t up_us = clock_wall_us() - c->api->started_us;
	struct viewer viewer = api_viewer(c, NULL);
	struct overview_view v;
	struct daemon_view view = {
		.name = c->api->name,
		.version = DEFIB_VERSION,
		.actor = c->actor,
		.environment = settings_environment(s),
		.started_us = c->api->started_us,
		.uptime_s = up_us > 0 ? up_us / US_PER_S : 0,
		.setup = c->setup->number,
		.role = c->role,
		.n = s->ndatabases,
		.databases = ARENA_ARRAY(&c->arena, struct database_view, s->ndatabases + 1),
	};
	overview_read(c->api->overview, &c->arena, &v);
	for (int i = 0; i < s->ndatabases; i++) {
		const struct overview_database *seen = overview_database_named(&v, s->databases[i].name);
		view.databases[i] = (struct database_view){.database = &s->databases[i]};
		if (seen)
			view.databases[i].seen = *seen;
	}
	record_json(&status_record, &view, &viewer, &c->out->body);
	buf_add(&c->out->body, "\n");
}

const struct api_route api_status_routes[] = {
	API_GET("/status", ROLE_VIEWER, API_MEMORY, "", "state of the daemon, from memory", status),
	{.method = NULL},
};

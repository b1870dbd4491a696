/* SPDX-License-Identifier: Apache-2.0
 * api_incidents.c: GET /incidents: what was lost and recovered in a database, as incidents that
 * read as one line each.
 */
#include "base/clock.h"
#include "base/text.h"
#include "http/api.h"
#include "life/roster.h"
#include "view/incident.h"
#include "watch/settings.h"

#define DAY_US (INT64_C(86400) * US_PER_S)
#define ENTRIES_MOST 2000 /* of each watch: the latest */
#define WORKERS_MOST 1000 /* whose names and hosts are known */
#define PAGE 10
#define PAGE_MOST 100

struct gathering {
	struct incident_entry *entries;
	int n;
	bool more;
};

static bool add_watch(struct api_call *c, const char *watch, int64_t since_us, struct gathering *g)
{
	struct incident_entry *found = NULL;
	bool more = false;
	int n = 0;
	if (incidents_read(c->session->store, watch, since_us, ENTRIES_MOST, &c->arena, &found, &n,
	                   &more, &c->failure))
		return false;
	struct incident_entry *all = ARENA_ARRAY(&c->arena, struct incident_entry, g->n + n + 1);
	for (int i = 0; i < g->n; i++)
		all[i] = g->entries[i];
	for (int i = 0; i < n; i++)
		all[g->n + i] = found[i];
	g->entries = all;
	g->n += n;
	g->more = g->more || more;
	return true;
}

static bool add_watches(struct api_call *c, int64_t since_us, struct gathering *g)
{
	const struct settings *s = &c->setup->settings;
	for (int i = 0; i < s->nwatches; i++)
		if (settings_database(s, &s->watches[i]) == c->database &&
		    !add_watch(c, s->watches[i].name, since_us, g))
			return false;
	return settings_watch(s, BUILTIN_NAME) || add_watch(c, BUILTIN_NAME, since_us, g);
}

static int by_id(const void *x, const void *y)
{
	const struct incident_worker *a = x, *b = y;
	return (a->id > b->id) - (a->id < b->id);
}

/* Without a registry of workers, owners are only texts. */
static void name_workers(struct api_call *c, struct gathering *g)
{
	struct failure ignored = {0};
	struct roster_row *rows = NULL;
	int n = 0;
	if (roster_read(c->session->store, 0, WORKERS_MOST, &c->arena, &rows, &n, &ignored))
		return;
	struct incident_worker *all = ARENA_ARRAY(&c->arena, struct incident_worker, n + 1);
	for (int i = 0; i < n; i++)
		all[i] = (struct incident_worker){rows[i].id, rows[i].name,
		                                  rows[i].known && rows[i].who.host[0]
		                                      ? arena_strdup(&c->arena, rows[i].who.host)
		                                      : NULL};
	qsort(all, (size_t)n, sizeof *all, by_id);
	incidents_name(g->entries, g->n, all, n);
}

static void list_incidents(struct api_call *c)
{
	struct buf *out = &c->out->body;
	struct gathering g = {0};
	struct ledger ledger = {0};
	struct incident *all = NULL;
	int64_t since_us = DAY_US, limit = PAGE;
	int n = 0;
	if (!api_query_duration(c, "since", &since_us) ||
	    !api_query_int(c, "limit", 1, PAGE_MOST, &limit))
		return;
	if (ledger_open(c->session->store, false, &ledger, &c->failure) ||
	    (ledger.ready && !add_watches(c, since_us, &g)))
		return;
	if (g.n)
		name_workers(c, &g);
	incidents_group(g.entries, g.n, &c->arena, &all, &n);
	buf_add(out, "{\"database\":");
	buf_add_json(out, c->database->name);
	buf_add(out, ",\"incidents\":[");
	for (int i = 0; i < n && i < limit; i++) {
		buf_add(out, i ? ",\n" : "\n");
		incident_json(&all[i], c->database->name, c->role, &c->arena, out);
	}
	buf_add(out, "\n]");
	json_bool(out, "more", n > limit || g.more);
	buf_add(out, "}\n");
}

const struct api_route api_incident_routes[] = {
	API_GET("/incidents", ROLE_VIEWER, API_DATABASE, "since limit",
            "what was lost and recovered, as incidents, the latest first", list_incidents),
	{.method = NULL},
};

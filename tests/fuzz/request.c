/* SPDX-License-Identifier: Apache-2.0
 * request.c: a whole call of the API, from its first line to the answer of its handler, which
 * queries a real database: "ROLE METHOD TARGET", a line feed, the body. The answer is always what
 * the API promises: never an internal error, always valid JSON if it says so, and nothing for a
 * role that the route does not allow.
 */
#include "alert/options.h"
#include "fuzz.h"

#include "alert/alerts.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/heartbeats.h"
#include "daemon/metrics.h"
#include "defib.h"
#include "http/api.h"
#include "http/events.h"
#include "http/request_pool.h"

#include <semaphore.h>
#include <sqlite3.h>
#include <unistd.h>

#define TIMEOUT_MS 20000

static const struct section *const sections[] = {
	&http_section, &environment_section, &metrics_section, &sinks_section, &alerts_section, NULL};

static struct live_settings_box box;
static struct api api;
static struct request_pools *pools;
static char path[64];

static void remove_files(void)
{
	static const char *const ends[] = {"", "-wal", "-shm", ".defib-wake"};
	char name[80];
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof name, "%s%s", path, ends[i]);
		unlink(name);
	}
}

static void make_database(void)
{
	char url[80];
	defib_db *db = NULL;
	sqlite3 *own = NULL;
	snprintf(path, sizeof path, "%s/defib-fuzz-%d.db",
	         access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
	snprintf(url, sizeof url, "sqlite:%s", path);
	atexit(remove_files);
	remove_files();
	MUST(defib_open(url, DEFIB_OPEN_CREATE, &db, NULL) == DEFIB_OK);
	MUST(defib_init_schema(db, NULL) == DEFIB_OK);
	defib_close(db);
	MUST(sqlite3_open(path, &own) == SQLITE_OK);
	MUST(sqlite3_exec(own,
	                  "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, owner TEXT, note "
	                  "TEXT, at TEXT, error TEXT);"
	                  "INSERT INTO jobs VALUES (1, 'running', 'w', '{\"token\":\"x\"}', "
	                  "'2020-01-01 00:00:00', NULL), (2, 'queued', NULL, 'n', NULL, NULL)",
	                  NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(own);
}

static void make_api(void)
{
	struct live_settings *s = live_settings_new();
	struct cfg_reader reader;
	struct cfg_node *root = NULL;
	struct failure f = {0};
	char yaml[1024];
	make_database();
	snprintf(yaml, sizeof yaml,
	         "databases: [{name: main, url: 'sqlite:%s'}]\nwatches:\n"
	         "  - name: jobs\n    table: jobs\n    key: id\n    running: status = 'running'\n"
	         "    owner: owner\n    alive_at: at\n    stuck_after: 1h\n    show: [note]\n"
	         "    mask: [token]\n    requeue: status = 'queued', error = :reason\n"
	         "    fail: status = 'failed'\n    retry: status = 'queued'\n"
	         "    cancel: status = 'stop'\n",
	         path);
	cfg_reader_init(&reader, &s->arena);
	MUST(cfg_parse(yaml, "fuzz.yaml", &s->arena, &root, &f) == DEFIB_OK);
	settings_read(&reader, root, sections, &s->settings);
	MUST(reader.nerrors == 0);
	s->chosen = ARENA_ARRAY(&s->arena, bool, 2);
	s->chosen[0] = s->queue = true;
	live_settings_shapes(s, &reader);
	s->shown = reader.shown_arena; /* used by GET /config */
	reader.shown_arena = (struct arena)ARENA_INIT;
	cfg_reader_release(&reader);
	live_settings_box_init(&box, s);
	api = (struct api){.setups = &box,
	                   .overview = overview_new(),
	                   .beats = heartbeats_new(),
	                   .metrics = metrics_new(),
	                   .name = "fuzz"};
	api.events = events_new(&box, api.overview);
	log_setup(LOG_CRITICAL, LOG_LOGFMT);
	pools = request_pools_new(&api, TIMEOUT_MS);
}

static void on_done(void *ctx)
{
	sem_post(ctx);
}

/* What holds for every answer, whatever the request. */
static void check(const struct api_call *c, const struct api_answer *a, enum role role)
{
	MUST(a->status >= 200 && a->status < 600 && a->status != 500);
	if (a->status >= 400)
		MUST(strcmp(a->type, "application/problem+json") == 0 || strstr(a->type, "json"));
	if (c->route && c->route->role > role)
		MUST(a->status == 401 || a->status == 403);
	if (strstr(a->type, "json") && !strstr(a->type, "ndjson")) {
		json_error_t e;
		json_t *body = json_loadb(a->body.data, a->body.len, JSON_DECODE_ANY, &e);
		MUST(body || a->body.len == 0);
		json_decref(body);
	}
}

static void ask(const struct api_request *r)
{
	struct api_call call = {0};
	struct api_answer answer = {0};
	sem_t done;
	if (api_begin(&api, r, &call, &answer) == API_NEEDS_DATABASE) {
		struct pooled_request turn = {.call = &call, .done = on_done, .ctx = &done};
		MUST(call.route->role <= r->role);
		sem_init(&done, 0, 0);
		request_pools_put(pools, &turn);
		while (sem_wait(&done) != 0)
			;
		sem_destroy(&done);
	}
	check(&call, &answer, r->role);
	api_end(&call);
	api_answer_release(&answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	if (!pools)
		make_api();
	char *text = fuzz_text(bytes, n), *rest = text;
	const char *role = strsep(&rest, " ");
	const char *method = rest ? strsep(&rest, " ") : "", *target = rest ? strsep(&rest, "\n") : "";
	/* A stream has no end to wait for, and needs a socket. */
	if (!strstr(target, "events")) {
		struct api_request r = {.method = method, .target = target, .actor = "web:fuzz"};
		r.role = (enum role)(role[0] >= '0' && role[0] <= '3' ? role[0] - '0' : ROLE_ADMIN);
		r.content_type = "application/json";
		r.body = rest ? rest : "";
		r.nbody = rest ? n - (size_t)(rest - text) : 0;
		ask(&r);
	}
	free(text);
	return 0;
}

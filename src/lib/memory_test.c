/* SPDX-License-Identifier: Apache-2.0
 * Every allocation of the public calls is refused once, on SQLite. malloc, calloc and realloc of
 * the whole process are replaced here, so that those of SQLite, jansson, libfyaml and the C library
 * are refused too. Each scene is run with its first allocation refused, then with its second, until
 * none is left to refuse. A call returns DEFIB_OK or an error about memory; nothing crashes, and
 * the same scene works afterwards without a refusal. Sanitizers find leaks.
 *
 * libfyaml is excluded: it crashes, or silently drops a value, when memory is refused. It is
 * therefore started only if there is room for all it needs (config/tree.c), which is tested by
 * refusing every large allocation.
 *
 * A scene of more than POINTS allocations is refused at POINTS of them, spread evenly;
 * DEFIB_ALLOCATIONS=1000000 refuses each.
 */
#include "base/text.h"
#include "recover/recover_test.h"

#include <dlfcn.h>
#include <libfyaml.h>
#include <sqlite3.h>
#include <stdatomic.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif

/* The real allocator: the sanitizer's, or the C library's. */
#if __has_feature(address_sanitizer)
#define BELOW(name) __interceptor_##name
#else
#define BELOW(name) __libc_##name
#endif
#define SEEN __attribute__((visibility("default")))
/* The thread sanitizer allocates before its own functions can be called. */
#define REPLACED !__has_feature(thread_sanitizer)
#define SKIPPED 77 /* as meson understands it */

void *BELOW(malloc)(size_t n);
void *BELOW(calloc)(size_t n, size_t size);
void *BELOW(realloc)(void *old, size_t n);

enum { POINTS = 40 };

static atomic_long counted;        /* allocations since arm() */
static atomic_long refused_at;     /* 0: none */
static atomic_size_t refused_from; /* bytes; 0: large ones are treated like others */
static atomic_bool counts;
static _Thread_local int in_yaml;

#if REPLACED
static bool is_refused(size_t n_bytes)
{
	size_t from = atomic_load_explicit(&refused_from, memory_order_relaxed);
	if (from && n_bytes >= from)
		return true;
	if (!atomic_load_explicit(&counts, memory_order_relaxed) || in_yaml)
		return false;
	return atomic_fetch_add(&counted, 1) + 1 == atomic_load(&refused_at);
}

SEEN void *malloc(size_t n)
{
	return is_refused(n) ? NULL : BELOW(malloc)(n);
}

SEEN void *calloc(size_t n, size_t size)
{
	return is_refused(n * size) ? NULL : BELOW(calloc)(n, size);
}

SEEN void *realloc(void *old, size_t n)
{
	return is_refused(n) ? NULL : BELOW(realloc)(old, n);
}
#endif

/* libfyaml's own functions are called through these. */
#define IN_YAML(type, name, params, args)                                                          \
	SEEN type name params                                                                          \
	{                                                                                              \
		static type(*below) params;                                                                \
		in_yaml++;                                                                                 \
		if (!below)                                                                                \
			*(void **)&below = dlsym(RTLD_NEXT, #name);                                            \
		type value = below args;                                                                   \
		in_yaml--;                                                                                 \
		return value;                                                                              \
	}
IN_YAML(struct fy_diag *, fy_diag_create, (const struct fy_diag_cfg *cfg), (cfg))
IN_YAML(struct fy_parser *, fy_parser_create, (const struct fy_parse_cfg *cfg), (cfg))
IN_YAML(int, fy_parser_set_string, (struct fy_parser * p, const char *text, size_t n), (p, text, n))
IN_YAML(struct fy_event *, fy_parser_parse, (struct fy_parser * p), (p))
IN_YAML(const char *, fy_token_get_text, (struct fy_token * t, size_t *n), (t, n))
IN_YAML(struct fy_diag_error *, fy_diag_errors_iterate, (struct fy_diag * d, void **at), (d, at))

static void arm(long at)
{
	atomic_store(&counted, 0);
	atomic_store(&refused_at, at);
	atomic_store(&counts, true);
}

static void disarm(void)
{
	atomic_store(&counts, false);
}

/* ---- a scene ---- */

struct scene {
	struct rig rig;
	const char *name;
	int wrong;
};

typedef void (*play)(struct scene *s, bool whole);

/* A result: with `whole`, when nothing is refused, it must be right. */
static bool answer(struct scene *s, const char *call, defib_err err, const defib_message *m,
                   bool whole)
{
	bool memory = err == DEFIB_MEMORY || err == DEFIB_FULL;
	if (err && (whole || !memory)) {
		disarm();
		print_error("%s, allocation %ld refused: %s: %s: %s\n", s->name, atomic_load(&refused_at),
		            call, defib_err_name(err), m->what);
		s->wrong++;
	}
	return err == DEFIB_OK;
}

#define CALL(call) answer(s, #call, (call), &m, whole)

static void put_back(struct scene *s, const char *sql)
{
	sqlite3 *own = NULL;
	assert_int_equal(sqlite3_open(s->rig.url + strlen("sqlite:"), &own), SQLITE_OK);
	sqlite3_busy_timeout(own, 5000);
	if (sqlite3_exec(own, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(own));
	sqlite3_close(own);
}

/* Refuses each allocation of a scene in turn; the rows are restored before each. */
static void refuse_each(struct scene *s, const char *name, const char *before, play scene)
{
	int64_t most = POINTS;
	(void)int_parse(getenv("DEFIB_ALLOCATIONS") ? getenv("DEFIB_ALLOCATIONS") : "", &most);
	s->name = name;
	s->wrong = 0;
	put_back(s, before);
	arm(0);
	scene(s, true);
	disarm();
	long all = atomic_load(&counted), points = 0;
	long step = (all + most - 1) / most;
	for (long at = 1; at <= all; at += step, points++) {
		put_back(s, before);
		arm(at);
		scene(s, false);
		disarm();
	}
	put_back(s, before);
	scene(s, true);
	print_message("%s: %ld of %ld allocations refused\n", name, points, all);
	assert_true(all > 0);
	assert_int_equal(s->wrong, 0);
}

static void prepare(struct rig *g)
{
	defib_db *db = NULL;
	defib_message m;
	rig_fill(g, 3);
	assert_int_equal(defib_open(g->url, 0, &db, &m), DEFIB_OK);
	assert_int_equal(defib_init_schema(db, &m), DEFIB_OK);
	defib_close(db);
	assert_int_equal(defib_log("critical", 0), DEFIB_OK);
}

static int setup_sqlite(void **state)
{
	return rig_setup(state, STORE_SQLITE, place_open, sizeof(struct scene), prepare);
}

static int teardown(void **state)
{
	return rig_teardown(state);
}

#define STUCK                                                                                      \
	"DELETE FROM defib_hold; UPDATE jobs SET status = 'running', owner = 'w', error = NULL"
static const char yaml[] =
	"databases: [{name: main, url: 'sqlite:%s'}]\n"
	"watches:\n"
	"  - name: jobs\n    table: jobs\n    key: id\n    running: status = 'running'\n"
	"    owner: owner\n    time_type: epoch\n    alive_at: beat_at\n    stuck_after: 1h\n"
	"    requeue: status = 'queued', error = :reason, owner = NULL\n"
	"    fail: status = 'failed', error = :reason\n    startup: {do: fail}\n"
	"    remedies: [{when: \"id = 1\", do: fail}, {do: requeue}]\n"
	/* A scene whose undo was refused leaves a recovery that counts. */
	"    crash_budget: off\n";

static void text_of_yaml(const struct scene *s, char *to, size_t size)
{
	snprintf(to, size, yaml, s->rig.url + strlen("sqlite:"));
}

/* ---- watches ---- */

static void set_options(struct scene *s, bool whole)
{
	static const char *const options[][2] = {
		{"table", "jobs"},
		{"key", "id"},
		{"running", "status = 'running'"},
		{"alive_at", "beat_at"},
		{"stuck_after", "1h"},
		{"requeue", "status = 'queued'"},
		{"remedies", "[{when: \"id = 1\", do: hold}, {do: requeue}]"},
	};
	defib_watches *ws = NULL;
	defib_message m = {0};
	bool good = CALL(defib_watches_new(s->rig.url, &ws, &m));
	for (size_t i = 0; good && i < sizeof options / sizeof *options; i++)
		good = CALL(defib_watches_set(ws, "jobs", options[i][0], options[i][1], &m));
	if (good && whole)
		assert_string_equal(defib_watches_name(ws, 0), "jobs");
	defib_watches_free(ws);
}

static void setting_options(void **state)
{
	refuse_each(*state, "options", "SELECT 1", set_options);
}

static void load_configuration(struct scene *s, bool whole)
{
	char text[1024];
	defib_watches *ws = NULL;
	defib_message m = {0};
	text_of_yaml(s, text, sizeof text);
	if (CALL(defib_watches_new(NULL, &ws, &m)) && CALL(defib_watches_load_string(ws, text, &m)))
		assert_string_equal(defib_watches_name(ws, 0), "jobs");
	defib_watches_free(ws);
}

static void loading_a_configuration(void **state)
{
	refuse_each(*state, "configuration", "SELECT 1", load_configuration);
}

static void yaml_is_not_read_where_memory_is_short(void **state)
{
	struct scene *s = *state;
	char text[1024];
	defib_watches *ws = NULL;
	defib_message m = {0};
	text_of_yaml(s, text, sizeof text);
	assert_int_equal(defib_watches_new(NULL, &ws, &m), DEFIB_OK);
	atomic_store(&refused_from, 1 << 20);
	defib_err whole = defib_watches_load_string(ws, text, &m);
	defib_err part = defib_watches_set(ws, "jobs", "remedies", "[{do: hold}]", &m);
	atomic_store(&refused_from, 0);
	assert_int_equal(whole, DEFIB_MEMORY);
	assert_int_equal(part, DEFIB_MEMORY);
	assert_int_equal(defib_watches_load_string(ws, text, &m), DEFIB_OK);
	defib_watches_free(ws);
}

/* ---- a scan, acts, the ledger ---- */

static defib_watches *loaded(struct scene *s)
{
	static char text[1024];
	defib_watches *ws = NULL;
	defib_message m;
	text_of_yaml(s, text, sizeof text);
	assert_int_equal(defib_watches_new(NULL, &ws, &m), DEFIB_OK);
	assert_int_equal(defib_watches_load_string(ws, text, &m), DEFIB_OK);
	return ws;
}

static void see_finding(void *ctx, const defib_finding *found)
{
	int *n = ctx;
	*n += found->job != NULL;
}

static defib_watches *shared; /* loaded before anything is refused */

static void scan_and_undo(struct scene *s, bool whole)
{
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_result r = DEFIB_RESULT_INIT, back = DEFIB_RESULT_INIT;
	defib_message m = {0};
	int seen = 0;
	o.fix = 1;
	o.finding = see_finding;
	o.ctx = &seen;
	bool good = CALL(defib_scan(shared, "jobs", &o, &r, &m));
	if (good && r.recovered > 0)
		good = CALL(defib_undo(shared, "jobs", r.batch, &o, &back, &m));
	if (whole && good) {
		assert_int_equal(r.recovered, 3);
		assert_int_equal(back.recovered, 3);
	}
}

static void scanning_and_undoing(void **state)
{
	shared = loaded(*state);
	refuse_each(*state, "scan and undo", STUCK, scan_and_undo);
	defib_watches_free(shared);
}

static void explain_and_act(struct scene *s, bool whole)
{
	static const char *const jobs[] = {"1", "2"};
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_result r = DEFIB_RESULT_INIT;
	defib_message m = {0};
	int seen = 0;
	o.fix = 1;
	o.reason = "because";
	if (CALL(defib_explain(shared, "jobs", "1", see_finding, &seen, &m)) &&
	    CALL(defib_act(shared, "jobs", "hold", jobs, 2, &o, &r, &m)) &&
	    CALL(defib_act(shared, "jobs", "release", jobs, 2, &o, &r, &m)) &&
	    CALL(defib_act(shared, "jobs", "fail", jobs, 2, &o, &r, &m)))
		assert_true(seen > 0 || !whole);
}

static void explaining_and_acting(void **state)
{
	shared = loaded(*state);
	refuse_each(*state, "explain and act", STUCK, explain_and_act);
	defib_watches_free(shared);
}

static void start_up(struct scene *s, bool whole)
{
	defib_result r = DEFIB_RESULT_INIT;
	defib_message m = {0};
	(void)CALL(defib_startup(shared, "jobs", &r, &m));
}

static void starting_up(void **state)
{
	shared = loaded(*state);
	refuse_each(*state, "start-up", STUCK, start_up);
	defib_watches_free(shared);
}

static void see_entry(void *ctx, const defib_ledger_entry *entry)
{
	int *n = ctx;
	*n += entry->id > 0;
}

static void read_ledger(struct scene *s, bool whole)
{
	defib_db *db = NULL;
	defib_message m = {0};
	int n = 0;
	if (CALL(defib_open(s->rig.url, 0, &db, &m)) &&
	    CALL(defib_ledger_read(db, NULL, see_entry, &n, &m)))
		assert_true(n > 0);
	defib_close(db);
}

static void reading_the_ledger(void **state)
{
	shared = loaded(*state);
	put_back(*state, STUCK);
	arm(0);
	scan_and_undo(*state, true);
	disarm();
	defib_watches_free(shared);
	refuse_each(*state, "ledger", "SELECT 1", read_ledger);
}

/* ---- the queue ---- */

static defib_job_spec spec(void)
{
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	job.queue = "q";
	job.kind = "k";
	job.payload = "{\"a\": [1, {\"b\": \"c\"}]}";
	job.tags = "[\"red\", \"green\"]";
	return job;
}

static void make_tables(struct scene *s, bool whole)
{
	char url[128];
	defib_db *db = NULL;
	defib_message m = {0};
	snprintf(url, sizeof url, "sqlite:%s/fresh.db", s->rig.place.folder);
	if (CALL(defib_open(url, DEFIB_OPEN_CREATE, &db, &m)))
		(void)CALL(defib_init_schema(db, &m));
	defib_close(db);
	for (int i = 0; i < 4; i++) {
		static const char *const ends[] = {"", "-wal", "-shm", ".defib-wake"};
		snprintf(url, sizeof url, "%s/fresh.db%s", s->rig.place.folder, ends[i]);
		unlink(url);
	}
}

static void making_tables(void **state)
{
	refuse_each(*state, "tables", "SELECT 1", make_tables);
}

static void put_in(struct scene *s, bool whole)
{
	defib_job_spec jobs[2] = {spec(), spec()};
	defib_db *db = NULL;
	defib_message m = {0};
	int64_t ids[2] = {0};
	if (CALL(defib_open(s->rig.url, 0, &db, &m)) && CALL(defib_enqueue(db, jobs, ids, &m)) &&
	    CALL(defib_enqueue_many(db, jobs, 2, ids, &m)) && CALL(defib_cancel(db, ids[0], &m)) &&
	    CALL(defib_notify(db, &m)))
		assert_true(ids[1] > ids[0] && ids[0] > 0);
	defib_close(db);
}

#define EMPTY "DELETE FROM defib_job"

static void putting_jobs_in(void **state)
{
	refuse_each(*state, "enqueue", EMPTY, put_in);
	struct scene *s = *state;
	assert_int_equal(number(s->rig.other, "SELECT count(*) FROM defib_job"), 3);
}

static void put_in_within(struct scene *s, bool whole)
{
	defib_job_spec job = spec();
	sqlite3 *own = NULL;
	defib_message m = {0};
	int64_t id = 0;
	if (sqlite3_open(s->rig.url + strlen("sqlite:"), &own) == SQLITE_OK &&
	    sqlite3_exec(own, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK) {
		bool good = CALL(defib_enqueue_sqlite(own, &job, &id, &m));
		(void)sqlite3_exec(own, good ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
	}
	sqlite3_close(own);
}

static void putting_jobs_in_within_a_transaction(void **state)
{
	refuse_each(*state, "enqueue within", EMPTY, put_in_within);
}

/* ---- heartbeats and workers: threads of their own ---- */

static void beat(struct scene *s, bool whole)
{
	static const char *const params[] = {"1"};
	defib_beat_options o = DEFIB_BEAT_OPTIONS_INIT;
	defib_beat *beat = NULL;
	defib_message m = {0};
	o.url = s->rig.url;
	o.statement = "UPDATE jobs SET beat_at = 1 WHERE id = $1";
	o.params = params;
	o.nparams = 1;
	(void)CALL(defib_beat_start(&o, &beat, &m));
	defib_beat_stop(beat);
}

static void beating(void **state)
{
	refuse_each(*state, "heartbeat", STUCK, beat);
}

static defib_outcome handle(defib_job *job, void *ctx)
{
	atomic_int *ran = ctx;
	(void)!defib_job_token(job);
	(void)!defib_job_payload(job);
	(void)!defib_job_progress(job, "step", "text");
	/* A result that cannot be stored now is a failure; the job is retried. */
	if (defib_job_result(job, "{\"n\": [1, 2, 3]}"))
		return DEFIB_RETRY;
	atomic_fetch_add(ran, 1);
	return DEFIB_DONE;
}

static void work(struct scene *s, bool whole)
{
	defib_worker_options o = DEFIB_WORKER_OPTIONS_INIT;
	defib_pool pool = DEFIB_POOL_INIT;
	defib_worker *w = NULL;
	defib_counts counts_of = DEFIB_COUNTS_INIT;
	defib_message m = {0};
	atomic_int ran = 0;
	o.url = s->rig.url;
	o.name = "w";
	o.lease_ms = 60000;
	o.drain = 1;
	pool.queue = "q";
	pool.handler = handle;
	pool.ctx = &ran;
	pool.poll_ms = 10;
	if (!CALL(defib_worker_new(&o, &pool, 1, &w, &m)))
		return;
	(void)CALL(defib_worker_resize(w, 0, 2, 10));
	defib_worker_run(w);
	(void)CALL(defib_worker_counts(w, &counts_of));
	defib_worker_free(w);
	disarm();
	if (whole)
		assert_int_equal(atomic_load(&ran), 2);
}

#define TWO                                                                                        \
	"DELETE FROM defib_job; INSERT INTO defib_job (queue, kind, created_at, run_at) "              \
	"VALUES ('q', 'k', 1, 1), ('q', 'k', 1, 1)"

static void working(void **state)
{
	refuse_each(*state, "worker", TWO, work);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_SQLITE(setting_options),
		ON_SQLITE(loading_a_configuration),
		ON_SQLITE(yaml_is_not_read_where_memory_is_short),
		ON_SQLITE(scanning_and_undoing),
		ON_SQLITE(explaining_and_acting),
		ON_SQLITE(starting_up),
		ON_SQLITE(reading_the_ledger),
		ON_SQLITE(making_tables),
		ON_SQLITE(putting_jobs_in),
		ON_SQLITE(putting_jobs_in_within_a_transaction),
		ON_SQLITE(beating),
		ON_SQLITE(working),
	};
	return REPLACED ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}

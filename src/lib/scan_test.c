/* SPDX-License-Identifier: Apache-2.0
 * The public library as a C program uses it on its own tables: watches set option by option or
 * loaded, a scan dry and with fix, explain, acts, undo, the ledger and the start-up clean-up.
 */
#include "recover/recover_test.h"

#include "base/log.h"
#include "base/text.h"
#include "ledger/overrides.h"
#include "life/leader.h"

#include <poll.h>
#include <pthread.h>

static struct rig *with_jobs(void **state)
{
	struct rig *g = *state;
	rig_fill(g, 3);
	return g;
}

RIG(NULL)

static void expect(defib_err err, defib_err wanted, const defib_message *m)
{
	if (err != wanted)
		fail_msg("%s: %s", defib_err_name(err), m->what);
}

/* A watch over the rig's table, option by option. */
static defib_watches *watch_jobs(struct rig *g)
{
	static const char *const options[][2] = {
		{"table", "jobs"},
		{"key", "id"},
		{"running", "status = 'running'"},
		{"owner", "owner"},
		{"time_type", "epoch"},
		{"alive_at", "beat_at"},
		{"stuck_after", "1h"},
		{"requeue", "status = 'queued', error = :reason, owner = NULL"},
		{"fail", "status = 'failed', error = :reason"},
		{"retry", "status = 'again'"},
		{"startup", "{do: fail}"},
	};
	defib_watches *ws = NULL;
	defib_message m;
	expect(defib_watches_new(g->url, &ws, &m), DEFIB_OK, &m);
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		expect(defib_watches_set(ws, "jobs", options[i][0], options[i][1], &m), DEFIB_OK, &m);
	return ws;
}

struct seen {
	int n;
	char job[16], verdict[16], remedy[16], outcome[16];
	bool evidence;
};

static void see(void *ctx, const defib_finding *found)
{
	struct seen *s = ctx;
	s->n++;
	snprintf(s->job, sizeof s->job, "%s", found->job);
	snprintf(s->verdict, sizeof s->verdict, "%s", found->verdict);
	snprintf(s->remedy, sizeof s->remedy, "%s", found->remedy ? found->remedy : "");
	snprintf(s->outcome, sizeof s->outcome, "%s", found->outcome);
	s->evidence = found->evidence && found->evidence[0] == '{';
}

static int64_t in_status(struct rig *g, const char *status)
{
	char sql[96];
	snprintf(sql, sizeof sql, "SELECT count(*) FROM jobs WHERE status = '%s'", status);
	return number(g->other, sql);
}

static void fix(defib_watches *ws, defib_result *r)
{
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_message m;
	o.fix = 1;
	expect(defib_scan(ws, "jobs", &o, r, &m), DEFIB_OK, &m);
}

/* ---- scan ---- */

static void a_dry_scan_reports_each_job_and_writes_nothing(void **state)
{
	struct rig *g = with_jobs(state);
	defib_watches *ws = watch_jobs(g);
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_result r = DEFIB_RESULT_INIT;
	struct seen seen = {0};
	defib_message m;
	o.finding = see;
	o.ctx = &seen;
	expect(defib_scan(ws, NULL, &o, &r, &m), DEFIB_OK, &m);
	assert_int_equal(seen.n, 3);
	assert_string_equal(seen.verdict, "silent");
	assert_string_equal(seen.remedy, "requeue");
	assert_string_equal(seen.outcome, "left");
	assert_true(seen.evidence);
	assert_int_equal(r.found, 3);
	assert_int_equal(r.left, 3);
	assert_string_equal(r.batch, "");
	assert_int_equal(in_status(g, "running"), 3);
	defib_watches_free(ws);
}

static void what_a_scan_fixed_can_be_undone(void **state)
{
	struct rig *g = with_jobs(state);
	defib_watches *ws = watch_jobs(g);
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_result r = DEFIB_RESULT_INIT, back = DEFIB_RESULT_INIT;
	defib_message m;
	fix(ws, &r);
	assert_int_equal(r.recovered, 3);
	assert_int_equal(in_status(g, "queued"), 3);
	expect(defib_undo(ws, "jobs", r.batch, &o, &back, &m), DEFIB_OK, &m);
	assert_int_equal(in_status(g, "queued"), 3);
	o.fix = 1;
	expect(defib_undo(ws, "jobs", r.batch, &o, &back, &m), DEFIB_OK, &m);
	assert_int_equal(back.recovered, 3);
	assert_int_equal(in_status(g, "running"), 3);
	defib_watches_free(ws);
}

static void a_remedy_that_is_none_is_refused(void **state)
{
	struct rig *g = with_jobs(state);
	defib_watches *ws = watch_jobs(g);
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_message m;
	o.remedy = "pray";
	expect(defib_scan(ws, "jobs", &o, NULL, &m), DEFIB_USAGE, &m);
	assert_string_equal(m.what, "there is no remedy \"pray\"");
	defib_watches_free(ws);
}

/* As a daemon that leads the watch writes it. */
static void lead_with_the_brake(struct rig *g, bool on)
{
	static const char *const watches[] = {"jobs"};
	struct failure f = {0};
	struct buf info = BUF_INIT;
	bool leads = false, there = false;
	assert_int_equal(daemon_table_open(g->other, "leader", true, &there, &f), DEFIB_OK);
	assert_int_equal(leader_ask(g->other, "a daemon", watches, 1, &leads, &f), DEFIB_OK);
	assert_true(leads);
	/* For longer than the test takes anywhere. */
	rig_sql(g, g->engine == STORE_POSTGRES
	               ? "UPDATE defib.leader SET expires_at = clock_timestamp() + interval '1 hour'"
	               : "UPDATE defib_leader SET expires_at = expires_at + 3600000");
	buf_addf(&info, "{\"braking\":%s,\"guard\":\"3 of 3 fell silent\",\"every_s\":60}",
	         on ? "true" : "false");
	assert_int_equal(status_write(g->other, "jobs", "a daemon", buf_text(&info), &f), DEFIB_OK);
	buf_release(&info);
}

static void a_scan_that_fixes_waits_for_the_brake_of_a_daemon(void **state)
{
	struct rig *g = with_jobs(state);
	defib_watches *ws = watch_jobs(g);
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_result r = DEFIB_RESULT_INIT;
	defib_message m;
	lead_with_the_brake(g, true);
	expect(defib_scan(ws, "jobs", &o, &r, &m), DEFIB_OK, &m);
	assert_int_equal(r.left, 3);
	o.fix = 1;
	expect(defib_scan(ws, "jobs", &o, &r, &m), DEFIB_REFUSED, &m);
	assert_string_equal(m.what, "watch jobs: nothing was changed: the daemon's brake is on: "
	                            "3 of 3 fell silent");
	assert_string_equal(
		m.next, "wait until it is released, or set override_guard, which the ledger records");
	assert_int_equal(r.found, 0);
	assert_int_equal(in_status(g, "running"), 3);
	o.override_guard = 1;
	o.limit = 1;
	expect(defib_scan(ws, "jobs", &o, &r, &m), DEFIB_OK, &m);
	assert_int_equal(r.recovered, 1);
	lead_with_the_brake(g, false);
	fix(ws, &r);
	assert_int_equal(r.recovered, 2);
	defib_watches_free(ws);
}

/* ---- explain and acts ---- */

static void a_job_is_explained_stuck_or_not(void **state)
{
	struct rig *g = with_jobs(state);
	defib_watches *ws = watch_jobs(g);
	struct seen seen = {0};
	defib_message m;
	rig_sql(g, "UPDATE jobs SET status = 'done' WHERE id = 2");
	expect(defib_explain(ws, "jobs", "1", see, &seen, &m), DEFIB_OK, &m);
	assert_string_equal(seen.verdict, "silent");
	assert_string_equal(seen.remedy, "requeue");
	expect(defib_explain(ws, "jobs", "2", see, &seen, &m), DEFIB_OK, &m);
	assert_string_equal(seen.verdict, "none");
	assert_string_equal(seen.remedy, "");
	expect(defib_explain(ws, "jobs", "99", see, &seen, &m), DEFIB_NOT_FOUND, &m);
	assert_int_equal(seen.n, 2);
	defib_watches_free(ws);
}

static void acts_are_dry_unless_they_fix(void **state)
{
	static const char *const jobs[] = {"1", "99"};
	struct rig *g = with_jobs(state);
	defib_watches *ws = watch_jobs(g);
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_result r = DEFIB_RESULT_INIT;
	defib_message m;
	expect(defib_act(ws, "jobs", "fail", jobs, 2, &o, &r, &m), DEFIB_OK, &m);
	assert_int_equal(in_status(g, "failed"), 0);
	o.fix = 1;
	o.reason = "asked for";
	expect(defib_act(ws, "jobs", "fail", jobs, 2, &o, &r, &m), DEFIB_OK, &m);
	assert_int_equal(r.recovered, 1);
	assert_int_equal(r.missing, 1);
	assert_int_equal(in_status(g, "failed"), 1);
	expect(defib_act(ws, "jobs", "explode", jobs, 2, &o, &r, &m), DEFIB_USAGE, &m);
	expect(defib_act(ws, "jobs", "rollback", jobs, 1, &o, &r, &m), DEFIB_CONFIG, &m);
	defib_watches_free(ws);
}

/* An act that was decided earlier, for another database or another claim by now. */
static void a_late_act_is_only_for_what_was_meant(void **state)
{
	static const char *const jobs[] = {"1", "2", "3"};
	struct rig *g = with_jobs(state);
	defib_watches *ws = watch_jobs(g);
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_result r = DEFIB_RESULT_INIT;
	defib_message m;
	char id[64];
	/* The first gave no sign of life, the second just now, the third long ago. */
	rig_sql(g, g->engine == STORE_POSTGRES
	               ? "UPDATE jobs SET beat_at = CASE id WHEN 2 THEN extract(epoch FROM "
	                 "clock_timestamp())::bigint WHEN 3 THEN 1000 END"
	               : "UPDATE jobs SET beat_at = CASE id WHEN 2 THEN CAST(strftime('%s', 'now') AS "
	                 "INTEGER) WHEN 3 THEN 1000 END");
	expect(defib_database(ws, "jobs", id, &m), DEFIB_OK, &m);
	o.fix = 1;
	o.override_guard = 1;
	o.quiet_ms = 3600 * 1000;
	o.database = "another";
	expect(defib_act(ws, "jobs", "fail", jobs, 3, &o, &r, &m), DEFIB_REFUSED, &m);
	assert_int_equal(in_status(g, "running"), 3);
	o.database = id;
	expect(defib_act(ws, "jobs", "fail", jobs, 3, &o, &r, &m), DEFIB_OK, &m);
	assert_int_equal(r.refused, 2);
	assert_int_equal(number(g->other, "SELECT id FROM jobs WHERE status = 'failed'"), 3);
	o.quiet_ms = -1;
	expect(defib_act(ws, "jobs", "fail", jobs, 3, &o, &r, &m), DEFIB_USAGE, &m);
	defib_watches_free(ws);
}

static void each_act_writes_what_the_watch_says(void **state)
{
	static const struct {
		const char *act, *job, *status;
	} acts[] = {{"requeue", "1", "queued"}, {"retry", "2", "again"}, {"rollback", "3", "undoing"}};
	struct rig *g = with_jobs(state);
	defib_watches *ws = watch_jobs(g);
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_message m;
	o.fix = 1;
	expect(defib_watches_set(ws, "jobs", "rollback", "status = 'undoing'", &m), DEFIB_OK, &m);
	for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
		defib_result r = DEFIB_RESULT_INIT, back = DEFIB_RESULT_INIT;
		expect(defib_act(ws, NULL, acts[i].act, &acts[i].job, 1, &o, &r, &m), DEFIB_OK, &m);
		assert_int_equal(r.recovered, 1);
		assert_int_equal(in_status(g, acts[i].status), 1);
		expect(defib_undo(ws, NULL, r.batch, &o, &back, &m), DEFIB_OK, &m);
		assert_int_equal(back.recovered, 1);
	}
	assert_int_equal(in_status(g, "running"), 3);
	defib_watches_free(ws);
}

static void a_held_job_is_left_by_a_scan_until_it_is_released(void **state)
{
	static const char *const jobs[] = {"1"};
	struct rig *g = with_jobs(state);
	defib_watches *ws = watch_jobs(g);
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_result r = DEFIB_RESULT_INIT;
	defib_message m;
	o.fix = 1;
	expect(defib_act(ws, "jobs", "hold", jobs, 1, &o, &r, &m), DEFIB_OK, &m);
	assert_int_equal(r.held, 1);
	fix(ws, &r);
	assert_int_equal(r.recovered, 2);
	assert_int_equal(r.held, 1);
	expect(defib_act(ws, "jobs", "release", jobs, 1, &o, &r, &m), DEFIB_OK, &m);
	assert_int_equal(r.recovered, 1);
	defib_watches_free(ws);
}

static void the_startup_fails_what_was_left_past_its_threshold(void **state)
{
	struct rig *g = with_jobs(state);
	defib_watches *ws = watch_jobs(g);
	defib_result r = DEFIB_RESULT_INIT;
	defib_message m;
	expect(defib_startup(ws, "jobs", &r, &m), DEFIB_OK, &m);
	assert_int_equal(r.recovered, 3);
	assert_int_equal(in_status(g, "failed"), 3);
	defib_watches_free(ws);
}

/* ---- the ledger ---- */

struct told {
	int n;
	int64_t id;
	char event[24], actor[24];
};

static void tell(void *ctx, const defib_ledger_entry *entry)
{
	struct told *t = ctx;
	t->n++;
	t->id = entry->id;
	snprintf(t->event, sizeof t->event, "%s", entry->event);
	snprintf(t->actor, sizeof t->actor, "%s", entry->actor);
}

static void the_ledger_is_read_by_batch_and_on_from_an_id(void **state)
{
	struct rig *g = with_jobs(state);
	defib_watches *ws = watch_jobs(g);
	defib_ledger_filter by = DEFIB_LEDGER_FILTER_INIT;
	defib_result r = DEFIB_RESULT_INIT;
	defib_db *db = NULL;
	defib_message m;
	struct told t = {0};
	expect(defib_open(g->url, 0, &db, &m), DEFIB_OK, &m);
	expect(defib_ledger_read(db, NULL, tell, &t, &m), DEFIB_OK, &m);
	assert_int_equal(t.n, 0);
	fix(ws, &r);
	by.batch = r.batch;
	by.event = "REQUEUED";
	expect(defib_ledger_read(db, &by, tell, &t, &m), DEFIB_OK, &m);
	assert_int_equal(t.n, 3);
	assert_string_equal(t.event, "REQUEUED");
	assert_string_equal(t.actor, "library");
	by.after_id = t.id;
	expect(defib_ledger_read(db, &by, tell, &t, &m), DEFIB_OK, &m);
	assert_int_equal(t.n, 3);
	defib_close(db);
	defib_watches_free(ws);
}

/* ---- watches ---- */

static const char jobs_yaml[] =
	"watches:\n  - name: jobs\n    table: jobs\n    key: id\n    time_type: epoch\n"
	"    running: status = 'running'\n    alive_at: beat_at\n    stuck_after: 1h\n"
	"    requeue: status = 'queued'\n";

static void watches_are_loaded_from_a_file(void **state)
{
	struct rig *g = with_jobs(state);
	char path[] = "/tmp/defib-watches-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	defib_watches *ws = NULL;
	defib_result r = DEFIB_RESULT_INIT;
	defib_message m;
	assert_non_null(file);
	/* The file names its database; the handle has none. */
	fprintf(file, "databases: [{url: \"%s\"}]\n%s", g->url, jobs_yaml);
	fclose(file);
	expect(defib_watches_new(NULL, &ws, &m), DEFIB_OK, &m);
	expect(defib_watches_load_file(ws, path, &m), DEFIB_OK, &m);
	unlink(path);
	assert_string_equal(defib_watches_name(ws, 0), "jobs");
	fix(ws, &r);
	assert_int_equal(r.recovered, 3);
	defib_watches_free(ws);
}

static void watches_are_loaded_from_a_string_and_changed(void **state)
{
	struct rig *g = with_jobs(state);
	defib_watches *ws = NULL;
	defib_result r = DEFIB_RESULT_INIT;
	defib_message m;
	expect(defib_watches_new(g->url, &ws, &m), DEFIB_OK, &m);
	expect(defib_watches_load_string(ws, jobs_yaml, &m), DEFIB_OK, &m);
	assert_string_equal(defib_watches_name(ws, 0), "jobs");
	assert_null(defib_watches_name(ws, 1));
	expect(defib_scan(ws, NULL, NULL, &r, &m), DEFIB_OK, &m);
	assert_int_equal(r.found, 3);
	expect(defib_watches_set(ws, "jobs", "stuck_after", "3600d", &m), DEFIB_OK, &m);
	expect(defib_scan(ws, NULL, NULL, &r, &m), DEFIB_OK, &m);
	assert_int_equal(r.found, 0);
	defib_watches_free(ws);
}

/* Sections that only the program reads are skipped, valid or not; their names are known. */
static void a_file_of_the_program_loads(void **state)
{
	static const char sections[] =
		"http: {listen: '127.0.0.1:8080', tokens: [{name: a, role: admin, env: NOT_SET}]}\n"
		"environment: {name: '${NOT_SET}', color: red}\nretention: {done: 1d}\n"
		"sinks: [{name: hook, type: webhook, url: 'https://x/'}]\n"
		"alerts: {sinks: [hook], rules: [{name: stuck_warning, above: 20}]}\n"
		"reports: [{name: weekly, sinks: [hook]}]\n";
	struct rig *g = with_jobs(state);
	defib_watches *ws = NULL;
	defib_message m;
	expect(defib_watches_new(g->url, &ws, &m), DEFIB_OK, &m);
	expect(defib_watches_load_string(ws, sections, &m), DEFIB_OK, &m);
	expect(defib_watches_load_string(ws, "alrets: {sinks: [hook]}\n", &m), DEFIB_CONFIG, &m);
	assert_non_null(strstr(m.what, "unknown key \"alrets\" in the file; did you mean \"alerts\"?"));
	defib_watches_free(ws);
}

static void wrong_options_are_refused_with_words(void **state)
{
	defib_watches *ws = NULL;
	defib_message m;
	(void)state;
	expect(defib_watches_new("ftp://x", &ws, &m), DEFIB_CONFIG, &m);
	assert_null(ws);
	expect(defib_watches_new("sqlite:/nowhere.db", &ws, &m), DEFIB_OK, &m);
	expect(defib_watches_load_string(ws, "watches: [", &m), DEFIB_CONFIG, &m);
	expect(defib_watches_load_file(ws, "/nowhere.yaml", &m), DEFIB_CONFIG, &m);
	expect(defib_scan(ws, NULL, NULL, NULL, &m), DEFIB_USAGE, &m);
	expect(defib_watches_set(ws, "a", "tabel", "t", &m), DEFIB_OK, &m);
	expect(defib_scan(ws, "a", NULL, NULL, &m), DEFIB_CONFIG, &m);
	assert_true(m.what[0] != '\0');
	defib_watches_free(ws);
}

/* ---- the log and memory ---- */

static void remember(void *ctx, const char *level, const char *text)
{
	snprintf(ctx, 128, "%s|%s", level, text);
}

static void log_lines_go_to_the_callback(void **state)
{
	char line[128] = "";
	(void)state;
	defib_set_log(remember, line);
	log_event(LOG_WARN, "something", LOG_INT("n", 5));
	defib_set_log(NULL, NULL);
	assert_true(text_starts(line, "warn|ts="));
	assert_non_null(strstr(line, "msg=something n=5"));
	assert_null(strchr(line, '\n'));
}

static void *ask_for_too_much(void *arena)
{
	return arena_alloc(arena, SIZE_MAX);
}

/* Waits for memory until the reserve is used up. */
static void use_the_reserve(void *ctx, const defib_finding *found)
{
	struct arena a = ARENA_INIT;
	pthread_t thread;
	(void)ctx, (void)found;
	if (mem_short())
		return;
	assert_int_equal(pthread_create(&thread, NULL, ask_for_too_much, &a), 0);
	while (!mem_short())
		poll(NULL, 0, 1);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

static void a_scan_without_memory_stops_between_batches_and_says_what_it_did(void **state)
{
	struct rig *g = *state;
	rig_fill(g, 30);
	defib_watches *ws = watch_jobs(g);
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_result r = DEFIB_RESULT_INIT;
	defib_message m;
	o.fix = 1;
	o.finding = use_the_reserve;
	expect(defib_watches_set(ws, "jobs", "batch", "1", &m), DEFIB_OK, &m);
	expect(defib_scan(ws, "jobs", &o, &r, &m), DEFIB_MEMORY, &m);
	assert_true(r.recovered >= 1 && r.recovered < 30);
	assert_int_equal(in_status(g, "queued"), r.recovered);
	fix(ws, &r);
	assert_int_equal(in_status(g, "queued"), 30);
	defib_watches_free(ws);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_dry_scan_reports_each_job_and_writes_nothing),
		BOTH(what_a_scan_fixed_can_be_undone),
		BOTH(a_scan_that_fixes_waits_for_the_brake_of_a_daemon),
		BOTH(a_remedy_that_is_none_is_refused),
		BOTH(a_job_is_explained_stuck_or_not),
		BOTH(acts_are_dry_unless_they_fix),
		BOTH(a_late_act_is_only_for_what_was_meant),
		BOTH(each_act_writes_what_the_watch_says),
		BOTH(a_held_job_is_left_by_a_scan_until_it_is_released),
		BOTH(the_startup_fails_what_was_left_past_its_threshold),
		BOTH(the_ledger_is_read_by_batch_and_on_from_an_id),
		BOTH(watches_are_loaded_from_a_file),
		BOTH(watches_are_loaded_from_a_string_and_changed),
		BOTH(a_file_of_the_program_loads),
		cmocka_unit_test(wrong_options_are_refused_with_words),
		cmocka_unit_test(log_lines_go_to_the_callback),
		BOTH(a_scan_without_memory_stops_between_batches_and_says_what_it_did),
	};
	return cmocka_run_group_tests_name("lib/scan", tests, NULL, NULL);
}

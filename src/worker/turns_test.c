/* SPDX-License-Identifier: Apache-2.0
 * turns_test.c: a turn as database calls: a refused end is found and does not affect others, what
 * waits in a spool goes first, and what is stored there is not lost. The session is real; the
 * sources follow a plan.
 */
#include "base/text.h"
#include "store/patient_test.h"
#include "worker/spooling.h"
#include "worker/turns.h"
#include "worker/wake.h"
#include "worker/worker_state.h"

#include <assert.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDS 8
#define SEEN_MAX 64

static struct {
	bool away;          /* nothing is accepted */
	const char *barred; /* the key of a job that its table does not accept as done … */
	bool wholly;        /* … nor as failed */
	bool lost;          /* progress is of a job that is no longer ours */
	char seen[SEEN_MAX][16];
	int nseen;
	struct settlement has[2];
} base;

static char folder[64], spool[96], url[128];
static struct worker w;
static struct turn turn;
static struct turn_part part;
static struct settlement ends[ENDS];
static struct job *jobs[ENDS];

static defib_err settle(struct source *src, struct store *s, int64_t worker, struct settlement *all,
                        int n, struct arena *a, struct failure *f)
{
	(void)src, (void)s, (void)a, (void)worker;
	if (base.away)
		return fail(f, DEFIB_CONNECTION, "away");
	for (int i = 0; i < n; i++)
		if (base.barred && text_eq(base.barred, all[i].key) &&
		    (all[i].as == SETTLE_DONE || base.wholly))
			return fail(f, DEFIB_CONSTRAINT, "barred");
	for (int i = 0; i < n; i++) {
		assert(base.nseen < SEEN_MAX);
		snprintf(base.seen[base.nseen++], sizeof base.seen[0], "%s", all[i].key);
		all[i].accepted = true;
	}
	return DEFIB_OK;
}

static defib_err claim(struct source *src, struct store *s, int64_t worker, int64_t n,
                       struct arena *a, struct claimed **out, int *nout, struct failure *f)
{
	static struct claimed one = {.key = "new", .epoch = 1};
	(void)src, (void)s, (void)worker, (void)n, (void)a, (void)f;
	*out = &one;
	*nout = 1;
	return DEFIB_OK;
}

static defib_err owned(struct source *src, struct store *s, int64_t worker, struct arena *a,
                       struct settlement **out, int *n, struct failure *f)
{
	(void)src, (void)s, (void)worker, (void)a, (void)f;
	*out = base.has;
	*n = 2;
	return DEFIB_OK;
}

static defib_err progress(struct source *src, struct store *s, int64_t worker, const char *key,
                          int64_t epoch, const char *step, const char *text, struct failure *f)
{
	(void)src, (void)s, (void)worker, (void)key, (void)epoch, (void)step, (void)text;
	return base.lost ? fail(f, DEFIB_LEASE_LOST, "lost") : DEFIB_OK;
}

static const struct source_ops ops = {
	.settle = settle, .claim = claim, .owned = owned, .progress = progress};
static struct source mail = {.ops = &ops, .name = "mail", .keys = "mail"};
static struct source *sources[] = {&mail};
static struct worker_pool pool = {.source = &mail};
static int same_jobs[] = {0};

static int setup(void **state)
{
	struct failure f = {0};
	(void)state;
	memset(&base, 0, sizeof base);
	snprintf(folder, sizeof folder, "/tmp/defib-turns-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(spool, sizeof spool, "%s/spool", folder);
	snprintf(url, sizeof url, "sqlite:%s/test.db", folder);
	w = (struct worker){.options = {.pools = &pool, .npools = 1, .spool = spool},
	                    .sources = sources,
	                    .same_jobs = same_jobs};
	w.turn_thread.session = (struct session){
		.options = patient((struct store_options){.url = url, .name = "main", .create = true}),
		.open = store_open};
	w.turn_thread.wake = wake_open(url);
	if (turns_spool_open(&w, &f) || session_ready(&w.turn_thread.session, &f) ||
	    store_exec(w.turn_thread.session.store, "CREATE TABLE defib_meta (name TEXT, value TEXT)",
	               NULL, 0, NULL, NULL, &f))
		return -1;
	for (int i = 0; i < ENDS; i++) {
		char key[2] = {(char)('0' + i), '\0'};
		jobs[i] = job_new(0, 7, &(struct claimed){.key = key, .epoch = 1});
		jobs[i]->as = SETTLE_DONE;
		ends[i] = job_end(jobs[i]);
	}
	part = (struct turn_part){
		.worker = 7, .claimer = 7, .room = 1, .ends = ends, .jobs = jobs, .nends = ENDS};
	turn = (struct turn){.parts = &part, .nparts = 1};
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < ENDS; i++)
		job_free(jobs[i]);
	arena_release(&turn.arena);
	spools_close(w.turn_thread.spools);
	session_close(&w.turn_thread.session);
	wake_close(w.turn_thread.wake);
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void keep(struct job *j, defib_err code, const char *what)
{
	struct failure why = {.code = code}, f = {0};
	bool kept = false;
	snprintf(why.what, sizeof why.what, "%s", what);
	turns_spool_keep(&w, j, &why, &kept, &f);
	assert_true(kept);
}

static void ends_are_recorded_and_slots_filled_in_one_call(void **state)
{
	(void)state;
	turns_do(&w, &turn);
	assert_int_equal(part.err, DEFIB_OK);
	assert_int_equal(base.nseen, ENDS);
	assert_int_equal(part.nclaims, 1);
	for (int i = 0; i < ENDS; i++)
		assert_true(ends[i].accepted && !part.why[i]);
}

static void an_end_that_is_refused_becomes_a_failure_and_holds_up_no_other(void **state)
{
	(void)state;
	base.barred = "5";
	turns_do(&w, &turn);
	assert_int_equal(part.err, DEFIB_OK);
	assert_int_equal(part.nends, ENDS);
	assert_int_equal(base.nseen, ENDS);
	assert_int_equal(ends[5].as, SETTLE_FAILED);
	assert_non_null(strstr(ends[5].error, "refused to record it as done"));
	assert_int_equal(part.nclaims, 1);
	for (int i = 0; i < ENDS; i++)
		assert_true(ends[i].accepted && !part.why[i]);
}

static void what_is_refused_wholly_is_told_with_its_reason_and_alone(void **state)
{
	(void)state;
	base.barred = "5";
	base.wholly = true;
	turns_do(&w, &turn);
	assert_int_equal(part.err, DEFIB_OK);
	assert_int_equal(base.nseen, ENDS - 1);
	assert_int_equal(part.nclaims, 1);
	for (int i = 0; i < ENDS; i++)
		assert_int_equal(part.why[i] != NULL, i == 5);
	assert_string_equal(part.why[5]->what, "barred");
}

static void a_database_that_is_away_fails_the_part_and_its_beats(void **state)
{
	(void)state;
	base.away = true;
	turns_do(&w, &turn);
	assert_int_equal(part.err, DEFIB_CONNECTION);
	assert_true(part.away);
	assert_int_equal(part.beat_err, DEFIB_CONNECTION);
	assert_int_equal(part.nclaims, 0);
}

static void what_waits_in_the_spool_is_recorded_first(void **state)
{
	(void)state;
	keep(jobs[7], DEFIB_CONNECTION, "away");
	part.nends = 2;
	part.drain = true;
	turns_do(&w, &turn);
	assert_int_equal(part.err, DEFIB_OK);
	assert_int_equal(part.spooled, 0);
	assert_int_equal(base.nseen, 3);
	assert_string_equal(base.seen[0], "7");
	assert_string_equal(base.seen[1], "0");
}

static void while_the_spool_does_not_drain_nothing_passes_it(void **state)
{
	(void)state;
	keep(jobs[7], DEFIB_CONNECTION, "away");
	part.nends = 2;
	part.drain = true;
	base.away = true;
	turns_do(&w, &turn);
	assert_int_equal(part.spooled, 1);
	assert_int_equal(base.nseen, 0);
	assert_int_equal(part.nends, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(part.why[i]->code, DEFIB_CONNECTION);
}

static void a_job_whose_end_is_kept_is_not_said_to_be_ours(void **state)
{
	(void)state;
	keep(jobs[3], DEFIB_CONSTRAINT, "barred");
	base.has[0] = (struct settlement){.key = "3", .epoch = 1};
	base.has[1] = (struct settlement){.key = "stray", .epoch = 1};
	part.nends = 0;
	part.room = 0;
	part.compares = true;
	turns_do(&w, &turn);
	assert_int_equal(part.nhas, 1);
	assert_string_equal(part.has[0].key, "stray");
}

static void progress_that_is_refused_is_told(void **state)
{
	struct turn_progress says = {.job = jobs[0]};
	(void)state;
	job_say(jobs[0], "fetch", "10 %");
	turn = (struct turn){.progress = &says, .nprogress = 1};
	turns_do(&w, &turn);
	assert_false(says.lost);
	base.lost = true;
	job_say(jobs[0], NULL, "20 %");
	turns_do(&w, &turn);
	assert_true(says.lost);
}

static void after_a_fail_over_no_part_is_done_before_the_engine_knows(void **state)
{
	struct turn_part both[2] = {part, part};
	(void)state;
	turn = (struct turn){.parts = both, .nparts = 2};
	w.turn_thread.session.states = 1; /* another server than before */
	turns_do(&w, &turn);
	assert_int_equal(both[0].err, DEFIB_CONNECTION);
	assert_int_equal(both[1].err, DEFIB_CONNECTION);
	assert_int_equal(base.nseen, 0);
	assert_true(w.turn_thread.failed_over);
	w.turn_thread.failed_over = false; /* it was reported */
	turns_do(&w, &turn);
	assert_int_equal(both[1].err, DEFIB_OK);
}

/* The engine may only hear of it after the session has been opened once more. */
static void a_fail_over_is_not_forgotten_when_the_session_is_opened_again(void **state)
{
	(void)state;
	w.turn_thread.session.states = 1; /* another server than before */
	turns_do(&w, &turn);
	assert_int_equal(part.err, DEFIB_CONNECTION);
	w.turn_thread.session.opened++; /* again, on the same server */
	turns_do(&w, &turn);
	assert_int_equal(part.err, DEFIB_CONNECTION);
	assert_true(w.turn_thread.failed_over);
	assert_int_equal(base.nseen, 0);
}

/* Claimed again they have the same epochs: they would be taken for the ends of later claims. */
static void set_aside_ends_of_claims_that_a_fail_over_lost_are_dropped(void **state)
{
	(void)state;
	keep(jobs[3], DEFIB_CONSTRAINT, "barred");
	keep(jobs[4], DEFIB_PERMISSION, "denied");
	base.has[0] = (struct settlement){.key = "3", .epoch = 1};
	base.has[1] = (struct settlement){.key = "4", .epoch = 2};
	part.nends = 0;
	part.room = 0;
	part.compares = part.timeline = true;
	turns_do(&w, &turn);
	assert_int_equal(spools_aside(w.turn_thread.spools, "mail"), 1);
	assert_true(turns_spool_holds(&w, 0, 7, "3", 1));
	assert_false(turns_spool_holds(&w, 0, 7, "4", 1));
}

static void set_aside_ends_stay_when_jobs_are_compared_without_a_fail_over(void **state)
{
	(void)state;
	keep(jobs[3], DEFIB_CONSTRAINT, "barred");
	base.has[0] = base.has[1] = (struct settlement){.key = "4", .epoch = 1};
	part.nends = 0;
	part.room = 0;
	part.compares = true;
	turns_do(&w, &turn);
	assert_true(turns_spool_holds(&w, 0, 7, "3", 1));
}

/* It claims nothing any more, so no later claim can have their epochs. */
static void set_aside_ends_of_another_worker_stay_after_a_fail_over(void **state)
{
	(void)state;
	keep(jobs[3], DEFIB_CONSTRAINT, "barred");
	base.has[0] = base.has[1] = (struct settlement){.key = "4", .epoch = 1};
	part.worker = part.claimer = 8;
	part.nends = 0;
	part.room = 0;
	part.compares = part.timeline = true;
	turns_do(&w, &turn);
	assert_true(turns_spool_holds(&w, 0, 7, "3", 1));
}

static void set_database(const char *id)
{
	char sql[100];
	snprintf(sql, sizeof sql,
	         "DELETE FROM defib_meta; INSERT INTO defib_meta VALUES ('database', '%s')", id);
	struct failure f = {0};
	for (char *rest = sql, *one; (one = strsep(&rest, ";"));)
		assert_int_equal(store_exec(w.turn_thread.session.store, one, NULL, 0, NULL, NULL, &f),
		                 DEFIB_OK);
	w.turn_thread.known = false; /* as in a new session */
}

static void keep_of(int i, const char *database)
{
	const struct claimed claim = {.key = jobs[i]->claim.key, .epoch = 1, .database = database};
	struct job *j = job_new(0, 7, &claim);
	keep(j, DEFIB_CONNECTION, "away");
	job_free(j);
}

/* Its worker, job and epoch exist there too: the numbers begin again in every database. */
static void an_end_of_another_database_is_never_offered(void **state)
{
	(void)state;
	static const char *const others[] = {"first", NULL};
	for (int i = 0; i < 2; i++) {
		struct spools_record one;
		struct arena a = ARENA_INIT;
		keep_of(3, others[i]);
		set_database("second");
		part.nends = 0;
		part.drain = true;
		turns_do(&w, &turn);
		assert_int_equal(base.nseen, 0);
		assert_int_equal(spools_peek_many(w.turn_thread.spools, "mail", SPOOLS_ASIDE, &one, 1, &a),
		                 1);
		assert_non_null(strstr(one.why, "another database"));
		assert_non_null(strstr(one.why, "second"));
		assert_int_equal(
			spools_take_many(w.turn_thread.spools, "mail", SPOOLS_ASIDE, &one, 1, NULL, NULL),
			DEFIB_OK);
		arena_release(&a);
	}
}

static void it_is_recorded_once_its_own_database_is_back(void **state)
{
	(void)state;
	keep_of(3, "first");
	set_database("second");
	part.nends = 0;
	part.drain = true;
	turns_do(&w, &turn);
	assert_int_equal(spools_aside(w.turn_thread.spools, "mail"), 1);
	set_database("first");
	spools_retry(w.turn_thread.spools, "mail")->at_ms = 0;
	turns_do(&w, &turn);
	assert_int_equal(base.nseen, 1);
	assert_int_equal(spools_aside(w.turn_thread.spools, "mail"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ends_are_recorded_and_slots_filled_in_one_call),
		TEST(an_end_that_is_refused_becomes_a_failure_and_holds_up_no_other),
		TEST(what_is_refused_wholly_is_told_with_its_reason_and_alone),
		TEST(a_database_that_is_away_fails_the_part_and_its_beats),
		TEST(what_waits_in_the_spool_is_recorded_first),
		TEST(while_the_spool_does_not_drain_nothing_passes_it),
		TEST(a_job_whose_end_is_kept_is_not_said_to_be_ours),
		TEST(progress_that_is_refused_is_told),
		TEST(after_a_fail_over_no_part_is_done_before_the_engine_knows),
		TEST(a_fail_over_is_not_forgotten_when_the_session_is_opened_again),
		TEST(set_aside_ends_of_claims_that_a_fail_over_lost_are_dropped),
		TEST(set_aside_ends_stay_when_jobs_are_compared_without_a_fail_over),
		TEST(set_aside_ends_of_another_worker_stay_after_a_fail_over),
		TEST(an_end_of_another_database_is_never_offered),
		TEST(it_is_recorded_once_its_own_database_is_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

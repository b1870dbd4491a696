/* claim_sql_test.c: what the trigger takes for a claim, and that its text is safe. */
#include "watch/claim_sql.h"

#include "base/test.h"

static struct watch jobs = {
	.name = "jobs",
	.table = "app.jobs",
	.key = {1, (const char *[]){"id"}},
	.running = {.text = "status = 'running'"},
};

static const char *body_of(const struct watch *w, struct buf *out)
{
	struct binding b = {.watch = w, .engine = STORE_POSTGRES};
	buf_clear(out);
	claim_function_body(&b, out);
	return buf_text(out);
}

static void a_claim_is_told_by_what_changes_with_it(void **state)
{
	struct buf out = BUF_INIT;
	struct watch w = jobs;
	(void)state;
	assert_non_null(strstr(body_of(&w, &out), "THEN ROW(1)::text END"));
	w.owner.text = "locked_by";
	w.started_at.text = "started_on";
	assert_non_null(strstr(body_of(&w, &out), "ROW(1, (locked_by)::text, (started_on)::text)"));
	/* A beat is no claim. */
	w.alive_at.text = "beat_at";
	assert_null(strstr(body_of(&w, &out), "beat_at"));
	buf_release(&out);
}

static void whatever_fails_is_caught(void **state)
{
	struct buf out = BUF_INIT;
	(void)state;
	assert_non_null(strstr(body_of(&jobs, &out), "EXCEPTION WHEN OTHERS"));
	buf_release(&out);
}

static void a_watch_with_our_quotes_in_it_stays_one_text(void **state)
{
	struct buf out = BUF_INIT;
	struct watch w = jobs;
	(void)state;
	w.name = "it's";
	w.running.text = "note = '$defib$'";
	struct binding b = {.watch = &w, .engine = STORE_POSTGRES};
	claim_function(&b, "public", &out);
	assert_null(strstr(buf_text(&out), "AS $defib$"));
	assert_non_null(strstr(buf_text(&out), "SET search_path = public, pg_temp"));
	buf_release(&out);
}

static void a_name_that_the_database_would_cut_does_not_fit(void **state)
{
	struct watch w = jobs;
	(void)state;
	w.name = "n23456789012345678901234567890123456789012345678x";
	assert_true(claim_name_fits(&w));
	w.name = "n23456789012345678901234567890123456789012345678xy";
	assert_false(claim_name_fits(&w));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_claim_is_told_by_what_changes_with_it),
		cmocka_unit_test(whatever_fails_is_caught),
		cmocka_unit_test(a_watch_with_our_quotes_in_it_stays_one_text),
		cmocka_unit_test(a_name_that_the_database_would_cut_does_not_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

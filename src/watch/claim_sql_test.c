/* SPDX-License-Identifier: Apache-2.0 */
/* claim_sql_test.c: what the trigger treats as a claim, and that its text is safe. */
#include "watch/lease_sql.h"

#include "base/test.h"

static struct watch jobs = {
	.name = "jobs",
	.table = "app.jobs",
	.key = {1, (const char *[]){"id"}},
	.running = {.text = "status = 'running'"},
};

static const struct claim_table table = {
	.schema = "app", .name = "jobs", .owner = "app", .path = "public"};

static const char *body_of(const struct watch *w, struct buf *out)
{
	struct binding b = {.watch = w, .engine = STORE_POSTGRES};
	buf_clear(out);
	claim_function_body(&b, &table, out);
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
	assert_non_null(strstr(body_of(&w, &out), "ROW(1, (locked_by), (started_on))::text"));
	/* A beat is not a claim. */
	w.alive_at.text = "beat_at";
	assert_null(strstr(body_of(&w, &out), "beat_at"));
	buf_release(&out);
}

/* A subtransaction that writes takes a transaction id; more than 64 of them slow all sessions. */
static void what_may_fail_is_caught_and_only_reads(void **state)
{
	struct buf out = BUF_INIT;
	(void)state;
	const char *body = body_of(&jobs, &out);
	const char *caught = strstr(body, "EXCEPTION WHEN OTHERS");
	const char *writes = strstr(body, "PERFORM defib.");
	assert_non_null(caught);
	assert_non_null(writes);
	assert_true(caught < writes);
	buf_clear(&out);
	claim_writer_body(&jobs, &out);
	assert_null(strstr(buf_text(&out), "EXCEPTION"));
	buf_release(&out);
}

static void a_key_of_a_foreign_type_is_read_by_no_cast(void **state)
{
	struct buf out = BUF_INIT;
	struct claim_table foreign = table;
	struct binding b = {.watch = &jobs, .engine = STORE_POSTGRES};
	(void)state;
	assert_non_null(strstr(body_of(&jobs, &out), "t.\"id\"::text"));
	foreign.foreign[0] = true;
	buf_clear(&out);
	claim_function_body(&b, &foreign, &out);
	assert_null(strstr(buf_text(&out), "t.\"id\"::text"));
	assert_non_null(strstr(buf_text(&out), "format('%s', t.\"id\")"));
	buf_release(&out);
}

static void the_functions_are_for_their_table_and_its_owner_alone(void **state)
{
	struct buf out = BUF_INIT;
	struct binding b = {.watch = &jobs, .engine = STORE_POSTGRES};
	(void)state;
	claim_functions(&b, &table, &out);
	const char *text = buf_text(&out);
	assert_non_null(strstr(text, "TG_TABLE_SCHEMA <> 'app' OR TG_TABLE_NAME <> 'jobs'"));
	assert_non_null(strstr(text, "REVOKE ALL ON FUNCTION defib.\"claimed_jobs\"() FROM PUBLIC"));
	assert_non_null(
		strstr(text, "REVOKE ALL ON FUNCTION defib.\"claim_write_jobs\"(text, text) FROM PUBLIC"));
	assert_non_null(strstr(text, "ALTER FUNCTION defib.\"claimed_jobs\"() OWNER TO \"app\""));
	assert_non_null(strstr(text, "SET search_path = pg_catalog, pg_temp"));
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
	claim_functions(&b, &table, &out);
	assert_non_null(strstr(buf_text(&out), "$defib$'"));
	assert_non_null(strstr(buf_text(&out), "SET search_path = pg_catalog, public, pg_temp"));
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
		cmocka_unit_test(what_may_fail_is_caught_and_only_reads),
		cmocka_unit_test(a_key_of_a_foreign_type_is_read_by_no_cast),
		cmocka_unit_test(the_functions_are_for_their_table_and_its_owner_alone),
		cmocka_unit_test(a_watch_with_our_quotes_in_it_stays_one_text),
		cmocka_unit_test(a_name_that_the_database_would_cut_does_not_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

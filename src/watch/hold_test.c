/* SPDX-License-Identifier: Apache-2.0 */
/* hold_test.c: when a hold is in force, and that statements and C agree about it. */
#include "watch/facts.h"

#include "store/dialect.h"
#include "store/store_test.h"

#include <unistd.h>

static const struct hold_facts in_words = {.recorded = true,
                                           .cause = "attempts",
                                           .made = {"w-1", true, 5},
                                           .now = {"w-1", true, 5},
                                           .in_words = true};

static enum hold_state with(void (*change)(struct hold_facts *))
{
	struct hold_facts h = in_words;
	change(&h);
	return hold_state(&h);
}

static void nothing(struct hold_facts *h)
{
	(void)h;
}
static void released(struct hold_facts *h)
{
	h->recorded = false;
}
static void other_owner(struct hold_facts *h)
{
	h->now.owner = "w-2";
}
static void no_owner(struct hold_facts *h)
{
	h->now.owner = NULL;
}
static void other_sign(struct hold_facts *h)
{
	h->now.sign_us = 6;
}
static void no_sign(struct hold_facts *h)
{
	h->now.has_sign = false;
}
static void runs(struct hold_facts *h)
{
	h->running = true;
}
static void moved(struct hold_facts *h)
{
	h->moved = true;
}
static void runs_in_our_table(struct hold_facts *h)
{
	h->running = true;
	h->moved = true;
	h->in_words = false;
}
static void undone(struct hold_facts *h)
{
	h->cause = HOLD_UNDONE;
	h->running = true;
}
static void by_hand(struct hold_facts *h)
{
	h->cause = HOLD_BY_HAND;
}
static void poison(struct hold_facts *h)
{
	h->cause = HOLD_POISON;
}

static void a_hold_ends_when_its_job_moves_on(void **state)
{
	static const struct {
		void (*change)(struct hold_facts *);
		enum hold_state is;
	} cases[] = {
		{nothing, HOLD_STATE_WATCH},
		{released, HOLD_STATE_NONE},
		{other_owner, HOLD_STATE_OVER},
		{no_owner, HOLD_STATE_OVER},
		{other_sign, HOLD_STATE_OVER},
		{no_sign, HOLD_STATE_OVER},
		{runs, HOLD_STATE_OVER},
		{moved, HOLD_STATE_OVER},
		{runs_in_our_table, HOLD_STATE_WATCH},
		{undone, HOLD_STATE_OPERATOR},
		{by_hand, HOLD_STATE_OPERATOR},
		{poison, HOLD_STATE_POISON},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(with(cases[i].change), cases[i].is);
}

static void a_row_that_says_so_is_held_without_a_hold(void **state)
{
	(void)state;
	assert_int_equal(hold_state_of_row(HOLD_STATE_NONE, true), HOLD_STATE_ROW);
	assert_int_equal(hold_state_of_row(HOLD_STATE_OVER, true), HOLD_STATE_ROW);
	assert_int_equal(hold_state_of_row(HOLD_STATE_POISON, true), HOLD_STATE_POISON);
	assert_int_equal(hold_state_of_row(HOLD_STATE_OVER, false), HOLD_STATE_OVER);
	assert_true(hold_in_force(HOLD_STATE_ROW) && hold_in_force(HOLD_STATE_OPERATOR));
	assert_true(!hold_in_force(HOLD_STATE_NONE) && !hold_in_force(HOLD_STATE_OVER));
}

/* ---- the statement */

#define OWNERS "(SELECT 'a' AS v UNION ALL SELECT 'b' UNION ALL SELECT NULL)"
#define SIGNS "(SELECT 1 AS v UNION ALL SELECT 2 UNION ALL SELECT NULL)"
#define ALL                                                                                        \
	"(SELECT c.v AS cause, o.v AS owner, s.v AS sign_us, p.v AS job_owner, r.v AS job_sign, "      \
	"q.v AS runs, CAST(NULL AS text) AS verdict FROM (SELECT 'unknown' AS v" CAUSES                \
	") AS c, " OWNERS " AS o, " SIGNS " AS s, " OWNERS " AS p, " SIGNS                             \
	" AS r, (SELECT 1 AS v UNION ALL SELECT 0) AS q) AS h"
#define X(id, name, words) " UNION ALL SELECT '" name "'"
#define CAUSES HOLD_CAUSE_LIST(X)

static struct owner_sign owner_sign_at(const struct store_rows *rows, int row, int col)
{
	return (struct owner_sign){row_text(rows, row, col), row_text(rows, row, col + 1) != NULL,
	                           row_int(rows, row, col + 1, 0)};
}

/* Every cause with every owner and sign, then and now, whether the job runs or not. */
static void compare(struct store *s, bool words, const char *running)
{
	struct hold_sql names = {"h", "h.job_owner", "h.job_sign", running, words, NULL};
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	struct failure f = {0};
	struct buf sql = BUF_INIT;
	int in_force = 0;
	buf_add(&sql,
	        "SELECT h.cause, h.owner, h.sign_us, h.job_owner, h.job_sign, h.runs, CASE WHEN ");
	hold_in_force_sql(store_dialect(s), &names, &sql);
	buf_add(&sql, " THEN 1 ELSE 0 END FROM " ALL);
	if (store_exec(s, buf_text(&sql), NULL, 0, &a, &rows, &f))
		fail_msg("%s", f.what);
	assert_int_equal(rows.nrows, 8 * 3 * 3 * 3 * 3 * 2);
	for (int i = 0; i < rows.nrows; i++) {
		struct hold_facts facts = {
			.recorded = true,
			.cause = row_text(&rows, i, 0),
			.made = owner_sign_at(&rows, i, 1),
			.now = owner_sign_at(&rows, i, 3),
			.in_words = words,
			.running = !running || row_int(&rows, i, 5, 0),
		};
		bool is = hold_in_force(hold_state(&facts));
		assert_int_equal(row_int(&rows, i, 6, -1), is);
		in_force += is;
	}
	assert_in_range(in_force, 1, rows.nrows - 1);
	buf_release(&sql);
	arena_release(&a);
}

static void compare_all(struct store *s)
{
	compare(s, false, "h.runs = 1");
	compare(s, true, "h.runs = 1");
	compare(s, false, NULL);
	compare(s, true, NULL);
	store_close(s);
}

static void postgres_agrees(void **state)
{
	(void)state;
	need_env("DEFIB_TEST_PG");
	compare_all(open_plain());
}

static void sqlite_agrees(void **state)
{
	(void)state;
	char folder[] = "/tmp/defib-hold-XXXXXX", url[64];
	assert_non_null(mkdtemp(folder));
	snprintf(url, sizeof url, "sqlite:%s/t.db", folder);
	compare_all(open_with((struct store_options){.url = url, .create = true}));
	static const char *const ends[] = {"", "-wal", "-shm", ".defib-wake"};
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		char path[96];
		snprintf(path, sizeof path, "%s/t.db%s", folder, ends[i]);
		unlink(path);
	}
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hold_ends_when_its_job_moves_on),
		cmocka_unit_test(a_row_that_says_so_is_held_without_a_hold),
		cmocka_unit_test(postgres_agrees),
		cmocka_unit_test(sqlite_agrees),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

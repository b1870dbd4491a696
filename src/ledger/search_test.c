/* SPDX-License-Identifier: Apache-2.0
 * search_test.c: a search in a ledger that is slow to read: every answer comes, and each entry is
 * in exactly one of them. How slow it is, is given in ids, so that the tests do not depend on time.
 */
#include "ledger/ledger_test.h"

#define ENTRIES 600

static int64_t fit; /* ids that a statement can read in time */
static struct store_ops limited;
static const struct store_ops *plain;

/* A window names both of its ends; what names fewer reads the whole ledger. */
static defib_err exec_in_time(struct store *s, const char *sql, const struct store_param *params,
                              int nparams, struct arena *a, struct store_rows *rows,
                              struct failure *f)
{
	const char *low = strstr(sql, "id > "), *high = strstr(sql, "id <= ");
	int64_t ids = INT64_MAX;
	if (low && high)
		ids = params[strtoll(high + 7, NULL, 10) - 1].number -
		      params[strtoll(low + 6, NULL, 10) - 1].number;
	else if (high)
		ids = params[strtoll(high + 7, NULL, 10) - 1].number;
	if (strstr(sql, "ORDER BY") && ids > fit)
		return fail(f, DEFIB_TIMEOUT, "not done in time");
	return plain->exec(s, sql, params, nparams, a, rows, f);
}

static void slow_place(struct place *p, enum store_engine engine, int64_t rows)
{
	static struct ledger_entry entries[ENTRIES];
	open_place(p, engine);
	for (int i = 0; i < ENTRIES; i++)
		entries[i] = (struct ledger_entry){.job = arena_printf(&p->arena, "%d", i),
		                                   .event = i % 50 ? "requeued" : "held"};
	append(p, entries, ENTRIES, true);
	fit = rows;
	plain = p->store->ops;
	limited = *plain;
	limited.exec = exec_in_time;
	p->store->ops = &limited;
}

static void close_slow_place(struct place *p)
{
	p->store->ops = plain;
	close_place(p);
}

/* Each entry once, in order, however many searches it takes. */
static void follow(struct place *p, bool newest_first, int64_t for_ms, int64_t limit)
{
	struct ledger_filter filter = {.event = "held", .newest_first = newest_first, .limit = limit};
	struct ledger_bound bound = {.for_ms = for_ms};
	int64_t last = newest_first ? INT64_MAX : 0;
	int found = 0, n;
	for (int searches = 0;; searches++) {
		struct ledger_row *rows;
		struct failure f = {0};
		assert_true(searches < 2 * ENTRIES);
		assert_int_equal(ledger_search(p->store, &filter, &bound, &p->arena, &rows, &n, &f),
		                 DEFIB_OK);
		for (int i = 0; i < n; i++) {
			assert_true(newest_first ? rows[i].id < last : rows[i].id > last);
			last = rows[i].id;
		}
		found += n;
		if (!bound.cut && n < limit)
			break;
		int64_t end = n == limit ? last : bound.end_id;
		if (newest_first)
			filter.up_to_id = end - 1;
		else
			filter.after_id = end;
		if (newest_first && filter.up_to_id <= 0)
			break;
	}
	assert_int_equal(found, ENTRIES / 50);
}

static void every_search_is_answered_and_finds_each_entry_once(enum store_engine engine)
{
	static const int64_t fits[] = {1, 7, 100};
	struct place p;
	for (size_t i = 0; i < sizeof fits / sizeof *fits; i++)
		for (int newest_first = 0; newest_first < 2; newest_first++) {
			slow_place(&p, engine, fits[i]);
			follow(&p, newest_first, 1, 5);
			follow(&p, newest_first, 0, 5);
			close_slow_place(&p);
		}
}

static void a_search_is_cut_only_when_its_time_is_over(enum store_engine engine)
{
	struct ledger_filter filter = {.event = "held", .limit = ENTRIES};
	struct ledger_bound bound = {.within_ms = 3600000, .for_ms = 3600000};
	struct ledger_row *rows;
	struct failure f = {0};
	struct place p;
	int n;
	slow_place(&p, engine, 1);
	assert_int_equal(ledger_search(p.store, &filter, &bound, &p.arena, &rows, &n, &f), DEFIB_OK);
	assert_false(bound.cut);
	assert_int_equal(n, ENTRIES / 50);
	close_slow_place(&p);
}

static void an_entry_that_takes_too_long_by_itself_is_an_error(enum store_engine engine)
{
	struct ledger_filter filter = {.event = "held", .limit = 5};
	struct ledger_bound bound = {.for_ms = 1};
	struct ledger_row *rows;
	struct failure f = {0};
	struct place p;
	int n;
	slow_place(&p, engine, 0);
	assert_int_equal(ledger_search(p.store, &filter, &bound, &p.arena, &rows, &n, &f),
	                 DEFIB_TIMEOUT);
	assert_int_equal(n, 0);
	close_slow_place(&p);
}

#define BEHAVIOURS(X)                                                                              \
	X(every_search_is_answered_and_finds_each_entry_once)                                          \
	X(a_search_is_cut_only_when_its_time_is_over)                                                  \
	X(an_entry_that_takes_too_long_by_itself_is_an_error)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {BEHAVIOURS(ROWS_OF)};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}

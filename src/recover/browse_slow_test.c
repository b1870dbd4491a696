/* SPDX-License-Identifier: Apache-2.0
 * browse_slow_test.c: a list on a database that is slow: every page is answered, and each job is on
 * exactly one of them. How slow it is, is given in rows, so that the tests do not depend on time.
 */
#include "recover/browse.h"

#include "recover/bound.h"
#include "recover/recover_test.h"

#define JOBS 60
#define LAST 45 /* job of a list that has an end */
#define ALL INT64_C(1000000)

/* What a statement can read in time. */
static struct {
	int64_t fit;      /* rows of the table */
	int64_t facts;    /* rows with facts */
	int64_t slow;     /* only by itself: the row with this id; 0: none */
	bool never;       /* not even by itself */
	int64_t window;   /* rows of the window that was opened last; 0: none */
	int64_t timeouts; /* so far */
} machine;
static struct store_ops limited;
static const struct store_ops *plain;

static int64_t key_in(const char *sql, const char *comparison, const struct store_param *params)
{
	const char *at = strstr(sql, comparison);
	while (at && *at != '$' && *at != '?')
		at++;
	return at ? strtoll(params[strtoll(at + 1, NULL, 10) - 1].text, NULL, 10) : 0;
}

/* Of a list in key order. */
static bool reads_slow_row(const char *sql, const struct store_param *params)
{
	int64_t after = key_in(sql, "(t.\"id\") > (", params);
	int64_t up_to = key_in(sql, "(t.\"id\") <= (", params);
	return machine.slow > after && (!up_to || machine.slow <= up_to);
}

static int64_t keys_of(const struct store_param *params, int nparams)
{
	int64_t n = 0;
	for (int i = 0; i < nparams; i++)
		for (const char *at = params[i].text; at && *at; at++)
			n += *at == ',';
	return n + 1;
}

static bool takes_too_long(const char *sql, const struct store_param *params, int nparams)
{
	if (strstr(sql, "OFFSET")) {
		machine.window = params[nparams - 1].number + 1;
		return machine.window > machine.fit;
	}
	if (strstr(sql, "defib_sort")) {
		bool slow = machine.slow && reads_slow_row(sql, params);
		return (machine.window == 0 && machine.fit < ALL) || machine.window > machine.fit ||
		       (slow && (machine.window != 1 || machine.never));
	}
	return strstr(sql, "jobs") && keys_of(params, nparams) > machine.facts;
}

static defib_err exec_in_time(struct store *s, const char *sql, const struct store_param *params,
                              int nparams, struct arena *a, struct store_rows *rows,
                              struct failure *f)
{
	if (!takes_too_long(sql, params, nparams))
		return plain->exec(s, sql, params, nparams, a, rows, f);
	machine.timeouts++;
	return fail(f, DEFIB_TIMEOUT, "not done in time");
}

struct browsing {
	struct session session;
	struct store *store;
	struct bound bound;
	struct arena arena;
};

/* Every fifth job has no sign of life, so that it has no age. Ages are in no order of keys. */
static void prepare(struct rig *g)
{
	rig_fill(g, JOBS);
	rig_sql(g, "UPDATE jobs SET beat_at = beat_at + (id * 37) % 61");
	rig_sql(g, "UPDATE jobs SET beat_at = NULL WHERE id % 5 = 0");
	rig_sql(g, "UPDATE jobs SET status = 'done' WHERE id % 3 = 0");
}

RIG(prepare)

static void browsing_open(struct browsing *x, struct rig *g)
{
	struct failure f = {0};
	*x = (struct browsing){.session = {.options = {.url = g->url}, .open = store_open}};
	if (bound_open(&x->bound, &x->session, rig_watch(g, "beat_at", RIG_REQUEUE), LEDGER_FIND, &f))
		fail_msg("%s", f.what);
	x->store = x->session.store;
	machine = (typeof(machine)){.fit = ALL, .facts = ALL};
	plain = x->store->ops;
	limited = *plain;
	limited.exec = exec_in_time;
	x->store->ops = &limited;
}

static void browsing_close(struct browsing *x)
{
	x->store->ops = plain;
	bound_release(&x->bound);
	session_close(&x->session);
	arena_release(&x->arena);
}

static defib_err page(struct browsing *x, const struct browse *ask, struct browsed **rows, int *n,
                      bool *more)
{
	struct failure f = {0};
	machine.window = 0;
	return browse_jobs(&(struct look){x->store, &x->bound.sql, &x->bound.ledger, &x->arena}, ask,
	                   rows, n, more, &f);
}

/* All pages: each job exactly once; returns how many pages there were. */
static int follow(struct browsing *x, struct browse ask, const struct browse_position *after)
{
	bool seen[JOBS + 1] = {false};
	struct browsed *rows;
	int pages = 0, found = 0, n;
	int64_t examined = 0;
	bool goes_on = true;
	ask.after = after;
	for (; goes_on; pages++) {
		bool more;
		struct browse_position *next = ARENA_NEW(&x->arena, struct browse_position);
		assert_true(pages < 3 * JOBS);
		assert_int_equal(page(x, &ask, &rows, &n, &more), DEFIB_OK);
		for (int i = 0; i < n; i++) {
			int id = (int)strtoll(rows[i].job, NULL, 10);
			assert_false(seen[id]);
			seen[id] = true;
			found++;
		}
		examined += ask.bound->cut ? ask.bound->examined : 0;
		goes_on = more || ask.bound->cut;
		if (goes_on)
			browse_position_copy(more ? &rows[n - 1].at : &ask.bound->end, &x->arena, next);
		ask.after = next;
	}
	assert_true(examined <= JOBS);
	assert_int_equal(found, ask.up_to ? LAST : after ? JOBS - ask.limit : JOBS);
	return pages;
}

static void every_page_of_a_slow_table_is_answered_and_has_each_job_once(void **state)
{
	struct browsing x;
	browsing_open(&x, rig_of(state));
	for (int64_t fit = 1; fit <= 64; fit *= 4)
		for (int sort = LIST_BY_KEY; sort <= LIST_BY_STATE; sort++)
			for (int how = 0; how < 4; how++) {
				struct browse_bound bound = {.for_ms = 0};
				struct browse ask = {.sort = (enum list_sort)sort,
				                     .desc = how % 2,
				                     .facts = how / 2,
				                     .limit = 7,
				                     .bound = &bound};
				machine.fit = fit;
				/* There is no time: every page ends after its first window. */
				assert_in_range(follow(&x, ask, NULL), JOBS / 7, 2 * JOBS);
				assert_int_equal(bound.by_key, sort != LIST_BY_KEY);
			}
	browsing_close(&x);
}

static void a_list_that_becomes_slow_goes_on_with_the_jobs_that_are_left(void **state)
{
	struct browsing x;
	browsing_open(&x, rig_of(state));
	for (int sort = LIST_BY_KEY; sort <= LIST_BY_STATE; sort++)
		/* 50 of 60 are more than those with an age: the page ends among those without. */
		for (int64_t limit = 10; limit <= 50; limit += 40)
			for (int desc = 0; desc < 2; desc++) {
				struct browse_bound bound = {.for_ms = 0};
				struct browse ask = {
					.sort = (enum list_sort)sort, .desc = desc, .limit = limit, .bound = &bound};
				struct browsed *rows;
				bool more;
				int n;
				machine.fit = ALL;
				assert_int_equal(page(&x, &ask, &rows, &n, &more), DEFIB_OK);
				assert_true(more && !bound.cut && !bound.by_key);
				machine.fit = 4;
				follow(&x, ask, &rows[n - 1].at);
			}
	browsing_close(&x);
}

static void a_list_with_an_end_stops_there_in_windows_too(void **state)
{
	const struct browse_position last = {.key = {"45"}};
	struct browsing x;
	browsing_open(&x, rig_of(state));
	for (int64_t fit = 1; fit <= 64; fit *= 8) {
		struct browse_bound bound = {.for_ms = 0};
		machine.fit = fit;
		follow(&x, (struct browse){.limit = 7, .up_to = &last, .bound = &bound}, NULL);
	}
	browsing_close(&x);
}

static void a_list_without_a_time_limit_is_read_to_its_end(void **state)
{
	struct browsing x;
	browsing_open(&x, rig_of(state));
	for (int sort = LIST_BY_KEY; sort <= LIST_BY_STATE; sort++) {
		struct browse ask = {.sort = (enum list_sort)sort, .facts = true};
		struct browsed *rows;
		bool more;
		int n;
		machine.fit = 4;
		assert_int_equal(page(&x, &ask, &rows, &n, &more), DEFIB_OK);
		assert_int_equal(n, JOBS);
		assert_false(more);
	}
	browsing_close(&x);
}

static void a_row_that_fits_only_by_itself_is_read_by_itself(void **state)
{
	struct browsing x;
	struct browse_bound bound = {.for_ms = 0};
	browsing_open(&x, rig_of(state));
	machine.slow = 20;
	follow(&x, (struct browse){.limit = 50, .bound = &bound}, NULL);
	assert_true(machine.timeouts > 0);
	browsing_close(&x);
}

static void only_a_page_that_begins_with_an_unreadable_row_is_an_error(void **state)
{
	struct browsing x;
	struct browse_bound bound = {.for_ms = 0};
	struct browse_position after = {0};
	struct browse ask = {.limit = 50, .bound = &bound};
	struct browsed *rows;
	defib_err err;
	int pages = 0, found = 0, n;
	bool more;
	browsing_open(&x, rig_of(state));
	machine.slow = 20;
	machine.never = true;
	while ((err = page(&x, &ask, &rows, &n, &more)) == DEFIB_OK) {
		assert_true(bound.cut);
		assert_true(++pages < JOBS);
		found += n;
		after = bound.end;
		ask.after = &after;
	}
	assert_int_equal(err, DEFIB_TIMEOUT);
	assert_int_equal(found, 19);
	browsing_close(&x);
}

static void facts_are_read_for_as_many_jobs_as_fit(void **state)
{
	struct browsing x;
	struct browse_bound bound = {.within_ms = 1000, .for_ms = 60000};
	browsing_open(&x, rig_of(state));
	machine.facts = 1;
	follow(&x, (struct browse){.limit = 25, .facts = true, .bound = &bound}, NULL);
	assert_true(machine.timeouts > 0);
	browsing_close(&x);
}

static void jobs_that_are_named_are_read_in_parts_if_all_take_too_long(void **state)
{
	static const char *const names[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"};
	struct browsing x;
	struct browse ask = {.jobs = names, .njobs = 10, .facts = true};
	struct browsed *rows;
	bool more;
	int n;
	browsing_open(&x, rig_of(state));
	machine.facts = 2;
	assert_int_equal(page(&x, &ask, &rows, &n, &more), DEFIB_OK);
	assert_int_equal(n, 10);
	assert_true(machine.timeouts > 0);
	browsing_close(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(every_page_of_a_slow_table_is_answered_and_has_each_job_once),
		BOTH(a_list_that_becomes_slow_goes_on_with_the_jobs_that_are_left),
		BOTH(a_list_with_an_end_stops_there_in_windows_too),
		BOTH(a_list_without_a_time_limit_is_read_to_its_end),
		BOTH(a_row_that_fits_only_by_itself_is_read_by_itself),
		BOTH(only_a_page_that_begins_with_an_unreadable_row_is_an_error),
		BOTH(facts_are_read_for_as_many_jobs_as_fit),
		BOTH(jobs_that_are_named_are_read_in_parts_if_all_take_too_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

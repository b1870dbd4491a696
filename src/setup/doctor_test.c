/* SPDX-License-Identifier: Apache-2.0
 * doctor_test.c: what the available real databases cannot show: servers that are too old, and
 * sessions that break in the middle of an examination. End-to-end tests show the findings about
 * tables and privileges.
 */
#include "setup/doctor.h"

#include "base/test.h"
#include "base/text.h"
#include "setup/propose_lines.h"

#define KEPT_MAX 64

/* A session that refuses every statement, or is lost at the nth. */
struct sham {
	struct store base;
	int execs, lost_at;
};

struct kept {
	struct finding findings[KEPT_MAX];
	struct arena arena;
	int n;
};

static struct sham sham;
static defib_err open_code;

static defib_err sham_exec(struct store *s, const char *sql, const struct store_param *params,
                           int nparams, struct arena *a, struct store_rows *rows, struct failure *f)
{
	(void)s, (void)sql, (void)params, (void)nparams, (void)a, (void)rows;
	if (++sham.execs == sham.lost_at)
		return fail(f, DEFIB_CONNECTION, "sham: gone");
	return fail(f, DEFIB_BAD_SQL, "sham: no");
}

static defib_err sham_describe(struct store *s, const char *sql, struct arena *a,
                               struct store_column **cols, int *ncols, struct failure *f)
{
	(void)s, (void)sql, (void)a, (void)cols, (void)ncols;
	return fail(f, DEFIB_PERMISSION, "sham: not allowed");
}

static defib_err sham_begin(struct store *s, enum store_tx mode, struct failure *f)
{
	(void)s, (void)f;
	assert_int_equal(mode, TX_READ);
	return DEFIB_OK;
}

static defib_err sham_commit(struct store *s, struct failure *f)
{
	(void)s, (void)f;
	fail_msg("doctor has nothing to commit");
	return DEFIB_OK;
}

static void sham_end(struct store *s)
{
	(void)s;
}

static defib_err sham_open(const struct store_options *o, struct store **out, struct failure *f)
{
	assert_true(o->read_only);
	if (open_code)
		return fail(f, open_code, "sham: no answer");
	*out = &sham.base;
	return DEFIB_OK;
}

static const struct store_ops sham_ops = {
	.exec = sham_exec,
	.describe = sham_describe,
	.begin = sham_begin,
	.commit = sham_commit,
	.rollback = sham_end,
	.close = sham_end,
};

static void keep(void *ctx, const struct finding *f)
{
	struct kept *k = ctx;
	assert_true(k->n < KEPT_MAX);
	k->findings[k->n] = *f;
	k->findings[k->n].text = arena_strdup(&k->arena, f->text);
	k->findings[k->n].fix = f->fix ? arena_strdup(&k->arena, f->fix) : NULL;
	k->n++;
}

static void examine(enum store_engine engine, int64_t version, struct kept *k)
{
	static const char *key[] = {"id"};
	static const struct watch jobs = {
		.name = "jobs", .table = "jobs", .key = {1, key}, .enabled = true};
	static const struct watch *const watches[] = {&jobs, &jobs};
	struct database database = {.name = "main", .engine = engine};
	struct doctor d = {.database = &database,
	                   .store = {.read_only = true},
	                   .open = sham_open,
	                   .watches = watches,
	                   .nwatches = 2,
	                   .configured = 2,
	                   .found = keep,
	                   .ctx = k};
	sham.base = (struct store){
		.ops = &sham_ops, .engine = engine, .name = "main", .server_version = version};
	sham.execs = 0;
	doctor_examine(&d);
}

static const struct finding *find(const struct kept *k, const char *check)
{
	for (int i = 0; i < k->n; i++)
		if (text_eq(k->findings[i].check, check))
			return &k->findings[i];
	fail_msg("no finding of check %s", check);
	return NULL;
}

static void expect_version(enum store_engine engine, int64_t version, enum finding_level level)
{
	struct kept k = {.n = 0};
	examine(engine, version, &k);
	assert_int_equal(find(&k, "version")->level, level);
	assert_int_equal(find(&k, "version")->fix != NULL, level != FINDING_OK);
	arena_release(&k.arena);
}

static void postgres_before_13_fails(void **state)
{
	(void)state;
	expect_version(STORE_POSTGRES, 120022, FINDING_FAIL);
	expect_version(STORE_POSTGRES, 130000, FINDING_OK);
}

static void sqlite_before_3_38_fails(void **state)
{
	(void)state;
	expect_version(STORE_SQLITE, 3037002, FINDING_FAIL);
	expect_version(STORE_SQLITE, 3038000, FINDING_OK);
}

static void a_check_that_cannot_be_made_is_a_warning_and_the_others_go_on(void **state)
{
	struct kept k = {.n = 0};
	(void)state;
	examine(STORE_POSTGRES, 150000, &k);
	assert_int_equal(find(&k, "writable")->level, FINDING_WARN);
	assert_non_null(strstr(find(&k, "writable")->text, "could not be checked: sham: no"));
	assert_int_equal(find(&k, "ledger")->level, FINDING_WARN);
	assert_int_equal(find(&k, "fits")->level, FINDING_FAIL);
	arena_release(&k.arena);
}

static void no_session_is_one_finding_with_a_fix(void **state)
{
	struct kept k = {.n = 0};
	(void)state;
	open_code = DEFIB_CONNECTION;
	examine(STORE_POSTGRES, 150000, &k);
	open_code = DEFIB_OK;
	assert_int_equal(k.n, 1);
	assert_int_equal(k.findings[0].level, FINDING_FAIL);
	assert_string_equal(k.findings[0].text, "sham: no answer");
	assert_null(k.findings[0].watch);
	assert_non_null(k.findings[0].fix);
	arena_release(&k.arena);
}

/* Wherever the session breaks: the finding is reported once, for the database, and is the last one.
 */
static void a_lost_session_is_told_once_and_ends_the_examination(void **state)
{
	(void)state;
	for (int at = 1; at < 10; at++) {
		struct kept k = {.n = 0};
		int lost = 0;
		sham.lost_at = at;
		examine(STORE_POSTGRES, 150000, &k);
		bool reached = sham.execs >= at;
		sham.lost_at = 0;
		for (int i = 0; i < k.n; i++)
			lost += strstr(k.findings[i].text, "connection was lost") != NULL;
		assert_int_equal(lost, reached ? 1 : 0);
		if (reached) {
			assert_non_null(strstr(k.findings[k.n - 1].text, "connection was lost"));
			assert_null(k.findings[k.n - 1].watch);
			assert_int_equal(k.findings[k.n - 1].level, FINDING_FAIL);
		}
		arena_release(&k.arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(postgres_before_13_fails),
		cmocka_unit_test(sqlite_before_3_38_fails),
		cmocka_unit_test(a_check_that_cannot_be_made_is_a_warning_and_the_others_go_on),
		cmocka_unit_test(no_session_is_one_finding_with_a_fix),
		cmocka_unit_test(a_lost_session_is_told_once_and_ends_the_examination),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/spool_test.h"

#include <fcntl.h>

static void append(struct spool *s, const char *text)
{
	assert_int_equal(spool_append(s, text, strlen(text), NULL), DEFIB_OK);
}

static void assert_next(struct spool *s, const char *text)
{
	const char *bytes;
	size_t n;
	assert_true(spool_peek(s, &bytes, &n));
	assert_int_equal(n, strlen(text));
	assert_memory_equal(bytes, text, n);
}

static void take(struct spool *s, const char *text)
{
	assert_next(s, text);
	assert_int_equal(spool_take(s, NULL), DEFIB_OK);
}

static void assert_empty(struct spool *s)
{
	const char *bytes;
	size_t n;
	assert_false(spool_peek(s, &bytes, &n));
	assert_int_equal(spool_count(s), 0);
	assert_int_equal(spool_bytes(s), 0);
}

static void flip(const char *name, off_t at)
{
	unsigned char c;
	int fd = open(path_of(name), O_RDWR);
	assert_int_equal(pread(fd, &c, 1, at), 1);
	c ^= 0x10;
	assert_int_equal(pwrite(fd, &c, 1, at), 1);
	close(fd);
}

static void records_come_back_in_order_after_a_restart(void **state)
{
	(void)state;
	struct spool *s = opened();
	assert_empty(s);
	append(s, "one");
	append(s, "");
	append(s, "three");
	spool_close(s);
	s = opened();
	assert_int_equal(spool_count(s), 3);
	take(s, "one");
	take(s, "");
	assert_next(s, "three");
	assert_next(s, "three");
	spool_close(s);
	s = opened();
	take(s, "three");
	assert_empty(s);
	append(s, "four");
	spool_close(s);
	s = opened();
	take(s, "four");
	assert_empty(s);
	spool_close(s);
}

static void any_bytes_are_a_record(void **state)
{
	(void)state;
	char all[70000];
	const char *bytes;
	size_t n;
	for (size_t i = 0; i < sizeof all; i++)
		all[i] = (char)i;
	struct spool *s = opened();
	assert_int_equal(spool_append(s, all, sizeof all, NULL), DEFIB_OK);
	assert_true(spool_peek(s, &bytes, &n));
	assert_int_equal(n, sizeof all);
	assert_memory_equal(bytes, all, n);
	spool_close(s);
}

static void an_append_between_peek_and_take_changes_nothing(void **state)
{
	(void)state;
	struct spool *s = opened();
	append(s, "one");
	assert_next(s, "one");
	append(s, "two");
	assert_int_equal(spool_take(s, NULL), DEFIB_OK);
	take(s, "two");
	assert_empty(s);
	spool_close(s);
}

static void a_folder_has_one_owner(void **state)
{
	(void)state;
	struct spool_options o = {.folder = folder};
	struct spool *s = opened(), *second;
	struct failure f = {0};
	assert_int_equal(spool_open(&o, &second, &f), DEFIB_REFUSED);
	assert_null(second);
	assert_non_null(strstr(f.what, folder));
	spool_close(s);
	spool_close(opened());
}

static void missing_folders_are_made_private(void **state)
{
	(void)state;
	char deep[128];
	struct stat st;
	struct spool *s;
	snprintf(deep, sizeof deep, "%s/a/b/c", folder);
	struct spool_options o = {.folder = deep};
	assert_int_equal(spool_open(&o, &s, NULL), DEFIB_OK);
	assert_int_equal(stat(deep, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	spool_close(s);
}

static void a_folder_of_others_is_refused(void **state)
{
	(void)state;
	char link[128], slash[130], open_to_all[128];
	struct spool *s;
	struct failure f = {0};
	snprintf(link, sizeof link, "%s/link", folder);
	snprintf(slash, sizeof slash, "%s/", link);
	snprintf(open_to_all, sizeof open_to_all, "%s/all", folder);
	assert_int_equal(symlink(folder, link), 0);
	assert_int_equal(mkdir(open_to_all, 0700), 0);
	assert_int_equal(chmod(open_to_all, 0777), 0);
	struct spool_options o = {.folder = link};
	assert_int_equal(spool_open(&o, &s, &f), DEFIB_CONFIG);
	assert_non_null(strstr(f.what, "symbolic link"));
	o.folder = slash;
	assert_int_equal(spool_open(&o, &s, &f), DEFIB_CONFIG);
	o.folder = open_to_all;
	assert_int_equal(spool_open(&o, &s, &f), DEFIB_CONFIG);
	if (geteuid() == 0) {
		assert_int_equal(chmod(open_to_all, 0700), 0);
		assert_int_equal(chown(open_to_all, 65534, 65534), 0);
		assert_int_equal(spool_open(&o, &s, &f), DEFIB_CONFIG);
		assert_non_null(strstr(f.what, "another user"));
	}
}

static void what_is_no_folder_is_an_error(void **state)
{
	(void)state;
	struct spool *s;
	struct failure f = {0};
	struct spool_options o = {.folder = "/dev/null/x"};
	assert_int_equal(spool_open(&o, &s, &f), DEFIB_IO);
	assert_non_null(strstr(f.what, "/dev/null/x"));
}

static void a_full_spool_says_so_until_something_is_taken(void **state)
{
	(void)state;
	char kilo[1000] = {0};
	struct failure f = {0};
	struct spool *s = opened_with(4096);
	for (int i = 0; i < 4; i++)
		assert_int_equal(spool_append(s, kilo, sizeof kilo, &f), DEFIB_OK);
	assert_int_equal(spool_append(s, kilo, sizeof kilo, &f), DEFIB_FULL);
	assert_int_equal(f.code, DEFIB_FULL);
	assert_int_equal(spool_count(s), 4);
	const char *bytes;
	size_t n;
	assert_true(spool_peek(s, &bytes, &n));
	assert_int_equal(spool_take(s, NULL), DEFIB_OK);
	assert_int_equal(spool_append(s, kilo, sizeof kilo, &f), DEFIB_OK);
	spool_close(s);
}

static void the_file_stays_small_though_never_empty(void **state)
{
	(void)state;
	static char big[200000];
	const char *bytes;
	size_t n;
	struct spool *s = opened();
	for (int i = 0; i < 100; i++) {
		memset(big, i, sizeof big);
		assert_int_equal(spool_append(s, big, sizeof big, NULL), DEFIB_OK);
		if (i > 0) {
			assert_true(spool_peek(s, &bytes, &n));
			assert_int_equal(bytes[0], i - 1);
			assert_int_equal(spool_take(s, NULL), DEFIB_OK);
		}
		assert_true(size_of("spool") < 2000000);
	}
	spool_close(s);
	s = opened();
	assert_int_equal(spool_count(s), 1);
	assert_true(spool_peek(s, &bytes, &n));
	assert_int_equal(bytes[0], 99);
	spool_close(s);
}

/* Three records, the first of them taken; the offsets at which each ends. */
static void three_with_one_taken(off_t ends[3])
{
	static const char *const texts[] = {"first", "second", "third"};
	struct spool *s = opened();
	for (int i = 0; i < 3; i++) {
		append(s, texts[i]);
		ends[i] = size_of("spool");
	}
	take(s, "first");
	spool_close(s);
}

static void a_file_cut_anywhere_keeps_every_whole_record(void **state)
{
	(void)state;
	off_t ends[3] = {0};
	for (off_t cut = 0;; cut++) {
		three_with_one_taken(ends);
		if (cut > ends[2])
			break;
		assert_int_equal(truncate(path_of("spool"), cut), 0);
		struct spool *s = opened();
		assert_int_equal(spool_count(s), (cut >= ends[1]) + (cut >= ends[2]));
		append(s, "next");
		if (cut >= ends[1])
			take(s, "second");
		if (cut >= ends[2])
			take(s, "third");
		take(s, "next");
		assert_empty(s);
		spool_close(s);
		assert_int_equal(size_of("spool.bad"), -1);
	}
}

static void a_flipped_bit_anywhere_costs_one_record(void **state)
{
	(void)state;
	off_t ends[3] = {0};
	for (off_t at = 0;; at++) {
		three_with_one_taken(ends);
		if (at >= ends[2])
			break;
		flip("spool", at);
		off_t before = size_of("spool.bad") < 0 ? 0 : size_of("spool.bad");
		struct spool *s = opened();
		append(s, "next");
		/* The bytes of a record that was taken may be anything. */
		off_t aside = at < 24        ? ends[0]
		              : at < ends[0] ? 0
		              : at < ends[1] ? ends[1] - ends[0]
		                             : ends[2] - ends[1];
		if (at < ends[0] || at >= ends[1])
			take(s, "second");
		if (at < ends[1])
			take(s, "third");
		take(s, "next");
		assert_empty(s);
		spool_close(s);
		off_t after = size_of("spool.bad") < 0 ? 0 : size_of("spool.bad");
		assert_int_equal(after - before, aside);
	}
}

/* What comes after a damaged record is kept, however long that one was, and in order. */
static void what_is_behind_damage_is_kept_in_order(void **state)
{
	(void)state;
	enum { N = 40 };
	char *large = mem_alloc(200000);
	char text[32];
	off_t begins[N + 1] = {0};
	struct spool *s = opened();
	memset(large, 'D', 200000);
	memcpy(large + 70000, "DSP1", 4); /* looks like a record, but is not */
	for (int i = 0; i < N; i++) {
		snprintf(text, sizeof text, "record %d", i);
		if (i == 7)
			assert_int_equal(spool_append(s, large, 200000, NULL), DEFIB_OK);
		else
			append(s, text);
		begins[i + 1] = size_of("spool");
	}
	spool_close(s);
	flip("spool", begins[7] + 5);   /* its length */
	flip("spool", begins[20] + 26); /* its bytes */
	flip("spool", begins[21] + 1);  /* and the next one's magic */
	s = opened();
	assert_int_equal(spool_count(s), N - 3);
	for (int i = 0; i < N; i++) {
		snprintf(text, sizeof text, "record %d", i);
		if (i != 7 && i != 20 && i != 21)
			take(s, text);
	}
	assert_empty(s);
	spool_close(s);
	free(large);
}

static void zeros_behind_the_last_record_are_dropped(void **state)
{
	(void)state;
	off_t ends[3] = {0};
	three_with_one_taken(ends);
	assert_int_equal(truncate(path_of("spool"), ends[2] + 9000), 0);
	struct spool *s = opened();
	assert_int_equal(spool_count(s), 2);
	assert_int_equal(size_of("spool"), ends[2]);
	assert_int_equal(size_of("spool.bad"), -1);
	spool_close(s);
}

static void damage_after_the_opening_is_set_aside_too(void **state)
{
	(void)state;
	struct spool *s = opened();
	append(s, "one");
	off_t end = size_of("spool");
	append(s, "two");
	append(s, "three");
	flip("spool", end + 24);
	take(s, "one");
	take(s, "three");
	assert_empty(s);
	assert_int_equal(size_of("spool.bad"), 24 + 3);
	append(s, "four");
	take(s, "four");
	spool_close(s);
}

static void a_damaged_spool_on_a_full_disk_is_not_opened_and_loses_nothing(void **state)
{
	(void)state;
	struct spool_options o = {.folder = folder};
	bool fired = true;
	int nth = 0;
	while (fired) {
		struct spool *s = NULL;
		struct failure f = {0};
		off_t ends[3];
		three_with_one_taken(ends);
		flip("spool", ends[0] + 24);
		plan = (typeof(plan)){FAULT_ERRNO, ++nth, 0, ENOSPC};
		defib_err err = spool_open(&o, &s, &f);
		fired = plan.seen >= nth;
		assert_int_equal(err, fired ? DEFIB_FULL : DEFIB_OK);
		assert_true(fired == (s == NULL));
		plan.kind = FAULT_NONE;
		if (!s)
			s = opened();
		take(s, "third");
		assert_empty(s);
		spool_close(s);
	}
	assert_true(nth > 3); /* the damaged part was written and synced meanwhile */
}

static void a_torn_mark_falls_back_to_the_one_before(void **state)
{
	(void)state;
	struct spool *s = opened();
	append(s, "one");
	append(s, "two");
	append(s, "three");
	take(s, "one"); /* slot 0 */
	take(s, "two"); /* slot 1 */
	spool_close(s);
	flip("taken", 4096 + 9);
	s = opened();
	take(s, "two");
	spool_close(s);
	s = opened();
	take(s, "three");
	assert_empty(s);
	spool_close(s);
}

static void a_lost_mark_shows_records_again_and_loses_none(void **state)
{
	(void)state;
	off_t ends[3];
	three_with_one_taken(ends);
	assert_int_equal(unlink(path_of("taken")), 0);
	struct spool *s = opened();
	take(s, "first");
	take(s, "second");
	spool_close(s);
	flip("taken", 0);
	flip("taken", 4096);
	s = opened();
	take(s, "first");
	take(s, "second");
	take(s, "third");
	spool_close(s);
}

static void errors_of_the_disk_are_told_and_leave_the_spool_usable(void **state)
{
	(void)state;
	static const struct {
		int nth, code;
		defib_err err;
	} cases[] = {{1, ENOSPC, DEFIB_FULL}, {1, EIO, DEFIB_IO}, {2, EIO, DEFIB_IO}};
	struct spool *s = opened();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct failure f = {0};
		append(s, "before");
		plan = (typeof(plan)){FAULT_ERRNO, cases[i].nth, 0, cases[i].code};
		assert_int_equal(spool_append(s, "a long lost one", 15, &f), cases[i].err);
		assert_non_null(strstr(f.what, strerror(cases[i].code)));
		append(s, "after");
		assert_next(s, "before");
		plan = (typeof(plan)){FAULT_ERRNO, cases[i].nth, 0, cases[i].code};
		assert_int_equal(spool_take(s, &f), cases[i].err);
		take(s, "before");
		spool_close(s);
		s = opened();
		take(s, "after");
		assert_empty(s);
	}
	spool_close(s);
}

/* Otherwise a crash of the machine may bring the old file back, without later records. */
static void a_file_that_was_replaced_has_its_folder_synced(void **state)
{
	(void)state;
	struct spool *s = opened();
	char big[8192];
	memset(big, 'x', sizeof big);
	for (int i = 0; i < 150; i++)
		assert_int_equal(spool_append(s, big, sizeof big, NULL), DEFIB_OK);
	folders_synced = 0;
	struct stat before, now;
	assert_int_equal(stat(path_of("spool"), &before), 0);
	for (int i = 0; i < 140; i++) {
		const char *bytes;
		size_t n;
		assert_true(spool_peek(s, &bytes, &n));
		assert_int_equal(spool_take(s, NULL), DEFIB_OK);
	}
	assert_int_equal(stat(path_of("spool"), &now), 0);
	assert_int_not_equal(now.st_ino, before.st_ino);
	assert_int_equal(folders_synced, 1);
	spool_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_come_back_in_order_after_a_restart),
		TEST(any_bytes_are_a_record),
		TEST(an_append_between_peek_and_take_changes_nothing),
		TEST(a_folder_has_one_owner),
		TEST(missing_folders_are_made_private),
		TEST(a_folder_of_others_is_refused),
		TEST(what_is_no_folder_is_an_error),
		TEST(a_full_spool_says_so_until_something_is_taken),
		TEST(the_file_stays_small_though_never_empty),
		TEST(a_file_cut_anywhere_keeps_every_whole_record),
		TEST(a_flipped_bit_anywhere_costs_one_record),
		TEST(what_is_behind_damage_is_kept_in_order),
		TEST(zeros_behind_the_last_record_are_dropped),
		TEST(damage_after_the_opening_is_set_aside_too),
		TEST(a_damaged_spool_on_a_full_disk_is_not_opened_and_loses_nothing),
		TEST(a_torn_mark_falls_back_to_the_one_before),
		TEST(a_lost_mark_shows_records_again_and_loses_none),
		TEST(errors_of_the_disk_are_told_and_leave_the_spool_usable),
		TEST(a_file_that_was_replaced_has_its_folder_synced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* hand_test.c: what a worker has in hand: taking, finding, stopping, progress. */
#include "base/test.h"
#include "worker/hand.h"

static struct source mail = {.name = "mail", .keys = "mail"},
					 rooms = {.name = "rooms", .keys = "rooms"};
/* Two pools of one watch. */
static struct source crawl = {.name = "jobs", .keys = "jobs"},
					 scrape = {.name = "jobs", .keys = "jobs"};

static struct hand hand;

static int open_hand(void **state)
{
	(void)state;
	hand_init(&hand);
	return 0;
}

static int close_hand(void **state)
{
	(void)state;
	hand_release(&hand);
	return 0;
}

static struct hand_job *add(struct source *src, const char *key, int64_t epoch)
{
	return hand_add(&hand, src, 0, 7, &(struct claimed){.key = key, .epoch = epoch, .queue = "q"});
}

static bool stopped(const struct hand_job *j, bool *lost)
{
	bool unused;
	return hand_stopped(&hand, j, lost ? lost : &unused);
}

static void a_job_keeps_its_own_copy_of_the_claim(void **state)
{
	char key[] = "12", payload[] = "{}";
	struct claimed c = {.key = key, .epoch = 3, .attempt = 2, .payload = payload};
	(void)state;
	const struct hand_job *j = hand_add(&hand, &mail, 4, 9, &c);
	key[0] = payload[0] = 'x';
	assert_string_equal(j->claim.key, "12");
	assert_string_equal(j->claim.payload, "{}");
	assert_null(j->claim.kind);
	assert_int_equal(j->claim.attempt, 2);
	assert_int_equal(j->worker, 9);
	assert_int_equal(j->pool, 4);
	assert_int_equal(j->delay_ms, -1);
}

static void what_is_removed_from_either_end_or_the_middle_is_gone(void **state)
{
	struct hand_job *jobs[5];
	static const int order[] = {2, 0, 4, 3, 1};
	static const char *const keys[] = {"0", "1", "2", "3", "4"};
	(void)state;
	for (int i = 0; i < 5; i++)
		jobs[i] = add(&mail, keys[i], 1);
	for (int i = 0; i < 5; i++) {
		hand_remove(&hand, jobs[order[i]]);
		assert_int_equal(hand_count(&hand), 4 - i);
		for (int k = 0; k < 5; k++) {
			bool gone = false;
			for (int m = 0; m <= i; m++)
				gone = gone || order[m] == k;
			assert_int_equal(hand_has(&hand, &mail, keys[k], 1), !gone);
		}
	}
}

static void a_job_is_found_by_source_key_and_epoch(void **state)
{
	(void)state;
	add(&mail, "1", 2);
	assert_true(hand_has(&hand, &mail, "1", 2));
	assert_true(hand_has(&hand, NULL, "1", 2));
	assert_false(hand_has(&hand, &mail, "1", 1));
	assert_false(hand_has(&hand, &mail, "2", 2));
	assert_false(hand_has(&hand, &rooms, "1", 2));
}

static void a_key_means_the_same_job_in_every_pool_of_a_watch(void **state)
{
	(void)state;
	add(&crawl, "1", 1);
	assert_true(hand_has(&hand, &scrape, "1", 1));
	assert_int_equal(hand_stop(&hand, &scrape, "1", 1, false), 1);
}

static void a_stop_by_key_leaves_the_same_key_of_another_watch_alone(void **state)
{
	struct hand_job *a = add(&mail, "1", 1), *b = add(&rooms, "1", 1);
	(void)state;
	assert_int_equal(hand_stop(&hand, &rooms, "1", 1, false), 1);
	assert_false(stopped(a, NULL));
	assert_true(stopped(b, NULL));
}

static void a_stop_of_a_source_leaves_other_sources_alone(void **state)
{
	struct hand_job *a = add(&crawl, "1", 1), *b = add(&scrape, "2", 1);
	(void)state;
	assert_int_equal(hand_stop(&hand, &crawl, NULL, 0, false), 1);
	assert_true(stopped(a, NULL));
	assert_false(stopped(b, NULL));
}

static void a_stop_counts_only_what_it_newly_marks(void **state)
{
	(void)state;
	add(&mail, "1", 1);
	add(&rooms, "2", 1);
	assert_int_equal(hand_stop(&hand, &mail, "1", 1, false), 1);
	assert_int_equal(hand_stop(&hand, NULL, NULL, 0, false), 1);
	assert_int_equal(hand_stop(&hand, NULL, NULL, 0, false), 0);
}

static void what_is_lost_stays_lost(void **state)
{
	const struct hand_job *j = add(&mail, "1", 1);
	bool lost = true;
	(void)state;
	assert_false(stopped(j, &lost));
	assert_false(lost);
	assert_int_equal(hand_stop(&hand, NULL, NULL, 0, false), 1);
	assert_int_equal(hand_stop(&hand, NULL, NULL, 0, true), 0);
	assert_int_equal(hand_stop(&hand, NULL, NULL, 0, false), 0);
	assert_true(stopped(j, &lost));
	assert_true(lost);
}

static void a_claim_under_way_or_in_between_makes_a_comparison_void(void **state)
{
	uint64_t before, after;
	(void)state;
	assert_true(hand_quiet(&hand, &before));
	hand_claim_begin(&hand);
	assert_false(hand_quiet(&hand, &after));
	hand_claim_end(&hand);
	assert_true(hand_quiet(&hand, &after));
	assert_true(before != after);
	assert_true(hand_quiet(&hand, &before));
	assert_true(before == after);
}

static void progress_is_told_once_with_the_last_words(void **state)
{
	struct hand_job *j = add(&mail, "1", 4);
	struct progress_note note;
	(void)state;
	assert_false(hand_take_progress(&hand, &note));
	hand_progress(&hand, j, "fetch", "10 %");
	hand_progress(&hand, j, NULL, "20 %");
	assert_true(hand_take_progress(&hand, &note));
	assert_string_equal(note.key, "1");
	assert_int_equal(note.epoch, 4);
	assert_int_equal(note.worker, 7);
	assert_ptr_equal(note.source, &mail);
	assert_string_equal(note.step, "fetch");
	assert_string_equal(note.progress, "20 %");
	assert_false(hand_take_progress(&hand, &note));
}

static void progress_of_each_job_is_told(void **state)
{
	struct progress_note note;
	int n = 0;
	(void)state;
	for (int i = 0; i < 3; i++)
		hand_progress(&hand, add(&mail, "k", i), "s", NULL);
	while (hand_take_progress(&hand, &note))
		n++;
	assert_int_equal(n, 3);
}

static void long_progress_is_cut_between_characters(void **state)
{
	struct progress_note note;
	char text[2002];
	(void)state;
	for (int i = 0; i < 2000; i += 2) {
		text[i] = '\xc3';
		text[i + 1] = '\xbc';
	}
	text[2000] = '\0';
	hand_progress(&hand, add(&mail, "k", 1), NULL, text);
	assert_true(hand_take_progress(&hand, &note));
	size_t len = strlen(note.progress);
	assert_int_equal(len % 2, 0);
	assert_true(len > 1000 && len < sizeof note.progress);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_hand, close_hand)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_job_keeps_its_own_copy_of_the_claim),
		TEST(what_is_removed_from_either_end_or_the_middle_is_gone),
		TEST(a_job_is_found_by_source_key_and_epoch),
		TEST(a_key_means_the_same_job_in_every_pool_of_a_watch),
		TEST(a_stop_by_key_leaves_the_same_key_of_another_watch_alone),
		TEST(a_stop_of_a_source_leaves_other_sources_alone),
		TEST(a_stop_counts_only_what_it_newly_marks),
		TEST(what_is_lost_stays_lost),
		TEST(a_claim_under_way_or_in_between_makes_a_comparison_void),
		TEST(progress_is_told_once_with_the_last_words),
		TEST(progress_of_each_job_is_told),
		TEST(long_progress_is_cut_between_characters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

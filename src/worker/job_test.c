/* SPDX-License-Identifier: Apache-2.0 */
/* job_test.c: a job in hand: its own texts, its step, and its progress. */
#include "base/test.h"
#include "worker/job.h"

static struct job *job(void)
{
	return job_new(0, 7, &(struct claimed){.key = "1", .epoch = 4, .queue = "q", .step = "old"});
}

static void a_job_keeps_its_own_copy_of_the_claim(void **state)
{
	char key[] = "12", payload[] = "{}";
	(void)state;
	struct job *j = job_new(1, 7, &(struct claimed){.key = key, .epoch = 3, .payload = payload});
	key[0] = payload[0] = 'x';
	assert_string_equal(j->claim.key, "12");
	assert_string_equal(j->claim.payload, "{}");
	assert_null(j->claim.kind);
	assert_int_equal(j->worker, 7);
	assert_int_equal(j->delay_ms, -1);
	job_free(j);
}

static void progress_is_told_once_with_the_last_words(void **state)
{
	struct job *j = job();
	(void)state;
	assert_null(job_take_progress(j));
	job_say(j, "fetch", "10 %");
	job_say(j, NULL, "20 %");
	struct job_progress *progress = job_take_progress(j);
	assert_string_equal(progress->step, "fetch");
	assert_string_equal(progress->text, "20 %");
	assert_null(job_take_progress(j));
	free(progress);
	job_free(j);
}

static void what_was_told_is_not_forgotten_when_only_the_step_changes(void **state)
{
	struct job *j = job();
	(void)state;
	job_say(j, "fetch", "20 %");
	free(job_take_progress(j));
	job_say(j, "store", NULL);
	struct job_progress *progress = job_take_progress(j);
	assert_string_equal(progress->step, "store");
	assert_string_equal(progress->text, "20 %");
	free(progress);
	job_free(j);
}

static void long_progress_is_cut_between_characters(void **state)
{
	struct job *j = job();
	char text[2002];
	(void)state;
	for (int i = 0; i < 2000; i += 2) {
		text[i] = '\xc3';
		text[i + 1] = '\xbc';
	}
	text[2000] = '\0';
	job_say(j, NULL, text);
	struct job_progress *progress = job_take_progress(j);
	size_t len = strlen(progress->text);
	assert_int_equal(len % 2, 0);
	assert_true(len > 1000 && len < sizeof progress->text);
	free(progress);
	job_free(j);
}

static void its_step_is_a_workflows_before_what_it_says_before_what_it_had(void **state)
{
	struct job *j = job();
	char step[JOB_STEP_MAX];
	(void)state;
	assert_string_equal(job_step(j, step), "old");
	job_say(j, "said", NULL);
	assert_string_equal(job_step(j, step), "said");
	job_at_step(j, &(struct step_end){.side = STEP_SIDE_RUN, .name = "charge"});
	assert_string_equal(job_step(j, step), "charge");
	job_say(j, "said again", NULL);
	assert_string_equal(job_step(j, step), "charge");
	job_free(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_keeps_its_own_copy_of_the_claim),
		cmocka_unit_test(progress_is_told_once_with_the_last_words),
		cmocka_unit_test(what_was_told_is_not_forgotten_when_only_the_step_changes),
		cmocka_unit_test(long_progress_is_cut_between_characters),
		cmocka_unit_test(its_step_is_a_workflows_before_what_it_says_before_what_it_had),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* wake_test.c: a wake-up reaches idle workers, once, on both engines. */
#include "worker/queue.h"

#include "worker/source_test.h"
#include "worker/wake.h"

#include <poll.h>

static struct wake *listening(struct bench *b)
{
	struct wake *w = wake_open(b->rig.url);
	wake_listen(w, b->two);
	return w;
}

static bool arrives(struct wake *w, struct store *s, int limit_ms)
{
	struct pollfd p = {.fd = wake_fd(w, s), .events = POLLIN};
	assert_true(p.fd >= 0);
	return poll(&p, 1, limit_ms) == 1 && wake_taken(w, s);
}

/* The file beside the database is not the rig's. */
static void done(struct bench *b, struct wake *w)
{
	char path[128];
	wake_close(w);
	snprintf(path, sizeof path, "%s/test.db.defib-wake", b->rig.place.folder);
	unlink(path);
}

static void without_a_word_nothing_is_taken(void **state)
{
	struct bench *b = bench_of(state);
	struct wake *w = listening(b);
	assert_false(wake_taken(w, b->two));
	done(b, w);
}

static void a_word_makes_the_descriptor_readable(void **state)
{
	struct bench *b = bench_of(state);
	struct wake *w = listening(b);
	wake_send(b->rig.other, b->rig.url);
	assert_true(arrives(w, b->two, TEST_HANGS_MS));
	done(b, w);
}

static void a_word_is_taken_once(void **state)
{
	struct bench *b = bench_of(state);
	struct wake *w = listening(b);
	wake_send(b->rig.other, b->rig.url);
	assert_true(arrives(w, b->two, TEST_HANGS_MS));
	assert_false(wake_taken(w, b->two));
	assert_false(arrives(w, b->two, 0));
	wake_send(b->rig.other, b->rig.url);
	assert_true(arrives(w, b->two, TEST_HANGS_MS));
	done(b, w);
}

static void every_listener_hears_it(void **state)
{
	struct bench *b = bench_of(state);
	struct wake *w = listening(b), *v = wake_open(b->rig.url);
	struct store *third = open_with((struct store_options){.url = b->rig.url});
	wake_listen(v, third);
	wake_send(b->rig.other, b->rig.url);
	assert_true(arrives(w, b->two, TEST_HANGS_MS));
	assert_true(arrives(v, third, TEST_HANGS_MS));
	store_close(third);
	wake_close(v);
	done(b, w);
}

static void without_a_session_there_is_nothing_to_take(void **state)
{
	struct bench *b = bench_of(state);
	struct wake *w = wake_open(b->rig.url);
	assert_false(wake_taken(w, NULL));
	if (b->rig.engine == STORE_POSTGRES)
		assert_int_equal(wake_fd(w, NULL), -1);
	done(b, w);
}

/* As when all files of a database are moved away, and others put in their place. */
static void a_file_that_was_removed_is_made_again_with_the_next_session(void **state)
{
	struct bench *b = bench_of(state);
	struct wake *w = listening(b);
	char path[128];
	snprintf(path, sizeof path, "%s/test.db.defib-wake", b->rig.place.folder);
	unlink(path);
	wake_listen(w, b->two);
	(void)wake_taken(w, b->two);
	wake_send(b->rig.other, b->rig.url);
	assert_true(arrives(w, b->two, TEST_HANGS_MS));
	done(b, w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(without_a_word_nothing_is_taken),
		BOTH(a_word_makes_the_descriptor_readable),
		BOTH(a_word_is_taken_once),
		BOTH(every_listener_hears_it),
		BOTH(without_a_session_there_is_nothing_to_take),
		BOTH(a_file_that_was_removed_is_made_again_with_the_next_session),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

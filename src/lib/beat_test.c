/* SPDX-License-Identifier: Apache-2.0
 * Heartbeats of a job in the caller's own table: the first at once, more from a thread, retries
 * after a failure, and the end when the row is no longer ours.
 */
#include "recover/recover_test.h"

#include <poll.h>
#include <stdatomic.h>

static void prepare(struct rig *g)
{
	rig_sql(g, "CREATE TABLE jobs (id INTEGER PRIMARY KEY, owner TEXT, beats INTEGER)");
	rig_sql(g, "INSERT INTO jobs VALUES (7, 'me', 0)");
}

RIG(prepare)

static const char *const mine[] = {"7", "me"};

static defib_beat_options quick(struct rig *g)
{
	defib_beat_options o = DEFIB_BEAT_OPTIONS_INIT;
	o.url = g->url;
	o.statement = "UPDATE jobs SET beats = beats + 1 WHERE id = $1 AND owner = $2";
	o.params = mine;
	o.nparams = 2;
	o.every_ms = 10;
	o.retry_ms = 10;
	return o;
}

static int64_t beats(struct rig *g)
{
	return number(g->other, "SELECT beats FROM jobs");
}

static void it_beats_at_once_and_until_it_is_stopped(void **state)
{
	struct rig *g = *state;
	defib_beat_options o = quick(g);
	defib_beat *beat = NULL;
	defib_message m;
	assert_int_equal(defib_beat_start(&o, &beat, &m), DEFIB_OK);
	assert_true(beats(g) >= 1);
	EVENTUALLY(beats(g) >= 4);
	defib_beat_stop(beat);
	int64_t last = beats(g);
	poll(NULL, 0, 50);
	assert_int_equal(beats(g), last);
}

struct heard {
	atomic_int n, err;
};

static void hear(void *ctx, defib_err err, const defib_message *message)
{
	struct heard *h = ctx;
	assert_true(message->what[0] != '\0');
	atomic_store(&h->err, (int)err);
	atomic_fetch_add(&h->n, 1);
}

static void it_ends_when_the_row_has_another_owner(void **state)
{
	struct rig *g = *state;
	defib_beat_options o = quick(g);
	struct heard heard = {0};
	defib_beat *beat = NULL;
	defib_message m;
	o.failed = hear;
	o.ctx = &heard;
	assert_int_equal(defib_beat_start(&o, &beat, &m), DEFIB_OK);
	rig_sql(g, "UPDATE jobs SET owner = 'other'");
	EVENTUALLY(atomic_load(&heard.n));
	poll(NULL, 0, 50);
	assert_int_equal(atomic_load(&heard.n), 1);
	assert_int_equal(atomic_load(&heard.err), DEFIB_LEASE_LOST);
	defib_beat_stop(beat);
}

static void it_goes_on_after_a_failure_that_passes(void **state)
{
	struct rig *g = *state;
	defib_beat_options o = quick(g);
	struct heard heard = {0};
	defib_beat *beat = NULL;
	defib_message m;
	o.failed = hear;
	o.ctx = &heard;
	o.tries = 2;
	assert_int_equal(defib_beat_start(&o, &beat, &m), DEFIB_OK);
	rig_sql(g, "ALTER TABLE jobs RENAME TO away");
	EVENTUALLY(atomic_load(&heard.n));
	assert_int_not_equal(atomic_load(&heard.err), DEFIB_LEASE_LOST);
	rig_sql(g, "ALTER TABLE away RENAME TO jobs");
	int64_t before = beats(g);
	EVENTUALLY(beats(g) > before);
	defib_beat_stop(beat);
}

static void what_cannot_beat_is_refused_at_once(void **state)
{
	struct rig *g = *state;
	defib_beat_options o = quick(g);
	defib_beat *beat = NULL;
	defib_message m;
	o.statement = "UPDATE nothing SET x = 1";
	o.nparams = 0;
	assert_int_equal(defib_beat_start(&o, &beat, &m), DEFIB_BAD_SQL);
	assert_null(beat);
	o.statement = NULL;
	assert_int_equal(defib_beat_start(&o, &beat, &m), DEFIB_USAGE);
	o = quick(g);
	rig_sql(g, "UPDATE jobs SET owner = 'other'");
	assert_int_equal(defib_beat_start(&o, &beat, &m), DEFIB_LEASE_LOST);
	defib_beat_stop(NULL);
}

/* A file in the place of the database, which is what a restore is. */
static void it_beats_in_the_file_that_is_there(void **state)
{
	struct rig *g = *state;
	const char *path = g->url + strlen("sqlite:");
	defib_beat_options o = quick(g);
	struct store_options there = {.url = g->url};
	AUTO_STORE now = NULL;
	AUTO_BUF sql = BUF_INIT, other = BUF_INIT;
	defib_beat *beat = NULL;
	defib_message m;
	buf_addf(&other, "%s.other", path);
	buf_addf(&sql, "VACUUM INTO '%s'", buf_text(&other));
	rig_sql(g, buf_text(&sql));
	assert_int_equal(defib_beat_start(&o, &beat, &m), DEFIB_OK);
	assert_int_equal(rename(buf_text(&other), path), 0);
	buf_clear(&other);
	buf_addf(&other, "%s-wal", path);
	assert_int_equal(unlink(buf_text(&other)), 0);
	buf_clear(&other);
	buf_addf(&other, "%s-shm", path);
	assert_int_equal(unlink(buf_text(&other)), 0);
	assert_int_equal(store_open(&there, &now, NULL), DEFIB_OK);
	EVENTUALLY(number(now, "SELECT beats FROM jobs") >= 4);
	defib_beat_stop(beat);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(it_beats_at_once_and_until_it_is_stopped),
		BOTH(it_ends_when_the_row_has_another_owner),
		BOTH(it_goes_on_after_a_failure_that_passes),
		BOTH(what_cannot_beat_is_refused_at_once),
		ON_SQLITE(it_beats_in_the_file_that_is_there),
	};
	return cmocka_run_group_tests_name("lib/beat", tests, NULL, NULL);
}

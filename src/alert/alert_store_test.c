/* SPDX-License-Identifier: Apache-2.0
 * alert_store_test.c: a message is taken by one sender at a time, in the order of its topic, and is
 * offered again until its end is recorded; a change of state and its messages are one transaction.
 */
#include "alert/alert_store.h"

#include "watch/queue_test.h"

#define S INT64_C(1000000)

static void put(struct store *s, const char *sink, const char *id, const char *topic)
{
	struct outgoing one = {
		.sink = sink, .kind = "alert", .id = id, .document = "{\"text\": \"x\"}", .topic = topic};
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	if (store_begin(s, TX_WRITE, &f) || outbox_put(s, &one, 1, &a, &f) || store_commit(s, &f))
		fail_msg("%s", f.what);
	arena_release(&a);
}

/* The id that is taken, or NULL. */
static const char *take(struct store *s, const char *sink, struct arena *a, struct delivery *d)
{
	struct failure f = {0};
	bool got = false;
	if (outbox_take(s, sink, 60 * S, a, d, &got, &f))
		fail_msg("%s", f.what);
	return got ? d->id : NULL;
}

static void a_message_is_taken_once_and_in_order(void **state)
{
	const struct tables *t = tables_of(state);
	struct arena a = ARENA_INIT;
	struct delivery d;
	put(t->store, "chat", "1", NULL);
	put(t->store, "chat", "2", NULL);
	put(t->store, "pager", "1", NULL);
	assert_string_equal(take(t->store, "chat", &a, &d), "1");
	assert_int_equal(d.tries, 1);
	assert_string_equal(d.kind, "alert");
	assert_string_equal(take(t->store, "chat", &a, &d), "2");
	assert_null(take(t->store, "chat", &a, &d));
	assert_string_equal(take(t->store, "pager", &a, &d), "1");
	arena_release(&a);
}

static void a_message_that_is_put_in_again_is_ignored(void **state)
{
	const struct tables *t = tables_of(state);
	struct arena a = ARENA_INIT;
	struct delivery d;
	struct failure f = {0};
	put(t->store, "chat", "1", NULL);
	put(t->store, "chat", "1", NULL);
	assert_non_null(take(t->store, "chat", &a, &d));
	assert_int_equal(outbox_end(t->store, &d, "sent", "HTTP 200", &f), DEFIB_OK);
	put(t->store, "chat", "1", NULL);
	assert_null(take(t->store, "chat", &a, &d));
	arena_release(&a);
}

static void messages_of_a_topic_keep_their_order_while_the_first_waits(void **state)
{
	const struct tables *t = tables_of(state);
	struct arena a = ARENA_INIT;
	struct delivery d;
	struct failure f = {0};
	put(t->store, "chat", "fired", "a");
	put(t->store, "chat", "over", "a");
	put(t->store, "chat", "other", "b");
	assert_string_equal(take(t->store, "chat", &a, &d), "fired");
	assert_int_equal(outbox_again(t->store, &d, 3600 * S, "HTTP 500", &f), DEFIB_OK);
	struct delivery other;
	assert_string_equal(take(t->store, "chat", &a, &other), "other");
	assert_null(take(t->store, "chat", &a, &other));
	assert_int_equal(outbox_end(t->store, &d, "sent", "HTTP 200", &f), DEFIB_OK);
	assert_string_equal(take(t->store, "chat", &a, &other), "over");
	arena_release(&a);
}

static void what_is_not_ended_comes_again_and_who_is_late_changes_nothing(void **state)
{
	const struct tables *t = tables_of(state);
	struct arena a = ARENA_INIT;
	struct delivery first, second;
	struct delivery_row *rows;
	struct failure f = {0};
	int n = 0;
	put(t->store, "chat", "1", NULL);
	assert_non_null(take(t->store, "chat", &a, &first));
	assert_int_equal(outbox_again(t->store, &first, 0, "no answer", &f), DEFIB_OK);
	assert_non_null(take(t->store, "chat", &a, &second));
	assert_int_equal(second.tries, 2);
	assert_int_equal(outbox_end(t->store, &first, "given up", "late", &f), DEFIB_OK);
	assert_int_equal(outbox_end(t->store, &second, "sent", "HTTP 200", &f), DEFIB_OK);
	assert_int_equal(outbox_read(t->store, 10, &a, &rows, &n, &f), DEFIB_OK);
	assert_int_equal(n, 1);
	assert_string_equal(rows[0].ended, "sent");
	assert_string_equal(rows[0].answer, "HTTP 200");
	assert_int_equal(rows[0].tries, 2);
	arena_release(&a);
}

static void lines_say_what_waits_and_for_how_long(void **state)
{
	const struct tables *t = tables_of(state);
	struct arena a = ARENA_INIT;
	struct outbox_line *lines;
	struct delivery d;
	struct failure f = {0};
	int n = 0;
	put(t->store, "chat", "1", NULL);
	put(t->store, "chat", "2", NULL);
	assert_int_equal(outbox_lines(t->store, &a, &lines, &n, &f), DEFIB_OK);
	assert_int_equal(n, 1);
	assert_int_equal(lines[0].waiting, 2);
	assert_true(lines[0].due_us <= 0);
	assert_non_null(take(t->store, "chat", &a, &d));
	assert_non_null(take(t->store, "chat", &a, &d));
	assert_int_equal(outbox_lines(t->store, &a, &lines, &n, &f), DEFIB_OK);
	assert_true(lines[0].due_us > 0 && lines[0].due_us <= 60 * S);
	arena_release(&a);
}

static void waits_grow_to_their_ceiling_and_are_spread(void **state)
{
	(void)state;
	assert_true(outbox_wait_us(1, 1) <= 3 * S);
	assert_true(outbox_wait_us(1, 0) < outbox_wait_us(1, 1));
	for (int64_t tries = 1; tries < 1000; tries++) {
		assert_true(outbox_wait_us(tries, 1) <= OUTBOX_WAIT_MAX_US + S);
		assert_true(outbox_wait_us(tries, 1) <= outbox_wait_us(tries + 1, 1));
	}
	assert_true(outbox_wait_us(50, 1) >= OUTBOX_WAIT_MAX_US);
}

static void clearing_gives_up_what_nobody_sends_and_forgets_what_is_long_over(void **state)
{
	const struct tables *t = tables_of(state);
	struct arena a = ARENA_INIT;
	struct delivery_row *rows;
	struct failure f = {0};
	bool pg = t->engine == STORE_POSTGRES;
	int n = 0;
	put(t->store, "gone", "old", NULL);
	put(t->store, "gone", "over", NULL);
	tables_script(t->store,
	              pg ? "UPDATE defib.delivery SET made_at = now() - interval '2 days' WHERE id = "
	                   "'old'; UPDATE defib.delivery SET ended = 'sent', ended_at = now() - "
	                   "interval '31 days' WHERE id = 'over'"
	                 : "UPDATE defib_delivery SET made_at = made_at - 172800000 WHERE id = 'old'; "
	                   "UPDATE defib_delivery SET ended = 'sent', ended_at = made_at - 2678400000 "
	                   "WHERE id = 'over'");
	put(t->store, "gone", "new", NULL);
	assert_int_equal(outbox_tidy(t->store, &f), DEFIB_OK);
	assert_int_equal(outbox_read(t->store, 10, &a, &rows, &n, &f), DEFIB_OK);
	assert_int_equal(n, 2);
	assert_string_equal(rows[0].id, "new");
	assert_null(rows[0].ended);
	assert_string_equal(rows[1].ended, "given up");
	assert_string_equal(rows[1].answer, "no daemon has this sink");
	arena_release(&a);
}

/* ---- states ---- */

static struct alert_row row(enum alert_state state, int64_t at_us)
{
	return (struct alert_row){.watch = "pages",
	                          .rule = "stuck_warning",
	                          .alert = {.state = state,
	                                    .since_us = at_us,
	                                    .fired_us = at_us,
	                                    .notified_us = at_us,
	                                    .value = 12.5},
	                          .sentence = "12 jobs",
	                          .topic = "t",
	                          .holder = "anna"};
}

static bool write_state(struct store *s, struct alert_row after, struct alert before,
                        const char *message)
{
	struct outgoing out = {.sink = "chat", .kind = "alert", .id = message, .document = "{}"};
	struct alert_write w = {after, before};
	struct failure f = {0};
	bool taken = false;
	if (states_write(s, &w, 1, &out, 1, &taken, &f))
		fail_msg("%s", f.what);
	return taken;
}

static void a_state_is_read_back_as_it_was_written(void **state)
{
	const struct tables *t = tables_of(state);
	struct arena a = ARENA_INIT;
	struct alert_row *rows;
	struct failure f = {0};
	int64_t now = 0, at = 1700000000123000;
	int n = 0;
	assert_int_equal(states_read(t->store, &a, &rows, &n, &now, &f), DEFIB_OK);
	assert_int_equal(n, 0);
	assert_true(now > at);
	assert_true(write_state(t->store, row(STATE_FIRING, at), (struct alert){0}, "1"));
	assert_int_equal(states_read(t->store, &a, &rows, &n, &now, &f), DEFIB_OK);
	assert_int_equal(n, 1);
	assert_string_equal(rows[0].rule, "stuck_warning");
	assert_int_equal(rows[0].alert.state, STATE_FIRING);
	assert_int_equal(rows[0].alert.since_us, at);
	assert_int_equal(rows[0].alert.fired_us, at);
	assert_float_equal(rows[0].alert.value, 12.5, 0);
	arena_release(&a);
}

static void of_two_that_believe_to_lead_one_tells(void **state)
{
	const struct tables *t = tables_of(state);
	struct alert_row fired = row(STATE_FIRING, 1700000000123000);
	assert_true(write_state(t->store, fired, (struct alert){0}, "anna"));
	fired.alert.since_us += 5000;
	assert_false(write_state(t->store, fired, (struct alert){0}, "bert"));
	assert_int_equal(number(t->store, t->engine == STORE_POSTGRES
	                                      ? "SELECT count(*) FROM defib.delivery"
	                                      : "SELECT count(*) FROM defib_delivery"),
	                 1);
}

static void who_knows_the_state_may_change_it(void **state)
{
	const struct tables *t = tables_of(state);
	struct alert_row fired = row(STATE_FIRING, 1700000000123000);
	struct alert_row over = row(STATE_RESOLVED, 1700000060123000);
	assert_true(write_state(t->store, fired, (struct alert){0}, "1"));
	assert_true(write_state(t->store, over, fired.alert, "2"));
	assert_false(write_state(t->store, over, fired.alert, "3"));
}

/* ---- the ledger ---- */

static double happened_of(const struct happened *list, int n, enum alert_counter what)
{
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += list[i].what == what ? list[i].n : 0;
	return sum;
}

static void what_happened_is_counted_once_and_hands_are_left_out(void **state)
{
	const struct tables *t = tables_of(state);
	struct arena a = ARENA_INIT;
	struct happened *list;
	struct failure f = {0};
	int64_t cursor = 0;
	int n = 0;
	bool more;
	/*
	 * Found 10 s after the exit of its worker, whose lease is still valid; 30 s after its deadline.
	 */
	/* The last is a saga that rolls back because a step failed: it was not found stuck. */
	struct buf sql = BUF_INIT;
	buf_addf(&sql,
	         "INSERT INTO %s (id, batch, watch, job, event, actor, verdict, rule, evidence) VALUES "
	         "(1, 'b', 'w', '1', 'REQUEUED', 'd', 'silent', 'r', '{\"now\": "
	         "\"2026-01-02T03:05:15.000Z\", \"lost_at\": \"2026-01-02T03:05:05.000Z\", "
	         "\"expires_at\": \"2026-01-02T03:09:00.000Z\"}'), (2, 'b', 'w', '2', 'HELD', 'd', "
	         "'silent', 'r', '{\"now\": \"2026-01-02T03:05:15.000Z\", \"expires_at\": "
	         "\"2026-01-02T03:04:45.000Z\"}'), (3, 'b', 'w', '3', 'REQUEUED', 'd', "
	         "'silent', 'chosen-by-hand', NULL), (4, 'b', 'w', '2', 'RETRIES_EXHAUSTED', 'd', "
	         "'silent', 'r', '{\"now\": \"x\"}'), (5, 'b', 'w', '4', 'ROLLBACK_STARTED', "
	         "'d', 'dead', 'r', NULL), (6, 'b', 'w', '4', 'ROLLED_BACK', 'd', NULL, NULL, NULL), "
	         "(7, 'b', 'w', '5', 'ROLLBACK_STARTED', 'd', NULL, NULL, NULL)",
	         t->engine == STORE_POSTGRES ? "defib.ledger" : "defib_ledger");
	tables_script(t->store, buf_text(&sql));
	buf_release(&sql);
	assert_int_equal(happened_read(t->store, &cursor, &a, &list, &n, &more, &f), DEFIB_OK);
	assert_int_equal(cursor, 7);
	assert_false(more);
	assert_float_equal(happened_of(list, n, COUNT_RECOVERED), 2, 0);
	assert_float_equal(happened_of(list, n, COUNT_DETECTED), 3, 0);
	assert_float_equal(happened_of(list, n, COUNT_FOUND), 2, 0);
	assert_float_equal(happened_of(list, n, COUNT_FOUND_S), 40, 0.01);
	assert_float_equal(happened_of(list, n, COUNT_EXHAUSTED), 1, 0);
	assert_int_equal(happened_read(t->store, &cursor, &a, &list, &n, &more, &f), DEFIB_OK);
	assert_int_equal(n, 0);
	arena_release(&a);
}

#define BOTH(f) ON_POSTGRES(f), ON_SQLITE(f)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(a_message_is_taken_once_and_in_order),
		BOTH(a_message_that_is_put_in_again_is_ignored),
		BOTH(messages_of_a_topic_keep_their_order_while_the_first_waits),
		BOTH(what_is_not_ended_comes_again_and_who_is_late_changes_nothing),
		BOTH(lines_say_what_waits_and_for_how_long),
		cmocka_unit_test(waits_grow_to_their_ceiling_and_are_spread),
		BOTH(clearing_gives_up_what_nobody_sends_and_forgets_what_is_long_over),
		BOTH(a_state_is_read_back_as_it_was_written),
		BOTH(of_two_that_believe_to_lead_one_tells),
		BOTH(who_knows_the_state_may_change_it),
		BOTH(what_happened_is_counted_once_and_hands_are_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* run_lines_test.c: jobs and lines between a worker and the program beside it, over a socket. */
#include "worker/lines.h"

#include "base/clock.h"
#include "base/test.h"
#include "worker/run_lines.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct worker_pool pool = {.lines = true, .grace_ms = 500};

/* What the callbacks saw. */
struct seen {
	struct job *ended[8];
	int nended, on_progress, stops, stuck;
};

struct bench {
	struct lines *lines;
	int client; /* the other end */
	struct seen seen;
	struct buf heard; /* what the client has read */
	struct job *jobs[8];
	int njobs;
};

static void on_ended(void *ctx, struct job *j)
{
	struct seen *s = ctx;
	s->ended[s->nended++] = j;
}

static void on_said(void *ctx)
{
	((struct seen *)ctx)->on_progress++;
}

static void on_stop(void *ctx)
{
	((struct seen *)ctx)->stops++;
}

static void on_stuck(void *ctx, const struct job *j, int64_t asked_ms_ago)
{
	(void)j;
	assert_int_equal(asked_ms_ago, 500);
	((struct seen *)ctx)->stuck++;
}

static void on_began(void *ctx)
{
	(void)ctx;
}

static void open_bench(struct bench *b, int64_t client_timeout_ms)
{
	int fds[2];
	struct failure f = {0};
	*b = (struct bench){0};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	b->client = fds[1];
	struct lines_options o = {.in = fds[0],
	                          .out = dup(fds[0]), /* two descriptors, as 0 and 1 are */
	                          .client_timeout_ms = client_timeout_ms,
	                          .ended = on_ended,
	                          .on_progress = on_said,
	                          .stop = on_stop,
	                          .stuck = on_stuck,
	                          .began = on_began,
	                          .ctx = &b->seen};
	assert_int_equal(lines_open(&o, &b->lines, &f), DEFIB_OK);
}

static void close_bench(struct bench *b)
{
	lines_close(b->lines);
	if (b->client >= 0)
		close(b->client);
	for (int i = 0; i < b->njobs; i++)
		job_free(b->jobs[i]);
	buf_release(&b->heard);
}

static struct job *give(struct bench *b, const char *key, int64_t timeout_ms)
{
	struct claimed claim = {.key = key, .epoch = 1, .timeout_ms = timeout_ms};
	struct job *j = job_new(0, 7, &claim);
	b->jobs[b->njobs++] = j;
	lines_add(b->lines, j, &pool);
	lines_go(b->lines);
	return j;
}

/* Read what is there; returns the text of everything that was read. */
static const char *hear(struct bench *b)
{
	char bytes[65536];
	ssize_t n;
	while ((n = recv(b->client, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
		buf_addn(&b->heard, bytes, (size_t)n);
	return buf_text(&b->heard);
}

/* The run in the last line about a job. */
static long long run_heard(struct bench *b)
{
	const char *at = hear(b), *last = NULL;
	while ((at = strstr(at, "\"run\":")) != NULL)
		last = at += strlen("\"run\":");
	assert_non_null(last);
	return strtoll(last, NULL, 10);
}

static void say(struct bench *b, const char *fmt, long long run)
{
	AUTO_BUF line = BUF_INIT;
	const char *at = strstr(fmt, "RUN");
	buf_addn(&line, fmt, at ? (size_t)(at - fmt) : strlen(fmt));
	if (at)
		buf_addf(&line, "%lld%s", run, at + strlen("RUN"));
	assert_int_equal(send(b->client, line.data, line.len, MSG_NOSIGNAL), line.len);
	lines_step(b->lines, clock_boot_ms());
}

/* A line of so many bytes. Its last part and what follows are read at once. */
static void say_long(struct bench *b, size_t bytes, const char *after, long long run)
{
	char part[8192 + 1];
	AUTO_BUF last = BUF_INIT;
	memset(part, 'x', sizeof part);
	for (; bytes >= sizeof part; bytes -= sizeof part - 1) {
		assert_int_equal(send(b->client, part, sizeof part - 1, MSG_NOSIGNAL), sizeof part - 1);
		lines_step(b->lines, clock_boot_ms());
	}
	buf_addn(&last, part, bytes);
	buf_add(&last, after);
	say(b, buf_text(&last), run);
}

static int times_heard(struct bench *b, const char *what)
{
	int n = 0;
	for (const char *at = hear(b); (at = strstr(at, what)) != NULL; at++)
		n++;
	return n;
}

static void a_job_goes_out_and_comes_back_in_pieces(void **state)
{
	struct bench b;
	(void)state;
	open_bench(&b, 0);
	struct job *j = give(&b, "1", 0);
	long long run = run_heard(&b);
	assert_int_equal(lines_held(b.lines), 1);
	say(&b, "{\"do\":\"progress\",\"run\":RUN,\"te", run);
	assert_int_equal(b.seen.on_progress, 0);
	say(&b, "xt\":\"half\"}\n{\"do\":\"done\",\"ru", run);
	assert_int_equal(b.seen.on_progress, 1);
	say(&b, "n\":RUN,\"result\":[1]}\r\n\n", run);
	assert_int_equal(b.seen.nended, 1);
	assert_ptr_equal(b.seen.ended[0], j);
	assert_int_equal(j->as, SETTLE_DONE);
	assert_string_equal(j->result, "[1]");
	assert_int_equal(lines_held(b.lines), 0);
	say(&b, "{\"do\":\"failed\",\"run\":RUN}\n",
	    run); /* its place may be used again, its name not */
	assert_non_null(strstr(hear(&b), "has ended or never existed"));
	give(&b, "2", 0);
	assert_int_not_equal(run_heard(&b), run);
	say(&b, "{\"do\":\"failed\",\"run\":RUN}\n", run);
	assert_int_equal(b.seen.nended, 1);
	close_bench(&b);
}

static void a_line_that_is_too_long_is_refused_and_the_next_one_heard(void **state)
{
	static const struct {
		size_t bytes;
		bool refused;
	} lines[] = {{LINE_MAX_LEN, false}, {LINE_MAX_LEN + 1, true}, {3 * LINE_MAX_LEN, true}};
	struct bench b;
	(void)state;
	for (int i = 0; i < 3; i++) {
		open_bench(&b, 0);
		give(&b, "1", 0);
		long long run = run_heard(&b);
		say_long(&b, lines[i].bytes, "\n{\"do\":\"progress\",\"run\":RUN,\"text\":\"half\"}\n{",
		         run);
		assert_int_equal(times_heard(&b, "a line of more than"), lines[i].refused);
		assert_int_equal(b.seen.on_progress, 1);
		say(&b, "\"do\":\"done\",\"run\":RUN}\n", run);
		assert_int_equal(b.seen.nended, 1);
		close_bench(&b);
	}
}

static void only_stop_asks_the_worker_to_stop(void **state)
{
	struct bench b;
	(void)state;
	open_bench(&b, 0);
	give(&b, "1", 0);
	say(&b, "{\"do\":\"pong\"}\n", 0);
	say(&b, "{\"do\":\"done\",\"run\":RUN}\n", run_heard(&b));
	assert_int_equal(b.seen.stops, 0);
	say(&b, "{\"do\":\"stop\"}\n", 0);
	assert_int_equal(b.seen.stops, 1);
	close_bench(&b);
}

static void a_time_limit_can_be_extended_and_a_stop_is_said_once(void **state)
{
	struct bench b;
	(void)state;
	open_bench(&b, 0);
	int64_t before = clock_boot_ms();
	struct job *j = give(&b, "1", 1000);
	int64_t given = clock_boot_ms();
	long long run = run_heard(&b);
	assert_in_range(lines_look(b.lines, before, false, false), before + 1000, given + 1000);
	int64_t late = clock_boot_ms();
	say(&b, "{\"do\":\"extend\",\"run\":RUN,\"ms\":60000}\n", run);
	int64_t now = clock_boot_ms();
	lines_look(b.lines, late + 59999, false, false);
	assert_null(strstr(hear(&b), "\"stop\""));
	lines_look(b.lines, now + 60000, false, false);
	lines_look(b.lines, now + 60100, true, false);
	const char *at = strstr(hear(&b), "\"is\":\"stop\"");
	assert_non_null(at);
	assert_non_null(strstr(at, "\"because\":\"timeout\""));
	assert_null(strstr(at + 1, "\"is\":\"stop\""));
	assert_int_equal(b.seen.stuck, 0);
	lines_look(b.lines, now + 60500, false, false);
	lines_look(b.lines, now + 61000, true, false);
	assert_int_equal(b.seen.stuck, 1);
	say(&b, "{\"do\":\"failed\",\"run\":RUN}\n", run);
	assert_int_equal(j->as, SETTLE_TIMED_OUT);
	assert_string_equal(j->error, "over its time limit");
	close_bench(&b);
}

static void a_client_that_does_not_read_is_not_read_from(void **state)
{
	struct bench b;
	struct buf large = BUF_INIT;
	(void)state;
	open_bench(&b, 0);
	give(&b, "1", 0);
	long long run = run_heard(&b);
	buf_addch(&large, '"');
	for (int i = 0; i < 3 * 1024 * 1024; i++)
		buf_addch(&large, 'x');
	buf_addch(&large, '"');
	struct claimed claim = {.key = "2", .epoch = 1, .payload = buf_text(&large)};
	b.jobs[b.njobs++] = job_new(0, 7, &claim);
	lines_add(b.lines, b.jobs[1], &pool);
	lines_go(b.lines);
	lines_step(b.lines, clock_boot_ms());
	say(&b, "{\"do\":\"done\",\"run\":RUN}\n", run);
	lines_step(b.lines, clock_boot_ms());
	assert_int_equal(b.seen.nended, 0);
	for (int i = 0; i < 1000 && b.heard.len <= large.len; i++) {
		hear(&b);
		lines_step(b.lines, clock_boot_ms());
	}
	assert_int_equal(b.seen.nended, 1);
	assert_true(b.heard.len > large.len);
	buf_release(&large);
	close_bench(&b);
}

static void jobs_for_a_client_that_is_gone_are_released(void **state)
{
	struct bench b;
	(void)state;
	open_bench(&b, 0);
	give(&b, "1", 0);
	close(b.client);
	b.client = -1;
	assert_int_equal(lines_gone_ms(b.lines), 0);
	lines_step(b.lines, 4711);
	assert_int_equal(lines_gone_ms(b.lines), 4711);
	assert_int_equal(lines_held(b.lines), 1);
	struct job *late = give(&b, "2", 0);
	assert_int_equal(b.seen.nended, 1);
	assert_ptr_equal(b.seen.ended[0], late);
	assert_int_equal(late->as, SETTLE_RELEASED);
	close_bench(&b);
}

static void a_ping_without_an_answer_ends_it_but_not_a_pause_of_our_own(void **state)
{
	struct bench b;
	int64_t now = clock_boot_ms();
	(void)state;
	open_bench(&b, 4000);
	lines_look(b.lines, now, false, false);
	lines_look(b.lines, now + 1000, false, false);
	assert_null(strstr(hear(&b), "ping")); /* it has no jobs */
	give(&b, "1", 0);
	lines_look(b.lines, now + 2000, false, false);
	assert_non_null(strstr(hear(&b), "ping"));
	lines_look(b.lines, now + 60000, false, false); /* we were stopped, and so may it have been */
	assert_int_equal(lines_gone_ms(b.lines), 0);
	lines_look(b.lines, now + 62000, false, false);
	assert_int_equal(lines_gone_ms(b.lines), 0);
	lines_look(b.lines, now + 63000, false, false);
	assert_int_equal(lines_gone_ms(b.lines), now + 63000);
	close_bench(&b);
}

static void only_pipes_can_be_lines(void **state)
{
	struct lines *l = NULL;
	struct failure f = {0};
	FILE *file = tmpfile();
	struct lines_options o = {.in = fileno(file), .out = fileno(file)};
	(void)state;
	assert_int_equal(lines_open(&o, &l, &f), DEFIB_USAGE);
	lines_close(l);
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_goes_out_and_comes_back_in_pieces),
		cmocka_unit_test(a_line_that_is_too_long_is_refused_and_the_next_one_heard),
		cmocka_unit_test(only_stop_asks_the_worker_to_stop),
		cmocka_unit_test(a_time_limit_can_be_extended_and_a_stop_is_said_once),
		cmocka_unit_test(a_client_that_does_not_read_is_not_read_from),
		cmocka_unit_test(jobs_for_a_client_that_is_gone_are_released),
		cmocka_unit_test(a_ping_without_an_answer_ends_it_but_not_a_pause_of_our_own),
		cmocka_unit_test(only_pipes_can_be_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

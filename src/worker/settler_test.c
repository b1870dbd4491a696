/*
 * settler_test.c: how ends of jobs are recorded when the database fails: tries,
 * the spool, its order, the alert. The database is a source that answers by a
 * plan.
 */
#include "base/clock.h"
#include "base/test.h"
#include "base/text.h"
#include "worker/settler.h"

#include <assert.h>
#include <fcntl.h>
#include <ftw.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIMIT_MS 60000
#define SEEN_MAX 64

/* What the source was asked to settle, and how it answers. */
static struct {
	pthread_mutex_t lock;
	defib_err plan[16]; /* answers of the first calls; then `after` */
	int nplan, calls;
	defib_err after;
	bool refuses;
	const char *sick;          /* the key of a job that fails as if the database were away */
	const char *barred;        /* the key of a job that its table does not take as done */
	bool barred_wholly;        /* nor as failed */
	const struct source *shut; /* refuses all */
	sem_t *gate;               /* waited for in the first call */
	struct {
		int call;
		int64_t worker, epoch, delay_ms;
		enum settle_as as;
		char key[16], result[32], error[32];
	} seen[SEEN_MAX]; /* of calls that succeeded */
	int nseen;
} base;

static char folder[64], spool[96], url[128];
static struct hand hand;
static struct settler *settler;
static sem_t left; /* posted for each job that leaves the hand */

static void note(const struct settlement *s, int64_t worker)
{
	assert(base.nseen < SEEN_MAX);
	int i = base.nseen++;
	base.seen[i].call = base.calls;
	base.seen[i].worker = worker;
	base.seen[i].epoch = s->epoch;
	base.seen[i].delay_ms = s->delay_ms;
	base.seen[i].as = s->as;
	snprintf(base.seen[i].key, sizeof base.seen[i].key, "%s", s->key);
	snprintf(base.seen[i].result, sizeof base.seen[i].result, "%s", s->result ? s->result : "-");
	snprintf(base.seen[i].error, sizeof base.seen[i].error, "%s", s->error ? s->error : "-");
}

static defib_err settle(struct source *src, struct store *s, int64_t worker, struct settlement *all,
                        int n, struct arena *a, struct failure *f)
{
	(void)s, (void)a;
	if (base.gate) {
		sem_wait(base.gate);
		base.gate = NULL;
	}
	pthread_mutex_lock(&base.lock);
	defib_err err = base.calls < base.nplan ? base.plan[base.calls] : base.after;
	base.calls++;
	if (base.shut == src)
		err = DEFIB_PERMISSION;
	for (int i = 0; i < n; i++)
		if (base.sick && text_eq(base.sick, all[i].key))
			err = DEFIB_CONNECTION;
	for (int i = 0; i < n && !err; i++)
		if (text_eq(base.barred, all[i].key) && (all[i].as == SETTLE_DONE || base.barred_wholly))
			err = DEFIB_CONSTRAINT;
	for (int i = 0; i < n && !err; i++) {
		note(&all[i], worker);
		all[i].accepted = !base.refuses;
	}
	pthread_mutex_unlock(&base.lock);
	return err ? fail(f, err, "the plan says so") : DEFIB_OK;
}

static const struct source_ops ops = {.settle = settle};
static struct source mail = {.ops = &ops, .name = "mail", .keys = "mail"};
static struct source rooms = {.ops = &ops, .name = "rooms", .keys = "rooms"};
static struct source *sources[] = {&mail, &rooms};

/* ---- one settler a test ---- */

static void on_settled(void *ctx, const struct hand_job *j)
{
	(void)ctx, (void)j;
	sem_post(&left);
}

static void start(bool with_spool)
{
	struct failure f = {0};
	struct settler_options o = {
		.store = {.url = url, .name = "main", .create = true},
		.hand = &hand,
		.sources = sources,
		.nsources = 2,
		.spool = with_spool ? spool : NULL,
		.tries = 3,
		.try_ms = 2,
		.settled = on_settled,
	};
	if (settler_start(&o, &settler, &f))
		fail_msg("%s", f.what);
}

static int setup(void **state)
{
	(void)state;
	memset(&base, 0, sizeof base);
	pthread_mutex_init(&base.lock, NULL);
	sem_init(&left, 0, 0);
	hand_init(&hand);
	settler = NULL;
	snprintf(folder, sizeof folder, "/tmp/defib-settler-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(spool, sizeof spool, "%s/spool", folder);
	snprintf(url, sizeof url, "sqlite:%s/test.db", folder);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	settler_stop(settler, 0);
	hand_release(&hand);
	sem_destroy(&left);
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void ends(struct source *src, const char *key, int64_t worker, enum settle_as as)
{
	struct hand_job *j = hand_add(&hand, src, 0, worker, &(struct claimed){.key = key, .epoch = 3});
	j->as = as;
	if (as == SETTLE_DONE)
		j->result = mem_strdup("{\"n\":1}");
	else
		j->error = mem_strdup("it broke");
	settler_add(settler, j);
}

static void wait_left(int n)
{
	for (int i = 0; i < n; i++) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += LIMIT_MS / 1000;
		if (sem_timedwait(&left, &until) != 0)
			fail_msg("a job did not leave the hand");
	}
}

static struct settler_counts counts(void)
{
	struct settler_counts c;
	settler_counts(settler, &c);
	return c;
}

static void wait_drained(int64_t n)
{
	int64_t end = clock_boot_ms() + LIMIT_MS;
	while (counts().drained < n) {
		if (clock_boot_ms() > end)
			fail_msg("the spool was not drained");
		usleep(2000);
	}
}

static void wait_aside(int64_t n)
{
	for (int64_t end = clock_boot_ms() + LIMIT_MS; counts().set_aside != n; usleep(2000))
		assert_true(clock_boot_ms() < end);
}

static void answers(int n, const defib_err *plan, defib_err after)
{
	pthread_mutex_lock(&base.lock);
	base.calls = 0;
	base.nplan = n;
	for (int i = 0; i < n; i++)
		base.plan[i] = plan[i];
	base.after = after;
	pthread_mutex_unlock(&base.lock);
}

/* Keys in the order in which the database took them. */
static void assert_took(const char *keys)
{
	struct buf text = BUF_INIT;
	pthread_mutex_lock(&base.lock);
	for (int i = 0; i < base.nseen; i++)
		buf_add(&text, base.seen[i].key);
	pthread_mutex_unlock(&base.lock);
	assert_string_equal(buf_text(&text), keys);
	buf_release(&text);
}

/* What is logged from here on. */
static int log_fd = -1, stderr_fd = -1;

static void catch_log(void)
{
	char path[128];
	snprintf(path, sizeof path, "%s/log", folder);
	stderr_fd = dup(2);
	log_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	dup2(log_fd, 2);
}

static const char *caught_log(void)
{
	static char text[8192];
	dup2(stderr_fd, 2);
	close(stderr_fd);
	ssize_t n = pread(log_fd, text, sizeof text - 1, 0);
	close(log_fd);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* ---- the database answers ---- */

static void an_end_is_recorded_and_the_job_leaves_the_hand(void **state)
{
	(void)state;
	start(false);
	ends(&mail, "a", 7, SETTLE_DONE);
	wait_left(1);
	settler_stop(settler, 1000);
	settler = NULL;
	assert_took("a");
	assert_int_equal(base.seen[0].worker, 7);
	assert_int_equal(base.seen[0].epoch, 3);
	assert_string_equal(base.seen[0].result, "{\"n\":1}");
	assert_int_equal(hand_count(&hand), 0);
}

static void ends_that_waited_go_in_one_batch_a_source_and_incarnation(void **state)
{
	sem_t gate;
	(void)state;
	sem_init(&gate, 0, 0);
	base.gate = &gate;
	start(false);
	ends(&mail, "a", 7, SETTLE_DONE);
	/* The first may or may not have been taken when these come: they go behind it. */
	ends(&rooms, "b", 7, SETTLE_DONE);
	ends(&mail, "c", 8, SETTLE_DONE);
	ends(&rooms, "d", 7, SETTLE_FAILED);
	sem_post(&gate);
	wait_left(4);
	assert_took("abdc");
	assert_int_equal(base.seen[1].call, base.seen[2].call);
	assert_int_equal(base.calls, 3);
	assert_int_equal(base.seen[3].worker, 8);
	sem_destroy(&gate);
}

static void an_end_that_is_refused_is_counted_and_said(void **state)
{
	(void)state;
	base.refuses = true;
	catch_log();
	start(true);
	ends(&mail, "a", 7, SETTLE_DONE);
	wait_left(1);
	assert_non_null(strstr(caught_log(), "LEASE_LOST"));
	assert_int_equal(counts().refused, 1);
	assert_int_equal(counts().settled + counts().spooled + counts().abandoned, 0);
}

/* ---- it does not ---- */

static void failures_that_may_pass_are_tried_again(void **state)
{
	static const defib_err plan[] = {DEFIB_CONNECTION, DEFIB_LOCKED};
	(void)state;
	answers(2, plan, DEFIB_OK);
	start(true);
	ends(&mail, "a", 7, SETTLE_DONE);
	wait_left(1);
	assert_took("a");
	assert_int_equal(base.calls, 3);
	assert_int_equal(counts().settled, 1);
	assert_int_equal(counts().failures, 2);
	assert_int_equal(counts().spooled, 0);
}

static void each_class_is_tried_again_or_not(void **state)
{
	static const struct {
		defib_err err;
		int calls;
	} cases[] = {
		{DEFIB_CONNECTION, 3}, {DEFIB_UNKNOWN_OUTCOME, 3},
		{DEFIB_TIMEOUT, 3},    {DEFIB_LOCKED, 3},
		{DEFIB_FULL, 3},       {DEFIB_READ_ONLY, 3},
		{DEFIB_BAD_SQL, 1},    {DEFIB_CONSTRAINT, 2}, /* as failed, too */
		{DEFIB_PERMISSION, 1},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		answers(0, NULL, cases[i].err);
		start(false);
		catch_log();
		ends(&mail, "a", 7, SETTLE_DONE);
		wait_left(1);
		(void)caught_log();
		assert_int_equal(base.calls, cases[i].calls);
		assert_int_equal(counts().abandoned, 1);
		settler_stop(settler, 0);
		settler = NULL;
	}
}

static void after_the_tries_it_waits_in_the_spool_and_is_recorded_later(void **state)
{
	static const defib_err plan[] = {DEFIB_CONNECTION, DEFIB_CONNECTION, DEFIB_CONNECTION};
	(void)state;
	answers(3, plan, DEFIB_OK);
	start(true);
	ends(&rooms, "a", 7, SETTLE_FAILED);
	wait_left(1);
	assert_int_equal(counts().spooled, 1);
	wait_drained(1);
	assert_int_equal(hand_count(&hand), 0);
	assert_took("a");
	assert_int_equal(base.seen[0].worker, 7);
	assert_int_equal(base.seen[0].epoch, 3);
	assert_int_equal(base.seen[0].as, SETTLE_FAILED);
	assert_int_equal(base.seen[0].delay_ms, -1);
	assert_string_equal(base.seen[0].error, "it broke");
	assert_string_equal(base.seen[0].result, "-");
}

static void of_a_source_what_ended_first_is_recorded_first(void **state)
{
	static const defib_err plan[] = {DEFIB_CONNECTION, DEFIB_CONNECTION, DEFIB_CONNECTION};
	(void)state;
	answers(3, plan, DEFIB_OK);
	start(true);
	ends(&mail, "a", 7, SETTLE_DONE);
	wait_left(1);
	ends(&mail, "b", 7, SETTLE_DONE);
	ends(&mail, "c", 7, SETTLE_DONE);
	wait_left(2);
	wait_drained(1);
	assert_took("abc");
	assert_int_equal(counts().spooled, 1);
}

static void fall_sick(const char *key)
{
	pthread_mutex_lock(&base.lock);
	base.sick = key;
	pthread_mutex_unlock(&base.lock);
}

static void while_the_spool_does_not_drain_nothing_passes_it(void **state)
{
	(void)state;
	fall_sick("a");
	start(true);
	ends(&mail, "a", 7, SETTLE_DONE);
	wait_left(1);
	ends(&mail, "b", 7, SETTLE_DONE);
	wait_left(1);
	assert_int_equal(counts().spooled, 2);
	assert_took("");
	fall_sick(NULL);
	wait_drained(2);
	assert_took("ab");
}

static void what_a_spool_holds_the_next_settler_records(void **state)
{
	(void)state;
	answers(0, NULL, DEFIB_CONNECTION);
	start(true);
	ends(&mail, "a", 7, SETTLE_DONE);
	ends(&rooms, "b", 7, SETTLE_TIMED_OUT);
	wait_left(2);
	settler_stop(settler, 0);
	answers(0, NULL, DEFIB_OK);
	start(true);
	wait_drained(2);
	assert_took("ab");
	assert_int_equal(base.seen[1].as, SETTLE_TIMED_OUT);
	assert_string_equal(base.seen[0].result, "{\"n\":1}");
}

static void what_came_too_late_from_the_spool_is_done_with(void **state)
{
	static const defib_err plan[] = {DEFIB_CONNECTION, DEFIB_CONNECTION, DEFIB_CONNECTION};
	(void)state;
	answers(3, plan, DEFIB_OK);
	base.refuses = true;
	start(true);
	ends(&mail, "a", 7, SETTLE_DONE);
	wait_left(1);
	wait_drained(1);
	assert_took("a");
	settler_stop(settler, 0);
	start(true);
	ends(&mail, "b", 7, SETTLE_DONE);
	wait_left(1);
	assert_took("ab");
}

/* ---- the table refuses an end ---- */

static void a_refused_end_fails_its_job_and_holds_up_no_other(void **state)
{
	sem_t gate;
	(void)state;
	sem_init(&gate, 0, 0);
	base.gate = &gate;
	base.barred = "c";
	start(true);
	catch_log();
	for (const char *key = "a\0b\0c\0d\0e\0"; *key; key += 2)
		ends(&mail, key, 7, SETTLE_DONE);
	sem_post(&gate);
	wait_left(5);
	(void)caught_log();
	assert_took("abcde");
	for (int i = 0; i < 5; i++)
		assert_int_equal(base.seen[i].as, i == 2 ? SETTLE_FAILED : SETTLE_DONE);
	assert_string_equal(base.seen[2].result, "-");
	assert_int_equal(counts().settled, 5);
	assert_int_equal(counts().ends[SETTLE_FAILED], 1);
	assert_int_equal(counts().spooled, 0);
	sem_destroy(&gate);
}

static void what_is_refused_wholly_is_said_and_set_aside(void **state)
{
	(void)state;
	base.barred = "a";
	base.barred_wholly = true;
	start(true);
	catch_log();
	ends(&mail, "a", 7, SETTLE_DONE);
	ends(&mail, "b", 7, SETTLE_DONE);
	wait_left(2);
	wait_aside(1);
	assert_non_null(strstr(caught_log(), "ZOMBIE RECORD ALERT: mail a stuck"));
	assert_took("b");
	assert_int_equal(counts().abandoned, 0);
	assert_string_equal(counts().aside_why, "mail: the plan says so");
}

/* A right was revoked, or the table is gone. */
static void a_source_that_refuses_all_holds_up_no_other(void **state)
{
	(void)state;
	base.shut = &mail;
	start(true);
	catch_log();
	ends(&mail, "a", 7, SETTLE_DONE);
	ends(&rooms, "b", 7, SETTLE_DONE);
	ends(&mail, "c", 7, SETTLE_DONE);
	ends(&rooms, "d", 7, SETTLE_DONE);
	wait_left(4);
	wait_aside(2);
	(void)caught_log();
	assert_took("bd");
	assert_int_equal(counts().spool_depth, 0);
	assert_int_equal(counts().abandoned, 0);
	/* It takes one more: what it refused is offered at once, in order. */
	pthread_mutex_lock(&base.lock);
	base.shut = NULL;
	pthread_mutex_unlock(&base.lock);
	ends(&mail, "e", 7, SETTLE_DONE);
	wait_drained(2);
	assert_took("bdeac");
	wait_aside(0);
}

static void a_job_whose_end_is_kept_is_no_stray(void **state)
{
	(void)state;
	base.shut = &mail;
	start(true);
	catch_log();
	ends(&mail, "a", 7, SETTLE_DONE);
	wait_left(1);
	for (int i = 0; i < 3; i++) {
		struct hand_job *j =
			hand_add(&hand, &mail, 0, 7, &(struct claimed){.key = "a", .epoch = 3});
		j->slot = -1;
		j->as = SETTLE_RELEASED;
		settler_add(settler, j);
	}
	ends(&rooms, "b", 7, SETTLE_DONE);
	wait_left(1);
	wait_aside(1);
	assert_null(strstr(caught_log(), "a claim's answer was lost"));
	settler_stop(settler, 0);
	settler = NULL;
	assert_int_equal(hand_count(&hand), 0);
	assert_took("b");
}

static void a_refused_end_in_the_spool_does_not_block_it(void **state)
{
	(void)state;
	answers(0, NULL, DEFIB_CONNECTION);
	start(true);
	for (const char *key = "a\0b\0c\0"; *key; key += 2)
		ends(&mail, key, 7, SETTLE_DONE);
	wait_left(3);
	settler_stop(settler, 0);
	base.barred = "a";
	answers(0, NULL, DEFIB_OK);
	start(true);
	wait_drained(3);
	assert_took("abc");
	assert_int_equal(base.seen[0].as, SETTLE_FAILED);
}

static void without_a_spool_one_critical_line_names_the_job(void **state)
{
	(void)state;
	answers(0, NULL, DEFIB_CONNECTION);
	catch_log();
	start(false);
	ends(&rooms, "a", 7, SETTLE_DONE);
	wait_left(1);
	const char *log = caught_log();
	assert_non_null(strstr(log, "ZOMBIE RECORD ALERT: rooms a stuck"));
	assert_null(strstr(strstr(log, "ZOMBIE") + 1, "ZOMBIE"));
	assert_int_equal(counts().abandoned, 1);
	assert_int_equal(counts().failures, 3);
}

static void a_stop_spools_what_there_is_no_time_to_try(void **state)
{
	sem_t gate;
	(void)state;
	sem_init(&gate, 0, 0);
	answers(0, NULL, DEFIB_CONNECTION);
	base.gate = &gate;
	start(true);
	ends(&mail, "a", 7, SETTLE_DONE);
	ends(&mail, "b", 8, SETTLE_DONE);
	sem_post(&gate);
	settler_stop(settler, 0);
	assert_int_equal(hand_count(&hand), 0);
	answers(0, NULL, DEFIB_OK);
	start(true);
	wait_drained(2);
	assert_took("ab");
	sem_destroy(&gate);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_end_is_recorded_and_the_job_leaves_the_hand),
		TEST(ends_that_waited_go_in_one_batch_a_source_and_incarnation),
		TEST(an_end_that_is_refused_is_counted_and_said),
		TEST(failures_that_may_pass_are_tried_again),
		TEST(each_class_is_tried_again_or_not),
		TEST(after_the_tries_it_waits_in_the_spool_and_is_recorded_later),
		TEST(of_a_source_what_ended_first_is_recorded_first),
		TEST(while_the_spool_does_not_drain_nothing_passes_it),
		TEST(what_a_spool_holds_the_next_settler_records),
		TEST(what_came_too_late_from_the_spool_is_done_with),
		TEST(a_refused_end_fails_its_job_and_holds_up_no_other),
		TEST(what_is_refused_wholly_is_said_and_set_aside),
		TEST(a_source_that_refuses_all_holds_up_no_other),
		TEST(a_job_whose_end_is_kept_is_no_stray),
		TEST(a_refused_end_in_the_spool_does_not_block_it),
		TEST(without_a_spool_one_critical_line_names_the_job),
		TEST(a_stop_spools_what_there_is_no_time_to_try),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

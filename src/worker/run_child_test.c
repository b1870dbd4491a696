/* SPDX-License-Identifier: Apache-2.0
 * run_child_test.c: real programs, mostly shells. Time limits are tested by passing a later time,
 * so nothing waits for a clock; other waits use the descriptor.
 */
#include "worker/child_output.h"
#include "worker/run_child.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct child *child;
static struct failure failure;

static int end_child(void **state)
{
	(void)state;
	child_free(child);
	child = NULL;
	return 0;
}

static struct child *shell(const char *script, struct child_options o)
{
	char *argv[] = {"/bin/sh", "-c", (char *)script, NULL};
	struct child *c;
	o.argv = argv;
	assert_int_equal(child_start(&o, 0, &c, &failure), DEFIB_OK);
	return c;
}

static void start(const char *script, struct child_options o)
{
	child = shell(script, o);
}

static void wait_event(struct child *c)
{
	struct pollfd p = {.fd = child_fd(c), .events = POLLIN};
	assert_int_equal(poll(&p, 1, -1), 1);
}

/* Step at this time until the end. */
static enum child_end finish_at(struct child *c, int64_t now_ms)
{
	int64_t wait_ms;
	for (;;) {
		enum child_end end = child_step(c, now_ms, &wait_ms);
		if (end != CHILD_RUNNING)
			return end;
		wait_event(c);
	}
}

static enum child_end run(const char *script)
{
	start(script, (struct child_options){0});
	return finish_at(child, 0);
}

/* Step at time 0 until it reports progress. */
static const char *wait_progress(void)
{
	int64_t wait_ms;
	for (;;) {
		assert_int_equal(child_step(child, 0, &wait_ms), CHILD_RUNNING);
		const char *line = child_progress(child);
		if (line)
			return line;
		wait_event(child);
	}
}

static const char *result(void)
{
	size_t len;
	return child_result(child, &len);
}

/* ---- ends ---- */

/* Whatever another read has left in errno. */
static bool wakes(void)
{
	struct pollfd p = {.fd = child_fd(child), .events = POLLIN};
	int64_t wait_ms;
	errno = EAGAIN;
	assert_int_equal(child_step(child, 0, &wait_ms), CHILD_RUNNING);
	return poll(&p, 1, 0) != 0;
}

static void a_child_that_closes_its_output_and_runs_on_wakes_nobody(void **state)
{
	char done[] = "/tmp/defib-child-XXXXXX", script[128];
	(void)state;
	close(mkstemp(done));
	snprintf(script, sizeof script, "exec >&- 2>&- 3>&-; rm %s; exec sleep 3600", done);
	start(script, (struct child_options){0});
	EVENTUALLY(access(done, F_OK) != 0);
	EVENTUALLY(!wakes());
}

static void exit_0_is_done_and_brings_the_result(void **state)
{
	(void)state;
	assert_int_equal(run("echo '{\"n\":1}' >&3; echo chatter >&2"), CHILD_DONE);
	assert_string_equal(result(), "{\"n\":1}\n");
	assert_string_equal(child_error(child), "");
	assert_string_equal(child_stderr(child), "chatter");
	assert_int_equal(child_signal(child), 0);
}

static void some_exit_codes_say_more_than_failure(void **state)
{
	(void)state;
	assert_int_equal(run("echo later >&2; exit 75"), CHILD_RETRY);
	assert_string_equal(child_error(child), "exit code 75: later");
	child_free(child);
	assert_int_equal(run("exit 65"), CHILD_PERMANENT);
	assert_string_equal(child_error(child), "exit code 65");
	child_free(child);
	assert_int_equal(run("echo 'too many clients' >&2; exit 69"), CHILD_UNSERVED);
	assert_string_equal(child_error(child), "exit code 69: too many clients");
}

static void another_code_is_a_failure_with_the_last_line_of_stderr(void **state)
{
	(void)state;
	assert_int_equal(run("echo first >&2; echo 'no such page' >&2; exit 3"), CHILD_FAILED);
	assert_string_equal(child_error(child), "exit code 3: no such page");
	assert_string_equal(child_stderr(child), "first\nno such page");
}

static void death_by_a_signal_is_named(void **state)
{
	(void)state;
	assert_int_equal(run("kill -SEGV $$"), CHILD_KILLED);
	assert_string_equal(child_error(child), "killed by SIGSEGV");
	assert_int_equal(child_signal(child), SIGSEGV);
}

static void a_kill_that_was_not_ours_is_told(void **state)
{
	(void)state;
	assert_int_equal(run("kill -KILL $$"), CHILD_KILLED);
	assert_memory_equal(child_error(child), "killed by SIGKILL", 17);
	assert_int_equal(child_signal(child), SIGKILL);
}

static void an_end_is_told_again_and_wakes_nobody(void **state)
{
	(void)state;
	assert_int_equal(run("exit 3"), CHILD_FAILED);
	int64_t wait_ms;
	assert_int_equal(child_step(child, 0, &wait_ms), CHILD_FAILED);
	struct pollfd p = {.fd = child_fd(child), .events = POLLIN};
	assert_int_equal(poll(&p, 1, 0), 0);
}

static void before_the_first_step_only_the_exit_wakes(void **state)
{
	(void)state;
	start("echo said >&2; exec 2>&- 3>&- 4>&-; kill -STOP $$; exit 3", (struct child_options){0});
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)child_pid(child), &info, WSTOPPED), 0);
	struct pollfd p = {.fd = child_fd(child), .events = POLLIN};
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(child_first_ms(child), 20);
	kill(child_pid(child), SIGCONT);
	wait_event(child);
	assert_int_equal(finish_at(child, 0), CHILD_FAILED);
	assert_string_equal(child_error(child), "exit code 3: said");
}

static void the_first_step_is_due_at_a_short_time_limit(void **state)
{
	(void)state;
	start("exec sleep 1000", (struct child_options){.timeout_ms = 5});
	assert_int_equal(child_first_ms(child), 5);
}

static void a_stolen_exit_code_is_a_failure_that_says_so(void **state)
{
	(void)state;
	start("exit 0", (struct child_options){0});
	assert_int_equal(waitpid(child_pid(child), NULL, 0), child_pid(child));
	assert_int_equal(finish_at(child, 0), CHILD_FAILED);
	assert_non_null(strstr(child_error(child), "another part of this process collected"));
}

/* ---- input ---- */

static void a_payload_that_is_not_read_blocks_nothing(void **state)
{
	(void)state;
	size_t len = 1024 * 1024;
	char *payload = mem_alloc(len);
	start("exit 0", (struct child_options){.payload = payload, .payload_len = len});
	free(payload); /* it was taken over */
	assert_int_equal(finish_at(child, 0), CHILD_DONE);
}

static void a_large_payload_arrives_whole(void **state)
{
	(void)state;
	size_t len = 1024 * 1024;
	char *payload = mem_alloc(len);
	memset(payload, 'p', len);
	start("wc -c >&3; wc -c </dev/stdin >&3",
	      (struct child_options){.payload = payload, .payload_len = len});
	free(payload);
	assert_int_equal(finish_at(child, 0), CHILD_DONE);
	assert_string_equal(result(), "1048576\n1048576\n");
}

static void no_payload_is_an_empty_stdin(void **state)
{
	(void)state;
	assert_int_equal(run("wc -c >&3"), CHILD_DONE);
	assert_string_equal(result(), "0\n");
}

static void it_gets_facts_and_what_is_named_and_no_secret_of_ours(void **state)
{
	(void)state;
	char *env[] = {"DEFIB_JOB_ID=7", "RUN_CHILD_TEST=theirs", NULL};
	const char *const pass[] = {"RUN_CHILD_NAMED", "RUN_CHILD_SET=set", NULL};
	setenv("RUN_CHILD_TEST", "ours", 1);
	setenv("RUN_CHILD_NAMED", "named", 1);
	setenv("DATABASE_URL", "postgres://u:secret@h/d", 1);
	start("echo $DEFIB_JOB_ID $RUN_CHILD_TEST $RUN_CHILD_NAMED $RUN_CHILD_SET "
	      "${DATABASE_URL-none} >&$DEFIB_RESULT_FD;"
	      "echo on >&$DEFIB_PROGRESS_FD",
	      (struct child_options){.env = env, .pass = pass});
	unsetenv("DATABASE_URL");
	assert_int_equal(finish_at(child, 0), CHILD_DONE);
	assert_string_equal(result(), "7 theirs named set none\n");
	assert_string_equal(child_progress(child), "on");
}

static void a_child_holds_no_descriptor_but_its_five(void **state)
{
	(void)state;
	/* Without close-on-exec, as a careless library leaves it. */
	assert_int_equal(dup2(STDERR_FILENO, 57), 57);
	/* 5 is the directory that ls itself reads. */
	assert_int_equal(run("exec ls /proc/self/fd >&3"), CHILD_DONE);
	close(57);
	assert_string_equal(result(), "0\n1\n2\n3\n4\n5\n");
}

static void a_child_starts_with_default_signals(void **state)
{
	(void)state;
	sigset_t blocked, before;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	void (*was)(int) = signal(SIGPIPE, SIG_IGN);
	start("exec cat /proc/self/status >&3", (struct child_options){0});
	signal(SIGPIPE, was);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	assert_int_equal(finish_at(child, 0), CHILD_DONE);
	assert_non_null(strstr(result(), "SigBlk:\t0000000000000000\n"));
	/* 32 and 33 are libc's own: a posix_spawn() above us leaves them ignored. */
	const char *ignored = strstr(result(), "SigIgn:\t");
	assert_non_null(ignored);
	assert_int_equal(strtoull(ignored + strlen("SigIgn:\t"), NULL, 16) & ~(UINT64_C(3) << 31), 0);
}

static void a_start_leaves_our_own_signals_as_they_were(void **state)
{
	(void)state;
	sigset_t before, after;
	sigemptyset(&before);
	sigaddset(&before, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	start("exit 0", (struct child_options){0});
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int sig = 1; sig < NSIG; sig++)
		assert_int_equal(sigismember(&before, sig), sigismember(&after, sig));
	pthread_sigmask(SIG_UNBLOCK, &before, NULL);
}

static void a_worker_without_standard_descriptors_can_start_children(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		close_range(0, 15, 0);
		start("cat >&3; echo x; test -e /proc/self/fd/1",
		      (struct child_options){.payload = "in", .payload_len = 2});
		_exit(finish_at(child, 0) == CHILD_DONE && strcmp(result(), "in") == 0 ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- output ---- */

static char printed[512];

static void keep_line(void *ctx, const char *level, const char *line)
{
	size_t used = strlen(printed);
	(void)ctx, (void)level;
	snprintf(printed + used, sizeof printed - used, "%s\n", strstr(line, "line="));
}

static void each_line_that_it_prints_is_an_event_of_the_log(void **state)
{
	(void)state;
	printed[0] = '\0';
	log_divert(keep_line, NULL);
	enum child_end end =
		run("echo one; echo; printf 'two\\033[1m\\nts=1 level=critical msg=forged\\nrest'");
	log_divert(NULL, NULL);
	assert_int_equal(end, CHILD_DONE);
	assert_string_equal(printed, "line=one\nline=\"two\xef\xbf\xbd[1m\"\n"
	                             "line=\"ts=1 level=critical msg=forged\"\nline=rest\n");
}

static void progress_is_seen_while_it_runs(void **state)
{
	(void)state;
	start("echo 50% >&4; exec sleep 1000", (struct child_options){0});
	assert_string_equal(wait_progress(), "50%");
}

static void a_result_of_the_full_size_is_taken(void **state)
{
	(void)state;
	assert_int_equal(run("head -c 1048576 /dev/zero >&3"), CHILD_DONE);
	size_t len;
	child_result(child, &len);
	assert_int_equal(len, CHILD_RESULT_MAX);
}

static void a_result_that_is_too_long_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(run("head -c 1048577 /dev/zero >&3"), CHILD_FAILED);
	assert_string_equal(child_error(child), "exit code 0, result of more than 1048576 bytes");
}

static void a_grandchild_that_holds_the_pipes_delays_nothing_and_is_killed(void **state)
{
	(void)state;
	assert_int_equal(run("sleep 1000 & echo $! >&3; echo done >&4"), CHILD_DONE);
	assert_string_equal(child_progress(child), "done");
	/* Orphans come to us (see main), so its end can be waited for. */
	int64_t pid = strtol(result(), NULL, 10);
	int status;
	assert_int_equal(waitpid((pid_t)pid, &status, 0), pid);
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

/* ---- stopping ---- */

static void the_time_limit_sends_term(void **state)
{
	(void)state;
	int64_t wait_ms;
	start("exec sleep 1000", (struct child_options){.timeout_ms = 1500, .grace_ms = 100});
	assert_int_equal(child_step(child, 500, &wait_ms), CHILD_RUNNING);
	assert_int_equal(wait_ms, 1000);
	assert_int_equal(finish_at(child, 1500), CHILD_TIMED_OUT);
	assert_int_equal(child_signal(child), SIGTERM);
	assert_non_null(strstr(child_error(child), "time limit of"));
	assert_non_null(strstr(child_error(child), "killed by SIGTERM"));
}

static void a_child_that_ignores_term_is_killed_after_the_grace(void **state)
{
	(void)state;
	int64_t wait_ms;
	start("trap '' TERM; echo ready >&4; while :; do sleep 1000; done",
	      (struct child_options){.timeout_ms = 1000, .grace_ms = 300});
	wait_progress();
	assert_int_equal(child_step(child, 1000, &wait_ms), CHILD_RUNNING);
	assert_int_equal(wait_ms, 300);
	assert_int_equal(child_step(child, 1299, &wait_ms), CHILD_RUNNING);
	assert_int_equal(wait_ms, 1);
	assert_int_equal(finish_at(child, 1300), CHILD_TIMED_OUT);
	assert_int_equal(child_signal(child), SIGKILL);
}

static void without_grace_it_is_killed_at_once(void **state)
{
	(void)state;
	start("exec sleep 1000", (struct child_options){.timeout_ms = 1000});
	assert_int_equal(finish_at(child, 1000), CHILD_TIMED_OUT);
	assert_int_equal(child_signal(child), SIGKILL);
}

static void a_stop_lets_it_clean_up(void **state)
{
	(void)state;
	/* It spins because a shell delays a trap until the program it waits for has ended. */
	start("trap 'echo cleaned >&3; exit 0' TERM; echo ready >&4; while :; do :; done",
	      (struct child_options){.grace_ms = 100});
	wait_progress();
	child_stop(child, CHILD_STOPPED, 0);
	assert_int_equal(finish_at(child, 0), CHILD_STOPPED);
	assert_string_equal(result(), "cleaned\n");
	assert_string_equal(child_error(child), "stopped; exit code 0");
}

static void a_stop_reaches_a_child_that_stands_still(void **state)
{
	(void)state;
	start("exec sleep 1000", (struct child_options){.grace_ms = 100});
	kill(child_pid(child), SIGSTOP);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)child_pid(child), &info, WSTOPPED), 0);
	child_stop(child, CHILD_STOPPED, 0);
	assert_int_equal(finish_at(child, 0), CHILD_STOPPED);
	assert_int_equal(child_signal(child), SIGTERM);
}

static void the_first_reason_to_stop_counts(void **state)
{
	(void)state;
	start("exec sleep 1000", (struct child_options){.grace_ms = 100});
	child_stop(child, CHILD_TIMED_OUT, 0);
	child_stop(child, CHILD_STOPPED, 0);
	assert_int_equal(finish_at(child, 0), CHILD_TIMED_OUT);
}

static void a_stop_after_its_end_changes_nothing(void **state)
{
	(void)state;
	siginfo_t info;
	start("echo made >&3", (struct child_options){.timeout_ms = 1000});
	assert_int_equal(waitid(P_PID, (id_t)child_pid(child), &info, WEXITED | WNOWAIT), 0);
	child_stop(child, CHILD_STOPPED, 0);
	assert_int_equal(finish_at(child, 2000), CHILD_DONE); /* nor does a late look */
	assert_string_equal(result(), "made\n");
}

static void freeing_a_running_child_ends_it(void **state)
{
	(void)state;
	start("sleep 1000 & echo $! >&4; sleep 1000", (struct child_options){0});
	int64_t grandchild = strtol(wait_progress(), NULL, 10);
	pid_t pid = child_pid(child);
	child_free(child);
	child = NULL;
	assert_int_equal(kill(pid, 0), -1);
	waitpid((pid_t)grandchild, NULL, 0); /* its shell may have reaped it while dying */
	assert_int_equal(kill((pid_t)grandchild, 0), -1);
}

/* ---- what cannot be started ---- */

static void assert_refused(char *program, defib_err code, const char *what)
{
	char *argv[] = {program, NULL};
	assert_int_equal(child_start(&(struct child_options){.argv = argv}, 0, &child, &failure), code);
	assert_null(child);
	assert_non_null(strstr(failure.what, what));
}

static void what_is_no_program_is_named(void **state)
{
	(void)state;
	assert_refused("./none", DEFIB_CONFIG, "cannot run ./none: No such file or directory");
	assert_refused("none", DEFIB_CONFIG, "cannot run none: No such file or directory");
	assert_refused("/etc/passwd", DEFIB_CONFIG, "cannot run /etc/passwd: Permission denied");
}

static void a_missing_interpreter_is_told_apart(void **state)
{
	(void)state;
	char path[] = "/tmp/run_child_XXXXXX";
	int fd = mkstemp(path);
	assert_int_equal(write(fd, "#!/no/such/shell\n", 17), 17);
	assert_int_equal(fchmod(fd, 0700), 0);
	close(fd);
	assert_refused(path, DEFIB_CONFIG, "cannot run /tmp/run_child_");
	unlink(path);
	assert_non_null(strstr(failure.next, "first line"));
}

static void a_program_is_found_in_the_path_of_the_job(void **state)
{
	(void)state;
	char *argv[] = {"sh", "-c", "echo found >&3", NULL}, *env[] = {"PATH=/nowhere:/bin", NULL};
	struct child_options o = {.argv = argv, .env = env};
	assert_int_equal(child_start(&o, 0, &child, &failure), DEFIB_OK);
	assert_int_equal(finish_at(child, 0), CHILD_DONE);
	assert_string_equal(result(), "found\n");
}

static void a_process_that_ignores_its_children_is_refused(void **state)
{
	(void)state;
	signal(SIGCHLD, SIG_IGN);
	assert_refused("true", DEFIB_USAGE, "ignores SIGCHLD");
	signal(SIGCHLD, SIG_DFL);
}

/* ---- many ---- */

static int open_descriptors(void)
{
	int n = 0;
	DIR *dir = opendir("/proc/self/fd");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Orphans of earlier tests are our children, and dying. */
static void reap_orphans(void)
{
	while (waitpid(-1, NULL, 0) > 0) {
	}
}

static bool no_child_is_left(void)
{
	siginfo_t info;
	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

static void a_thousand_children_leave_nothing_behind(void **state)
{
	(void)state;
	reap_orphans();
	int before = open_descriptors();
	char *good[] = {"true", NULL}, *bad[] = {"/no/such", NULL};
	for (int i = 0; i < 1000; i++) {
		struct child *c;
		assert_int_equal(child_start(&(struct child_options){.argv = good}, 0, &c, &failure),
		                 DEFIB_OK);
		assert_int_equal(finish_at(c, 0), CHILD_DONE);
		child_free(c);
		if (i % 10 == 0)
			assert_int_equal(child_start(&(struct child_options){.argv = bad}, 0, &c, &failure),
			                 DEFIB_CONFIG);
	}
	assert_int_equal(open_descriptors(), before);
	assert_true(no_child_is_left());
}

/* Each number of free descriptors that is too small: none but its own are closed. */
static void a_child_without_descriptors_closes_none_of_ours(void **state)
{
	(void)state;
	struct rlimit before, few;
	int open = open_descriptors();
	defib_err err = DEFIB_IO;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	int next = dup(0); /* all below it are taken */
	close(next);
	for (int spare = 0; err; spare++) {
		struct child *c = NULL;
		char *argv[] = {"true", NULL};
		few.rlim_cur = (rlim_t)(next + spare);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		err = child_start(&(struct child_options){.argv = argv}, 0, &c, &failure);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		if (err && err != DEFIB_IO)
			fail_msg("%d free: %s", spare, failure.what);
		if (!err)
			assert_int_equal(finish_at(c, 0), CHILD_DONE);
		child_free(c);
		assert_int_equal(open_descriptors(), open);
		assert_true(spare < 32);
	}
}

static void *run_fifty(void *failed)
{
	for (int i = 0; i < 50; i++) {
		struct child *c = shell("cat >&3; exec sleep 0",
		                        (struct child_options){.payload = "x", .payload_len = 1});
		size_t len;
		if (finish_at(c, 0) != CHILD_DONE || strcmp(child_result(c, &len), "x") != 0)
			*(bool *)failed = true;
		child_free(c);
	}
	return NULL;
}

static void threads_can_run_children_side_by_side(void **state)
{
	(void)state;
	reap_orphans();
	pthread_t threads[4];
	bool failed[4] = {false};
	int before = open_descriptors();
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_fifty, &failed[i]), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_false(failed[i]);
	}
	assert_int_equal(open_descriptors(), before);
	assert_true(no_child_is_left());
}

#define TEST(name) cmocka_unit_test_teardown(name, end_child)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_child_that_closes_its_output_and_runs_on_wakes_nobody),
		TEST(exit_0_is_done_and_brings_the_result),
		TEST(some_exit_codes_say_more_than_failure),
		TEST(another_code_is_a_failure_with_the_last_line_of_stderr),
		TEST(death_by_a_signal_is_named),
		TEST(a_kill_that_was_not_ours_is_told),
		TEST(an_end_is_told_again_and_wakes_nobody),
		TEST(before_the_first_step_only_the_exit_wakes),
		TEST(the_first_step_is_due_at_a_short_time_limit),
		TEST(a_stolen_exit_code_is_a_failure_that_says_so),
		TEST(a_payload_that_is_not_read_blocks_nothing),
		TEST(a_large_payload_arrives_whole),
		TEST(no_payload_is_an_empty_stdin),
		TEST(it_gets_facts_and_what_is_named_and_no_secret_of_ours),
		TEST(a_child_holds_no_descriptor_but_its_five),
		TEST(a_child_starts_with_default_signals),
		TEST(a_start_leaves_our_own_signals_as_they_were),
		TEST(a_worker_without_standard_descriptors_can_start_children),
		TEST(each_line_that_it_prints_is_an_event_of_the_log),
		TEST(progress_is_seen_while_it_runs),
		TEST(a_result_of_the_full_size_is_taken),
		TEST(a_result_that_is_too_long_is_an_error),
		TEST(a_grandchild_that_holds_the_pipes_delays_nothing_and_is_killed),
		TEST(the_time_limit_sends_term),
		TEST(a_child_that_ignores_term_is_killed_after_the_grace),
		TEST(without_grace_it_is_killed_at_once),
		TEST(a_stop_lets_it_clean_up),
		TEST(a_stop_reaches_a_child_that_stands_still),
		TEST(the_first_reason_to_stop_counts),
		TEST(a_stop_after_its_end_changes_nothing),
		TEST(freeing_a_running_child_ends_it),
		TEST(what_is_no_program_is_named),
		TEST(a_missing_interpreter_is_told_apart),
		TEST(a_program_is_found_in_the_path_of_the_job),
		TEST(a_process_that_ignores_its_children_is_refused),
		TEST(a_child_without_descriptors_closes_none_of_ours),
		TEST(a_thousand_children_leave_nothing_behind),
		TEST(threads_can_run_children_side_by_side),
	};
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * sink_command.c: a message to a program of the user's: the document on stdin, the
 * most of it in the environment too, within a time limit. It runs in a process group
 * of its own, which is ended as a whole. Exit code 0: it has the message; any other:
 * it is tried again.
 */
#include "alert/message.h"
#include "alert/sinks.h"

#include "base/clock.h"
#include "base/program_env.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEP 160        /* of what it writes is told */
#define GRACE_MS 2000   /* between TERM and KILL */
#define TURN_MS 200     /* between looks at `stop` */
#define ENTRY_MAX 65536 /* bytes of one; the kernel takes 128 KiB at most */

struct program {
	const struct sink_call *call;
	pid_t pid;
	int pidfd, input, output[2];
	char kept[KEEP];
	size_t nkept;
	const char *ended_by; /* NULL: it ended by itself */
};

/* A file in memory: no pipe that could fill up. */
static int input_of(const char *text)
{
	int fd = memfd_create("defib-message", MFD_CLOEXEC);
	size_t n = strlen(text);
	if (fd >= 0 && (write(fd, text, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* A clean one, what the sink names, and the message. */
static char **environment_of(const json_t *d, const struct sink_call *c, struct arena *a)
{
	static const char *const members[] = {"status", "rule", "severity", "source", "database",
	                                      "watch",  "text", "at",       "topic",  NULL};
	struct program_env env;
	program_env_init(&env, a);
	program_env_pass(&env, c->sink->pass_environment.items);
	for (const char *const *m = members; *m; m++) {
		const char *value = document_text(d, *m);
		if (strlen(value) > ENTRY_MAX)
			continue; /* a long report: it stands on stdin */
		char *entry = arena_printf(a, "DEFIB_ALERT_%s=%s", *m, value);
		for (char *p = entry; *p && *p != '='; p++)
			*p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
		program_env_put(&env, entry);
	}
	program_env_put(&env, arena_printf(a, "DEFIB_ALERT_ID=%s", c->id));
	program_env_put(&env, arena_printf(a, "DEFIB_ALERT_KIND=%s", c->kind));
	return env.entries;
}

/* Signals that the daemon blocks or ignores are none of the program's. */
static void set_attributes(posix_spawnattr_t *attr)
{
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(attr);
	posix_spawnattr_setsigmask(attr, &none);
	posix_spawnattr_setsigdefault(attr, &all);
	posix_spawnattr_setpgroup(attr, 0);
	posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
	                                   POSIX_SPAWN_SETPGROUP);
}

static int start(struct program *p, char **env)
{
	char **argv = (char **)p->call->sink->run.items;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	set_attributes(&attr);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, p->input, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, p->output[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, p->output[1], STDERR_FILENO);
	int failed = posix_spawnp(&p->pid, argv[0], &files, &attr, argv, env);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return failed;
}

static void take_output(struct program *p)
{
	char text[1024];
	ssize_t n = read(p->output[0], text, sizeof text);
	for (ssize_t i = 0; i < n && p->nkept < KEEP - 1; i++)
		p->kept[p->nkept++] = text[i];
}

/* Until it ends by itself; afterwards only until it must. */
static bool wait_end(struct program *p, int64_t until_ms)
{
	struct pollfd fds[] = {{p->pidfd, POLLIN, 0}, {p->output[0], POLLIN, 0}};
	int64_t left;
	while ((left = until_ms - clock_boot_ms()) > 0) {
		if (!p->ended_by && p->call->stop && atomic_load(p->call->stop))
			return false;
		int n = poll(fds, 2, (int)(left < TURN_MS ? left : TURN_MS));
		if (n > 0 && (fds[1].revents & POLLIN))
			take_output(p);
		else if (n > 0 && fds[1].revents)
			fds[1].fd = -1; /* closed: it may run on */
		if (n > 0 && (fds[0].revents & POLLIN))
			return true;
	}
	return false;
}

static void follow(struct program *p)
{
	int64_t limit_ms = p->call->sink->timeout_us / 1000;
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	bool ended = p->pidfd >= 0 && wait_end(p, clock_boot_ms() + limit_ms);
	if (!ended) {
		p->ended_by =
			p->call->stop && atomic_load(p->call->stop) ? "the daemon stops" : "its time limit";
		kill(-p->pid, SIGTERM);
		if (p->pidfd < 0 || !wait_end(p, clock_boot_ms() + GRACE_MS))
			kill(-p->pid, SIGKILL);
	}
	if (p->pidfd >= 0)
		close(p->pidfd);
}

static void tell(struct program *p, struct sink_answer *out)
{
	int status = 0;
	/* What it left behind in its group ends too; its own id is not given away before the wait. */
	kill(-p->pid, SIGKILL);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (p->ended_by)
		sink_answered(p->call, out, SINK_AGAIN, "ended by %s", p->ended_by);
	else if (WIFSIGNALED(status))
		sink_answered(p->call, out, SINK_AGAIN, "killed by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		sink_answered(p->call, out, SINK_AGAIN, "exit code %d%s%s", WEXITSTATUS(status),
		              p->nkept ? ": " : "", p->kept);
	else
		sink_answered(p->call, out, SINK_SENT, "exit code 0");
}

void sink_command(const struct sink_call *c, struct sink_answer *out)
{
	struct program p = {.call = c, .output = {-1, -1}};
	struct arena a = ARENA_INIT;
	json_t *d = json_loads(c->document, 0, NULL);
	p.input = input_of(c->sink->format == SINK_TEXT ? document_text(d, "text") : c->document);
	int failed = p.input < 0 || pipe2(p.output, O_CLOEXEC) != 0
	                 ? errno
	                 : start(&p, environment_of(d, c, &a));
	if (p.output[1] >= 0)
		close(p.output[1]);
	if (failed) {
		sink_answered(c, out, SINK_AGAIN, "%s: %s", c->sink->run.items[0], strerror(failed));
	} else {
		follow(&p);
		tell(&p, out);
	}
	if (p.output[0] >= 0)
		close(p.output[0]);
	if (p.input >= 0)
		close(p.input);
	json_decref(d);
	arena_release(&a);
}

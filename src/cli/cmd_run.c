/* SPDX-License-Identifier: Apache-2.0
 * cmd_run.c: `defib run --watch WATCH -- PROGRAM [ARG…]`: starts a foreign program, sees its end,
 * and recovers exactly its jobs at once.
 *
 * The program's sessions carry the name of this run (PGAPPNAME), and the attached table records
 * which session claims a row. Processes that the program forked may outlive it: while its process
 * group has members, only jobs whose session is gone are recovered.
 *
 * It runs as if we were not there: it has our stdio and the terminal, and signals that we get are
 * passed on. It has a process group of its own, to distinguish what it forks from other processes.
 * Processes of that group that lose their parent become our children, and we reap them. We never
 * kill the program: if `defib run` is killed, it continues.
 */
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/load.h"
#include "daemon/settings.h"
#include "life/process.h"
#include "life/programs.h"
#include "recover/exits.h"

#include <assert.h>
#include <errno.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the program ---- */

struct run_program {
	pid_t pid;  /* also the id of its group */
	int go;     /* the child waits at the other end until it may begin */
	bool tty;   /* it has the terminal, which was ours */
	bool over;  /* it has ended */
	int status; /* as waitpid says; once it is over */
	int asked;  /* how often we were told to end after that */
};

/* It is the user's own program and has our environment, with two changes. */
struct run_environment {
	const char *application;            /* the name for its sessions */
	const struct service_token *tokens; /* which grant access to defib itself: removed */
	int ntokens;
};

static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, 0};

/* All signals that run_wait() handles. */
static void signals_taken(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	sigaddset(set, SIGCONT);
	for (const int *s = passed_on; *s; s++)
		sigaddset(set, *s);
}

/* In the child: wait for the order, then execute the program. Reports an error if that fails. */
static void become_program(char *const *argv, const struct run_environment *env, int go,
                           const sigset_t *before)
{
	char word;
	if (TEMP_FAILURE_RETRY(read(go, &word, 1)) != 1)
		_exit(127); /* our parent is gone, and cannot see our end */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGTTOU, SIG_DFL);
	sigprocmask(SIG_SETMASK, before, NULL);
	/* Here and not before: our own sessions keep their name. */
	setenv("PGAPPNAME", env->application, 1);
	for (int i = 0; i < env->ntokens; i++)
		if (env->tokens[i].env)
			unsetenv(env->tokens[i].env);
	execvp(argv[0], argv);
	int error = errno;
	(void)!write(go, &error, sizeof error);
	_exit(127);
}

/* A process that reads from a terminal must be in the foreground, and gets its Ctrl-C. */
static void hand_terminal(struct run_program *p)
{
	p->tty = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
	if (!p->tty)
		return;
	signal(SIGTTOU, SIG_IGN);
	(void)tcsetpgrp(STDIN_FILENO, p->pid);
}

/* Fork it, with the forwarded signals blocked here; it does nothing before run_go(). */
static defib_err run_fork(struct run_program *p, char *const *argv,
                          const struct run_environment *env, struct failure *f)
{
	sigset_t set, before;
	int ends[2];
	*p = (struct run_program){.go = -1};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return fail(f, DEFIB_IO, "cannot create a socket for %s: %s", argv[0], strerror(errno));
	signals_taken(&set);
	sigprocmask(SIG_BLOCK, &set, &before);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	p->pid = fork();
	if (p->pid == 0) {
		setpgid(0, 0);
		close(ends[0]);
		become_program(argv, env, ends[1], &before);
	}
	close(ends[1]);
	p->go = ends[0];
	if (p->pid < 0) {
		close(p->go);
		return fail(f, DEFIB_IO, "cannot start %s: %s", argv[0], strerror(errno));
	}
	/* Both processes do it, so that the group exists afterwards in either order. */
	setpgid(p->pid, p->pid);
	return DEFIB_OK;
}

/* Instead of run_go(): it ends without having done anything. */
static void run_forget(struct run_program *p)
{
	close(p->go);
	p->go = -1;
	(void)TEMP_FAILURE_RETRY(waitpid(p->pid, &p->status, 0));
}

/* Ctrl-Z stops the program: we stop with it, so that the shell has its terminal. */
static void stop_with_it(const struct run_program *p)
{
	if (!p->tty)
		return; /* whoever stopped it will continue it */
	(void)tcsetpgrp(STDIN_FILENO, getpgrp());
	raise(SIGSTOP);
	(void)tcsetpgrp(STDIN_FILENO, p->pid);
	kill(-p->pid, SIGCONT);
}

/* Descendants that lost their parent have become our children. */
static void collect(struct run_program *p)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (pid != p->pid)
			continue;
		if (WIFSTOPPED(status)) {
			stop_with_it(p);
		} else {
			p->over = true;
			p->status = status;
		}
	}
}

/* Forward signals and reap children, until it has ended or the time is over (-1: no limit). */
static void run_wait(struct run_program *p, int64_t most_ms)
{
	int64_t end = clock_boot_ms() + most_ms;
	sigset_t set;
	signals_taken(&set);
	for (;;) {
		bool was_over = p->over;
		collect(p);
		int64_t left = most_ms < 0 ? 1000 : end - clock_boot_ms();
		if (p->over && !was_over)
			return;
		if (left <= 0)
			return;
		struct timespec wait = {left / 1000, left % 1000 * 1000000};
		int got = sigtimedwait(&set, NULL, &wait);
		if (got <= 0 || got == SIGCHLD || got == SIGCONT)
			continue;
		kill(-p->pid, got);
		p->asked += p->over && (got == SIGTERM || got == SIGINT);
	}
}

/* Take the terminal back. */
static void run_end(struct run_program *p)
{
	if (p->tty)
		(void)tcsetpgrp(STDIN_FILENO, getpgrp());
	p->tty = false;
}

/* Let it begin; false: it could not be executed, and `f` says why. */
static bool run_go(struct run_program *p, const char *name, struct failure *f)
{
	int error = 0;
	hand_terminal(p);
	bool sent = TEMP_FAILURE_RETRY(write(p->go, "", 1)) == 1;
	/* exec closes the socket: then there is nothing to read. */
	bool failed = sent && TEMP_FAILURE_RETRY(read(p->go, &error, sizeof error)) == sizeof error;
	close(p->go);
	p->go = -1;
	if (!failed)
		return true;
	run_wait(p, -1);
	run_end(p);
	fail(f, DEFIB_USAGE, "cannot run %s: %s", name, strerror(error));
	return false;
}

/* Its exit status in a shell's form: 128 plus the signal for a killed one. */
static int run_code(const struct run_program *p)
{
	assert(p->over);
	return WIFSIGNALED(p->status) ? 128 + WTERMSIG(p->status) : WEXITSTATUS(p->status);
}

/* "exit 1", "signal 9 (KILL)" */
static void run_ending(const struct run_program *p, char *out, size_t size)
{
	assert(p->over);
	if (!WIFSIGNALED(p->status)) {
		snprintf(out, size, "exit %d", WEXITSTATUS(p->status));
		return;
	}
	const char *name = sigabbrev_np(WTERMSIG(p->status));
	snprintf(out, size, "signal %d (%s)", WTERMSIG(p->status), name ? name : "unknown");
}

#define WATCHES_MAX 16
#define GRACE_MS 250 /* in which a session notices that its client is gone */
#define SESSIONS_MS                                                                                \
	5000              /* how long sessions without a program are waited for; a pooler keeps them */
#define AWAY_MS 30000 /* how long we try to reach a database, or wait for a lock */
#define SOON_MS 20    /* between tries, at first … */
#define LATER_MS 500  /* … and at last */

static const struct cli_option run_options[] = {
	{"watch", "NAME",
     "the watch whose table the program works on; may be repeated; default: the only watch"},
	{"name", "NAME", "name of the program in sessions and in the ledger; default: its own"},
	{NULL, NULL, NULL},
};

/* One watch that the program works on. */
struct run_watch {
	const struct watch *watch;
	const struct database *database;
	struct session session;
	struct exits *exits;
	struct program program;
	bool printed; /* its end is recorded */
	bool done;    /* nothing is left to do, or nothing that we could */
	int64_t freed, held, refused;
	int64_t away_ms; /* since when it fails or waits; 0: it does not */
};

struct wrapped_run {
	struct cli *cli;
	struct run_watch watches[WATCHES_MAX];
	int n;
	char *const *argv;
	const char *command; /* for people */
	struct incarnation self, leader;
	char application[PROGRAM_NAME_SIZE];
	struct run_program program;
	char ending[64];  /* how it ended */
	int64_t empty_ms; /* since when its group has no member; 0: it has */
};

/* ---- before ---- */

static bool run_add_watch(struct wrapped_run *r, const char *name)
{
	const struct watch *w = settings_watch(&r->cli->settings, name);
	if (!w) {
		cli_usage("there is no watch \"%s\"", name);
		return false;
	}
	for (int i = 0; i < r->n; i++)
		if (r->watches[i].watch == w)
			return true;
	if (r->n == WATCHES_MAX) {
		cli_usage("a program may have at most %d watches", WATCHES_MAX);
		return false;
	}
	const struct database *d = settings_database(&r->cli->settings, w);
	r->watches[r->n++] = (struct run_watch){
		.watch = w,
		.database = d,
		.session = cli_session(d, w, false),
	};
	return true;
}

/* "node worker.js", for the ledger; no further arguments, because they may be secret. */
static const char *known_as(struct cli *c, char *const *argv)
{
	bool script = argv[1] && argv[1][0] != '-' && !strpbrk(argv[1], "=@");
	return script ? arena_printf(&c->arena, "%s %s", argv[0], argv[1]) : argv[0];
}

static int run_take_words(struct wrapped_run *r)
{
	struct cli *c = r->cli;
	if (c->dashes != 0 || c->nwords == 0)
		return cli_usage("give a program to run: defib run --watch WATCH -- PROGRAM [ARG…]");
	for (int i = 0; i < c->ngiven; i++)
		if (text_eq(c->given[i].name, "watch") && !run_add_watch(r, c->given[i].value))
			return EXIT_USAGE;
	if (r->n == 0 && c->settings.nwatches != 1)
		return cli_usage("name the watch that the program works on with --watch");
	if (r->n == 0)
		(void)run_add_watch(r, c->settings.watches[0].name);
	char **argv = ARENA_ARRAY(&c->arena, char *, c->nwords + 1);
	for (int i = 0; i < c->nwords; i++)
		argv[i] = arena_strdup(&c->arena, c->words[i]);
	r->argv = argv;
	r->command = known_as(c, argv);
	return EXIT_CLEAN;
}

static defib_err open_watches(struct wrapped_run *r, struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; i < r->n && !err; i++) {
		struct run_watch *w = &r->watches[i];
		int64_t freed = 0;
		w->exits = exits_new(&w->session, w->watch, cli_actor(r->cli),
		                     r->cli->settings.ledger == LEDGER_OFF);
		err = exits_ready(w->exits, f);
		if (!err)
			err = exits_sweep(w->exits, &freed, f);
	}
	return err;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

static defib_err name_run(struct wrapped_run *r, struct failure *f)
{
	const char *name = cli_value(r->cli, "name");
	defib_err err = incarnation_self(&r->self, f);
	if (!err)
		program_application(name ? name : base_name(r->argv[0]), r->self.nonce, r->application);
	return err;
}

/* Before it does anything: a process that finds us gone must be able to finish our work. */
static defib_err run_write_down(struct wrapped_run *r, struct failure *f)
{
	char watcher_text[256], leader_text[256];
	defib_err err = DEFIB_OK;
	r->leader = r->self;
	r->leader.pid = r->program.pid;
	r->leader.start = process_start(r->leader.pid);
	incarnation_text(&r->self, watcher_text, sizeof watcher_text);
	incarnation_text(&r->leader, leader_text, sizeof leader_text);
	for (int i = 0; i < r->n && !err; i++) {
		struct run_watch *w = &r->watches[i];
		w->program = (struct program){
			.application = r->application,
			.watch = w->watch->name,
			.watcher = arena_strdup(&r->cli->arena, watcher_text),
			.leader = arena_strdup(&r->cli->arena, leader_text),
			.command = r->command,
		};
		err = program_add(w->session.store, &w->program, f);
	}
	return err;
}

static defib_err run_start(struct wrapped_run *r, struct failure *f)
{
	const struct service *http = settings_http(&r->cli->settings);
	const struct run_environment env = {r->application, http->tokens, http->ntokens};
	defib_err err = run_fork(&r->program, r->argv, &env, f);
	if (err)
		return err;
	err = run_write_down(r, f);
	if (err) {
		run_forget(&r->program);
		return err;
	}
	if (run_go(&r->program, r->argv[0], f))
		return DEFIB_OK;
	struct failure ignored = {0};
	bool removed;
	for (int i = 0; i < r->n; i++)
		(void)!program_remove(r->watches[i].session.store, &r->watches[i].program, &removed,
		                      &ignored);
	return f->code;
}

/* ---- after ---- */

static void run_print_line(const struct wrapped_run *r, const char *text)
{
	if (!r->cli->quiet)
		cli_message(text, NULL);
}

/* Nothing is lost: the run's row stays, and the process that finds it finishes. */
static void give_up(const struct wrapped_run *r, struct run_watch *w, const char *why)
{
	cli_message(arena_printf(&r->cli->arena, "watch %s: not all jobs of %s were recovered: %s",
	                         w->watch->name, r->argv[0], why),
	            "a daemon on this host, or the next defib run, recovers the rest");
	w->done = true;
}

/* One try; *waiting is how many jobs, or sessions, must still be waited for. */
static defib_err try_to_free(const struct wrapped_run *r, struct run_watch *w, int64_t *waiting,
                             struct failure *f)
{
	int64_t empty_ms = r->empty_ms ? clock_boot_ms() - r->empty_ms : 0;
	struct exit_result result;
	defib_err err = session_ready(&w->session, f);
	if (!err && !w->printed)
		err = program_ended(w->session.store, &w->program, f);
	w->printed = w->printed || !err;
	if (!err)
		err = exits_release(w->exits, &w->program, empty_ms >= GRACE_MS, &result, f);
	if (err)
		return err;
	w->freed += result.outcomes[OUTCOME_RECOVERED];
	w->held += result.outcomes[OUTCOME_HELD];
	w->refused += result.outcomes[OUTCOME_REFUSED];
	*waiting = result.waiting;
	if (*waiting || !r->empty_ms)
		return DEFIB_OK;
	err = program_sessions(w->session.store, r->application, waiting, f);
	if (!err && *waiting == 0) {
		/* A claim that arrived meanwhile keeps the row, and the next try recovers it. */
		err = program_remove(w->session.store, &w->program, &w->done, f);
		*waiting = !w->done;
	}
	/* The row stays for later processes, in case such a session still writes something. */
	if (!err && empty_ms >= SESSIONS_MS)
		w->done = true;
	return err;
}

static bool is_passing(defib_err err)
{
	return err == DEFIB_CONNECTION || err == DEFIB_LOCKED || err == DEFIB_UNKNOWN_OUTCOME;
}

static void step(const struct wrapped_run *r, struct run_watch *w)
{
	struct failure f = {0};
	int64_t waiting = 0, now = clock_boot_ms();
	defib_err err = try_to_free(r, w, &waiting, &f);
	if (err && !is_passing(err)) {
		give_up(r, w, f.what);
		return;
	}
	if (!err && (!waiting || !r->empty_ms)) {
		w->away_ms = 0;
		return;
	}
	if (!w->away_ms)
		w->away_ms = now;
	if (now - w->away_ms >= AWAY_MS)
		give_up(r, w, err ? f.what : "other transactions hold its rows");
	else if (r->program.asked && r->empty_ms)
		give_up(r, w, "it was stopped before that");
}

static bool run_all_done(const struct wrapped_run *r)
{
	for (int i = 0; i < r->n; i++)
		if (!r->watches[i].done)
			return false;
	return true;
}

static void print_waiting(const struct wrapped_run *r)
{
	run_print_line(
		r,
		arena_printf(&r->cli->arena,
	                 "%s has ended (%s), but processes that it started are still running; waiting",
	                 r->argv[0], r->ending));
}

static void print_freed(const struct wrapped_run *r)
{
	for (int i = 0; i < r->n; i++) {
		const struct run_watch *w = &r->watches[i];
		const char *refused =
			w->refused ? arena_printf(&r->cli->arena, ", the database refused to recover %lld",
		                              (long long)w->refused)
					   : "";
		if (w->freed + w->held + w->refused)
			run_print_line(r, arena_printf(&r->cli->arena,
			                               "%s ended (%s): watch %s: recovered %lld, held %lld%s",
			                               r->argv[0], r->ending, w->watch->name,
			                               (long long)w->freed, (long long)w->held, refused));
	}
}

/* The program has ended; processes that it forked may not have. */
static void free_all(struct wrapped_run *r)
{
	int64_t pause = SOON_MS, ended_us = clock_boot_us();
	bool logged = false;
	run_ending(&r->program, r->ending, sizeof r->ending);
	for (int i = 0; i < r->n; i++) {
		r->watches[i].program.ending = r->ending;
		r->watches[i].program.ended_boot_us = ended_us;
		r->watches[i].program.clean = run_code(&r->program) == 0;
	}
	while (!run_all_done(r)) {
		if (!r->empty_ms && process_group_life(&r->leader, &r->self) == PROCESS_GONE) {
			r->empty_ms = clock_boot_ms();
			pause = SOON_MS;
		}
		for (int i = 0; i < r->n; i++)
			if (!r->watches[i].done)
				step(r, &r->watches[i]);
		if (!r->empty_ms && !logged && pause == LATER_MS) {
			print_waiting(r);
			logged = true;
		}
		if (!run_all_done(r))
			run_wait(&r->program, pause);
		pause = pause * 5 / 4 < LATER_MS ? pause * 5 / 4 : LATER_MS;
	}
	print_freed(r);
}

static int cmd_run(struct cli *c)
{
	struct failure f = {0};
	struct wrapped_run r = {.cli = c};
	int code = cli_load(c);
	if (code == EXIT_CLEAN)
		code = run_take_words(&r);
	if (code != EXIT_CLEAN)
		return code;
	defib_err err = name_run(&r, &f);
	if (!err)
		err = open_watches(&r, &f);
	if (!err)
		err = run_start(&r, &f);
	if (!err) {
		while (!r.program.over)
			run_wait(&r.program, -1);
		run_end(&r.program);
		free_all(&r);
		code = run_code(&r.program);
	}
	for (int i = 0; i < r.n; i++) {
		exits_free(r.watches[i].exits);
		session_close(&r.watches[i].session);
	}
	return err ? cli_fail(&f) : code;
}

COMMAND(run, cmd_run, "--watch WATCH -- PROGRAM [ARG…]",
        "start any worker, and recover its jobs when it ends", .options = run_options,
        .examples = {{"defib db attach pages --yes && defib run --watch pages -- ./crawl.sh",
                      "its jobs are recovered at once, however it ends"},
                     {"defib run --watch pages --name crawler -- ./crawl.sh --fast",
                      "with a name of its own in the ledger"}});

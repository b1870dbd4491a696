/* SPDX-License-Identifier: Apache-2.0
 * demo/crew.c: the processes of the demonstration, and the supervisor that restarts ended ones.
 *
 * Each process is in a process group of its own, so that only we handle Ctrl-C on a terminal, and
 * the kernel kills it if we are killed: nothing outlives us.
 */
#include "cli/demo/crew.h"

#include "cli/demo/acts.h"
#include "cli/demo/demo.h"
#include "cli/demo/story.h"
#include "cli/load.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define RESTART_MS 1200 /* the pause of a typical supervisor */
#define STOP_MS 5000

/* In a database of the user, with the run's name too: that is how they are found at the end. */
static void name_member(const struct demo *d, struct demo_member *m, char letter, int i)
{
	if (d->db)
		snprintf(m->name, sizeof m->name, "%s-%c%d", d->run, letter, i);
	else
		snprintf(m->name, sizeof m->name, "%c%d", letter, i);
}

const char *demo_label(const char *name)
{
	const char *dash = strrchr(name, '-');
	return dash ? dash + 1 : name;
}

void demo_crew_init(struct demo *d)
{
	struct demo_member *m = d->members;
	*m = (struct demo_member){.role = DEMO_DAEMON, .name = "daemon"};
	for (int i = 1; i <= DEMO_WORKERS; i++) {
		(++m)->role = DEMO_WORKER;
		name_member(d, m, 'w', i);
	}
	for (int i = 1; i <= DEMO_PAGE_WORKERS; i++) {
		(++m)->role = DEMO_PAGES;
		name_member(d, m, 'p', i);
	}
	assert(m - d->members == DEMO_MEMBERS - 1);
}

/* ---- starting ---- */

static int fill_argv(const struct demo *d, const struct demo_member *m, const char **argv,
                     struct arena *a)
{
	const char *config = arena_printf(a, "%s/defib.yaml", d->folder);
	const char *daemon[] = {d->program, "daemon",  "-c",    config,
	                        "--listen", d->listen, "--log", "logfmt"};
	const char *worker[] = {d->program,
	                        "work",
	                        "-c",
	                        config,
	                        "--queue",
	                        d->queue,
	                        "--name",
	                        m->name,
	                        "--concurrency",
	                        DEMO_SLOTS,
	                        "--lease",
	                        arena_printf(a, "%lldms", (long long)d->lease_ms),
	                        "--poll",
	                        "200ms",
	                        "--grace",
	                        "1s",
	                        "--pass-environment",
	                        "DEMO_EFFECTS",
	                        "--spool",
	                        arena_printf(a, "%s/spool", d->folder),
	                        "--",
	                        arena_printf(a, "%s/job", d->folder)};
	const char *pages[] = {d->program, "demo"};
	const struct {
		const char **words;
		size_t n;
	} roles[] = {[DEMO_DAEMON] = {daemon, sizeof daemon / sizeof *daemon},
	             [DEMO_WORKER] = {worker, sizeof worker / sizeof *worker},
	             [DEMO_PAGES] = {pages, sizeof pages / sizeof *pages}};
	for (size_t i = 0; i < roles[m->role].n; i++)
		argv[i] = roles[m->role].words[i];
	return (int)roles[m->role].n;
}

/* In the child, which has one thread: the program's environment. */
static void set_environment(const struct demo *d, const struct demo_member *m)
{
	static const char *const not_ours[] = {"DEFIB_DB", "DEFIB_CONFIG", "NOTIFY_SOCKET",
	                                       "WATCHDOG_USEC", "DEFIB_DEMO_PAGES"};
	for (size_t i = 0; i < sizeof not_ours / sizeof *not_ours; i++)
		unsetenv(not_ours[i]);
	setenv("DEFIB_DEMO_URL", d->url, 1);
	setenv("DEMO_EFFECTS", d->effects, 1);
	setenv("PGAPPNAME", m->name, 1); /* identifies its sessions */
	if (m->role == DEMO_PAGES)
		setenv("DEFIB_DEMO_PAGES", d->pages, 1);
}

static _Noreturn void become(const struct demo *d, const struct demo_member *m, pid_t parent)
{
	struct arena a = ARENA_INIT;
	const char *argv[32] = {NULL};
	sigset_t none;
	fill_argv(d, m, argv, &a);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	set_environment(d, m);
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int log = open(arena_printf(&a, "%s/%s.log", d->folder, m->name),
	               O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	dup2(in, STDIN_FILENO);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	execv(d->program, (char *const *)argv);
	_exit(127);
}

static defib_err demo_crew_start_member(struct demo *d, struct demo_member *m, struct failure *f)
{
	pid_t self = getpid();
	(void)fflush(d->out);
	pid_t pid = fork();
	if (pid == 0)
		become(d, m, self);
	if (pid < 0)
		return fail(f, DEFIB_IO, "cannot start a process: %s", strerror(errno));
	setpgid(pid, pid); /* in both, whichever is first */
	m->pid = pid;
	m->killed = m->spared = false;
	m->restart_ms = m->frozen_ms = 0;
	return DEFIB_OK;
}

defib_err demo_crew_start(struct demo *d, enum demo_role role, struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; i < DEMO_MEMBERS && !err; i++)
		if (d->members[i].role == role)
			err = demo_crew_start_member(d, &d->members[i], f);
	return err;
}

/* ---- choosing members ---- */

static bool at_work(const struct demo_member *m)
{
	return m->pid && !m->killed && !m->frozen_ms;
}

int demo_alive(const struct demo *d, enum demo_role role)
{
	int n = 0;
	for (int i = 0; i < DEMO_MEMBERS; i++)
		n += d->members[i].role == role && at_work(&d->members[i]);
	return n;
}

struct demo_member *demo_member_at_work(struct demo *d, enum demo_role role)
{
	struct demo_member *there[DEMO_MEMBERS];
	int n = 0;
	for (int i = 0; i < DEMO_MEMBERS; i++) {
		struct demo_member *m = &d->members[i];
		if (m->role == role && at_work(m) && !m->spared)
			there[n++] = m;
	}
	return n ? there[(int)(chance_draw(&d->chance) * n)] : NULL;
}

/* ---- ends ---- */

void demo_kill(struct demo *d, struct demo_member *m)
{
	m->killed = true;
	kill(m->pid, SIGKILL);
	if (m->role == DEMO_WORKER)
		d->killed++;
	else
		d->pages_killed++;
}

void demo_freeze(struct demo_member *m)
{
	m->frozen_ms = clock_boot_ms();
	m->spared = true;
	m->given_up = false;
	kill(m->pid, SIGSTOP);
}

void demo_given_up(struct demo *d, pid_t pid)
{
	for (int i = 0; i < DEMO_MEMBERS; i++)
		if (d->members[i].pid == pid)
			d->members[i].given_up = true;
}

void demo_thaw(struct demo_member *m)
{
	m->frozen_ms = 0;
	kill(m->pid, SIGCONT);
}

void demo_signal_all(const struct demo *d, enum demo_role role, int signal)
{
	for (int i = 0; i < DEMO_MEMBERS; i++)
		if (d->members[i].role == role && d->members[i].pid)
			kill(d->members[i].pid, signal);
}

/* An end that we did not cause: the poisoned job, or a defect. */
static void print_end(struct demo *d, const struct demo_member *m, int status)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && m->role == DEMO_WORKER && d->poison) {
		d->killed_by_job++;
		demo_act_victim(d, m);
		demo_event(d, COLOR_RED, "%s was killed by the job it ran, the poisoned one (%lld)",
		           demo_label(m->name), (long long)d->poison);
	} else {
		demo_print(d, COLOR_YELLOW, "%s ended by itself (%s %d) and is restarted",
		           demo_label(m->name), WIFSIGNALED(status) ? "signal" : "exit code",
		           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
}

/* The last line of its log says why. */
static defib_err print_daemon(struct demo *d, struct failure *f)
{
	char path[320], line[768], last[640] = "it left no message";
	snprintf(path, sizeof path, "%s/daemon.log", d->folder);
	FILE *in = fopen(path, "re");
	while (in && fgets(line, sizeof line, in)) {
		line[strcspn(line, "\n")] = '\0';
		utf8_copy(last, sizeof last, line);
	}
	if (in)
		(void)fclose(in);
	return fail(f, DEFIB_IO, "the daemon of the demonstration ended: %s", last);
}

defib_err demo_crew_tend(struct demo *d, struct failure *f)
{
	defib_err err = DEFIB_OK;
	int64_t now = clock_boot_ms();
	for (int i = 0; i < DEMO_MEMBERS && !err; i++) {
		struct demo_member *m = &d->members[i];
		int status;
		if (m->pid && waitpid(m->pid, &status, WNOHANG) == m->pid) {
			if (m->role == DEMO_DAEMON)
				err = print_daemon(d, f);
			if (!err && !m->killed)
				print_end(d, m, status);
			m->pid = 0;
			m->frozen_ms = 0;
			m->restart_ms = now + RESTART_MS;
		} else if (!m->pid && m->restart_ms && now >= m->restart_ms) {
			err = demo_crew_start_member(d, m, f);
		}
	}
	return err;
}

void demo_crew_stop(struct demo *d)
{
	int64_t end = clock_boot_ms() + STOP_MS;
	int left = 0;
	for (int i = 0; i < DEMO_MEMBERS; i++) {
		if (d->members[i].pid) {
			kill(d->members[i].pid, SIGTERM);
			kill(d->members[i].pid, SIGCONT);
			left++;
		}
	}
	while (left > 0) {
		bool late = clock_boot_ms() > end;
		for (int i = 0; i < DEMO_MEMBERS; i++) {
			struct demo_member *m = &d->members[i];
			if (m->pid && late)
				kill(m->pid, SIGKILL);
			if (m->pid && waitpid(m->pid, NULL, late ? 0 : WNOHANG) == m->pid) {
				m->pid = 0;
				left--;
			}
		}
		if (left > 0)
			usleep(20000);
	}
}

/* ---- page workers, which know nothing of defib ---- */

#define IDLE_US 200000
#define WORK_US 250000

struct page_worker {
	struct demo demo; /* for its session */
	const char *table, *effects;
	struct arena arena;
};

bool demo_pages_wanted(void)
{
	return getenv("DEFIB_DEMO_PAGES") != NULL;
}

static defib_err take_page(struct page_worker *w, int64_t *id, int64_t *attempt, struct failure *f)
{
	static const char take[] =
		"UPDATE %s SET status = 'Processing', attempts = attempts + 1, updated_at = "
		"{now_transaction} WHERE id = (SELECT id FROM %s WHERE status = 'Queued' ORDER BY id LIMIT "
		"1{skip_locked}) RETURNING id, attempts";
	struct store_rows rows;
	const char *sql = arena_printf(&w->arena, take, w->table, w->table);
	defib_err err = demo_ask(&w->demo, sql, NULL, 0, &w->arena, &rows, f);
	*id = !err && rows.nrows ? row_int(&rows, 0, 0, 0) : 0;
	*attempt = *id ? row_int(&rows, 0, 1, 0) : 0;
	return err;
}

/* Only if it is still this attempt's: a page that another worker has now is left alone. */
static defib_err end_page(struct page_worker *w, int64_t id, int64_t attempt, struct failure *f)
{
	static const char end[] = "UPDATE %s SET status = 'Complete', updated_at = {now_transaction} "
							  "WHERE id = $1 AND attempts = $2 AND status = 'Processing'";
	struct store_param params[] = {P_INT(id), P_INT(attempt)};
	const char *sql = arena_printf(&w->arena, end, w->table);
	return demo_ask(&w->demo, sql, params, 2, &w->arena, NULL, f);
}

static bool leave_effect(const struct page_worker *w, int64_t id, int64_t attempt)
{
	char path[512];
	snprintf(path, sizeof path, "%s/page.%lld.page.%lld", w->effects, (long long)id,
	         (long long)attempt);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd >= 0 && close(fd) == 0;
}

/* A database that is busy, or unavailable for a moment, is tried again. */
static bool may_pass(defib_err err)
{
	return err == DEFIB_LOCKED || err == DEFIB_CONNECTION || err == DEFIB_UNKNOWN_OUTCOME ||
	       err == DEFIB_TIMEOUT;
}

static defib_err one_page(struct page_worker *w, struct failure *f)
{
	int64_t id, attempt;
	defib_err err = take_page(w, &id, &attempt, f);
	if (err || !id) {
		usleep(IDLE_US);
		return err;
	}
	usleep((useconds_t)(WORK_US + id * 7919 % 100 * 1000));
	if (!leave_effect(w, id, attempt))
		return fail(f, DEFIB_IO, "page %lld: %s", (long long)id, strerror(errno));
	do
		err = end_page(w, id, attempt, f);
	while (may_pass(err));
	return err;
}

int demo_pages_run(void)
{
	struct page_worker w = {.table = getenv("DEFIB_DEMO_PAGES"), .effects = getenv("DEMO_EFFECTS")};
	struct failure f = {0};
	defib_err err = DEFIB_OK;
	w.demo.url = w.demo.db = getenv("DEFIB_DEMO_URL");
	if (!w.table || !w.effects || !w.demo.url || !store_engine_of(w.demo.url, &w.demo.engine, &f))
		return EXIT_USAGE;
	while (!err || may_pass(err)) {
		err = one_page(&w, &f);
		arena_clear(&w.arena);
	}
	return cli_fail(&f);
}

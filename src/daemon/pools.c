/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/pools.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Time for a worker to end itself, beyond the grace that it gives its jobs. */
#define OWN_GRACE_MS 10000
#define QUEUE_GRACE_MS 30000 /* of a worker of the built-in queue */

struct pool_child {
	char *name; /* of the watch; BUILTIN_NAME: the workflows of the built-in queue */
	uint64_t shape;
	int64_t grace_ms;
	struct pool_life life;
	pid_t pid;      /* 0: none */
	bool wanted;    /* during a reload: it is still needed */
	bool reloading; /* a HUP must still be sent to it */
};

struct pools {
	struct pools_options options;
	struct pool_child **children;
	int n;
	bool stopping;
};

/* ---- which processes are needed ---- */

static bool has_program(const struct watch *w)
{
	return w->work.command.n || w->work.workflow || (w->kind.text && w->work.workflows.n);
}

/* Workflows that no watch names belong to jobs of the built-in queue. */
static bool queue_has_workflows(const struct settings *all)
{
	for (int i = 0; i < all->workflows.n; i++) {
		bool named = false;
		for (int k = 0; k < all->nwatches; k++)
			named = named || text_eq(all->watches[k].work.workflow, all->workflows.items[i].name);
		if (!named)
			return true;
	}
	return false;
}

static struct pool_child *child_named(const struct pools *p, const char *name)
{
	for (int i = 0; i < p->n; i++)
		if (text_eq(p->children[i]->name, name))
			return p->children[i];
	return NULL;
}

static void want(struct pools *p, const char *name, uint64_t shape, int64_t grace_ms)
{
	struct pool_child *c = child_named(p, name);
	int64_t now = clock_boot_ms();
	if (!c) {
		p->children = mem_grow(p->children, sizeof(struct pool_child *) * (size_t)(p->n + 1));
		c = p->children[p->n++] = mem_alloc(sizeof *c);
		c->name = mem_strdup(name);
		c->shape = shape;
		pool_life_init(&c->life, now);
	} else if (c->life.state == POOL_OVER) {
		pool_life_init(&c->life, now);
	} else if (shape != c->shape || c->life.state == POOL_STOPS) {
		pool_stop(&c->life, c->grace_ms, true, now);
	} else {
		c->reloading = c->life.state == POOL_RUNS;
	}
	c->shape = shape;
	c->grace_ms = grace_ms;
	c->wanted = true;
}

static void want_watch(struct pools *p, const struct watch *w, uint64_t shape)
{
	if (!w->work.given || !w->work.enabled)
		return;
	if (has_program(w))
		want(p, w->name, shape, 2 * w->work.grace_us / 1000 + OWN_GRACE_MS);
	else
		log_event(LOG_WARN, "a watch without work.command has no worker here",
		          LOG_STR("watch", w->name));
}

void pools_reload(struct pools *p)
{
	struct live_settings *setup = live_settings_hold(p->options.setups);
	const struct settings *all = &setup->settings;
	for (int i = 0; i < p->n; i++)
		p->children[i]->wanted = false;
	for (int i = 0; i < all->nwatches && !p->stopping; i++)
		if (setup->chosen[i])
			want_watch(p, &all->watches[i], setup->shapes[i]);
	if (setup->queue && queue_has_workflows(all) && !p->stopping)
		want(p, BUILTIN_NAME, setup->shapes[all->nwatches], QUEUE_GRACE_MS + OWN_GRACE_MS);
	for (int i = 0; i < p->n; i++)
		if (!p->children[i]->wanted)
			pool_stop(&p->children[i]->life, p->children[i]->grace_ms, false, clock_boot_ms());
	live_settings_drop(p->options.setups, setup);
}

/* ---- processes ---- */

/* Not for workers: variables of the service manager, and the secrets of the daemon's own tokens. */
static bool is_ours_alone(const struct live_settings *setup, const char *entry)
{
	static const char *const ours[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
	                                   "LISTEN_FDS",    "LISTEN_PID",    "DEFIB_DB"};
	const struct service *http = settings_http(&setup->settings);
	size_t n = strcspn(entry, "=");
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (strlen(ours[i]) == n && memcmp(ours[i], entry, n) == 0)
			return true;
	for (int i = 0; i < http->ntokens; i++) {
		const char *name = http->tokens[i].env;
		if (name && strlen(name) == n && memcmp(name, entry, n) == 0)
			return true;
	}
	return false;
}

static char **child_env(const struct pools *p, const struct live_settings *setup, struct arena *a)
{
	int n = 0, kept = 0;
	while (environ[n])
		n++;
	char **env = ARENA_ARRAY(a, char *, n + 2);
	for (int i = 0; i < n; i++)
		if (!is_ours_alone(setup, environ[i]))
			env[kept++] = environ[i];
	if (p->options.db)
		env[kept++] = arena_printf(a, "DEFIB_DB=%s", p->options.db);
	return env;
}

static const char **child_argv(const struct pools *p, const struct pool_child *c, struct arena *a)
{
	int n = 0, argc = 0;
	while (p->options.common[n])
		n++;
	const char **argv = ARENA_ARRAY(a, const char *, n + 4);
	argv[argc++] = "defib";
	argv[argc++] = "work";
	if (!text_eq(c->name, BUILTIN_NAME))
		argv[argc++] = c->name;
	for (int i = 0; i < n; i++)
		argv[argc++] = p->options.common[i];
	return argv;
}

/*
 * Between fork and exec: only async-signal-safe calls. A group of its own, so that a ^C at the
 * daemon's terminal reaches only the daemon, which passes it on.
 */
static _Noreturn void pools_become(const char *program, const char **argv, char **env, pid_t parent)
{
	sigset_t mask; /* a HUP that arrives before it is ready for one waits */
	sigemptyset(&mask);
	sigaddset(&mask, SIGHUP);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
		_exit(126);
	(void)setpgid(0, 0);
	(void)close_range(STDERR_FILENO + 1, ~0U, 0);
	(void)sigprocmask(SIG_SETMASK, &mask, NULL);
	execve(program, (char *const *)argv, env);
	_exit(127);
}

static void pools_start(const struct pools *p, struct pool_child *c, int64_t now)
{
	AUTO_ARENA a = ARENA_INIT;
	struct live_settings *setup = live_settings_hold(p->options.setups);
	const char **argv = child_argv(p, c, &a);
	char **env = child_env(p, setup, &a);
	pid_t parent = getpid(), pid = fork();
	if (pid == 0)
		pools_become(p->options.program, argv, env, parent);
	if (pid > 0) {
		c->pid = pid;
		pool_began(&c->life, now);
		log_event(LOG_INFO, "a worker was started", LOG_STR("watch", c->name), LOG_INT("pid", pid));
	} else {
		pool_ended(&c->life, now);
		log_event(LOG_ERROR, "a worker could not be started", LOG_STR("watch", c->name),
		          LOG_STR("because", strerror(errno)));
	}
	c->reloading = false;
	live_settings_drop(p->options.setups, setup);
}

static void tell_end(const struct pool_child *c, bool asked, int status, int64_t now)
{
	int64_t next_ms = c->life.due_ms - now;
	char text[64];
	const char *how = text;
	if (WIFSIGNALED(status))
		snprintf(text, sizeof text, "%s", strsignal(WTERMSIG(status)));
	else
		snprintf(text, sizeof text, "exit %d", WEXITSTATUS(status));
	log_event(asked ? LOG_INFO : LOG_WARN, "a worker ended", LOG_STR("watch", c->name),
	          LOG_INT("pid", c->pid), LOG_STR("how", how),
	          LOG_INT("lived_s", (now - c->life.began_ms) / 1000),
	          LOG_INT("restarts", c->life.restarts),
	          LOG_INT("next_start_s", c->life.state == POOL_WAITS ? next_ms / 1000 : -1));
}

static void pools_reap(struct pool_child *c, int64_t now)
{
	int status = 0;
	if (!c->pid || waitpid(c->pid, &status, WNOHANG) != c->pid)
		return;
	bool asked = c->life.state == POOL_STOPS;
	pool_ended(&c->life, now);
	tell_end(c, asked, status, now);
	c->pid = 0;
}

static void pools_step(const struct pools *p, struct pool_child *c, int64_t now)
{
	pools_reap(c, now);
	if (c->reloading && c->pid)
		(void)kill(c->pid, SIGHUP);
	c->reloading = false;
	switch (pool_step(&c->life, now)) {
	case POOL_NOTHING:
		break;
	case POOL_START:
		pools_start(p, c, now);
		break;
	case POOL_TERM:
		(void)kill(c->pid, SIGTERM);
		break;
	case POOL_KILL:
		log_event(LOG_WARN, "a worker does not stop and is killed", LOG_STR("watch", c->name),
		          LOG_INT("pid", c->pid));
		(void)kill(c->pid, SIGKILL);
		break;
	}
}

static void pools_forget(struct pools *p, int i)
{
	free(p->children[i]->name);
	free(p->children[i]);
	p->children[i] = p->children[--p->n];
}

int64_t pools_tick(struct pools *p)
{
	int64_t now = clock_boot_ms(), due = INT64_MAX;
	for (int i = 0; i < p->n; i++) {
		struct pool_child *c = p->children[i];
		pools_step(p, c, now);
		if (c->life.state == POOL_OVER)
			pools_forget(p, i--);
		else if (pool_due_ms(&c->life) < due)
			due = pool_due_ms(&c->life);
	}
	return due == INT64_MAX ? due : (due > now ? due - now : 0);
}

void pools_stop(struct pools *p)
{
	int64_t now = clock_boot_ms();
	for (int i = 0; i < p->n; i++) {
		struct pool_child *c = p->children[i];
		if (p->stopping)
			pool_hurry(&c->life, now);
		else
			pool_stop(&c->life, c->grace_ms, false, now);
	}
	p->stopping = true;
}

bool pools_over(const struct pools *p)
{
	return p->n == 0;
}

struct pools *pools_new(const struct pools_options *o)
{
	struct pools *p = mem_alloc(sizeof *p);
	p->options = *o;
	pools_reload(p);
	return p;
}

void pools_free(struct pools *p)
{
	while (p->n)
		pools_forget(p, 0);
	free(p->children);
	free(p);
}

/* ---- the life of a process ---- */

void pool_life_init(struct pool_life *l, int64_t now_ms)
{
	*l = (struct pool_life){.due_ms = now_ms, .pause_ms = POOL_PAUSE_MS};
}

static enum pool_act step_stopping(struct pool_life *l, int64_t now_ms)
{
	if (l->term) {
		l->term = false;
		return POOL_TERM;
	}
	if (now_ms < l->due_ms)
		return POOL_NOTHING;
	l->due_ms = now_ms + POOL_PAUSE_MS; /* until it is gone */
	return POOL_KILL;
}

enum pool_act pool_step(struct pool_life *l, int64_t now_ms)
{
	if (l->state == POOL_STOPS)
		return step_stopping(l, now_ms);
	return l->state == POOL_WAITS && now_ms >= l->due_ms ? POOL_START : POOL_NOTHING;
}

void pool_began(struct pool_life *l, int64_t now_ms)
{
	assert(l->state == POOL_WAITS);
	l->state = POOL_RUNS;
	l->began_ms = now_ms;
}

void pool_ended(struct pool_life *l, int64_t now_ms)
{
	assert(l->state != POOL_OVER);
	if (l->state == POOL_STOPS) {
		l->state = l->again ? POOL_WAITS : POOL_OVER;
		l->due_ms = now_ms;
		return;
	}
	/* A process that could not be started has no run time to count. */
	if (l->state == POOL_RUNS && now_ms - l->began_ms >= POOL_LIVED_MS)
		l->pause_ms = POOL_PAUSE_MS;
	l->state = POOL_WAITS;
	l->due_ms = now_ms + l->pause_ms;
	l->pause_ms = l->pause_ms < POOL_PAUSE_MAX_MS / 2 ? 2 * l->pause_ms : POOL_PAUSE_MAX_MS;
	l->restarts++;
}

void pool_stop(struct pool_life *l, int64_t grace_ms, bool again, int64_t now_ms)
{
	if (l->state == POOL_OVER || (l->state == POOL_WAITS && again))
		return;
	l->again = again;
	if (l->state == POOL_WAITS) {
		l->state = POOL_OVER;
	} else if (l->state == POOL_RUNS) {
		l->state = POOL_STOPS;
		l->term = true;
		l->due_ms = now_ms + grace_ms;
	}
}

void pool_hurry(struct pool_life *l, int64_t now_ms)
{
	if (l->state != POOL_STOPS)
		return;
	l->term = true;
	if (l->due_ms > now_ms + POOL_HURRY_MS)
		l->due_ms = now_ms + POOL_HURRY_MS;
}

int64_t pool_due_ms(const struct pool_life *l)
{
	if (l->state == POOL_STOPS && l->term)
		return 0;
	return l->state == POOL_WAITS || l->state == POOL_STOPS ? l->due_ms : INT64_MAX;
}

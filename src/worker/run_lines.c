/* SPDX-License-Identifier: Apache-2.0
 * run_lines.c: jobs that a program beside the worker runs (`defib work --lines`); see
 * worker_state.h. The caller's thread reads and handles lines; the turn thread adds jobs. Nothing
 * here waits for the client: what it does not read is kept, and while much is kept, nothing more is
 * read from it.
 */

#include "worker/run_lines.h"

#include "base/log.h"
#include "worker/lines.h"
#include "worker/token.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#define READ_BYTES (16 * 1024)
#define UNREAD_MOST (1024 * 1024) /* kept for the client before it is not listened to */
#define LAST_WRITE_MS 1000        /* how long the last lines may take */
#define PINGS 4                   /* per client time-out */
#define LATE_MS 2000              /* lines_look() is called at least once per second */
/* A run is its place in the table and how often the place was used, so that no number comes again.
 */
#define PLACES_MAX (1 << 20)

/* A job that the client has. */
struct given {
	struct job *job; /* NULL: the place is free */
	const struct worker_pool *pool;
	int64_t uses;
	int64_t began_ms, limit_ms; /* limit 0: none */
	int64_t asked_ms;           /* when it was asked to stop; 0: it was not */
	bool timed_out, reported;
	int next_free;
};

struct lines {
	struct lines_options options;
	int epoll;
	uint32_t in_events, out_events;
	int flags_in, flags_out; /* of the descriptors before, or -1 */
	pthread_mutex_t lock;
	/* guarded by the lock */
	struct given *all;
	int n, cap, first_free, held;
	struct buf out;
	size_t sent;       /* of `out` */
	int64_t first_use; /* random: a client that starts a worker again does not meet old numbers */
	bool broken;       /* the client does not read anymore */
	int64_t due_ms;
	bool stopping;
	/* of the caller's thread */
	struct buf in;
	bool skipping; /* the rest of a line that was too long */
	int64_t nlines, last_line_ms, pinged_ms, looked_ms, gone_ms;
};

/* ---- writing ---- */

/* `events` 0: not at all, because the end of a descriptor is always reported. */
static bool watch_fd(struct lines *l, int fd, uint32_t *now, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.fd = fd};
	bool ok =
		*now == events || epoll_ctl(l->epoll, events ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &ev) == 0;
	*now = events;
	return ok;
}

/* With the lock held. */
static void client_flush(struct lines *l)
{
	while (l->sent < l->out.len && !l->broken) {
		ssize_t n = write(l->options.out, l->out.data + l->sent, l->out.len - l->sent);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno != EINTR) {
			l->broken = true;
			l->options.began(l->options.ctx);
		}
		l->sent += n > 0 ? (size_t)n : 0;
	}
	if (l->sent == l->out.len || l->broken) {
		buf_clear(&l->out);
		l->sent = 0;
	} else if (l->sent > UNREAD_MOST) {
		memmove(l->out.data, l->out.data + l->sent, l->out.len - l->sent);
		buf_cut(&l->out, l->out.len - l->sent);
		l->sent = 0;
	}
	(void)watch_fd(l, l->options.out, &l->out_events, l->out.len > 0 ? EPOLLOUT : 0);
}

static size_t unread(struct lines *l)
{
	pthread_mutex_lock(&l->lock);
	size_t n = l->out.len - l->sent;
	pthread_mutex_unlock(&l->lock);
	return n;
}

static void client_answer(struct lines *l, const char *message)
{
	log_event(LOG_WARN, "a line of the program beside this worker was not accepted",
	          LOG_INT("line", l->nlines), LOG_STR("because", message));
	pthread_mutex_lock(&l->lock);
	line_add_error(&l->out, l->nlines, message);
	pthread_mutex_unlock(&l->lock);
}

/* ---- jobs ---- */

static int64_t run_of(const struct lines *l, const struct given *g)
{
	return g->uses * PLACES_MAX + (g - l->all);
}

/* With the lock held; NULL: this run has ended or never existed. */
static struct given *client_find(struct lines *l, int64_t run)
{
	int64_t at = run % PLACES_MAX;
	if (at >= l->n || !l->all[at].job || l->all[at].uses != run / PLACES_MAX)
		return NULL;
	return &l->all[at];
}

static struct given *take_place(struct lines *l)
{
	if (l->first_free >= 0) {
		struct given *g = &l->all[l->first_free];
		l->first_free = g->next_free;
		return g;
	}
	assert(l->n < PLACES_MAX);
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 16;
		l->all = mem_grow(l->all, sizeof *l->all * (size_t)l->cap);
	}
	l->all[l->n] = (struct given){.uses = l->first_use};
	return &l->all[l->n++];
}

static void free_place(struct lines *l, struct given *g)
{
	g->job = NULL;
	g->next_free = l->first_free;
	l->first_free = (int)(g - l->all);
	l->held--;
}

void lines_add(struct lines *l, struct job *j, const struct worker_pool *pool)
{
	pthread_mutex_lock(&l->lock);
	bool broken = l->broken;
	if (!broken) {
		struct given *g = take_place(l);
		*g = (struct given){
			.job = j,
			.pool = pool,
			.uses = g->uses + 1,
			.began_ms = clock_boot_ms(),
			.limit_ms = j->claim.timeout_ms ? j->claim.timeout_ms : pool->timeout_ms,
		};
		l->held++;
		if (g->limit_ms > 0 && g->began_ms + g->limit_ms < l->due_ms) {
			l->due_ms = g->began_ms + g->limit_ms;
			l->options.began(l->options.ctx);
		}
		line_add_job(&l->out, run_of(l, g), &j->claim, j->worker, g->limit_ms);
	}
	pthread_mutex_unlock(&l->lock);
	if (broken) {
		j->as = SETTLE_RELEASED;
		l->options.ended(l->options.ctx, j);
	}
}

void lines_go(struct lines *l)
{
	pthread_mutex_lock(&l->lock);
	if (l->out_events == 0 && l->out.len > 0)
		client_flush(l);
	pthread_mutex_unlock(&l->lock);
}

void lines_refused(struct lines *l, const struct job *j)
{
	pthread_mutex_lock(&l->lock);
	line_add_refused(&l->out, &j->claim);
	pthread_mutex_unlock(&l->lock);
}

int lines_held(struct lines *l)
{
	pthread_mutex_lock(&l->lock);
	int n = l->held;
	pthread_mutex_unlock(&l->lock);
	return n;
}

/* ---- what the client says ---- */

static char *cut_error(const char *text)
{
	size_t size = strlen(text) + 1;
	size = size > LINE_ERROR_MAX ? LINE_ERROR_MAX : size;
	char *out = mem_alloc(size);
	utf8_copy(out, size, text);
	return out;
}

/* As for programs: a result that the database could not store as JSON is stored as a string. */
static char *result_of(const char *text)
{
	json_auto_t *json = json_read(text, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL);
	struct buf out = BUF_INIT;
	if (json)
		return mem_strdup(text);
	buf_add_json(&out, text);
	return buf_detach(&out);
}

static void set_end(struct job *j, const struct line_fields *fields, bool timed_out)
{
	j->as = line_outcome(fields->what);
	j->delay_ms = fields->ms;
	if (j->as == SETTLE_DONE && fields->result && strlen(fields->result) > LINE_RESULT_MAX) {
		char text[64];
		snprintf(text, sizeof text, "result of more than %d bytes", LINE_RESULT_MAX);
		j->as = SETTLE_FAILED;
		j->error = mem_strdup(text);
		return;
	}
	if (j->as == SETTLE_DONE) {
		j->result = fields->result ? result_of(fields->result) : NULL;
		return;
	}
	j->error = fields->error ? cut_error(fields->error) : NULL;
	if (timed_out) {
		j->as = SETTLE_TIMED_OUT;
		j->error = j->error ? j->error : mem_strdup("over its time limit");
	}
}

/* Its job if the line ends it, else NULL. With the lock held. */
static struct job *take_run_line(struct lines *l, struct given *g, const struct line_fields *fields)
{
	struct job *j = g->job;
	if (fields->what == LINE_PROGRESS) {
		job_say(j, fields->step, fields->text);
		l->options.on_progress(l->options.ctx);
		return NULL;
	}
	if (fields->what == LINE_EXTEND) {
		int64_t limit = clock_boot_ms() - g->began_ms + fields->ms;
		g->limit_ms = g->timed_out || limit < 1 ? g->limit_ms : limit;
		l->due_ms = 0;
		return NULL;
	}
	set_end(j, fields, g->timed_out);
	free_place(l, g);
	return j;
}

static void client_line(struct lines *l, const char *line, size_t n)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	struct line_fields fields;
	l->nlines++;
	if (line_read(line, n, &a, &fields, &f)) {
		client_answer(l, f.what);
		return;
	}
	if (fields.what == LINE_STOP)
		l->options.stop(l->options.ctx);
	if (fields.what == LINE_STOP || fields.what == LINE_PONG)
		return;
	pthread_mutex_lock(&l->lock);
	struct given *g = client_find(l, fields.run);
	struct job *ended = g ? take_run_line(l, g, &fields) : NULL;
	pthread_mutex_unlock(&l->lock);
	if (ended) {
		l->options.ended(l->options.ctx, ended);
	} else if (!g) {
		char text[96];
		snprintf(text, sizeof text, "run %lld has ended or never existed", (long long)fields.run);
		client_answer(l, text);
	}
}

static void too_long(struct lines *l)
{
	char text[64];
	snprintf(text, sizeof text, "a line of more than %d bytes", LINE_MAX_LEN);
	l->nlines++;
	client_answer(l, text);
}

static void take_lines(struct lines *l)
{
	char *at = l->in.data, *end = at + l->in.len, *newline;
	while ((newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		char *last = newline > at && newline[-1] == '\r' ? newline - 1 : newline;
		size_t n = (size_t)(last - at);
		*last = '\0';
		if (!l->skipping && n > LINE_MAX_LEN)
			too_long(l);
		else if (!l->skipping && n > 0)
			client_line(l, at, n);
		l->skipping = false;
		at = newline + 1;
	}
	size_t rest = (size_t)(end - at);
	memmove(l->in.data, at, rest);
	buf_cut(&l->in, rest);
	if (rest <= LINE_MAX_LEN)
		return;
	if (!l->skipping)
		too_long(l);
	l->skipping = true;
	buf_clear(&l->in);
}

static void gone(struct lines *l, int64_t now_ms, const char *why)
{
	if (l->gone_ms)
		return;
	l->gone_ms = now_ms;
	pthread_mutex_lock(&l->lock);
	l->broken = true;
	int held = l->held;
	(void)watch_fd(l, l->options.out, &l->out_events, 0);
	pthread_mutex_unlock(&l->lock);
	(void)watch_fd(l, l->options.in, &l->in_events, 0);
	log_event(held ? LOG_CRITICAL : LOG_INFO, "the program beside this worker is gone",
	          LOG_STR("because", why), LOG_INT("jobs", held));
}

static void listen_to(struct lines *l, int64_t now_ms)
{
	char bytes[READ_BYTES];
	ssize_t n = read(l->options.in, bytes, sizeof bytes);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		gone(l, now_ms, n == 0 ? "it closed its output" : strerror(errno));
		return;
	}
	if (n < 0)
		return;
	l->last_line_ms = now_ms;
	buf_addn(&l->in, bytes, (size_t)n);
	take_lines(l);
}

void lines_step(struct lines *l, int64_t now_ms)
{
	if (l->gone_ms)
		return;
	if (l->in_events)
		listen_to(l, now_ms);
	pthread_mutex_lock(&l->lock);
	client_flush(l);
	bool broken = l->broken;
	pthread_mutex_unlock(&l->lock);
	if (broken)
		gone(l, now_ms, "it does not read its input");
	else
		(void)watch_fd(l, l->options.in, &l->in_events, unread(l) > UNREAD_MOST ? 0 : EPOLLIN);
}

int64_t lines_gone_ms(const struct lines *l)
{
	return l->gone_ms;
}

/* ---- time ---- */

static const char *why_stop(const struct lines *l, const struct given *g)
{
	if (atomic_load(&g->job->lost))
		return "lost";
	return g->timed_out ? "timeout" : l->stopping ? "shutdown" : "cancelled";
}

/* One job: ask the client to stop it, report it; returns when it must be checked next. */
static int64_t client_look_at(struct lines *l, struct given *g, int64_t now_ms)
{
	if (g->limit_ms > 0 && now_ms - g->began_ms >= g->limit_ms)
		g->timed_out = true;
	if (!g->asked_ms && (g->timed_out || atomic_load(&g->job->stop))) {
		g->asked_ms = now_ms;
		line_add_stop(&l->out, run_of(l, g), why_stop(l, g));
	}
	if (!g->asked_ms)
		return g->limit_ms > 0 ? g->began_ms + g->limit_ms : INT64_MAX;
	if (g->reported)
		return INT64_MAX;
	if (now_ms - g->asked_ms < g->pool->grace_ms)
		return g->asked_ms + g->pool->grace_ms;
	g->reported = true;
	line_add_stuck(&l->out, run_of(l, g));
	l->options.stuck(l->options.ctx, g->job, now_ms - g->asked_ms);
	return INT64_MAX;
}

/*
 * A client with jobs must show that it is alive: it is gone if it leaves a ping unanswered. A pause
 * of our own is no silence of the client. Returns when to check again.
 */
static int64_t ping(struct lines *l, int held, int64_t now_ms)
{
	int64_t limit = l->options.client_timeout_ms, every = limit / PINGS;
	bool paused = now_ms - l->looked_ms > LATE_MS + every;
	l->looked_ms = now_ms;
	if (limit <= 0 || held == 0 || l->gone_ms)
		return INT64_MAX;
	if (l->last_line_ms < l->pinged_ms && !paused) {
		if (now_ms - l->pinged_ms < limit - every)
			return l->pinged_ms + limit - every;
		gone(l, now_ms, "it has not answered for the client time-out");
		return INT64_MAX;
	}
	if (now_ms - l->last_line_ms >= every || paused) {
		l->last_line_ms = now_ms - 1;
		l->pinged_ms = now_ms;
		pthread_mutex_lock(&l->lock);
		line_add_word(&l->out, "ping");
		pthread_mutex_unlock(&l->lock);
	}
	return l->last_line_ms + every;
}

int64_t lines_look(struct lines *l, int64_t now_ms, bool stop_asked, bool stopping)
{
	pthread_mutex_lock(&l->lock);
	if (stopping && !l->stopping)
		line_add_word(&l->out, "stopping");
	l->stopping = stopping;
	if (stop_asked || now_ms >= l->due_ms) {
		l->due_ms = INT64_MAX;
		for (int i = 0; i < l->n; i++) {
			int64_t due = l->all[i].job ? client_look_at(l, &l->all[i], now_ms) : INT64_MAX;
			l->due_ms = due < l->due_ms ? due : l->due_ms;
		}
	}
	int64_t due = l->due_ms;
	int held = l->held;
	bool broken = l->broken;
	pthread_mutex_unlock(&l->lock);
	if (broken)
		gone(l, now_ms, "it does not read its input");
	int64_t next = ping(l, held, now_ms);
	lines_go(l);
	return due < next ? due : next;
}

bool lines_ask(struct lines *l, bool (*must)(void *ctx, const struct job *j), void *ctx)
{
	bool any = false;
	pthread_mutex_lock(&l->lock);
	for (int i = 0; i < l->n; i++) {
		struct job *j = l->all[i].job;
		if (!j || !must(ctx, j))
			continue;
		j->lost = true;
		any = !atomic_exchange(&j->stop, true) || any;
	}
	pthread_mutex_unlock(&l->lock);
	return any;
}

/* ---- start and end ---- */

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || isatty(fd) || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -1;
	return flags;
}

defib_err lines_open(const struct lines_options *o, struct lines **out, struct failure *f)
{
	struct lines *l = mem_alloc(sizeof *l);
	*l = (struct lines){.options = *o, .first_free = -1, .due_ms = INT64_MAX};
	l->first_use = (int64_t)(token_nonce() % (1 << 30));
	pthread_mutex_init(&l->lock, NULL);
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->flags_in = set_nonblocking(o->in);
	l->flags_out = set_nonblocking(o->out);
	*out = l;
	/* A file cannot be watched. */
	if (l->epoll < 0 || !watch_fd(l, o->in, &l->in_events, EPOLLIN) ||
	    !watch_fd(l, o->out, &l->out_events, EPOLLOUT))
		return fail(f, DEFIB_USAGE, "lines need a pipe or a socket as standard input and output");
	(void)watch_fd(l, o->out, &l->out_events, 0); /* there is nothing to write yet */
	return DEFIB_OK;
}

int lines_fd(const struct lines *l)
{
	return l->epoll;
}

void lines_ready(struct lines *l, const char *worker, int64_t concurrency)
{
	pthread_mutex_lock(&l->lock);
	line_add_ready(&l->out, worker, concurrency);
	pthread_mutex_unlock(&l->lock);
	lines_go(l);
}

void lines_end(struct lines *l, const struct worker_counts *c)
{
	int64_t until = clock_boot_ms() + LAST_WRITE_MS;
	pthread_mutex_lock(&l->lock);
	line_add_end(&l->out, c->settled, c->refused, c->spooled, c->abandoned);
	pthread_mutex_unlock(&l->lock);
	do {
		struct pollfd fd = {.fd = l->options.out, .events = POLLOUT};
		(void)poll(&fd, 1, 100);
		pthread_mutex_lock(&l->lock);
		client_flush(l);
		pthread_mutex_unlock(&l->lock);
	} while (unread(l) > 0 && clock_boot_ms() < until);
}

void lines_close(struct lines *l)
{
	if (!l)
		return;
	if (l->flags_in >= 0)
		fcntl(l->options.in, F_SETFL, l->flags_in);
	if (l->flags_out >= 0)
		fcntl(l->options.out, F_SETFL, l->flags_out);
	if (l->epoll >= 0)
		close(l->epoll);
	pthread_mutex_destroy(&l->lock);
	buf_release(&l->in);
	buf_release(&l->out);
	free(l->all);
	free(l);
}

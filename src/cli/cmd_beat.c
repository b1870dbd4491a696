/* SPDX-License-Identifier: Apache-2.0
 * cmd_beat.c: `defib beat WATCH`: heartbeats of rows that a program of the user works on, as the
 * watch says (worker/heartbeat.h). The program holds the other end of a pair of pipes: it names
 * rows in JSON lines and is told when one is no longer its own. One process and one session serve
 * all rows of a watch; heartbeats end with the program (docs/lines.md).
 */
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/load.h"
#include "worker/heartbeat.h"
#include "worker/lines.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const struct cli_option beat_options[] = {
	{"every", "DURATION", "interval of the heartbeats; default: the watch's beat, else 30s"},
	{"tries", "N", "attempts per heartbeat; default 4"},
	{"retry", "DURATION", "wait between two attempts; default 5s"},
	{"worker", "NAME", "the owner of the rows; default: host and process"},
	{"log", "FORM", "logfmt, json or plain; default: plain"},
	{NULL, NULL, NULL},
};

#define ROWS_MOST 10000
#define NEVER_MS INT64_MAX

/* A row that is kept alive. */
struct beating {
	char *key, *step, *metadata; /* the last two may be NULL */
	int64_t due_ms;
	int64_t failed; /* tries of this heartbeat */
	bool begun;     /* the first heartbeat was written */
};

struct beats {
	const struct watch *watch;
	struct session session;
	struct heartbeat_sql sql;
	const char *worker;
	int64_t every_ms, tries, retry_ms;
	struct beating *rows;
	int n, cap;
	struct buf in;
	int64_t nlines;
	bool skipping, over;
};

/* ---- what the program is told ---- */

static void beat_tell(const char *is, const char *key, const char *message)
{
	AUTO_BUF line = BUF_INIT;
	buf_addf(&line, "{\"is\":\"%s\"", is);
	if (key) {
		buf_add(&line, ",\"key\":");
		buf_add_json(&line, key);
	}
	if (message) {
		buf_add(&line, ",\"message\":");
		buf_add_json(&line, message);
	}
	buf_add(&line, "}\n");
	(void)fwrite(line.data, 1, line.len, stdout);
	(void)fflush(stdout); /* one that does not read is gone soon, and then its input ends */
}

static void beat_answer(const struct beats *b, const char *message)
{
	AUTO_BUF line = BUF_INIT;
	line_add_error(&line, b->nlines, message);
	(void)fwrite(line.data, 1, line.len, stdout);
	(void)fflush(stdout);
}

/* ---- rows ---- */

static struct beating *find(struct beats *b, const char *key)
{
	for (int i = 0; i < b->n; i++)
		if (text_eq(b->rows[i].key, key))
			return &b->rows[i];
	return NULL;
}

static void forget(struct beats *b, struct beating *r)
{
	free(r->key);
	free(r->step);
	free(r->metadata);
	*r = b->rows[--b->n];
}

static struct beating *beat_add(struct beats *b, const char *key)
{
	if (b->n == b->cap) {
		b->cap = b->cap ? b->cap * 2 : 16;
		b->rows = mem_grow(b->rows, sizeof *b->rows * (size_t)b->cap);
	}
	b->rows[b->n] = (struct beating){.key = mem_strdup(key)};
	return &b->rows[b->n++];
}

typedef defib_err heartbeat_call(const struct heartbeat_sql *q, struct store *s,
                                 const struct heartbeat *h, struct failure *f);

static defib_err write_one(struct beats *b, const struct beating *r, heartbeat_call *call,
                           struct failure *f)
{
	struct heartbeat h = {.job = r->key,
	                      .worker = b->worker,
	                      .step = r->step,
	                      .metadata = r->metadata,
	                      .first = !r->begun};
	defib_err err = session_ready(&b->session, f);
	if (!err)
		err = heartbeat_prepare(&b->sql, b->watch, &b->session, f);
	return err ? err : call(&b->sql, b->session.store, &h, f);
}

/* One heartbeat, or one try of it. The row may be forgotten. */
static void beat(struct beats *b, struct beating *r)
{
	struct failure f = {0};
	defib_err err = write_one(b, r, heartbeat_write, &f);
	int64_t now = clock_boot_ms();
	bool lost = err == DEFIB_LEASE_LOST || err == DEFIB_NOT_FOUND;
	if (!err) {
		if (!r->begun)
			beat_tell("beating", r->key, NULL);
		r->begun = true;
		r->failed = 0;
		r->due_ms = now + b->every_ms;
	} else if (lost || !r->begun) {
		/* A first heartbeat that fails is reported at once: it may be a mistake. */
		beat_tell(lost ? "lost" : "failed", r->key, f.what);
		forget(b, r);
	} else if (++r->failed < b->tries) {
		r->due_ms = now + (b->retry_ms < b->every_ms ? b->retry_ms : b->every_ms);
	} else {
		log_event(LOG_WARN, "heartbeat failed", LOG_STR("job", r->key), LOG_STR("error", f.what));
		beat_tell("failed", r->key, f.what);
		r->failed = 0;
		r->due_ms = now + b->every_ms;
	}
}

static void end(struct beats *b, struct beating *r)
{
	struct failure f = {0};
	defib_err err = r->begun ? write_one(b, r, heartbeat_end, &f) : DEFIB_OK;
	if (err && err != DEFIB_LEASE_LOST && err != DEFIB_NOT_FOUND)
		log_event(LOG_WARN, "the end of heartbeats was not recorded", LOG_STR("job", r->key),
		          LOG_STR("error", f.what));
	beat_tell("ended", r->key, NULL);
	forget(b, r);
}

/* Write what is due; returns when the next one is. */
static int64_t beat_due(struct beats *b)
{
	int64_t due = NEVER_MS;
	for (int i = b->n - 1; i >= 0; i--)
		if (b->rows[i].due_ms <= clock_boot_ms())
			beat(b, &b->rows[i]);
	for (int i = 0; i < b->n; i++)
		due = b->rows[i].due_ms < due ? b->rows[i].due_ms : due;
	return due;
}

/* ---- what the program says ---- */

static void beat_replace(char **old, const char *text)
{
	free(*old);
	*old = text ? mem_strdup(text) : NULL;
}

static void apply_beat(struct beats *b, json_t *line, const char *key)
{
	json_t *step = json_object_get(line, "step"), *metadata = json_object_get(line, "metadata");
	struct beating *r = find(b, key);
	if (metadata && !json_is_object(metadata) && !json_is_null(metadata)) {
		beat_answer(b, "\"metadata\" must be an object");
		return;
	}
	if (!r && b->n == ROWS_MOST) {
		beat_answer(b, "too many rows at once");
		return;
	}
	if (!r) {
		r = beat_add(b, key);
		/* After a process that had begun: the row is not taken over again from another owner. */
		r->begun = json_is_true(json_object_get(line, "again"));
	}
	beat_replace(&r->step, json_string_value(step));
	char *text = json_is_object(metadata)
	                 ? json_dumps(metadata, JSON_COMPACT | JSON_REAL_PRECISION(15))
	                 : NULL;
	beat_replace(&r->metadata, text);
	free(text);
	r->due_ms = 0; /* written at once */
}

static void read_beat_line(struct beats *b, const char *text, size_t n)
{
	b->nlines++;
	json_auto_t *line = json_read_bytes(text, n, 0);
	const char *what = json_string_value(json_object_get(line, "do"));
	const char *key = json_string_value(json_object_get(line, "key"));
	struct beating *r = key ? find(b, key) : NULL;
	if (!what || !key || (!text_eq(what, "beat") && !text_eq(what, "end")))
		beat_answer(b, "a line is an object with \"do\": beat or end, and \"key\": a string");
	else if (text_eq(what, "beat"))
		apply_beat(b, line, key);
	else if (r)
		end(b, r);
	else
		beat_tell("ended", key, NULL);
}

/* False: the program is gone, or wants us to end. */
static bool beat_listen_to(struct beats *b)
{
	char bytes[16384];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN);
	buf_addn(&b->in, bytes, (size_t)n);
	char *at = b->in.data, *stop = at + b->in.len, *newline;
	while ((newline = memchr(at, '\n', (size_t)(stop - at))) != NULL) {
		if (!b->skipping && newline > at)
			read_beat_line(b, at, (size_t)(newline - at));
		b->skipping = false;
		at = newline + 1;
	}
	size_t rest = (size_t)(stop - at);
	memmove(b->in.data, at, rest);
	buf_cut(&b->in, rest);
	if (rest > LINE_MAX_LEN) {
		if (!b->skipping)
			beat_answer(b, "the line is too long");
		b->skipping = true;
		buf_clear(&b->in);
	}
	return true;
}

/* ---- running ---- */

static void beat_run(struct beats *b, int signals)
{
	struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
	                       {.fd = signals, .events = POLLIN}};
	beat_tell("ready", NULL, NULL);
	while (!b->over) {
		int64_t due = beat_due(b), now = clock_boot_ms();
		int64_t wait = due == NEVER_MS ? -1 : due < now ? 0 : due - now;
		if (poll(fds, 2, wait > 60000 ? 60000 : (int)wait) <= 0)
			continue;
		b->over = fds[1].revents || (fds[0].revents && !beat_listen_to(b));
	}
	/* A program that has ended does not work on them anymore: nothing is written for them. */
}

static int beat_read_options(struct cli *c, struct beats *b)
{
	int64_t every_us = b->watch->beat_us ? b->watch->beat_us : 30 * US_PER_S;
	int64_t retry_us = 5 * US_PER_S;
	char host[65] = "host";
	(void)gethostname(host, sizeof host - 1);
	b->tries = 4;
	b->worker = cli_value(c, "worker");
	if (!b->worker)
		b->worker = arena_printf(&c->arena, "%s-%d", host, (int)getpid());
	if (!cli_duration(c, "every", &every_us) || !cli_duration(c, "retry", &retry_us) ||
	    !cli_int(c, "tries", &b->tries))
		return EXIT_USAGE;
	b->every_ms = every_us / 1000;
	b->retry_ms = retry_us / 1000;
	if (b->every_ms < 100 || b->retry_ms < 100 || b->tries < 1)
		return cli_usage("--every and --retry are at least 100ms, --tries is at least 1");
	return EXIT_CLEAN;
}

static int cmd_beat(struct cli *c)
{
	struct beats b = {0};
	struct failure f = {0};
	sigset_t set;
	if (!cli_set_up_log(c, LOG_PLAIN))
		return EXIT_USAGE;
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->nwords != 1)
		return cli_usage("defib beat needs one watch");
	b.watch = settings_watch(&c->settings, c->words[0]);
	if (!b.watch)
		return cli_no_watch(c, c->words[0], NULL);
	code = beat_read_options(c, &b);
	if (code != EXIT_CLEAN)
		return code;
	b.session = cli_session(settings_database(&c->settings, b.watch), b.watch, false);
	/* A watch without a heartbeat, or a database that is not there, is reported at once. */
	if (session_ready(&b.session, &f) || heartbeat_prepare(&b.sql, b.watch, &b.session, &f)) {
		code = cli_fail(&f);
	} else {
		cli_block_signals(&set, SIGPIPE);
		int signals = signalfd(-1, &set, SFD_CLOEXEC);
		beat_run(&b, signals);
		close(signals);
	}
	while (b.n > 0)
		forget(&b, &b.rows[b.n - 1]);
	free(b.rows);
	buf_release(&b.in);
	heartbeat_release(&b.sql);
	session_close(&b.session);
	return code;
}

COMMAND(beat, cmd_beat, "WATCH", "write heartbeats for rows that your own program works on",
        .options = beat_options,
        .examples = {{"printf '{\"do\": \"beat\", \"key\": \"4711\"}\\n' | defib beat pages",
                      "the program names its rows in JSON lines while it runs (docs/lines.md)"},
                     {"sleep 1 | defib beat pages --every 10s", "more often than configured"}});

/* SPDX-License-Identifier: Apache-2.0 */
#include "alert/sinks.h"

#include "alert/message.h"
#include "alert/options.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/program_env.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PART_LEAST 6 /* hiding shorter parts would destroy the answer, and they are no secrets */

/* Also if the text was cut in the middle of it. */
static void hide(char *text, const char *secret, size_t n)
{
	size_t len = strlen(text);
	for (char *at = text; n > 0 && (at = memmem(at, strlen(at), secret, n)) != NULL; at += n)
		memset(at, '*', n);
	for (size_t k = n < len ? n : len; k >= 4; k--)
		if (memcmp(text + len - k, secret, k) == 0)
			memset(text + len - k, '*', k);
}

/* A receiver may echo what we sent, or a part of it: the path of a URL, a word of a header. */
static void hide_parts(char *text, const char *secret, const char *between)
{
	for (const char *p = secret ? secret : ""; *p;) {
		size_t n = strcspn(p, between);
		if (n >= PART_LEAST)
			hide(text, p, n);
		p += n + (p[n] != '\0');
	}
}

static void hide_url(char *text, const char *url)
{
	const char *host = url ? strstr(url, "://") : NULL;
	if (!host)
		return;
	host += 3;
	const char *end = host + strcspn(host, "/?#"), *at = memrchr(host, '@', (size_t)(end - host));
	hide_parts(text, end, "/?#&=");
	if (at) {
		size_t user = strcspn(host, ":@");
		hide(text, host, (size_t)(at - host));
		if (host + user < at)
			hide(text, host + user + 1, (size_t)(at - host) - user - 1);
	}
}

/* This is how the name and password of a URL are sent. */
static void hide_basic(char *text)
{
	static const char scheme[] = "Basic ";
	for (char *at = text; (at = strcasestr(at, scheme)) != NULL;) {
		at += sizeof scheme - 1;
		memset(at, '*', strcspn(at, " ,;\"'\r\n"));
	}
}

static void hide_secrets(char *text, const struct alert_sink *s)
{
	hide_parts(text, s->key, "");
	hide_url(text, s->url);
	hide_basic(text);
	for (int i = 0; i < s->headers.n; i++)
		hide_parts(text, s->headers.values[i], " =;,:");
	for (int i = 0; i < s->pass_environment.n; i++) {
		const char *value = strchr(s->pass_environment.items[i], '=');
		hide_parts(text, value ? value + 1 : NULL, "");
	}
}

/* Sets the result; the text becomes one line, without secrets of the sink. */
PRINTF_LIKE(4, 5)
static void sink_answered(const struct sink_call *c, struct sink_answer *out, enum sink_end how,
                          const char *fmt, ...)
{
	char text[4 * sizeof out->text];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	hide_secrets(text, c->sink);
	for (char *p = text; *p; p++)
		*p = (unsigned char)*p < 0x20 || *p == 0x7f ? ' ' : *p;
	utf8_copy(out->text, sizeof out->text, text);
	out->how = how;
}

static void sink_log(const struct sink_call *c, struct sink_answer *out)
{
	static const struct {
		const char *severity;
		enum log_level level;
	} levels[] = {{"warning", LOG_WARN}, {"critical", LOG_ERROR}, {"page", LOG_CRITICAL}};
	json_auto_t *d = json_loads(c->document, 0, NULL);
	bool over = !text_eq(document_text(d, "status"), "firing");
	enum log_level level = LOG_INFO;
	for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
		if (!over && text_eq(levels[i].severity, document_text(d, "severity")))
			level = levels[i].level;
	log_event(level, c->kind, LOG_STR("text", document_text(d, "text")),
	          LOG_STR("status", document_text(d, "status")),
	          LOG_STR("rule", document_text(d, "rule")),
	          LOG_STR("watch", document_text(d, "watch")),
	          LOG_STR("database", document_text(d, "database")), LOG_STR("id", c->id));
	sink_answered(c, out, SINK_SENT, "logged");
}

#define KEEP 160        /* of its output is reported */
#define GRACE_MS 2000   /* between TERM and KILL */
#define TURN_MS 200     /* between checks of `stop` */
#define ENTRY_MAX 65536 /* bytes of one; the kernel accepts at most 128 KiB */

struct sink_program {
	const struct sink_call *call;
	pid_t pid;
	int pidfd, input, output[2];
	char start[KEEP];
	size_t nstart;
	const char *ended_by; /* NULL: it ended by itself */
};

/* A file in memory: a pipe could fill up. */
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

/* A clean one, plus what the sink names, and the message. */
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
			continue; /* a long report: it is on stdin */
		char *entry = arena_printf(a, "DEFIB_ALERT_%s=%s", *m, value);
		for (char *p = entry; *p && *p != '='; p++)
			*p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
		program_env_put(&env, entry);
	}
	program_env_put(&env, arena_printf(a, "DEFIB_ALERT_ID=%s", c->id));
	program_env_put(&env, arena_printf(a, "DEFIB_ALERT_KIND=%s", c->kind));
	return env.entries;
}

/* The program must not inherit the signals that the daemon blocks or ignores. */
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

static int sinks_start(struct sink_program *p, char **env)
{
	char **argv = (char **)p->call->sink->run.items;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	set_attributes(&attr);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, p->input, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, p->output[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, p->output[1], STDERR_FILENO);
	/* Sockets and files that a library opened without close-on-exec: of clients, of databases. */
	posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
	int failed = posix_spawnp(&p->pid, argv[0], &files, &attr, argv, env);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return failed;
}

static void take_output(struct sink_program *p)
{
	char text[1024];
	ssize_t n = read(p->output[0], text, sizeof text);
	for (ssize_t i = 0; i < n && p->nstart < KEEP - 1; i++)
		p->start[p->nstart++] = text[i];
}

/* Until it ends by itself; after the time limit only until it must. */
static bool wait_end(struct sink_program *p, int64_t until_ms)
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
			fds[1].fd = -1; /* closed: it may continue to run */
		if (n > 0 && (fds[0].revents & POLLIN))
			return true;
	}
	return false;
}

static void follow(struct sink_program *p)
{
	int64_t limit_ms = p->call->sink->timeout_us / 1000;
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	bool ended = p->pidfd >= 0 && wait_end(p, clock_boot_ms() + limit_ms);
	if (!ended) {
		p->ended_by = p->call->stop && atomic_load(p->call->stop) ? "the daemon is stopping"
		                                                          : "its time limit";
		kill(-p->pid, SIGTERM);
		if (p->pidfd < 0 || !wait_end(p, clock_boot_ms() + GRACE_MS))
			kill(-p->pid, SIGKILL);
	}
	if (p->pidfd >= 0)
		close(p->pidfd);
}

static void report_end(struct sink_program *p, struct sink_answer *out)
{
	int status = 0;
	/* Processes that it left in its group end too; its own id is not reused before the wait. */
	kill(-p->pid, SIGKILL);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (p->ended_by)
		sink_answered(p->call, out, SINK_AGAIN, "ended by %s", p->ended_by);
	else if (WIFSIGNALED(status))
		sink_answered(p->call, out, SINK_AGAIN, "killed by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		sink_answered(p->call, out, SINK_AGAIN, "exit code %d%s%s", WEXITSTATUS(status),
		              p->nstart ? ": " : "", p->start);
	else
		sink_answered(p->call, out, SINK_SENT, "exit code 0");
}

static void sink_command(const struct sink_call *c, struct sink_answer *out)
{
	struct sink_program p = {.call = c, .output = {-1, -1}};
	AUTO_ARENA a = ARENA_INIT;
	json_auto_t *d = json_loads(c->document, 0, NULL);
	p.input = input_of(c->sink->format == SINK_TEXT ? document_text(d, "text") : c->document);
	int failed = p.input < 0 || pipe2(p.output, O_CLOEXEC) != 0
	                 ? errno
	                 : sinks_start(&p, environment_of(d, c, &a));
	if (p.output[1] >= 0)
		close(p.output[1]);
	if (failed) {
		sink_answered(c, out, SINK_AGAIN, "%s: %s", c->sink->run.items[0], strerror(failed));
	} else {
		follow(&p);
		report_end(&p, out);
	}
	if (p.output[0] >= 0)
		close(p.output[0]);
	if (p.input >= 0)
		close(p.input);
}

#define READ_MAX 65536  /* more than this is not a reply */
#define WAIT_MAX_S 3600 /* that a receiver may ask for */
#define ALERTMANAGER_PATH "/api/v2/alerts"

struct sink_request {
	const struct sink_call *call;
	CURL *curl;
	struct curl_slist *headers;
	struct buf url, body;
	size_t read;
	char start[KEEP];
	char error[CURL_ERROR_SIZE];
};

static void curl_once(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t sinks_take(const char *data, size_t size, size_t n, void *ctx)
{
	struct sink_request *q = ctx;
	size_t bytes = size * n;
	if (q->read < KEEP - 1) {
		size_t room = KEEP - 1 - q->read, fits = bytes < room ? bytes : room;
		memcpy(q->start + q->read, data, fits);
	}
	q->read += bytes;
	return q->read > READ_MAX ? 0 : bytes;
}

static int sinks_goes_on(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const struct sink_request *q = ctx;
	(void)a, (void)b, (void)c, (void)d;
	return q->call->stop && atomic_load(q->call->stop) ? 1 : 0;
}

static void add_url(struct sink_request *q)
{
	const struct alert_sink *s = q->call->sink;
	size_t n = strlen(s->url), tail = strlen(ALERTMANAGER_PATH);
	buf_add(&q->url, s->url);
	if (s->type != SINK_ALERTMANAGER ||
	    (n >= tail && text_eq(s->url + n - tail, ALERTMANAGER_PATH)))
		return;
	buf_addf(&q->url, "%s", &ALERTMANAGER_PATH[s->url[n - 1] == '/' ? 1 : 0]);
}

/* False: the sink does not take such a message. */
static bool sinks_add_body(struct sink_request *q)
{
	const struct alert_sink *s = q->call->sink;
	json_auto_t *d = json_loads(q->call->document, 0, NULL);
	bool ok = d != NULL;
	if (ok && s->type == SINK_ALERTMANAGER)
		ok = form_alertmanager(d, &q->body);
	else if (ok && s->type == SINK_PAGERDUTY)
		ok = form_pagerduty(d, s->key, &q->body);
	else if (ok)
		buf_add(&q->body, s->format == SINK_TEXT ? document_text(d, "text") : q->call->document);
	return ok;
}

static void add_header(struct sink_request *q, const char *name, const char *value)
{
	AUTO_BUF line = BUF_INIT;
	buf_addf(&line, "%s: %s", name, value);
	struct curl_slist *more = curl_slist_append(q->headers, buf_text(&line));
	q->headers = more ? more : q->headers;
}

static void add_headers(struct sink_request *q)
{
	const struct alert_sink *s = q->call->sink;
	bool text = s->type == SINK_WEBHOOK && s->format == SINK_TEXT;
	add_header(q, "Content-Type", text ? "text/plain; charset=utf-8" : "application/json");
	add_header(q, "Idempotency-Key", q->call->id);
	add_header(q, "Expect", "");
	for (int i = 0; i < s->headers.n; i++)
		add_header(q, s->headers.names[i], s->headers.values[i]);
}

static void sinks_set_up(struct sink_request *q)
{
	long timeout_ms = (long)(q->call->sink->timeout_us / 1000);
	curl_easy_setopt(q->curl, CURLOPT_URL, buf_text(&q->url));
	curl_easy_setopt(q->curl, CURLOPT_POST, 1L);
	curl_easy_setopt(q->curl, CURLOPT_POSTFIELDS, buf_text(&q->body));
	curl_easy_setopt(q->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body.len);
	curl_easy_setopt(q->curl, CURLOPT_HTTPHEADER, q->headers);
	curl_easy_setopt(q->curl, CURLOPT_USERAGENT, "defib/" DEFIB_VERSION);
	curl_easy_setopt(q->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(q->curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(q->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(q->curl, CURLOPT_TIMEOUT_MS, timeout_ms);
	curl_easy_setopt(q->curl, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
	curl_easy_setopt(q->curl, CURLOPT_WRITEFUNCTION, sinks_take);
	curl_easy_setopt(q->curl, CURLOPT_WRITEDATA, q);
	curl_easy_setopt(q->curl, CURLOPT_XFERINFOFUNCTION, sinks_goes_on);
	curl_easy_setopt(q->curl, CURLOPT_XFERINFODATA, q);
	curl_easy_setopt(q->curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(q->curl, CURLOPT_ERRORBUFFER, q->error);
}

/* The meaning of a status; the first row that contains it. */
static const struct {
	long from, to;
	enum sink_end how;
	const char *also;
} statuses[] = {
	{200, 299, SINK_SENT, ""},  {300, 399, SINK_REFUSED, ", redirects are not followed"},
	{408, 408, SINK_AGAIN, ""}, {425, 425, SINK_AGAIN, ""},
	{429, 429, SINK_AGAIN, ""}, {400, 499, SINK_REFUSED, ""},
	{0, 999, SINK_AGAIN, ""},
};

static void sinks_judge_status(struct sink_request *q, struct sink_answer *out)
{
	long status = 0;
	curl_off_t wait_s = 0;
	size_t i = 0;
	curl_easy_getinfo(q->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(q->curl, CURLINFO_RETRY_AFTER, &wait_s);
	while (status < statuses[i].from || status > statuses[i].to)
		i++;
	bool sent = statuses[i].how == SINK_SENT;
	sink_answered(q->call, out, statuses[i].how, "HTTP %ld%s%s%s", status, statuses[i].also,
	              !sent && q->start[0] ? ": " : "", sent ? "" : q->start);
	if (wait_s > 0)
		out->wait_us = (wait_s < WAIT_MAX_S ? wait_s : WAIT_MAX_S) * US_PER_S;
}

static void sinks_perform(struct sink_request *q, struct sink_answer *out)
{
	CURLcode code = curl_easy_perform(q->curl);
	long status = 0;
	curl_easy_getinfo(q->curl, CURLINFO_RESPONSE_CODE, &status);
	/* A receiver that answered well and then sent too much has the message. */
	if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && status >= 200))
		sinks_judge_status(q, out);
	else if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
		sink_answered(q->call, out, SINK_REFUSED, "%s", curl_easy_strerror(code));
	else
		sink_answered(q->call, out, SINK_AGAIN, "%s",
		              q->error[0] ? q->error : curl_easy_strerror(code));
}

static void sink_http(const struct sink_call *c, struct sink_answer *out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct sink_request q = {.call = c, .url = BUF_INIT, .body = BUF_INIT};
	pthread_once(&once, curl_once);
	if (!sinks_add_body(&q)) {
		sink_answered(c, out, SINK_REFUSED, "%s takes alerts only, not a %s",
		              sink_types[c->sink->type], c->kind);
	} else if ((q.curl = curl_easy_init()) == NULL) {
		sink_answered(c, out, SINK_AGAIN, "no memory for a request");
	} else {
		add_url(&q);
		add_headers(&q);
		sinks_set_up(&q);
		sinks_perform(&q, out);
	}
	curl_easy_cleanup(q.curl);
	curl_slist_free_all(q.headers);
	buf_release(&q.url);
	buf_release(&q.body);
}

void sink_send(const struct sink_call *c, struct sink_answer *out)
{
	static void (*const senders[])(const struct sink_call *c, struct sink_answer *out) = {
		[SINK_LOG] = sink_log,           [SINK_COMMAND] = sink_command, [SINK_WEBHOOK] = sink_http,
		[SINK_ALERTMANAGER] = sink_http, [SINK_PAGERDUTY] = sink_http,
	};
	*out = (struct sink_answer){0};
	senders[c->sink->type](c, out);
}

const char *const sink_ends[] = {"sent", "try again", "refused"};

void sink_test(const struct alert_sink *sink, const char *source, int64_t at_us,
               struct sink_answer *out)
{
	static const char *const phases[] = {"firing", "resolved"};
	bool keeps = sink->type == SINK_ALERTMANAGER || sink->type == SINK_PAGERDUTY;
	out->how = SINK_SENT;
	for (int i = 0; i < (keeps ? 2 : 1) && out->how == SINK_SENT; i++) {
		AUTO_BUF document = BUF_INIT, id = BUF_INIT;
		message_test(source, phases[i], at_us, &document);
		buf_addf(&id, "%s/test@%lld.%s", source, (long long)(at_us / 1000), phases[i]);
		struct sink_call call = {
			.sink = sink, .kind = "test", .id = buf_text(&id), .document = buf_text(&document)};
		sink_send(&call, out);
	}
}

/* SPDX-License-Identifier: Apache-2.0
 * server_sockets.c: starts libmicrohttpd with our settings: two threads with epoll, a limit on
 * connections and on the memory of each, TLS if there is a certificate, and its messages kept for
 * the one line that names the failure.
 */
#include "http/server_sockets.h"

#include "base/clock.h"
#include "base/log.h"
#include "http/api_worker.h"
#include "http/server.h"
#include "http/server_inside.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define BACKLOG 1024 /* a burst of clients; the kernel reduces it to its own limit */

static const struct {
	int number;
	const char *next;
} advice[] = {
	{EADDRINUSE, "another process listens there: choose another port, or 0 for a free one"},
	{EADDRNOTAVAIL, "the address is not one of this host"},
	{EACCES, "ports below 1024 need a privilege (CAP_NET_BIND_SERVICE): choose a higher one"},
};

static defib_err server_sockets_refuse(const struct address *at, int number, struct failure *f)
{
	char text[80];
	address_text(at, text, sizeof text);
	fail(f, DEFIB_CONFIG, "cannot listen on %s: %s", text, strerror(number));
	for (size_t i = 0; i < sizeof advice / sizeof *advice; i++)
		if (advice[i].number == number)
			fail_next(f, "%s", advice[i].next);
	return DEFIB_CONFIG;
}

static int real_port(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	} own = {0};
	socklen_t n = sizeof own;
	if (getsockname(fd, &own.any, &n) != 0)
		return 0;
	return ntohs(own.any.sa_family == AF_INET6 ? own.six.sin6_port : own.four.sin_port);
}

/* Sets at->port to the real one if it was 0. */
MUST_CHECK static defib_err listen_open(struct address *at, int *fd, struct failure *f)
{
	struct sockaddr_storage where;
	socklen_t n = address_socket(at, &where);
	int on = 1, off = 0;
	*fd = socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd < 0)
		return server_sockets_refuse(at, errno, f);
	setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (at->v6)
		setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	if (bind(*fd, (struct sockaddr *)&where, n) != 0 || listen(*fd, BACKLOG) != 0) {
		int number = errno;
		close(*fd);
		*fd = -1;
		return server_sockets_refuse(at, number, f);
	}
	at->port = real_port(*fd);
	return DEFIB_OK;
}

/* ---- the server ---- */

#define THREADS 2
#define CONNECTION_BYTES (20 << 10) /* head of a request, and data to be sent */
#define PEM_MAX (1 << 20)
#define OTHER_FILES 256 /* descriptors that are not client connections */

/* The library's messages: why it does not start; later, clients' mistakes. */
static void on_log(void *cls, const char *fmt, va_list args)
{
	struct http *h = cls;
	char line[512];
	vsnprintf(line, sizeof line, fmt, args);
	line[strcspn(line, "\n")] = '\0';
	if (!atomic_load(&h->started))
		buf_addf(&h->start_messages, "%s%s", h->start_messages.len ? "; " : "", line);
	else
		log_event(LOG_DEBUG, "http", LOG_STR("said", &line[0]));
}

/* A whole small file. */
static defib_err read_pem(const char *path, const char *option, struct buf *out, struct failure *f)
{
	char block[8192];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : 1;
	while (n > 0 && out->len < PEM_MAX) {
		n = read(fd, block, sizeof block);
		if (n > 0)
			buf_addn(out, block, (size_t)n);
	}
	defib_err err = DEFIB_OK;
	if (n < 0)
		err = fail(f, DEFIB_CONFIG, "http: tls: %s: %s: %s", option, path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return err;
}

static defib_err read_tls(const struct service_tls *t, struct buf *certificate, struct buf *key,
                          struct failure *f)
{
	if (!t->certificate)
		return DEFIB_OK;
	defib_err err = read_pem(t->certificate, "certificate", certificate, f);
	return err ? err : read_pem(t->key, "key", key, f);
}

static defib_err server_sockets_run(struct http *h, const struct service *s,
                                    const struct http_calls *calls, int fd,
                                    const struct buf *certificate, const struct buf *key,
                                    struct failure *f)
{
	unsigned flags =
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
	/* The library's own limit is on silence; ours is on the total. */
	unsigned quiet_s = (unsigned)(h->request_ms / 1000) + 2;
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, certificate->data},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, key->data},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
		{MHD_OPTION_END, 0, NULL},
	};
	struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
	flags |= h->at.v6 ? MHD_USE_IPv6 : 0;
	flags |= h->tls ? MHD_USE_TLS : 0;
	h->mhd = MHD_start_daemon(
		flags, (uint16_t)h->at.port, NULL, NULL, calls->on_request,
		h, /* the logger must come first */
		MHD_OPTION_EXTERNAL_LOGGER, on_log, h, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)s->max_connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		MHD_OPTION_CONNECTION_TIMEOUT, quiet_s, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_URI_LOG_CALLBACK, calls->on_target, h, MHD_OPTION_NOTIFY_COMPLETED,
		calls->on_end, h, MHD_OPTION_NOTIFY_CONNECTION, calls->on_connection, h, MHD_OPTION_ARRAY,
		h->tls ? tls : none, MHD_OPTION_END);
	atomic_store(&h->started, true);
	if (h->mhd)
		return DEFIB_OK;
	fail(f, DEFIB_CONFIG, "cannot start the HTTP server: %s", buf_text(&h->start_messages));
	if (h->tls)
		fail_next(f,
		          "check that http: tls: certificate and key are PEM files that belong together");
	return DEFIB_CONFIG;
}

/* A shell or service manager gives a process few descriptors, but lets it raise the limit. */
static void allow_files(int64_t connections)
{
	struct rlimit files;
	rlim_t want = (rlim_t)connections + OTHER_FILES;
	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= want)
		return;
	files.rlim_cur = want < files.rlim_max ? want : files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur < want)
		log_event(LOG_WARN,
		          "fewer file descriptors than http: max_connections needs: raise LimitNOFILE",
		          LOG_INT("have", (int64_t)files.rlim_cur), LOG_INT("want", (int64_t)want));
}

defib_err server_start(struct http *h, const struct service *s, const struct http_calls *calls,
                       struct failure *f)
{
	AUTO_BUF certificate = BUF_INIT, key = BUF_INIT;
	int fd = -1;
	allow_files(s->max_connections);
	defib_err err = read_tls(&s->tls, &certificate, &key, f);
	if (!err)
		err = listen_open(&h->at, &fd, f);
	if (!err)
		err = server_sockets_run(h, s, calls, fd, &certificate, &key, f);
	if (err && fd >= 0)
		close(fd);
	if (key.data)
		explicit_bzero(key.data, key.len);
	address_text(&h->at, h->address, sizeof h->address);
	snprintf(h->url, sizeof h->url, "%s://%s", h->tls ? "https" : "http", h->address);
	return err;
}

#define TICK_MS 250
#define FAIR_MS 300 /* a serious request has arrived by then */

static void note_number(struct http *h)
{
	metrics_set(h->api->metrics, METRIC_HTTP_CONNECTIONS, h->nconnections, NO_LABELS);
}

/* The one that has been sending its request, or receiving its answer, for the longest. */
static struct connection *slowest(struct http *h, int64_t now_ms)
{
	struct connection *found = NULL;
	int64_t since = now_ms - FAIR_MS;
	for (struct connection *c = h->connections; c; c = c->next) {
		int phase = atomic_load(&c->phase);
		int64_t at = atomic_load(&c->since_ms);
		if (!c->cut && (phase == PHASE_READING || phase == PHASE_SENDING) && at <= since) {
			since = at;
			found = c;
		}
	}
	return found;
}

/* Under the lock. Connections that are already cut do not count: they close in a moment. */
static void make_room(struct http *h)
{
	int64_t now_ms = clock_boot_ms();
	struct connection *c;
	while (h->nconnections - h->ncut > h->crowd && (c = slowest(h, now_ms))) {
		c->cut = true;
		h->ncut++;
		shutdown(c->fd, SHUT_RDWR);
	}
}

struct connection *connection_add(struct http *h, int fd)
{
	struct connection *c = mem_alloc(sizeof *c);
	c->fd = fd;
	connection_phase(c, PHASE_READING);
	pthread_mutex_lock(&h->lock);
	c->next = h->connections;
	if (c->next)
		c->next->before = c;
	h->connections = c;
	h->nconnections++;
	note_number(h);
	make_room(h);
	pthread_mutex_unlock(&h->lock);
	return c;
}

void connection_remove(struct http *h, struct connection *c)
{
	pthread_mutex_lock(&h->lock);
	if (c->next)
		c->next->before = c->before;
	if (c->before)
		c->before->next = c->next;
	else
		h->connections = c->next;
	h->nconnections--;
	h->ncut -= c->cut;
	note_number(h);
	pthread_mutex_unlock(&h->lock);
	free(c);
}

void connection_phase(struct connection *c, enum phase phase)
{
	atomic_store(&c->since_ms, clock_boot_ms());
	atomic_store(&c->phase, phase);
}

bool connections_busy(struct http *h)
{
	bool busy = false;
	pthread_mutex_lock(&h->lock);
	for (struct connection *c = h->connections; c; c = c->next)
		busy = busy || atomic_load(&c->phase) != PHASE_READING;
	pthread_mutex_unlock(&h->lock);
	return busy;
}

static void cut_late(struct http *h)
{
	const int64_t limits[] = {[PHASE_READING] = h->request_ms, [PHASE_SENDING] = SEND_MS};
	int64_t now = clock_boot_ms();
	pthread_mutex_lock(&h->lock);
	for (struct connection *c = h->connections; c; c = c->next) {
		int phase = atomic_load(&c->phase);
		bool timed = phase == PHASE_READING || phase == PHASE_SENDING;
		if (timed && now - atomic_load(&c->since_ms) > limits[phase])
			shutdown(c->fd, SHUT_RDWR);
	}
	make_room(h);
	pthread_mutex_unlock(&h->lock);
}

static void *server_sockets_tick(void *arg)
{
	struct http *h = arg;
	struct pollfd woken = {.fd = h->wake_clock, .events = POLLIN};
	while (poll(&woken, 1, TICK_MS) <= 0) {
		cut_late(h);
		streams_look(h);
		request_pools_tick(h->pools);
	}
	return NULL;
}

void connections_clock_start(struct http *h)
{
	sigset_t every, before;
	h->wake_clock = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &before);
	if (h->wake_clock < 0 || pthread_create(&h->clock, NULL, server_sockets_tick, h) != 0)
		abort();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void connections_clock_stop(struct http *h)
{
	eventfd_write(h->wake_clock, 1);
	pthread_join(h->clock, NULL);
	close(h->wake_clock);
}

struct head {
	const char *bytes; /* as the library left them */
	size_t size, at;   /* where the previous line ended */
	bool walks;        /* the library keeps heads in the layout that we know */
	const char *why;   /* the first problem */
	int hosts, lengths, encodings;
	unsigned seen; /* of `once` */
	bool old;      /* HTTP/1.0 */
};

static bool is_token(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && (!text[i] || !strchr("!#$%&'*+-.^_`|~", text[i])))
			return false;
	return n > 0;
}

static bool is_value(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
			return false;
	return true;
}

static bool is_length(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isdigit((unsigned char)text[i]))
			return false;
	return n > 0 && n <= 18;
}

/* Whether `n` bytes at the position are a former line end. */
static bool server_sockets_ended(const struct head *h, size_t n)
{
	static const char zeros[4];
	return h->at + n <= h->size && memcmp(h->bytes + h->at, zeros, n) == 0;
}

/* A pointer of the library as a position in the head; SIZE_MAX: it is elsewhere. */
static size_t server_sockets_place(const struct head *h, const char *p)
{
	uintptr_t base = (uintptr_t)h->bytes, at = (uintptr_t)p;
	return at >= base && at <= base + h->size ? at - base : SIZE_MAX;
}

/* CRLF, a name, a colon, spaces, a value: each directly after the other. */
static bool follows(struct head *h, const char *name, size_t nname, const char *value,
                    size_t nvalue)
{
	size_t value_at = server_sockets_place(h, value);
	if (!server_sockets_ended(h, 2) || server_sockets_place(h, name) != h->at + 2 ||
	    value_at == SIZE_MAX)
		return false;
	for (size_t i = h->at + 2 + nname + 1; i < value_at; i++)
		if (h->bytes[i] != ' ' && h->bytes[i] != '\t')
			return false;
	h->at = value_at + nvalue;
	return true;
}

/*
 * Who reads the first of two and who reads the last see different requests: a proxy that checks a
 * token, for example, and this server.
 */
static const char *const once[] = {
	"Authorization",      "Content-Type", "Last-Event-ID",
	WORKER_SECRET_HEADER, "Origin",       "If-None-Match",
	"Sec-Fetch-Site",     "Expect",       NULL,
};

static void judge_once(struct head *h, const char *name)
{
	for (int i = 0; once[i]; i++) {
		if (strcasecmp(name, once[i]) != 0)
			continue;
		if (h->seen & 1U << i)
			h->why = "the request has a header twice that may occur once";
		h->seen |= 1U << i;
	}
}

static void judge_framing(struct head *h, const char *name, const char *value, size_t nvalue)
{
	while (nvalue > 0 && (value[nvalue - 1] == ' ' || value[nvalue - 1] == '\t'))
		nvalue--;
	if (strcasecmp(name, "Host") == 0 && ++h->hosts > 1)
		h->why = "the request has two Hosts";
	if (strcasecmp(name, "Content-Length") == 0) {
		h->lengths++;
		if (!is_length(value, nvalue))
			h->why = "Content-Length is not a plain number";
	}
	if (strcasecmp(name, "Transfer-Encoding") == 0) {
		h->encodings++;
		if (nvalue != strlen("chunked") || strncasecmp(value, "chunked", nvalue) != 0)
			h->why = "Transfer-Encoding can only be chunked";
	}
}

static enum MHD_Result on_header(void *ctx, enum MHD_ValueKind kind, const char *name, size_t nname,
                                 const char *value, size_t nvalue)
{
	struct head *h = ctx;
	(void)kind;
	value = value ? value : "";
	if (!is_token(name, nname))
		h->why = "the name of a header has an invalid character";
	else if (!is_value(value, nvalue))
		h->why = "the value of a header has a control character";
	else if (h->walks && !follows(h, name, nname, value, nvalue))
		h->why = "a line of the head does not end with CRLF, or is folded";
	else
		judge_framing(h, name, value, nvalue);
	if (!h->why)
		judge_once(h, name);
	return h->why ? MHD_NO : MHD_YES;
}

static const char *whole_refusal(const struct head *h)
{
	if (h->walks && !(server_sockets_ended(h, 4) && h->at + 4 == h->size))
		return "a line of the head does not end with CRLF";
	if (h->hosts == 0 && !h->old)
		return "the request has no Host";
	if (h->lengths > 1)
		return "the request has two Content-Lengths";
	if (h->encodings > 1)
		return "the request has two Transfer-Encodings";
	if (h->encodings && h->lengths)
		return "the request has a Content-Length and a Transfer-Encoding";
	if (h->encodings && h->old)
		return "HTTP/1.0 has no Transfer-Encoding";
	return NULL;
}

/* One space after the method, and one before the version. */
static bool is_line(const struct head *h, const char *method, const char *url, size_t version_at)
{
	return server_sockets_place(h, url) == strlen(method) + 1 && version_at >= 2 &&
	       h->bytes[version_at - 1] == '\0' && h->bytes[version_at - 2] != ' ';
}

const char *server_head_refusal(struct MHD_Connection *socket, const char *method, const char *url,
                                const char *version, bool *chunked)
{
	const union MHD_ConnectionInfo *size =
		MHD_get_connection_info(socket, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	struct head h = {
		.bytes = method, .size = size ? size->header_size : 0, .old = text_eq(version, "HTTP/1.0")};
	size_t at = server_sockets_place(&h, version);
	h.walks = at != SIZE_MAX && at + strlen(version) <= h.size;
	h.at = h.walks ? at + strlen(version) : 0;
	if (h.walks && !is_line(&h, method, url, at))
		return "the request line has an extra space";
	MHD_get_connection_values_n(socket, MHD_HEADER_KIND, on_header, &h);
	*chunked = h.encodings > 0;
	return h.why ? h.why : whole_refusal(&h);
}

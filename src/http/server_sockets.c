/*
 * server_sockets.c: libmicrohttpd, started with everything that we want of it: two threads
 * with epoll, a bound on connections and on the memory of each, TLS where there is a
 * certificate, and what it has to say kept for the one line that names the failure.
 */
#include "http/server_inside.h"

#include "base/log.h"
#include "http/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <unistd.h>

#define THREADS 2
#define CONNECTION_BYTES (20 << 10) /* head of a request, and what is to be sent */
#define PEM_MAX (1 << 20)
#define OTHER_FILES 256 /* descriptors that are no connections of clients */

/* What the library logs: why it does not start; later on, clients' blunders. */
static void on_log(void *cls, const char *fmt, va_list args)
{
	struct http *h = cls;
	char line[512];
	vsnprintf(line, sizeof line, fmt, args);
	line[strcspn(line, "\n")] = '\0';
	if (!atomic_load(&h->started))
		buf_addf(&h->said, "%s%s", h->said.len ? "; " : "", line);
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

static defib_err run(struct http *h, const struct service *s, const struct http_calls *calls,
                     int fd, const struct buf *certificate, const struct buf *key,
                     struct failure *f)
{
	unsigned flags =
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
	/* The library's own limit is on silence; ours on the whole (server_clock.c). */
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
		flags, (uint16_t)h->at.port, NULL, NULL, calls->on_request, h, /* the logger comes first */
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
	fail(f, DEFIB_CONFIG, "http does not start: %s", buf_text(&h->said));
	if (h->tls)
		fail_next(f,
		          "check that http: tls: certificate and key are PEM files that belong together");
	return DEFIB_CONFIG;
}

/* A shell or service manager gives a process few descriptors, but lets it ask for more. */
static void allow_files(int64_t connections)
{
	struct rlimit files;
	rlim_t want = (rlim_t)connections + OTHER_FILES;
	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= want)
		return;
	files.rlim_cur = want < files.rlim_max ? want : files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur < want)
		log_event(LOG_WARN, "fewer descriptors than http: max_connections wants: raise LimitNOFILE",
		          LOG_INT("have", (int64_t)files.rlim_cur), LOG_INT("want", (int64_t)want));
}

defib_err server_start(struct http *h, const struct service *s, const struct http_calls *calls,
                       struct failure *f)
{
	struct buf certificate = BUF_INIT, key = BUF_INIT;
	int fd = -1;
	allow_files(s->max_connections);
	defib_err err = read_tls(&s->tls, &certificate, &key, f);
	if (!err)
		err = listen_open(&h->at, &fd, f);
	if (!err)
		err = run(h, s, calls, fd, &certificate, &key, f);
	if (err && fd >= 0)
		close(fd);
	if (key.data)
		explicit_bzero(key.data, key.len);
	buf_release(&certificate);
	buf_release(&key);
	address_text(&h->at, h->address, sizeof h->address);
	snprintf(h->url, sizeof h->url, "%s://%s", h->tls ? "https" : "http", h->address);
	return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* wake.c: see wake.h. */
#include "worker/wake.h"

#include "base/text.h"
#include "store/dialect.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

const char wake_statement[] = "SELECT pg_notify('defib', '')";

struct wake {
	int inotify; /* -1: the server notifies */
};

/* The file beside a database that is a file; false: it has a server. */
static bool wake_path(const char *url, struct buf *out)
{
	enum store_engine engine;
	struct failure ignored = {0};
	if (!store_engine_of(url, &engine, &ignored) || !dialect_of(engine)->is_file)
		return false;
	const char *path = strchr(url, ':') + 1;
	if (text_starts(path, "//"))
		path += 2;
	buf_addf(out, "%s.defib-wake", path);
	return true;
}

void wake_send(struct store *s, const char *url)
{
	struct buf path = BUF_INIT;
	if (wake_path(url, &path)) {
		int fd = open(buf_text(&path), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
		if (fd >= 0) {
			(void)futimens(fd, NULL);
			close(fd);
		}
	} else {
		struct arena a = ARENA_INIT;
		struct failure ignored = {0};
		(void)!store_exec(s, wake_statement, NULL, 0, &a, NULL, &ignored);
		arena_release(&a);
	}
	buf_release(&path);
}

struct wake *wake_open(const char *url)
{
	struct wake *w = mem_alloc(sizeof *w);
	struct buf path = BUF_INIT;
	w->inotify = -1;
	if (wake_path(url, &path)) {
		int fd = open(buf_text(&path), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
		if (fd >= 0)
			close(fd);
		w->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		if (w->inotify >= 0 && inotify_add_watch(w->inotify, buf_text(&path), IN_ATTRIB) < 0) {
			close(w->inotify);
			w->inotify = -1;
		}
	}
	buf_release(&path);
	return w;
}

void wake_close(struct wake *w)
{
	if (!w)
		return;
	if (w->inotify >= 0)
		close(w->inotify);
	free(w);
}

void wake_listen(struct wake *w, struct store *s)
{
	struct arena a = ARENA_INIT;
	struct failure ignored = {0};
	(void)w;
	if (store_can_notify(s))
		(void)!store_exec(s, "LISTEN defib", NULL, 0, &a, NULL, &ignored);
	arena_release(&a);
}

int wake_fd(struct wake *w, struct store *s)
{
	if (w->inotify >= 0)
		return w->inotify;
	return s ? store_fd(s) : -1;
}

bool wake_taken(struct wake *w, struct store *s)
{
	char events[1024] __attribute__((aligned(8)));
	bool any = false;
	if (w->inotify < 0)
		return s && store_notified(s);
	while (read(w->inotify, events, sizeof events) > 0)
		any = true;
	return any;
}

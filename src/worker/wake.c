/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/wake.h"

#include "store/dialect.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

const char wake_statement[] = "SELECT pg_notify('defib', '')";

struct wake {
	int inotify; /* -1: the server notifies */
	char *path;  /* of the file beside the database; NULL: it has a server */
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

/* Whatever somebody put in its place is neither waited for nor followed. */
static int wake_file(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0666);
}

void wake_send(struct store *s, const char *url)
{
	AUTO_BUF path = BUF_INIT;
	if (wake_path(url, &path)) {
		int fd = wake_file(buf_text(&path));
		if (fd >= 0) {
			(void)futimens(fd, NULL);
			close(fd);
		}
	} else {
		AUTO_ARENA a = ARENA_INIT;
		struct failure ignored = {0};
		(void)!store_exec(s, wake_statement, NULL, 0, &a, NULL, &ignored);
	}
}

/* Watching the same file again changes nothing. */
static bool watch_file(const struct wake *w)
{
	int fd = wake_file(w->path);
	if (fd >= 0)
		close(fd);
	return inotify_add_watch(w->inotify, w->path, IN_ATTRIB) >= 0;
}

struct wake *wake_open(const char *url)
{
	struct wake *w = mem_alloc(sizeof *w);
	AUTO_BUF path = BUF_INIT;
	w->inotify = -1;
	if (wake_path(url, &path)) {
		w->path = mem_strdup(buf_text(&path));
		w->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		if (w->inotify >= 0 && !watch_file(w)) {
			close(w->inotify);
			w->inotify = -1;
		}
	}
	return w;
}

void wake_close(struct wake *w)
{
	if (!w)
		return;
	if (w->inotify >= 0)
		close(w->inotify);
	free(w->path);
	free(w);
}

void wake_listen(struct wake *w, struct store *s)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure ignored = {0};
	/* It may have been removed together with the database. */
	if (w->inotify >= 0)
		(void)watch_file(w);
	if (store_can_notify(s))
		(void)!store_exec(s, "LISTEN defib", NULL, 0, &a, NULL, &ignored);
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

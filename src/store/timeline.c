/* SPDX-License-Identifier: Apache-2.0 */
#include "store/timeline.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#define FILE_MOST 65536
#define TIMELINE_DIGITS 8 /* in a WAL file's name */

/* A cluster. */
struct known_cluster {
	struct timeline highest;
	int64_t refused; /* the timeline that was last refused */
};

static struct {
	pthread_mutex_t lock;
	struct known_cluster *all;
	int n;
	int fd; /* -1: there is no file */
	char *path;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* Under the lock. */
static struct known_cluster *seen_of(uint64_t cluster)
{
	for (int i = 0; i < memory.n; i++)
		if (memory.all[i].highest.cluster == cluster)
			return &memory.all[i];
	memory.all = mem_grow(memory.all, sizeof *memory.all * (size_t)(memory.n + 1));
	memory.all[memory.n] = (struct known_cluster){.highest = {.cluster = cluster}};
	return &memory.all[memory.n++];
}

/* Under the lock. If the file cannot be written, only the next process lacks the information. */
static void write_down(const struct timeline *t)
{
	char line[64];
	int n = snprintf(line, sizeof line, "%" PRIu64 " %" PRId64 "\n", t->cluster, t->number);
	if (memory.fd < 0)
		return;
	if (write(memory.fd, line, (size_t)n) != n || fdatasync(memory.fd) != 0)
		log_event(LOG_WARN, "cannot store the server's timeline", LOG_STR("why", strerror(errno)));
}

static bool line_parse(const char *line, struct timeline *out)
{
	char *end = NULL;
	errno = 0;
	out->cluster = strtoull(line, &end, 10);
	return !errno && *end == ' ' && int_parse(end + 1, &out->number) && out->number > 0;
}

/*
 * Invalid lines are skipped: a crash or a full disk may have cut one short, and the next line then
 * continues it.
 */
static void read_lines(char *text)
{
	char *rest = NULL;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		struct timeline t = {0};
		if (!line_parse(line, &t))
			continue;
		struct known_cluster *s = seen_of(t.cluster);
		s->highest.number = t.number > s->highest.number ? t.number : s->highest.number;
	}
}

defib_err timeline_keep(const char *folder, struct failure *f)
{
	char text[FILE_MOST + 1];
	AUTO_BUF path = BUF_INIT;
	buf_addf(&path, "%s/timelines", folder);
	int fd = open(buf_text(&path), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	ssize_t n = fd < 0 ? -1 : TEMP_FAILURE_RETRY(pread(fd, text, FILE_MOST, 0));
	if (n < 0) {
		fail(f, DEFIB_IO, "%s: cannot read it: %s", buf_text(&path), strerror(errno));
		if (fd >= 0)
			close(fd);
		return DEFIB_IO;
	}
	text[n] = '\0';
	pthread_mutex_lock(&memory.lock);
	if (memory.fd >= 0)
		close(memory.fd);
	memory.fd = fd;
	free(memory.path);
	memory.path = mem_strdup(buf_text(&path));
	read_lines(text);
	pthread_mutex_unlock(&memory.lock);
	return DEFIB_OK;
}

static defib_err timeline_refuse(struct known_cluster *s, const struct timeline *t,
                                 const char *name, const char *host, struct failure *f)
{
	fail(f, DEFIB_CONNECTION,
	     "%s: the server %s is on timeline %" PRId64 ", but timeline %" PRId64
	     " of the same cluster was seen: it is an old primary that came back",
	     name, host, t->number, s->highest.number);
	fail_next(
		f,
		"stop it, and make it a standby of the new primary (pg_rewind); if it was restored on "
		"purpose, %s%s and start this again",
		memory.path ? "remove " : "stop", memory.path ? memory.path : "");
	if (s->refused != t->number)
		log_event(LOG_CRITICAL, "refusing an old primary", LOG_STR("database", name),
		          LOG_STR("host", host), LOG_INT("timeline", t->number),
		          LOG_INT("seen", s->highest.number));
	s->refused = t->number;
	return DEFIB_CONNECTION;
}

defib_err timeline_see(const struct timeline *t, const char *name, const char *host,
                       struct failure *f)
{
	defib_err err = DEFIB_OK;
	if (!t->number)
		return DEFIB_OK;
	pthread_mutex_lock(&memory.lock);
	struct known_cluster *s = seen_of(t->cluster);
	if (t->number < s->highest.number) {
		err = timeline_refuse(s, t, name, host, f);
	} else if (t->number > s->highest.number) {
		if (s->highest.number)
			log_event(LOG_WARN, "the server failed over", LOG_STR("database", name),
			          LOG_STR("host", host), LOG_INT("timeline", t->number),
			          LOG_INT("before", s->highest.number));
		s->highest = *t;
		write_down(t);
	}
	pthread_mutex_unlock(&memory.lock);
	return err;
}

bool timeline_is_behind(const struct timeline *t)
{
	if (!t->number)
		return false;
	pthread_mutex_lock(&memory.lock);
	bool behind = t->number < seen_of(t->cluster)->highest.number;
	pthread_mutex_unlock(&memory.lock);
	return behind;
}

struct timeline timeline_parse(const char *cluster, const char *wal_file)
{
	struct timeline t = {0};
	char digits[TIMELINE_DIGITS + 1];
	char *end = NULL;
	if (!cluster || !wal_file || strlen(wal_file) < TIMELINE_DIGITS)
		return t;
	snprintf(digits, sizeof digits, "%s", wal_file);
	t.number = strtoll(digits, &end, 16);
	if (end != digits + TIMELINE_DIGITS || t.number <= 0)
		return (struct timeline){0};
	t.cluster = strtoull(cluster, &end, 10);
	return *end == '\0' && end != cluster ? t : (struct timeline){0};
}

void timeline_forget(void)
{
	pthread_mutex_lock(&memory.lock);
	free(memory.all);
	memory.all = NULL;
	memory.n = 0;
	if (memory.fd >= 0)
		close(memory.fd);
	memory.fd = -1;
	free(memory.path);
	memory.path = NULL;
	pthread_mutex_unlock(&memory.lock);
}

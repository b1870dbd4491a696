/* SPDX-License-Identifier: Apache-2.0 */
#include "store/database_file.h"

#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FILES_MAX 64 /* whose last state a process remembers */

/* The last state of a file that this process had open. */
struct known_file {
	char *path; /* NULL: free */
	struct store_state state;
	struct store_state log, index; /* FILE-wal and FILE-shm beside it; all zero: not known */
	bool gone;                     /* it was logged that nothing has the name any more */
};

static struct {
	pthread_mutex_t lock;
	struct known_file all[FILES_MAX];
	int next; /* the one to be replaced next */
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

char *database_file_path(const char *path)
{
	char folder[PATH_MAX];
	struct buf whole = BUF_INIT;
	if (text_eq(path, ":memory:"))
		return NULL;
	if (path[0] != '/' && getcwd(folder, sizeof folder))
		buf_addf(&whole, "%s/", folder);
	buf_add(&whole, path);
	return buf_detach(&whole);
}

bool database_file_state(const char *path, struct store_state *out)
{
	struct statx st;
	*out = (struct store_state){0};
	if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &st) != 0)
		return errno == ENOENT || errno == ENOTDIR;
	out->where = makedev(st.stx_dev_major, st.stx_dev_minor);
	out->what = st.stx_ino;
	if (st.stx_mask & STATX_BTIME)
		out->since = st.stx_btime.tv_sec * 1000000000 + st.stx_btime.tv_nsec;
	return true;
}

/* Under the lock. */
static struct known_file *database_file_find(const char *path)
{
	for (int i = 0; i < FILES_MAX; i++)
		if (text_eq(memory.all[i].path, path))
			return &memory.all[i];
	return NULL;
}

/* Under the lock. */
static struct known_file *database_file_add(const char *path)
{
	struct known_file *k = &memory.all[memory.next++ % FILES_MAX];
	free(k->path);
	*k = (struct known_file){.path = mem_strdup(path)};
	return k;
}

/* ---- the log of another file ---- */

static void beside(const char *path, const char *suffix, struct store_state *out)
{
	AUTO_BUF name = BUF_INIT;
	buf_addf(&name, "%s%s", path, suffix);
	(void)database_file_state(buf_text(&name), out);
}

/* Without the time of its creation, a new file may only have got the same inode. */
static bool is_still(const struct store_state *before, const struct store_state *now)
{
	return before->since && store_state_known(before) && !store_state_is_another(before, now) &&
	       store_state_known(now);
}

defib_err database_file_fits(const char *path, const struct store_state *now, const char *name,
                             struct failure *f)
{
	struct store_state log, index;
	bool fits = true;
	beside(path, "-wal", &log);
	beside(path, "-shm", &index);
	pthread_mutex_lock(&memory.lock);
	const struct known_file *k = database_file_find(path);
	if (k && store_state_is_another(&k->state, now))
		fits = !is_still(&k->log, &log) && !is_still(&k->index, &index);
	pthread_mutex_unlock(&memory.lock);
	if (fits)
		return DEFIB_OK;
	fail(f, DEFIB_CONNECTION,
	     "%s: the file was replaced, but %s-wal and -shm beside it belong to the file before: "
	     "opened together they would be damaged",
	     name, path);
	fail_next(
		f,
		"stop every program that uses the database, remove %s-wal and %s-shm, put the file in "
		"its place again, then start them",
		path, path);
	return DEFIB_CONNECTION;
}

/* ---- what a session has open ---- */

/* Under the lock. The log appears with the first session that uses one. */
static void database_file_note_log(struct known_file *k)
{
	if (!store_state_known(&k->log))
		beside(k->path, "-wal", &k->log);
	if (!store_state_known(&k->index))
		beside(k->path, "-shm", &k->index);
}

void database_file_opened(const char *path, const struct store_state *now, const char *name)
{
	pthread_mutex_lock(&memory.lock);
	struct known_file *k = database_file_find(path);
	if (!k)
		k = database_file_add(path);
	bool another = store_state_is_another(&k->state, now), was_gone = k->gone;
	if (another || was_gone)
		log_event(LOG_WARN,
		          another ? "the database file was replaced" : "the database file is back",
		          LOG_STR("database", name), LOG_STR("file", path));
	k->state = *now;
	k->gone = false;
	/* The log may have been removed and created again by then. */
	k->log = k->index = (struct store_state){0};
	database_file_note_log(k);
	pthread_mutex_unlock(&memory.lock);
}

static void note_gone(const char *path, const char *name)
{
	pthread_mutex_lock(&memory.lock);
	struct known_file *k = database_file_find(path);
	if (k && !k->gone) {
		log_event(LOG_ERROR, "the database file was removed", LOG_STR("database", name),
		          LOG_STR("file", path));
		k->gone = true;
	}
	pthread_mutex_unlock(&memory.lock);
}

bool database_file_is_another(const char *path, const struct store_state *opened, const char *name)
{
	struct store_state now;
	if (!database_file_state(path, &now))
		return false;
	if (!store_state_known(&now)) {
		note_gone(path, name);
		return true;
	}
	return store_state_is_another(opened, &now);
}

void database_file_forget(void)
{
	pthread_mutex_lock(&memory.lock);
	for (int i = 0; i < FILES_MAX; i++)
		free(memory.all[i].path);
	memset(memory.all, 0, sizeof memory.all);
	memory.next = 0;
	pthread_mutex_unlock(&memory.lock);
}

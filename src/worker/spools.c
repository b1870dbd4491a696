/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/spools.h"

#include "worker/spool_file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOURCES "sources"
#define ASIDE "aside"
#define OLD_SPOOL "spool"
#define OLD_TAKEN "taken"
#define DEFAULT_MAX (INT64_C(64) << 20)
#define NAME_MOST 200        /* bytes of a directory's name */
#define SPLIT_AT_ONCE 500    /* records of an old spool … */
#define PEEK_BYTES (4 << 20) /* … and bytes, at once */

/* The directory of a source. */
struct lane {
	char *name;                 /* of the directory */
	char *source;               /* as in its records; NULL while there are none */
	struct spool_list lists[2]; /* by enum spools_list */
	struct spools_retry retry;
	char why[SPOOL_WHY_MOST + 1]; /* of the first one set aside */
};

struct spools {
	char *folder;
	int folder_fd, lock_fd;
	int64_t max_bytes;
	struct lane **lanes;
	int n;
};

/* ---- the directory of a source ---- */

/* Whatever the source's name contains, the directory's name has only safe characters. */
static void safe_name(const char *source, struct buf *out)
{
	size_t began = out->len;
	for (const char *c = source; *c; c++) {
		bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		             (*c >= '0' && *c <= '9') || *c == '_' || *c == '-' ||
		             (*c == '.' && c > source);
		if (plain)
			buf_addch(out, *c);
		else
			buf_addf(out, "%%%02X", (unsigned char)*c);
	}
	if (out->len == began)
		buf_addch(out, '%');
	if (out->len - began > NAME_MOST) {
		out->len = began + NAME_MOST;
		buf_addf(out, "%%%016llx", (unsigned long long)spool_result_id(0, source, 0));
	}
}

static void lane_path(const struct spools *s, const char *name, bool aside, struct buf *out)
{
	buf_addf(out, "%s/" SOURCES "/", s->folder);
	buf_add(out, name);
	buf_add(out, aside ? "/" ASIDE : "");
}

static void lane_free(struct lane *l)
{
	for (int i = 0; i < 2; i++)
		list_close(&l->lists[i]);
	free(l->source);
	free(l->name);
	free(l);
}

/* By the directory's name; if the source is not given, its records name it. */
static defib_err lane_open(struct spools *s, const char *name, const char *source,
                           struct lane **out, struct failure *f)
{
	struct lane *l = mem_alloc(sizeof *l);
	AUTO_BUF path = BUF_INIT;
	struct stat st;
	l->name = mem_strdup(name);
	l->source = source ? mem_strdup(source) : NULL;
	lane_path(s, name, true, &path);
	defib_err err = DEFIB_OK;
	struct spool_list *waiting = &l->lists[SPOOLS_WAITING], *aside = &l->lists[SPOOLS_ASIDE];
	aside->aside = true;
	if (stat(buf_text(&path), &st) == 0)
		err = list_open(aside, buf_text(&path), &l->source, f);
	buf_clear(&path);
	lane_path(s, name, false, &path);
	if (!err)
		err = list_open(waiting, buf_text(&path), &l->source, f);
	if (!err)
		err = list_drop_repeated(waiting, aside, 0, f);
	if (!err)
		err = list_drop_repeated(aside, aside, 1, f);
	if (err) {
		lane_free(l);
		return err;
	}
	list_why(aside, l->why);
	*out = l;
	return DEFIB_OK;
}

/* Identified by the directory, which must not be opened twice. */
static struct lane *lane_named(const struct spools *s, const char *source)
{
	struct lane *found = NULL;
	AUTO_BUF name = BUF_INIT;
	safe_name(source, &name);
	for (int i = 0; i < s->n && !found; i++)
		if (text_eq(s->lanes[i]->name, buf_text(&name)))
			found = s->lanes[i];
	return found;
}

static void lane_add(struct spools *s, struct lane *l)
{
	s->lanes = mem_grow(s->lanes, sizeof(struct lane *) * (size_t)(s->n + 1));
	s->lanes[s->n++] = l;
}

static defib_err lane_for(struct spools *s, const char *source, struct lane **out,
                          struct failure *f)
{
	AUTO_BUF name = BUF_INIT;
	defib_err err = DEFIB_OK;
	*out = lane_named(s, source);
	if (*out)
		return DEFIB_OK;
	safe_name(source, &name);
	err = lane_open(s, buf_text(&name), source, out, f);
	if (!err)
		lane_add(s, *out);
	return err;
}

static defib_err aside_ready(struct spools *s, struct lane *l, struct failure *f)
{
	AUTO_BUF path = BUF_INIT;
	defib_err err = DEFIB_OK;
	if (!l->lists[SPOOLS_ASIDE].spool) {
		lane_path(s, l->name, true, &path);
		err = list_open(&l->lists[SPOOLS_ASIDE], buf_text(&path), &l->source, f);
	}
	return err;
}

/* ---- putting in ---- */

static uint64_t id_of(const struct spool_result *r)
{
	return spool_result_id(r->worker, r->end.key, r->end.epoch);
}

static defib_err has_room(const struct spools *s, const struct spool_record *all, int n,
                          struct failure *f)
{
	struct spools_totals t;
	spools_totals(s, &t);
	int64_t bytes = t.bytes;
	for (int i = 0; i < n; i++)
		bytes += (int64_t)all[i].n;
	if (bytes <= s->max_bytes)
		return DEFIB_OK;
	return fail(f, DEFIB_FULL, "spool %s: %lld bytes are stored; %d more results exceed the limit",
	            s->folder, (long long)t.bytes, n);
}

defib_err spools_append_many(struct spools *s, const char *source, const struct spool_result *all,
                             int n, const char *why, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	AUTO_BUF result = BUF_INIT;
	struct spool_record *records = ARENA_ARRAY(&a, struct spool_record, n);
	uint64_t *ids = ARENA_ARRAY(&a, uint64_t, n);
	struct lane *l;
	defib_err err = lane_for(s, source, &l, f);
	if (!err && why)
		err = aside_ready(s, l, f);
	for (int i = 0; i < n && !err; i++) {
		buf_clear(&result);
		spool_result_encode(&all[i], &result);
		records[i] = list_record(&l->lists[why != NULL], why, buf_text(&result), result.len, &a);
		ids[i] = id_of(&all[i]);
	}
	if (!err)
		err = has_room(s, records, n, f);
	if (!err)
		err = list_append(&l->lists[why != NULL], records, ids, n, f);
	if (!err && why)
		list_why(&l->lists[SPOOLS_ASIDE], l->why);
	return err;
}

/* ---- taking out ---- */

int spools_peek_many(struct spools *s, const char *source, enum spools_list list,
                     struct spools_record *out, int most, struct arena *a)
{
	struct lane *l = lane_named(s, source);
	return l ? list_peek(&l->lists[list], out, most, a) : 0;
}

static defib_err keep_refused(struct spools *s, struct lane *l, enum spools_list from,
                              const struct spools_record *all, int n, const char *const *refused,
                              struct failure *f)
{
	struct spool_list *aside = &l->lists[SPOOLS_ASIDE];
	AUTO_ARENA a = ARENA_INIT;
	struct spool_record *records = ARENA_ARRAY(&a, struct spool_record, n);
	uint64_t *ids = ARENA_ARRAY(&a, uint64_t, n);
	for (int i = 0; i < n; i++) {
		size_t len;
		const char *result = list_result(&l->lists[from], &all[i].raw, &len);
		records[i] = list_record(aside, refused[i], result, len, &a);
		ids[i] = id_of(&all[i].result);
	}
	defib_err err = aside_ready(s, l, f);
	if (!err)
		err = list_append(aside, records, ids, n, f);
	return err;
}

/*
 * Recorded and refused results are handled in runs, one after the other: a crash can leave only the
 * oldest of a list in two places, which the next open finds.
 */
defib_err spools_take_many(struct spools *s, const char *source, enum spools_list list,
                           const struct spools_record *all, int n, const char *const *refused,
                           struct failure *f)
{
	struct lane *l = lane_named(s, source);
	defib_err err = DEFIB_OK;
	assert(l && n > 0);
	for (int i = 0, next; i < n && !err; i = next) {
		bool keep = refused && refused[i];
		for (next = i + 1; next < n && keep == (refused && refused[next]);)
			next++;
		if (keep)
			err = keep_refused(s, l, list, &all[i], next - i, &refused[i], f);
		if (!err)
			err = list_take(&l->lists[list], &all[i], next - i, f);
	}
	list_why(&l->lists[SPOOLS_ASIDE], l->why);
	return err;
}

/* ---- the one spool of earlier versions ---- */

/*
 * The records of one source among these, to its lane; records that are already there were split
 * before.
 */
static defib_err split_source(struct spools *s, const struct spool_record *all,
                              const struct spool_result *results, int n, const char *source,
                              struct arena *a, struct failure *f)
{
	struct spool_record *records = ARENA_ARRAY(a, struct spool_record, n);
	uint64_t *ids = ARENA_ARRAY(a, uint64_t, n);
	struct lane *l;
	int own = 0;
	defib_err err = lane_for(s, source, &l, f);
	for (int i = 0; !err && i < n; i++) {
		uint64_t id = id_of(&results[i]);
		if (text_eq(results[i].source, source) && !list_has(&l->lists[SPOOLS_WAITING], 0, id)) {
			ids[own] = id;
			records[own++] = all[i];
		}
	}
	return err ? err : list_append(&l->lists[SPOOLS_WAITING], records, ids, own, f);
}

static bool named_before(const struct spool_result *results, int i)
{
	for (int k = 0; k < i; k++)
		if (text_eq(results[k].source, results[i].source))
			return true;
	return false;
}

static defib_err split_some(struct spools *s, struct spool *old, struct arena *a, struct failure *f)
{
	struct spool_record *all = ARENA_ARRAY(a, struct spool_record, SPLIT_AT_ONCE);
	struct spool_result *results = ARENA_ARRAY(a, struct spool_result, SPLIT_AT_ONCE);
	int n = spool_peek_many(old, all, SPLIT_AT_ONCE, PEEK_BYTES, a);
	defib_err err = n > 0 ? DEFIB_OK : fail(f, DEFIB_IO, "spool %s: cannot be read", s->folder);
	for (int i = 0; i < n; i++)
		(void)spool_result_decode(all[i].bytes, all[i].n, a, &results[i]);
	for (int i = 0; !err && i < n; i++)
		if (!named_before(results, i))
			err = split_source(s, all, results, n, results[i].source, a, f);
	return err ? err : spool_take_many(old, all, n, f);
}

static defib_err split_old(struct spools *s, struct failure *f)
{
	struct spool_options o = {.folder = s->folder, .max_bytes = INT64_MAX, .owned = true};
	AUTO_ARENA a = ARENA_INIT;
	struct spool *old;
	struct stat st;
	if (fstatat(s->folder_fd, OLD_SPOOL, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return DEFIB_OK;
	defib_err err = spool_open(&o, &old, f);
	if (err)
		return err;
	while (!err && spool_count(old) > 0) {
		err = split_some(s, old, &a, f);
		arena_clear(&a);
	}
	spool_close(old);
	if (!err) {
		(void)unlinkat(s->folder_fd, OLD_SPOOL, 0);
		(void)unlinkat(s->folder_fd, OLD_TAKEN, 0);
	}
	return err;
}

/* ---- all of them ---- */

static defib_err open_found(struct spools *s, const char *name, struct failure *f)
{
	struct lane *l;
	defib_err err = lane_open(s, name, NULL, &l, f);
	if (err)
		return err;
	bool any = list_count(&l->lists[0]) + list_count(&l->lists[1]) > 0;
	if (any && !l->source)
		l->source = mem_strdup(name); /* no record of it can be read */
	if (any)
		lane_add(s, l);
	else
		lane_free(l);
	return DEFIB_OK;
}

static defib_err open_lanes(struct spools *s, struct failure *f)
{
	AUTO_BUF path = BUF_INIT;
	defib_err err = DEFIB_OK;
	lane_path(s, "", false, &path);
	DIR *dir = opendir(buf_text(&path));
	if (!dir && errno != ENOENT)
		err = fail(f, DEFIB_IO, "cannot read %s: %s", buf_text(&path), strerror(errno));
	for (const struct dirent *e; dir && !err && (e = readdir(dir));)
		if (e->d_name[0] != '.')
			err = open_found(s, e->d_name, f);
	if (dir)
		closedir(dir);
	return err;
}

defib_err spools_open(const char *folder, int64_t max_bytes, struct spools **out, struct failure *f)
{
	struct spools *s = mem_alloc(sizeof *s);
	assert(max_bytes >= 0);
	*out = NULL;
	s->folder = mem_strdup(folder);
	s->max_bytes = max_bytes ? max_bytes : DEFAULT_MAX;
	s->folder_fd = s->lock_fd = -1;
	defib_err err = folder_open(folder, &s->folder_fd, f);
	if (!err)
		err = folder_lock(folder, s->folder_fd, &s->lock_fd, f);
	if (err)
		fail_prefix(f, "spool %s", folder);
	if (!err)
		err = open_lanes(s, f);
	if (!err)
		err = split_old(s, f);
	if (err) {
		spools_close(s);
		return err;
	}
	*out = s;
	return DEFIB_OK;
}

void spools_close(struct spools *s)
{
	if (!s)
		return;
	for (int i = 0; i < s->n; i++)
		lane_free(s->lanes[i]);
	free(s->lanes);
	if (s->folder_fd >= 0)
		close(s->folder_fd);
	if (s->lock_fd >= 0)
		close(s->lock_fd); /* last: until here the directory is ours */
	free(s->folder);
	free(s);
}

defib_err spools_ready(struct spools *s, const char *source, struct failure *f)
{
	struct lane *l;
	return lane_for(s, source, &l, f);
}

/* ---- asking ---- */

bool spools_holds(const struct spools *s, const char *source, int64_t worker, const char *key,
                  int64_t epoch)
{
	const struct lane *l = lane_named(s, source);
	uint64_t id = spool_result_id(worker, key, epoch);
	return l &&
	       (list_has(&l->lists[SPOOLS_WAITING], 0, id) || list_has(&l->lists[SPOOLS_ASIDE], 0, id));
}

static int64_t count_of(const struct spools *s, const char *source, enum spools_list list)
{
	const struct lane *l = lane_named(s, source);
	return l ? list_count(&l->lists[list]) : 0;
}

int64_t spools_waiting(const struct spools *s, const char *source)
{
	return count_of(s, source, SPOOLS_WAITING);
}

int64_t spools_aside(const struct spools *s, const char *source)
{
	return count_of(s, source, SPOOLS_ASIDE);
}

struct spools_retry *spools_retry(const struct spools *s, const char *source)
{
	struct lane *l = lane_named(s, source);
	return l ? &l->retry : NULL;
}

void spools_totals(const struct spools *s, struct spools_totals *out)
{
	*out = (struct spools_totals){0};
	for (int i = 0; i < s->n; i++) {
		const struct lane *l = s->lanes[i];
		int64_t aside = list_count(&l->lists[SPOOLS_ASIDE]);
		out->waiting += list_count(&l->lists[SPOOLS_WAITING]);
		out->set_aside += aside;
		for (int k = 0; k < 2; k++)
			out->bytes += list_bytes(&l->lists[k]);
		if (aside > 0 && !out->why) {
			out->why = l->why;
			out->why_source = l->source;
		}
	}
}

const char *spools_source(const struct spools *s, int i)
{
	for (int k = 0; k < s->n; k++) {
		const struct lane *l = s->lanes[k];
		if (list_count(&l->lists[0]) + list_count(&l->lists[1]) > 0 && i-- == 0)
			return l->source;
	}
	return NULL;
}

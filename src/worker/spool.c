/* SPDX-License-Identifier: Apache-2.0
 * spool.c: an append-only file of numbered, checksummed records and a durable mark of the last
 * number taken (spool_file.h).
 *
 *   spool      records, oldest first: head {magic, len, number, checksums}, bytes
 *   taken      the mark
 *   lock       held while the directory is open
 *   spool.bad  what could not be read, for an operator
 *
 * Numbers only rise. That makes every clean-up safe at any moment: a record whose number is at or
 * below the mark was taken, wherever and however often it is still in the file. So the file is
 * simply emptied when everything is taken, and rewritten when the taken part outweighs the rest.
 *
 * At open the records are checked one by one. A record that the process was writing when it died is
 * recognised as short, and dropped: its append never returned. Anything else is damage: the bytes
 * between the last good record and the next one move to spool.bad, and nothing else.
 */
#include "worker/spool.h"

#include "base/log.h"
#include "worker/spool_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define SPOOL_FILE "spool"
#define SPOOL_NEW "spool.new"
#define SPOOL_BAD "spool.bad"
#define SPOOL_DEFAULT_MAX (INT64_C(64) << 20)
#define SPOOL_REWRITE_MIN (1 << 20) /* less than this is not worth a rewrite */

struct spool {
	char *folder;
	int folder_fd, lock_fd, file_fd;
	struct spool_mark mark;
	int64_t max_bytes;
	bool owned;               /* by a lock on a directory above it */
	off_t begin, end;         /* of the records that were not taken */
	int64_t before;           /* bytes that were before the file's first since it was opened */
	uint64_t last;            /* highest number assigned */
	int64_t count;            /* not taken */
	off_t rewrite_at;         /* taken bytes that make a rewrite worthwhile */
	bool renamed;             /* the directory was not synced since */
	bool override_unreadable; /* log once, not at every peek */
	bool peeked;              /* `record` is the oldest one, `peeked_head` its head */
	struct record_head peeked_head;
	struct buf record;
};

/* Truncate the file at `at`. */
static defib_err cut(struct spool *s, off_t at, struct failure *f)
{
	defib_err err = file_truncate(s->file_fd, at, f);
	return err ? err : file_sync(s->file_fd, f);
}

/*
 * After a rename: until the directory is synced, a crash of the machine may bring the old file
 * back, without what was appended to the new one.
 */
static defib_err sync_names(struct spool *s, struct failure *f)
{
	defib_err err = s->renamed ? file_sync(s->folder_fd, f) : DEFIB_OK;
	if (!err)
		s->renamed = false;
	return err;
}

/* Copy two ranges to a new file that replaces the old one atomically. */
static defib_err replace(struct spool *s, off_t begin, off_t end, off_t again, off_t size,
                         struct failure *f)
{
	int fd;
	defib_err err = file_open(s->folder_fd, SPOOL_NEW, O_TRUNC, &fd, f);
	if (err)
		return err;
	err = file_copy(s->file_fd, begin, end, fd, 0, f);
	if (!err)
		err = file_copy(s->file_fd, again, size, fd, end - begin, f);
	if (!err)
		err = file_sync(fd, f);
	if (!err && renameat(s->folder_fd, SPOOL_NEW, s->folder_fd, SPOOL_FILE) != 0)
		err = fail(f, DEFIB_IO, "cannot rename " SPOOL_NEW ": %s", strerror(errno));
	if (err) {
		close(fd);
		return err;
	}
	close(s->file_fd);
	s->file_fd = fd;
	s->renamed = true;
	return DEFIB_OK;
}

/* Move the rest to the front. */
static defib_err rewrite(struct spool *s, struct failure *f)
{
	defib_err err = replace(s, s->begin, s->end, s->end, s->end, f);
	if (err)
		return err;
	s->end -= s->begin;
	s->before += s->begin;
	s->begin = 0;
	return sync_names(s, f);
}

/* ---- damage ---- */

/* Append the bytes between two positions to SPOOL_BAD, where an operator finds them. */
static defib_err keep_bad(struct spool *s, off_t at, off_t next, struct failure *f)
{
	int bad;
	off_t behind;
	defib_err err = file_open(s->folder_fd, SPOOL_BAD, 0, &bad, f);
	if (err)
		return err;
	err = file_size(bad, &behind, f);
	if (!err)
		err = file_copy(s->file_fd, at, next, bad, behind, f);
	if (!err)
		err = file_sync(bad, f);
	if (!err)
		err = file_sync(s->folder_fd, f);
	close(bad);
	return err;
}

/* Damage at `at`: remove it, and keep what is good after it. */
static defib_err set_aside(struct spool *s, off_t at, off_t *size, struct failure *f)
{
	off_t next = *size;
	defib_err err = record_next(s->file_fd, at, *size, s->last, &next, f);
	if (!err)
		err = keep_bad(s, at, next, f);
	if (!err)
		err = next == *size ? cut(s, at, f) : replace(s, 0, at, next, *size, f);
	if (err) {
		fail_prefix(f, "damaged, and moving the damaged part to " SPOOL_BAD " failed");
		return err;
	}
	log_event(LOG_ERROR, "spool damaged: the unreadable part is in " SPOOL_BAD,
	          LOG_STR("folder", s->folder), LOG_INT("bytes", next - at),
	          LOG_INT("bytes_kept_behind_it", *size - next));
	*size -= next - at;
	return DEFIB_OK;
}

/* ---- opening ---- */

/* Check the record at s->end; one that was taken may be damaged, it is not needed. */
static defib_err record_check(const struct spool *s, off_t size, struct record_head *h,
                              enum record_state *state, struct failure *f)
{
	defib_err err = record_head(s->file_fd, s->end, size, s->last, h, state, f);
	if (err || *state != RECORD_GOOD || h->number <= s->mark.taken)
		return err;
	return record_bytes(s->file_fd, s->end, h, NULL, state, f);
}

static void scanned(struct spool *s, const struct record_head *h)
{
	s->end += RECORD_HEAD + h->len;
	s->last = h->number;
	if (h->number <= s->mark.taken)
		s->begin = s->end;
	else
		s->count++;
}

/* From s->end on; the previous number was s->last. */
static defib_err spool_scan(struct spool *s, struct failure *f)
{
	struct record_head h;
	enum record_state state = RECORD_GOOD;
	off_t size;
	defib_err err = file_size(s->file_fd, &size, f);
	while (!err && state != RECORD_END && state != RECORD_SHORT) {
		err = record_check(s, size, &h, &state, f);
		if (!err && state == RECORD_GOOD)
			scanned(s, &h);
		else if (!err && state == RECORD_BAD)
			err = set_aside(s, s->end, &size, f);
	}
	if (s->last < s->mark.taken)
		s->last = s->mark.taken;
	if (!err && state == RECORD_SHORT) {
		log_event(LOG_WARN, "spool: dropped a half-written record", LOG_STR("folder", s->folder),
		          LOG_INT("bytes", size - s->end));
		err = cut(s, s->end, f);
	}
	return err;
}

static defib_err spool_open_files(struct spool *s, struct failure *f)
{
	defib_err err = folder_open(s->folder, &s->folder_fd, f);
	if (!err && !s->owned)
		err = folder_lock(s->folder, s->folder_fd, &s->lock_fd, f);
	if (!err)
		err = file_open(s->folder_fd, SPOOL_FILE, 0, &s->file_fd, f);
	if (!err)
		err = mark_open(&s->mark, s->folder_fd, f);
	if (!err) {
		(void)unlinkat(s->folder_fd, SPOOL_NEW, 0); /* left by a rewrite that a crash interrupted */
		err = file_sync(s->folder_fd, f);           /* the files' names */
	}
	return err;
}

/*
 * Free the space of taken records. A failure does not concern the caller: the records are marked as
 * taken; the next try waits for twice as much.
 */
static void tidy(struct spool *s)
{
	struct failure f = {0};
	defib_err err = DEFIB_OK;
	if (s->begin == s->end && s->end > 0) {
		err = file_truncate(s->file_fd, 0, &f);
		if (!err) {
			s->before += s->end;
			s->begin = s->end = 0;
		}
	} else if (s->begin >= s->rewrite_at && s->begin >= s->end - s->begin) {
		err = rewrite(s, &f);
		s->rewrite_at = err ? s->begin * 2 : SPOOL_REWRITE_MIN;
	}
	if (err) {
		log_event(LOG_WARN, "spool: cannot free the space of taken records",
		          LOG_STR("folder", s->folder), LOG_STR("why", f.what));
	}
}

defib_err spool_open(const struct spool_options *o, struct spool **out, struct failure *f)
{
	struct spool *s = mem_alloc(sizeof *s);
	assert(o->max_bytes >= 0);
	*out = NULL;
	s->folder = mem_strdup(o->folder);
	s->folder_fd = s->lock_fd = s->file_fd = s->mark.fd = -1;
	s->max_bytes = o->max_bytes ? o->max_bytes : SPOOL_DEFAULT_MAX;
	s->owned = o->owned;
	s->rewrite_at = SPOOL_REWRITE_MIN;
	defib_err err = spool_open_files(s, f);
	if (!err)
		err = spool_scan(s, f);
	if (err) {
		fail_prefix(f, "spool %s", o->folder);
		spool_close(s);
		return err;
	}
	tidy(s);
	*out = s;
	return DEFIB_OK;
}

void spool_close(struct spool *s)
{
	if (!s)
		return;
	mark_close(&s->mark);
	int *const fds[] = {&s->file_fd, &s->folder_fd, &s->lock_fd}; /* the lock is released last */
	for (int i = 0; i < 3; i++)
		if (*fds[i] >= 0)
			close(*fds[i]);
	buf_release(&s->record);
	free(s->folder);
	free(s);
}

/* On failure the file ends where it ended before; the next append overwrites the remains. */
static defib_err record_write(struct spool *s, const struct buf *record, struct failure *f)
{
	defib_err err = file_write(s->file_fd, record->data, record->len, s->end, f);
	if (!err)
		err = file_sync(s->file_fd, f);
	if (!err)
		err = sync_names(s, f);
	if (err && file_truncate(s->file_fd, s->end, NULL) != DEFIB_OK) {
		log_event(LOG_WARN, "spool: cannot remove a record that was not written whole",
		          LOG_STR("folder", s->folder));
	}
	return err;
}

defib_err spool_append(struct spool *s, const char *bytes, size_t n, struct failure *f)
{
	return spool_append_many(s, &(struct spool_record){.bytes = bytes, .n = n}, 1, f);
}

defib_err spool_append_many(struct spool *s, const struct spool_record *all, int n,
                            struct failure *f)
{
	AUTO_BUF records = BUF_INIT;
	int64_t room = s->max_bytes - spool_bytes(s);
	for (int i = 0; i < n && room >= 0; i++) {
		int64_t one = all[i].n > UINT32_MAX ? INT64_MAX : RECORD_HEAD + (int64_t)all[i].n;
		room = one > room ? -1 : room - one;
		if (room >= 0)
			record_build(s->last + 1 + (uint64_t)i, all[i].bytes, all[i].n, &records);
	}
	defib_err err = DEFIB_OK;
	if (room < 0) {
		err = fail(f, DEFIB_FULL,
		           "spool %s: %lld records of %lld bytes are stored; %d more exceed the limit",
		           s->folder, (long long)s->count, (long long)spool_bytes(s), n);
	} else if (n > 0) {
		err = record_write(s, &records, f);
		fail_prefix(err ? f : NULL, "spool %s", s->folder);
	}
	if (!err) {
		s->end += (off_t)records.len;
		s->last += (uint64_t)n;
		s->count += n;
	}
	return err;
}

/* Good when it was opened or written, damaged since: all waiting records are checked again. */
static defib_err scan_again(struct spool *s, struct failure *f)
{
	uint64_t last = s->last;
	s->end = s->begin;
	s->last = s->mark.taken;
	s->count = 0;
	defib_err err = spool_scan(s, f);
	s->last = s->last < last ? last : s->last; /* a number is assigned once */
	return err;
}

static defib_err peek(struct spool *s, enum record_state *state, struct failure *f)
{
	struct record_head *h = &s->peeked_head;
	defib_err err = DEFIB_OK;
	*state = RECORD_BAD;
	for (int tries = 0; !err && tries < 2 && s->count > 0 && *state != RECORD_GOOD; tries++) {
		buf_clear(&s->record);
		err = record_head(s->file_fd, s->begin, s->end, s->mark.taken, h, state, f);
		if (!err && *state == RECORD_GOOD)
			err = record_bytes(s->file_fd, s->begin, h, &s->record, state, f);
		if (!err && *state != RECORD_GOOD)
			err = scan_again(s, f);
	}
	return err;
}

bool spool_peek(struct spool *s, const char **bytes, size_t *n)
{
	struct failure f = {0};
	enum record_state state;
	if (s->count == 0)
		return false;
	if (!s->peeked) {
		defib_err err = peek(s, &state, &f);
		if (err && !s->override_unreadable) {
			log_event(LOG_ERROR, "spool: cannot be read now", LOG_STR("folder", s->folder),
			          LOG_STR("why", f.what), LOG_INT("records", s->count));
		}
		s->override_unreadable = err != DEFIB_OK;
		s->peeked = !err && state == RECORD_GOOD;
	}
	*bytes = buf_text(&s->record);
	*n = s->record.len;
	return s->peeked;
}

/* Everything up to this number, which ends there, is taken. */
static defib_err take_to(struct spool *s, uint64_t number, off_t end, int n, struct failure *f)
{
	assert(n > 0 && n <= s->count && end <= s->end);
	defib_err err = mark_move(&s->mark, number, f);
	if (err) {
		fail_prefix(f, "spool %s", s->folder);
		return err;
	}
	s->begin = end;
	s->count -= n;
	s->peeked = false;
	tidy(s);
	return DEFIB_OK;
}

defib_err spool_take(struct spool *s, struct failure *f)
{
	const struct record_head *h = &s->peeked_head;
	assert(s->peeked);
	return take_to(s, h->number, s->begin + RECORD_HEAD + h->len, 1, f);
}

int spool_peek_many(struct spool *s, struct spool_record *out, int most, size_t bytes,
                    struct arena *a)
{
	struct record_head h;
	AUTO_BUF record = BUF_INIT;
	enum record_state state;
	const char *first;
	size_t nfirst;
	off_t at = s->begin;
	uint64_t last = s->mark.taken;
	int n = 0;
	/* Unreadable records are reported, or set aside, when the first one is read. */
	while (n < most && n < s->count && spool_peek(s, &first, &nfirst)) {
		buf_clear(&record);
		if (record_head(s->file_fd, at, s->end, last, &h, &state, NULL) || state != RECORD_GOOD ||
		    (n > 0 && h.len > bytes) || record_bytes(s->file_fd, at, &h, &record, &state, NULL) ||
		    state != RECORD_GOOD)
			break;
		bytes -= h.len < bytes ? h.len : bytes;
		last = h.number;
		at += RECORD_HEAD + h.len;
		char *copy = memcpy(arena_alloc(a, record.len + 1), buf_text(&record), record.len);
		out[n++] = (struct spool_record){copy, record.len, h.number, s->before + at};
	}
	return n;
}

defib_err spool_walk(struct spool *s, void (*each)(void *ctx, const char *bytes, size_t n),
                     void *ctx, struct failure *f)
{
	AUTO_BUF record = BUF_INIT;
	struct record_head h;
	enum record_state state = RECORD_GOOD;
	uint64_t last = s->mark.taken;
	defib_err err = DEFIB_OK;
	for (off_t at = s->begin; !err && at < s->end && state == RECORD_GOOD;) {
		buf_clear(&record);
		err = record_head(s->file_fd, at, s->end, last, &h, &state, f);
		if (!err && state == RECORD_GOOD)
			err = record_bytes(s->file_fd, at, &h, &record, &state, f);
		if (!err && state == RECORD_GOOD) {
			each(ctx, buf_text(&record), record.len);
			last = h.number;
			at += RECORD_HEAD + h.len;
		}
	}
	return err;
}

defib_err spool_take_many(struct spool *s, const struct spool_record *all, int n, struct failure *f)
{
	assert(n > 0);
	return take_to(s, all[n - 1].number, all[n - 1].end - s->before, n, f);
}

int64_t spool_count(const struct spool *s)
{
	return s->count;
}

int64_t spool_bytes(const struct spool *s)
{
	return s->end - s->begin;
}

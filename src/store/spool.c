/* SPDX-License-Identifier: Apache-2.0
 * spool.c: what a spool has, in memory: its lanes, how many records are in each list, and their
 * ids. The records themselves are only in the file (spool_file.h).
 */
#include "store/spool.h"

#include "base/hash.h"
#include "base/log.h"
#include "store/spool_file.h"
#include "store/spool_folder.h"
#include "store/spool_ids.h"

#include <assert.h>
#include <unistd.h>

#define DEFAULT_MAX (INT64_C(64) << 20)
#define OVERHEAD 64 /* bytes of a record beside its own */

struct lane {
	char *name;
	int64_t number;
	/* Of the records that wait, and of those that are set aside: how many, and the last place. */
	int64_t counts[2], last[2];
};

struct spool {
	struct spool_file file;
	int lock_fd;
	int64_t max_bytes, bytes;
	struct lane **lanes; /* each by itself: their names are handed out */
	int n;
	struct spool_ids ids;
	char why[SPOOL_WHY_MOST + 1]; /* what spool_why() gave last */
	pid_t owner; /* the process that opened it: in a forked child it belongs to the parent */
};

/* ---- lanes ---- */

static struct lane *lane_named(const struct spool *s, const char *name)
{
	for (int i = 0; i < s->n; i++)
		if (text_eq(s->lanes[i]->name, name))
			return s->lanes[i];
	return NULL;
}

static struct lane *lane_numbered(const struct spool *s, int64_t number)
{
	for (int i = 0; i < s->n; i++)
		if (s->lanes[i]->number == number)
			return s->lanes[i];
	return NULL;
}

static struct lane *lane_add(struct spool *s, const char *name, int64_t number)
{
	struct lane *lane = mem_alloc(sizeof *lane);
	lane->name = mem_strdup(name);
	lane->number = number;
	s->lanes = mem_grow(s->lanes, sizeof(struct lane *) * (size_t)(s->n + 1));
	return s->lanes[s->n++] = lane;
}

/* As many as from this one on. */
static void lanes_drop(struct spool *s, int from)
{
	while (s->n > from) {
		struct lane *lane = s->lanes[--s->n];
		free(lane->name);
		free(lane);
	}
}

static int64_t number_of(const struct lane *lane, bool aside, int64_t place)
{
	return lane->number << SPOOL_LANE_SHIFT | (aside ? SPOOL_ASIDE : 0) | place;
}

static bool is_aside(int64_t number)
{
	return (number & SPOOL_ASIDE) != 0;
}

static uint64_t id_hash(const struct lane *lane, const char *id)
{
	return fnv1a_words(FNV_START ^ (uint64_t)lane->number, id, strlen(id));
}

/* What it takes of max_bytes. */
static int64_t room_of(size_t n)
{
	return (int64_t)n + OVERHEAD;
}

/* ---- what is in the file ---- */

static sqlite3_stmt *sql(struct spool *s, enum spool_sql which)
{
	return spool_file_statement(&s->file, which);
}

static void bind_text(sqlite3_stmt *st, int at, const char *text)
{
	/* Without memory the value is NULL, which the table refuses. */
	(void)sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

static const char *text_at(sqlite3_stmt *st, int column)
{
	const char *text = (const char *)sqlite3_column_text(st, column);
	return text ? text : "";
}

/* One line, so that logs and status can show it. */
static const char *line_of(const char *why, char out[SPOOL_WHY_MOST + 1])
{
	utf8_copy(out, SPOOL_WHY_MOST + 1, why);
	for (char *c = out; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	return out;
}

static defib_err load_lane(struct spool *s, sqlite3_stmt *st, struct failure *f)
{
	const char *name = spool_file_text(st, 1);
	int64_t number = sqlite3_column_int64(st, 0);
	if (!name || number < 1 || number > SPOOL_LANES_MOST)
		return spool_file_damaged(&s->file, "a lane has a name or number that none can have", f);
	(void)lane_add(s, name, number);
	return DEFIB_OK;
}

static defib_err load_record(struct spool *s, sqlite3_stmt *st, struct failure *f)
{
	int64_t number = sqlite3_column_int64(st, 0), place = number & SPOOL_PLACES;
	struct lane *lane = number > 0 ? lane_numbered(s, number >> SPOOL_LANE_SHIFT) : NULL;
	if (!lane || place > SPOOL_PLACE_MOST)
		return spool_file_damaged(&s->file, "a record has a number that none can have", f);
	lane->counts[is_aside(number)]++;
	lane->last[is_aside(number)] = place;
	s->bytes += room_of((size_t)sqlite3_column_int64(st, 2));
	ids_add(&s->ids, id_hash(lane, text_at(st, 1)), number);
	return DEFIB_OK;
}

static defib_err load_rows(struct spool *s, sqlite3_stmt *st,
                           defib_err (*load)(struct spool *, sqlite3_stmt *, struct failure *),
                           struct failure *f)
{
	defib_err err = DEFIB_OK;
	int rc = SQLITE_DONE;
	while (!err && (rc = sqlite3_step(st)) == SQLITE_ROW)
		err = load(s, st, f);
	if (!err && rc != SQLITE_DONE)
		err = spool_file_failed(&s->file, rc, f);
	sqlite3_reset(st);
	return err;
}

/* Everything that is kept in memory, as the file has it. */
static defib_err spool_load(struct spool *s, struct failure *f)
{
	lanes_drop(s, 0);
	ids_release(&s->ids);
	s->bytes = 0;
	defib_err err = load_rows(s, sql(s, SPOOL_SQL_LANES), load_lane, f);
	return err ? err : load_rows(s, sql(s, SPOOL_SQL_RECORDS), load_record, f);
}

/* ---- opening ---- */

static defib_err spool_open_file(struct spool *s, struct failure *f)
{
	defib_err err = spool_file_open(&s->file, f);
	if (!err)
		err = spool_load(s, f);
	/* Only its rows showed that it is damaged. */
	if (err && s->file.db && s->file.damage[0]) {
		fail_clear(f);
		err = spool_file_open(&s->file, f);
		if (!err)
			err = spool_load(s, f);
	}
	return err;
}

/* A file that was damaged since is mended. In a forked child nothing is done. */
static defib_err spool_ready(struct spool *s, struct failure *f)
{
	if (s->owner != getpid())
		return fail(f, DEFIB_REFUSED, "spool %s: it belongs to the process that opened it",
		            s->file.folder);
	if (s->file.db && s->file.damage[0] == '\0')
		return DEFIB_OK;
	return spool_open_file(s, f);
}

defib_err spool_open(const struct spool_options *o, struct spool **out, struct failure *f)
{
	struct spool *s = mem_alloc(sizeof *s);
	assert(o->max_bytes >= 0);
	*out = NULL;
	s->max_bytes = o->max_bytes ? o->max_bytes : DEFAULT_MAX;
	s->file = (struct spool_file){
		.folder = mem_strdup(o->folder), .folder_fd = -1, .reserve_fd = -1, .brief = o->brief};
	s->lock_fd = -1;
	s->owner = getpid();
	defib_err err = folder_open(o->folder, &s->file.folder_fd, f);
	if (!err)
		err = folder_local(s->file.folder_fd, f);
	if (!err)
		err = folder_lock(o->folder, s->file.folder_fd, &s->lock_fd, f);
	if (!err)
		err = folder_file(s->file.folder_fd, "reserve", &s->file.reserve_fd, f);
	if (err)
		fail_prefix(f, "spool %s", o->folder);
	if (!err)
		err = spool_open_file(s, f);
	if (err) {
		spool_close(s);
		return err;
	}
	*out = s;
	return DEFIB_OK;
}

static bool is_empty(const struct spool *s)
{
	return s->ids.n == 0;
}

void spool_close(struct spool *s)
{
	if (!s)
		return;
	/* In a child, closing would act on files and locks of the parent. */
	if (s->owner == getpid())
		spool_file_close(&s->file, s->file.db && s->file.damage[0] == '\0' && is_empty(s));
	lanes_drop(s, 0);
	free(s->lanes);
	ids_release(&s->ids);
	const int fds[] = {s->file.reserve_fd, s->file.folder_fd, s->lock_fd};
	for (int i = 0; i < 3; i++) /* the lock last: until then the folder is ours */
		if (fds[i] >= 0)
			close(fds[i]);
	free(s->file.folder);
	free(s);
}

/* ---- changes ---- */

/* Several statements are one transaction; a single one is its own. */
static defib_err spool_begin(struct spool *s, bool several, struct failure *f)
{
	return several ? spool_file_run(&s->file, sql(s, SPOOL_SQL_BEGIN), f) : DEFIB_OK;
}

static defib_err spool_end(struct spool *s, bool several, defib_err err, struct failure *f)
{
	if (!err && several)
		err = spool_file_run(&s->file, sql(s, SPOOL_SQL_COMMIT), f);
	if (err && !sqlite3_get_autocommit(s->file.db))
		(void)!spool_file_run(&s->file, sql(s, SPOOL_SQL_ROLLBACK), NULL);
	return err;
}

/* Whether the record with this number has this id. */
static bool is_record(struct spool *s, int64_t number, const char *id)
{
	sqlite3_stmt *st = sql(s, SPOOL_SQL_IS);
	(void)sqlite3_bind_int64(st, 1, number);
	bind_text(st, 2, id);
	bool found = sqlite3_step(st) == SQLITE_ROW;
	sqlite3_reset(st);
	return found;
}

static bool has_id(struct spool *s, uint64_t hash, const char *id)
{
	size_t at = 0;
	for (int64_t number; (number = ids_next(&s->ids, hash, &at));)
		if (is_record(s, number, id))
			return true;
	return false;
}

/* ---- in ---- */

static defib_err has_room(const struct spool *s, const struct spool_record *all, int n,
                          struct failure *f)
{
	int64_t bytes = s->bytes;
	for (int i = 0; i < n; i++)
		bytes += room_of(all[i].n);
	if (bytes <= s->max_bytes)
		return DEFIB_OK;
	return fail(f, DEFIB_FULL, "spool %s: %lld bytes are stored; %d more records exceed the limit",
	            s->file.folder, (long long)s->bytes, n);
}

/* The lane, which is stored if it is new; it is forgotten if the transaction fails. */
static defib_err lane_for(struct spool *s, const char *name, struct lane **out, struct failure *f)
{
	int64_t number = 1;
	*out = lane_named(s, name);
	if (*out)
		return DEFIB_OK;
	for (int i = 0; i < s->n; i++)
		number = s->lanes[i]->number >= number ? s->lanes[i]->number + 1 : number;
	if (number > SPOOL_LANES_MOST)
		return fail(f, DEFIB_FULL, "spool %s: it has records of too many sources", s->file.folder);
	sqlite3_stmt *st = sql(s, SPOOL_SQL_ADD_LANE);
	(void)sqlite3_bind_int64(st, 1, number);
	bind_text(st, 2, name);
	defib_err err = spool_file_run(&s->file, st, f);
	if (!err)
		*out = lane_add(s, name, number);
	return err;
}

/* What an append has done so far. */
struct adding {
	struct lane *lane;
	struct added {
		uint64_t hash;  /* of its id */
		int64_t number; /* 0: one of this id was there */
	} * records;
	int64_t last[2]; /* places */
};

static defib_err spool_insert(struct spool *s, struct adding *to, const struct spool_record *r,
                              struct added *as, struct failure *f)
{
	char why[SPOOL_WHY_MOST + 1];
	bool aside = r->why != NULL;
	sqlite3_stmt *st = sql(s, SPOOL_SQL_APPEND);
	as->hash = id_hash(to->lane, r->id);
	if (has_id(s, as->hash, r->id))
		return DEFIB_OK;
	int64_t number = number_of(to->lane, aside, to->last[aside] + 1);
	(void)sqlite3_bind_int64(st, 1, number);
	bind_text(st, 2, r->id);
	bind_text(st, 3, r->database);
	bind_text(st, 4, aside ? line_of(r->why, why) : NULL);
	(void)sqlite3_bind_int64(
		st, 5, spool_hash(number, to->lane->name, r->id, r->database, r->bytes, r->n));
	(void)sqlite3_bind_blob64(st, 6, r->bytes, r->n, SQLITE_STATIC);
	defib_err err = spool_file_run(&s->file, st, f);
	if (!err) {
		to->last[aside]++;
		as->number = number;
		ids_add(&s->ids, as->hash, number);
	}
	return err;
}

static void added(struct spool *s, const struct adding *to, const struct spool_record *all, int n)
{
	for (int i = 0; i < n; i++) {
		if (!to->records[i].number)
			continue;
		to->lane->counts[is_aside(to->records[i].number)]++;
		s->bytes += room_of(all[i].n);
	}
	memcpy(to->lane->last, to->last, sizeof to->last);
}

/* Nothing of it is in the file. */
static void not_added(struct spool *s, const struct adding *to, int n)
{
	for (int i = 0; i < n; i++)
		if (to->records[i].number)
			ids_remove(&s->ids, to->records[i].hash, to->records[i].number);
}

static defib_err append(struct spool *s, const char *lane, const struct spool_record *all, int n,
                        struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct adding to = {.records = ARENA_ARRAY(&a, struct added, n)};
	defib_err err = spool_ready(s, f);
	if (!err)
		err = has_room(s, all, n, f);
	if (err)
		return err;
	int lanes = s->n;
	bool several = n > 1 || !lane_named(s, lane);
	err = spool_begin(s, several, f);
	if (!err)
		err = lane_for(s, lane, &to.lane, f);
	if (!err)
		memcpy(to.last, to.lane->last, sizeof to.last);
	for (int i = 0; !err && i < n; i++)
		err = spool_insert(s, &to, &all[i], &to.records[i], f);
	err = spool_end(s, several, err, f);
	if (!err) {
		added(s, &to, all, n);
	} else {
		not_added(s, &to, n);
		lanes_drop(s, lanes);
	}
	return err;
}

defib_err spool_append(struct spool *s, const char *lane, const struct spool_record *all, int n,
                       struct failure *f)
{
	assert(n > 0);
	defib_err err = append(s, lane, all, n, f);
	if (err && s->file.db && s->file.damage[0]) {
		fail_clear(f); /* this call found out: it is mended, and there is a file to append to */
		err = append(s, lane, all, n, f);
	}
	return err;
}

/* ---- out ---- */

static struct spool_record record_at(sqlite3_stmt *st, const struct lane *lane, struct arena *a)
{
	char why[SPOOL_WHY_MOST + 1];
	const char *bytes = sqlite3_column_blob(st, 5);
	size_t n = (size_t)sqlite3_column_bytes(st, 5);
	struct spool_record r = {
		.number = sqlite3_column_int64(st, 0),
		.id = arena_strdup(a, text_at(st, 1)),
		.database = arena_strdup(a, text_at(st, 2)),
		.bytes = arena_alloc(a, n + 1),
		.n = n,
	};
	if (n > 0)
		memcpy((char *)r.bytes, bytes, n);
	if (is_aside(r.number))
		r.why = arena_strdup(a, line_of(text_at(st, 3), why));
	int64_t hash = spool_hash(r.number, lane->name, r.id, r.database, r.bytes, n);
	r.damaged = hash != sqlite3_column_int64(st, 4);
	return r;
}

int spool_peek(struct spool *s, const char *lane, bool aside, struct spool_record *out, int most,
               size_t bytes, struct arena *a)
{
	size_t sum = 0;
	int n = 0, rc = SQLITE_DONE;
	if (spool_count(s, lane, aside) == 0 || spool_ready(s, NULL))
		return 0;
	const struct lane *from = lane_named(s, lane);
	if (!from) /* the file was mended */
		return 0;
	sqlite3_stmt *st = sql(s, SPOOL_SQL_PEEK);
	(void)sqlite3_bind_int64(st, 1, number_of(from, aside, 0));
	(void)sqlite3_bind_int64(st, 2, number_of(from, aside, SPOOL_PLACES));
	(void)sqlite3_bind_int(st, 3, most);
	while (n < most && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		size_t len = (size_t)sqlite3_column_bytes(st, 5);
		if (n > 0 && sum + len > bytes)
			break;
		sum += len;
		out[n++] = record_at(st, from, a);
	}
	if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
		struct failure f = {0};
		(void)!spool_file_failed(&s->file, rc, &f);
		log_event(LOG_ERROR, "spool: cannot be read now", LOG_STR("folder", s->file.folder),
		          LOG_STR("because", f.what));
	}
	sqlite3_reset(st);
	return n;
}

/* A statement that changes `n` records. */
static defib_err run_on(struct spool *s, sqlite3_stmt *st, int n, struct failure *f)
{
	defib_err err = spool_file_run(&s->file, st, f);
	if (!err && sqlite3_changes(s->file.db) != n)
		err = spool_file_damaged(&s->file, "its records are not those that were read", f);
	return err;
}

/* They are next to each other. */
static defib_err remove_run(struct spool *s, const struct spool_record *all, int n,
                            struct failure *f)
{
	sqlite3_stmt *st = sql(s, SPOOL_SQL_REMOVE);
	(void)sqlite3_bind_int64(st, 1, all[0].number);
	(void)sqlite3_bind_int64(st, 2, all[n - 1].number);
	return run_on(s, st, n, f);
}

static defib_err spool_set_aside(struct spool *s, const struct lane *lane,
                                 const struct spool_record *r, int64_t place, const char *why,
                                 struct failure *f)
{
	char line[SPOOL_WHY_MOST + 1];
	sqlite3_stmt *st = sql(s, SPOOL_SQL_SET_ASIDE);
	int64_t to = number_of(lane, true, place);
	int64_t hash = spool_hash(to, lane->name, r->id, r->database, r->bytes, r->n);
	(void)sqlite3_bind_int64(st, 1, r->number);
	(void)sqlite3_bind_int64(st, 2, to);
	bind_text(st, 3, line_of(why, line));
	(void)sqlite3_bind_int64(st, 4, r->damaged ? ~hash : hash); /* it stays damaged */
	return run_on(s, st, 1, f);
}

static defib_err finish_all(struct spool *s, const struct lane *lane,
                            const struct spool_record *all, int n, const char *const *why,
                            struct failure *f)
{
	int64_t place = lane->last[true];
	bool several = why && n > 1;
	defib_err err = spool_begin(s, several, f);
	for (int i = 0, next; !err && i < n; i = next) {
		for (next = i + 1; next < n && !(why && (why[i] || why[next]));)
			next++;
		err = why && why[i] ? spool_set_aside(s, lane, &all[i], ++place, why[i], f)
		                    : remove_run(s, &all[i], next - i, f);
	}
	return spool_end(s, several, err, f);
}

/* The counts and ids, once it is in the file. */
static void spool_finished(struct spool *s, struct lane *lane, const struct spool_record *all,
                           int n, const char *const *why)
{
	for (int i = 0; i < n; i++) {
		uint64_t hash = id_hash(lane, all[i].id);
		lane->counts[is_aside(all[i].number)]--;
		ids_remove(&s->ids, hash, all[i].number);
		if (why && why[i]) {
			lane->counts[true]++;
			ids_add(&s->ids, hash, number_of(lane, true, ++lane->last[true]));
		} else {
			s->bytes -= room_of(all[i].n);
		}
	}
	if (is_empty(s))
		spool_file_emptied(&s->file);
}

defib_err spool_finish(struct spool *s, const char *lane, const struct spool_record *all, int n,
                       const char *const *why, struct failure *f)
{
	assert(n > 0);
	defib_err err = spool_ready(s, f);
	struct lane *from = lane_named(s, lane);
	if (err)
		return err;
	if (!from)
		return fail(f, DEFIB_IO, "spool %s: its records were lost", s->file.folder);
	err = finish_all(s, from, all, n, why, f);
	if (err == DEFIB_FULL && spool_file_give_up_reserve(&s->file)) {
		fail_clear(f);
		err = finish_all(s, from, all, n, why, f);
	}
	if (!err)
		spool_finished(s, from, all, n, why);
	return err;
}

/* ---- asking ---- */

bool spool_holds(struct spool *s, const char *lane, const char *id)
{
	const struct lane *in = lane_named(s, lane);
	return in && s->owner == getpid() && s->file.db && has_id(s, id_hash(in, id), id);
}

int64_t spool_count(const struct spool *s, const char *lane, bool aside)
{
	const struct lane *in = lane_named(s, lane);
	return in ? in->counts[aside] : 0;
}

int64_t spool_bytes(const struct spool *s)
{
	return s->bytes;
}

const char *spool_lane(const struct spool *s, int i)
{
	for (int k = 0; k < s->n; k++)
		if (s->lanes[k]->counts[0] + s->lanes[k]->counts[1] > 0 && i-- == 0)
			return s->lanes[k]->name;
	return NULL;
}

const char *spool_why(struct spool *s, const char *lane)
{
	AUTO_ARENA a = ARENA_INIT;
	struct spool_record first;
	bool any = spool_peek(s, lane, true, &first, 1, 1, &a) == 1;
	return line_of(any ? first.why : "", s->why);
}

bool spool_waits(const char *folder)
{
	return spool_file_exists(folder);
}

/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/stored_jobs.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "ledger/schema.h"
#include "life/registry.h"
#include "store/dialect.h"
#include "store/spool.h"
#include "store/spool_folder.h"
#include "worker/wake.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LANE "jobs"
#define LOOK_MS 10            /* pause while another process owns the directory */
#define TURN_MS 250           /* then others may own it */
#define BATCH_PUTS 200        /* in one transaction … */
#define BATCH_BYTES (4 << 20) /* … unless they are large */

/* Puts that are offered in one transaction. */
struct stored_batch {
	struct arena arena;
	struct spool_record records[BATCH_PUTS];
	struct stored_put puts[BATCH_PUTS];
	bool known[BATCH_PUTS]; /* its token exists: it was inserted before */
	int n;
	const char *database; /* the id of the one that they were inserted into; NULL: none was */
};

void stored_token(char token[STORED_TOKEN_SIZE])
{
	unsigned char bits[16];
	/* Never fails for so few bytes, once the kernel has its seed. */
	while (!chance_bytes(bits, sizeof bits))
		;
	for (int i = 0; i < 16; i++)
		snprintf(token + (ptrdiff_t)2 * i, 3, "%02x", bits[i]);
}

static void stored_pause_ms(int64_t ms)
{
	struct timespec t = {ms / 1000, (ms % 1000) * 1000000};
	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

/* Own the directory; waits for the process that has it. */
static defib_err stored_own(const struct stored_jobs *q, struct spool **out, struct failure *f)
{
	struct spool_options o = {.folder = q->folder, .brief = true};
	int64_t until = clock_boot_ms() + q->wait_ms;
	defib_err err = folder_ours(q->base, q->folder, f);
	if (err)
		return err;
	while ((err = spool_open(&o, out, f)) == DEFIB_REFUSED && clock_boot_ms() < until)
		stored_pause_ms(LOOK_MS);
	if (err == DEFIB_REFUSED) {
		fail(f, err, "%s: another process has held it for %lld ms", q->folder,
		     (long long)q->wait_ms);
		fail_next(f, "try again; `fuser %s/lock` shows who", q->folder);
	}
	return err;
}

bool stored_jobs_waits(const struct stored_jobs *q)
{
	return spool_waits(q->folder);
}

/* ---- whose they are ---- */

#define DATABASE_FILE "database"
#define ID_MOST 63
#define LINE_LEN                                                                                   \
	(ID_MOST + 18) /* "ID HASH\n", with spaces behind the id; of one length, so that a             \
	                  write replaces all of it */

/* Which database an address had when it was last reached, or nothing. */
static void database_line(const char *id, const char *address, char out[LINE_LEN + 1])
{
	snprintf(out, LINE_LEN + 1, "%-*.*s %016llx\n", ID_MOST, ID_MOST, id,
	         (unsigned long long)fnv1a(FNV_START, address, strlen(address)));
}

static defib_err open_database_file(const struct stored_jobs *q, int *fd, struct failure *f)
{
	int folder = -1;
	*fd = -1;
	defib_err err = folder_ours(q->base, q->folder, f);
	if (!err)
		err = folder_open(q->folder, &folder, f);
	if (!err)
		err = folder_file(folder, DATABASE_FILE, fd, f);
	if (folder >= 0)
		close(folder);
	return err;
}

/* "" if the database has not been reached from here, or what is written there is not by us. */
static const char *last_database(const struct stored_jobs *q, const char *address, struct arena *a)
{
	char line[LINE_LEN + 1] = "", expected[LINE_LEN + 1];
	int fd;
	const char *id = "";
	if (!open_database_file(q, &fd, NULL) && pread(fd, line, LINE_LEN, 0) == LINE_LEN) {
		id = arena_strndup(a, line, strcspn(line, " "));
		database_line(id, address, expected);
		id = text_eq(line, expected) && utf8_valid(id) ? id : "";
	}
	if (fd >= 0)
		close(fd);
	return id;
}

/* If it cannot be written, what is stored later names its database only by the address. */
static void note_database(const struct stored_jobs *q, const char *id)
{
	char line[LINE_LEN + 1];
	AUTO_ARENA a = ARENA_INIT;
	AUTO_BUF address = BUF_INIT;
	struct failure f = {0};
	int fd;
	store_target(q->url, &address);
	if (strlen(id) > ID_MOST || text_eq(last_database(q, buf_text(&address), &a), id))
		return;
	database_line(id, buf_text(&address), line);
	defib_err err = open_database_file(q, &fd, &f);
	if (!err && (pwrite(fd, line, LINE_LEN, 0) != LINE_LEN || fdatasync(fd) != 0))
		err = fail(&f, DEFIB_IO, "%s", strerror(errno));
	if (err)
		log_event(LOG_WARN, "the id of the database cannot be stored", LOG_STR("folder", q->folder),
		          LOG_STR("because", f.what));
	if (fd >= 0)
		close(fd);
}

static defib_err stored_refuse_foreign(const struct stored_jobs *q, const struct stored_put *put,
                                       struct failure *f)
{
	AUTO_BUF ours = BUF_INIT;
	defib_err err = DEFIB_OK;
	store_target(q->url, &ours);
	if (!text_eq(put->address, buf_text(&ours))) {
		err = fail(f, DEFIB_USAGE, "%s holds jobs for %s, not for %s", q->folder, put->address,
		           buf_text(&ours));
		fail_next(f, "give each database its own spool directory");
	}
	return err;
}

static defib_err refuse_mixing(const struct stored_jobs *q, struct spool *spool, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct stored_put first;
	struct spool_record r;
	defib_err err = DEFIB_OK;
	if (spool_peek(spool, LANE, false, &r, 1, BATCH_BYTES, &a) == 1 &&
	    stored_put_read(r.bytes, r.n, &a, &first))
		err = stored_refuse_foreign(q, &first, f);
	return err;
}

defib_err stored_jobs_put(const struct stored_jobs *q, const char *token,
                          const struct enqueue *jobs, int n, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	AUTO_BUF record = BUF_INIT, address = BUF_INIT;
	struct spool *spool = NULL;
	store_target(q->url, &address);
	struct stored_put put = {.token = token,
	                         .address = buf_text(&address),
	                         .database = last_database(q, buf_text(&address), &a),
	                         .at_ms = clock_wall_us() / 1000,
	                         .jobs = (struct enqueue *)jobs,
	                         .n = n};
	stored_put_write(&put, &record);
	const struct spool_record r = {
		.id = token, .database = put.database, .bytes = buf_text(&record), .n = record.len};
	defib_err err = stored_own(q, &spool, f);
	if (!err)
		err = refuse_mixing(q, spool, f);
	if (!err)
		err = spool_append(spool, LANE, &r, 1, f);
	spool_close(spool);
	return err;
}

/* ---- into the database, once ---- */

/*
 * Tokens first: if another transaction with the same token is under way, this waits for its end,
 * and then knows whether its jobs exist.
 */
static defib_err insert_tokens(struct store *s, struct stored_batch *b, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	struct store_rows rows;
	AUTO_RELATION r = {0};
	AUTO_BUF sql = BUF_INIT;
	relation_make(&r, s->engine, (const char *const[]){"token", "text", NULL});
	for (int i = 0; i < b->n; i++) {
		relation_text(&r, b->puts[i].token);
		relation_end_row(&r);
	}
	buf_add(&sql, "INSERT INTO defib.enqueued (token, at) SELECT u.token, {now} FROM (");
	relation_select(&r, 1, &sql);
	buf_add(&sql, ") AS u WHERE true ON CONFLICT DO NOTHING RETURNING token, "
	              "(SELECT value FROM defib.meta WHERE name = 'database')");
	relation_params(&r, params);
	defib_err err =
		dialect_exec(s, buf_text(&sql), params, relation_nparams(&r), &b->arena, &rows, f);
	b->database = !err ? row_text(&rows, 0, 1) : NULL;
	/* The result may be in another order. */
	for (int i = 0; !err && i < b->n; i++) {
		b->known[i] = true;
		for (int k = 0; k < rows.nrows && b->known[i]; k++)
			b->known[i] = !text_eq(row_text(&rows, k, 0), b->puts[i].token);
	}
	return err;
}

/* Which jobs a token stands for, for a later request with it. */
static defib_err note_jobs(struct store *s, struct stored_batch *b, const int64_t *ids,
                           struct failure *f)
{
	const char *marks = store_dialect(s)->list;
	struct store_param params[RELATION_COLUMNS_MAX];
	AUTO_RELATION r = {0};
	AUTO_BUF sql = BUF_INIT, list = BUF_INIT;
	relation_make(&r, s->engine, (const char *const[]){"token", "text", "jobs", "text", NULL});
	for (int i = 0; i < b->n; i++) {
		if (b->known[i])
			continue;
		buf_clear(&list);
		for (int k = 0; k < b->puts[i].n; k++)
			buf_addf(&list, "%c%lld", k ? ',' : marks[0], (long long)*ids++);
		buf_addch(&list, marks[1]);
		relation_text(&r, b->puts[i].token);
		relation_text(&r, buf_text(&list));
		relation_end_row(&r);
	}
	buf_add(&sql, "UPDATE defib.enqueued AS e SET jobs = u.jobs::bigint[] FROM (");
	relation_select(&r, 1, &sql);
	buf_add(&sql, ") AS u WHERE e.token = u.token");
	relation_params(&r, params);
	return dialect_exec(s, buf_text(&sql), params, relation_nparams(&r), &b->arena, NULL, f);
}

static defib_err insert_inside(struct store *s, struct stored_batch *b, int64_t **ids, int *n,
                               struct failure *f)
{
	int most = 0;
	*n = 0;
	defib_err err = insert_tokens(s, b, f);
	for (int i = 0; i < b->n; i++)
		most += b->puts[i].n;
	struct enqueue *jobs = ARENA_ARRAY(&b->arena, struct enqueue, most);
	*ids = ARENA_ARRAY(&b->arena, int64_t, most);
	for (int i = 0; !err && i < b->n; i++)
		for (int k = 0; !b->known[i] && k < b->puts[i].n; k++)
			jobs[(*n)++] = b->puts[i].jobs[k];
	if (!err && *n)
		err = enqueue_jobs(s, jobs, *n, *ids, f);
	if (!err && *n)
		err = note_jobs(s, b, *ids, f);
	return err;
}

/* All of them in one transaction; *ids are those of the puts that were not known. */
static defib_err stored_insert_batch(struct store *s, struct stored_batch *b, int64_t **ids, int *n,
                                     struct failure *f)
{
	assert(!s->in_tx && b->n > 0);
	*ids = NULL;
	*n = 0;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (!err)
		err = insert_inside(s, b, ids, n, f);
	return store_end(s, err, f);
}

/* ---- draining ---- */

/* What drains: `here` is the id of the database. */
struct drain {
	const struct stored_jobs *queue;
	struct store *store;
	struct spool *spool;
	const char *here;
	struct stored_batch *batch;
	int alone; /* puts that go one by one, because one of them is refused */
	struct stored_drained *out;
};

/* The oldest will never be accepted: move it aside, where an operator finds it. */
static defib_err set_aside(struct drain *d, const struct spool_record *r, const char *what,
                           const char *why, struct failure *f)
{
	AUTO_BUF folder = BUF_INIT;
	struct spool *refused = NULL;
	buf_addf(&folder, "%s/refused", d->queue->folder);
	struct spool_options o = {.folder = buf_text(&folder), .brief = true};
	const struct spool_record copy = {
		.id = r->id, .database = r->database, .bytes = r->bytes, .n = r->n};
	defib_err err = spool_open(&o, &refused, f);
	if (!err)
		err = spool_append(refused, LANE, &copy, 1, f);
	spool_close(refused);
	if (err)
		return err;
	log_event(LOG_CRITICAL, what, LOG_STR("folder", buf_text(&folder)), LOG_STR("because", why),
	          LOG_STR("record", r->bytes));
	d->out->refused++;
	return spool_finish(d->spool, LANE, r, 1, NULL, f);
}

/* It cannot be offered to this database at all. */
static defib_err set_aside_unoffered(struct drain *d, const struct spool_record *r,
                                     struct failure *f)
{
	AUTO_BUF why = BUF_INIT;
	if (r->damaged || text_eq(r->database, d->here) || !r->database[0])
		return set_aside(d, r, "stored jobs cannot be read: they are set aside",
		                 "it was changed on disk, or is no record of jobs", f);
	buf_addf(&why, "they are for the database %s, here is %s", r->database, d->here);
	return set_aside(d, r, "stored jobs are for another database: they are set aside",
	                 buf_text(&why), f);
}

/* Up to the first that cannot be offered. */
static defib_err read_batch(struct drain *d, int *nread, struct failure *f)
{
	struct stored_batch *b = d->batch;
	int64_t now_ms = clock_wall_us() / 1000;
	arena_clear(&b->arena);
	*nread = spool_peek(d->spool, LANE, false, b->records, d->alone ? 1 : BATCH_PUTS, BATCH_BYTES,
	                    &b->arena);
	defib_err err = DEFIB_OK;
	for (b->n = 0; b->n < *nread && !err; b->n++) {
		struct stored_put *put = &b->puts[b->n];
		const struct spool_record *r = &b->records[b->n];
		if (r->damaged || !stored_put_read(r->bytes, r->n, &b->arena, put) ||
		    (r->database[0] && !text_eq(r->database, d->here)))
			break;
		stored_put_count_delays(put, now_ms);
		err = stored_refuse_foreign(d->queue, put, f);
	}
	return err;
}

static defib_err drain_batch(struct drain *d, struct failure *f)
{
	struct stored_batch *b = d->batch;
	int64_t *ids;
	int n, nread;
	defib_err err = read_batch(d, &nread, f);
	if (err)
		return err;
	if (nread == 0) /* a damaged file was mended, and had no more */
		return spool_count(d->spool, LANE, false) == 0
		           ? DEFIB_OK
		           : fail(f, DEFIB_IO, "%s cannot be read", d->queue->folder);
	if (b->n == 0)
		return set_aside_unoffered(d, &b->records[0], f);
	err = stored_insert_batch(d->store, b, &ids, &n, f);
	if (err && (store_blames_rows(f) || err == DEFIB_USAGE)) {
		if (b->n > 1) {
			d->alone = b->n;
			return DEFIB_OK;
		}
		struct failure why = *f;
		fail_clear(f);
		err = set_aside(d, &b->records[0], "the database refuses new jobs: they are set aside",
		                why.what, f);
	} else if (!err) {
		d->out->jobs += n;
		d->out->puts += b->n;
		err = spool_finish(d->spool, LANE, b->records, b->n, NULL, f);
	}
	d->alone -= d->alone > 0;
	return err;
}

/* Without our table everything would look refused. */
static defib_err need_table(struct store *s, struct failure *f)
{
	bool there = false;
	defib_err err = schema_has(s, "enqueued", &there, f);
	if (!err && !there) {
		err = fail(f, DEFIB_BAD_SQL, "%s: the table %senqueued is missing", s->name,
		           store_dialect(s)->own);
		fail_advise(f, ADVISE_CREATE_QUEUE, NULL);
	}
	return err;
}

defib_err stored_jobs_drain(const struct stored_jobs *q, struct store *s,
                            struct stored_drained *out, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	int64_t until = clock_boot_ms() + TURN_MS, jobs = out->jobs;
	struct drain d = {.queue = q, .store = s, .out = out};
	if (!stored_jobs_waits(q))
		return DEFIB_OK;
	defib_err err = need_table(s, f);
	if (!err)
		err = registry_database(s, &a, &d.here, f);
	if (!err)
		err = stored_own(q, &d.spool, f);
	if (err)
		return err;
	note_database(q, d.here);
	d.batch = mem_alloc(sizeof *d.batch);
	while (!err && spool_count(d.spool, LANE, false) > 0 && clock_boot_ms() < until)
		err = drain_batch(&d, f);
	spool_close(d.spool);
	arena_release(&d.batch->arena);
	free(d.batch);
	if (out->jobs > jobs && !s->lost)
		wake_send(s, q->url);
	return err;
}

/* ---- sending ---- */

/* A database that does not exist is not merely unavailable. */
static bool stored_is_away(const struct failure *f)
{
	return store_unavailable(f->code) && f->reason != REASON_NO_DATABASE;
}

/* Stored jobs go before those sent now, as long as we are willing to wait. */
static defib_err drain_before(const struct stored_jobs *q, struct store *s, struct failure *f)
{
	struct stored_drained done = {0};
	int64_t until = clock_boot_ms() + q->wait_ms;
	defib_err err = DEFIB_OK;
	while (!err && stored_jobs_waits(q)) {
		if (clock_boot_ms() > until)
			return fail(f, DEFIB_TIMEOUT, "%s still has jobs to enqueue", q->folder);
		err = stored_jobs_drain(q, s, &done, f);
		if (!err && stored_jobs_waits(q))
			stored_pause_ms(LOOK_MS * (int64_t)2); /* let others own it too */
	}
	return err;
}

static defib_err send_now(const struct stored_jobs *q, struct store *s, const struct enqueue *jobs,
                          int n, struct stored_sent *sent, struct failure *f)
{
	struct stored_batch *b = mem_alloc(sizeof *b);
	int64_t *ids;
	int got = 0;
	b->n = 1;
	b->puts[0] = (struct stored_put){.token = sent->token, .jobs = (struct enqueue *)jobs, .n = n};
	defib_err err = stored_insert_batch(s, b, &ids, &got, f);
	if (!err && got > 0)
		memcpy(sent->ids, ids, sizeof *ids * (size_t)got);
	if (b->database)
		note_database(q, b->database);
	arena_release(&b->arena);
	free(b);
	return err;
}

defib_err stored_jobs_send(const struct stored_jobs *q, struct store *s, const struct enqueue *jobs,
                           int n, struct stored_sent *sent, struct failure *f)
{
	defib_err err = sent->why.code;
	assert((s == NULL) == (err != DEFIB_OK));
	stored_token(sent->token);
	sent->stored = false;
	if (s)
		err = drain_before(q, s, &sent->why);
	if (!err)
		err = send_now(q, s, jobs, n, sent, &sent->why);
	if (!err)
		return DEFIB_OK;
	if (!stored_is_away(&sent->why)) {
		*f = sent->why;
		return err;
	}
	err = stored_jobs_put(q, sent->token, jobs, n, f);
	sent->stored = !err;
	if (err)
		fail_prefix(f, "%s; the jobs were not stored either", sent->why.what);
	return err;
}

/* ---- a put as a record ---- */

/* Every member of a job; what is NULL or 0 is left out. */
static const struct {
	const char *name;
	size_t offset;
	bool text;
} members[] = {
	{"queue", offsetof(struct enqueue, queue), true},
	{"kind", offsetof(struct enqueue, kind), true},
	{"payload", offsetof(struct enqueue, payload), true},
	{"delay_ms", offsetof(struct enqueue, delay_ms), false},
	{"priority", offsetof(struct enqueue, priority), false},
	{"max_attempts", offsetof(struct enqueue, max_attempts), false},
	{"timeout_ms", offsetof(struct enqueue, timeout_ms), false},
	{"unique_key", offsetof(struct enqueue, unique_key), true},
	{"tags", offsetof(struct enqueue, tags), true},
};
#define NMEMBERS (sizeof members / sizeof *members)
_Static_assert(sizeof(struct enqueue) == NMEMBERS * 8, "a member of a job is missing here");

static void job_write(const struct enqueue *job, struct buf *out)
{
	const char *comma = "{";
	for (size_t i = 0; i < NMEMBERS; i++) {
		const char *at = (const char *)job + members[i].offset;
		const char *text = members[i].text ? *(const char *const *)at : NULL;
		int64_t number = members[i].text ? 0 : *(const int64_t *)at;
		if (!text && !number)
			continue;
		buf_addf(out, "%s\"%s\":", comma, members[i].name);
		if (text)
			buf_add_json(out, text);
		else
			buf_addf(out, "%lld", (long long)number);
		comma = ",";
	}
	buf_add(out, "}");
}

void stored_put_write(const struct stored_put *put, struct buf *out)
{
	buf_add(out, "{\"token\":");
	buf_add_json(out, put->token);
	buf_addf(out, ",\"at_ms\":%lld,\"address\":", (long long)put->at_ms);
	buf_add_json(out, put->address);
	buf_add(out, ",\"database\":");
	buf_add_json(out, put->database);
	buf_add(out, ",\"jobs\":[");
	for (int i = 0; i < put->n; i++) {
		buf_add(out, i ? "," : "");
		job_write(&put->jobs[i], out);
	}
	buf_add(out, "]}");
}

static const char *stored_text_of(const json_t *object, const char *name, struct arena *a)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? arena_strdup(a, text) : NULL;
}

static bool job_read(const json_t *object, struct arena *a, struct enqueue *job)
{
	for (size_t i = 0; i < NMEMBERS; i++) {
		char *at = (char *)job + members[i].offset;
		if (members[i].text)
			*(const char **)at = stored_text_of(object, members[i].name, a);
		else
			*(int64_t *)at = json_integer_value(json_object_get(object, members[i].name));
	}
	return job->queue && job->kind;
}

bool stored_put_read(const char *bytes, size_t n, struct arena *a, struct stored_put *put)
{
	json_auto_t *record = json_read_bytes(bytes, n, 0);
	const json_t *jobs = json_object_get(record, "jobs");
	*put = (struct stored_put){.token = stored_text_of(record, "token", a),
	                           .address = stored_text_of(record, "address", a),
	                           .database = stored_text_of(record, "database", a),
	                           .at_ms = json_integer_value(json_object_get(record, "at_ms")),
	                           .n = (int)json_array_size(jobs)};
	bool good = put->token && put->address && put->database && put->n > 0;
	put->jobs = ARENA_ARRAY(a, struct enqueue, put->n);
	for (int i = 0; good && i < put->n; i++)
		good = job_read(json_array_get(jobs, (size_t)i), a, &put->jobs[i]);
	return good;
}

void stored_put_count_delays(struct stored_put *put, int64_t now_ms)
{
	/* A clock that was set back must not make a job wait longer than requested. */
	int64_t waited_ms = now_ms > put->at_ms ? now_ms - put->at_ms : 0;
	for (int i = 0; i < put->n; i++) {
		int64_t *delay_ms = &put->jobs[i].delay_ms;
		*delay_ms = *delay_ms > waited_ms ? *delay_ms - waited_ms : 0;
	}
}

/* ---- from time to time ---- */

#define EVERY_MS 1000
#define MORE_MS 30 /* while more is stored: others own the directory meanwhile */

bool stored_jobs_due(struct stored_jobs_timer *t)
{
	int64_t now = clock_boot_ms();
	if (!t->queue.folder || now < t->due_ms)
		return false;
	t->due_ms = now + EVERY_MS;
	return stored_jobs_waits(&t->queue);
}

/* If another process drains it, or the database is unavailable, that is not logged. */
static void complain(struct stored_jobs_timer *t, const struct failure *f)
{
	if (f->code == DEFIB_REFUSED || store_unavailable(f->code) || t->complained)
		return;
	t->complained = true;
	log_event(LOG_ERROR, "stored jobs cannot be enqueued", LOG_STR("because", f->what),
	          LOG_STR("next", f->next));
}

defib_err stored_jobs_tick(struct stored_jobs_timer *t, struct session *s)
{
	struct stored_drained done = {0};
	struct failure f = {0};
	defib_err err = session_ready(s, &f);
	if (!err)
		err = stored_jobs_drain(&t->queue, s->store, &done, &f);
	if (done.jobs)
		log_event(LOG_INFO, "enqueued stored jobs", LOG_INT("jobs", done.jobs),
		          LOG_STR("folder", t->queue.folder));
	if (err)
		complain(t, &f);
	else
		t->complained = false;
	t->due_ms = clock_boot_ms() + (!err && stored_jobs_waits(&t->queue) ? MORE_MS : EVERY_MS);
	return err;
}

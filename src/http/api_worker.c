/* SPDX-License-Identifier: Apache-2.0
 * api_worker.c: the life of a worker over HTTP: register, beat, leave, and who may act for it
 * (api.h).
 */
#include "http/api_worker.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "http/api.h"
#include "http/api_act.h"
#include "http/api_values.h"
#include "http/api_work.h"
#include "ledger/events.h"
#include "lib/advice.h"
#include "life/registry.h"
#include "life/roster.h"
#include "store/dialect.h"
#include "worker/source_queue.h"
#include "worker/source_table.h"

#define KINDS_MOST 32
#define SERVES_MOST 32
/* A beat over HTTP passes through more components than a session's. */
#define LEASE_USUAL_US (30 * US_PER_S)
#define LEASE_LEAST_US (3 * US_PER_S)
#define LEASE_MOST_US (3600 * US_PER_S)
#define BEATS_A_LEASE 3

/* The worker of the path; false after a problem was answered. */
static bool api_worker_named(struct api_call *c, int64_t *id)
{
	if (int_parse(c->parts[0], id) && *id > 0)
		return true;
	return api_problem(c, 404, "there is no worker \"%s\"; POST /api/v1/workers registers one",
	                   c->parts[0]);
}

bool api_worker_failed(struct api_call *c, struct failure *f)
{
	bool missing = f->code == DEFIB_BAD_SQL;
	if (f->code == DEFIB_LEASE_LOST) {
		fail_next(f, "stop its jobs and register again");
		return api_failed_as(c, 410, f);
	}
	if (missing && !failure_next(f)[0])
		fail_advise(f, ADVISE_CREATE_QUEUE, NULL);
	return missing ? api_failed_as(c, 422, f) : api_failed(c, f);
}

const char *api_json_as_sent(struct api_call *c, const json_t *value)
{
	const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT;
	if (!value || json_is_null(value))
		return NULL;
	/* 0.1 and not 0.10000000000000001, if both are the same number. */
	char *text = json_dumps(value, flags | JSON_REAL_PRECISION(15));
	json_auto_t *again = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
	if (!json_equal(again, value)) {
		free(text);
		text = json_dumps(value, flags);
	}
	const char *copy = arena_strdup(&c->arena, text ? text : "null");
	free(text);
	return copy;
}

/* ---- where jobs come from ---- */

/* Up to `most` texts of a member that is a list; -1 after a problem. */
static int api_worker_texts_of(struct api_call *c, const char *name, const char **out, int most)
{
	const json_t *list = json_object_get(c->body, name);
	size_t i;
	json_t *item;
	if (!list || json_is_null(list))
		return 0;
	bool good = json_is_array(list) && json_array_size(list) <= (size_t)most;
	json_array_foreach(good ? list : NULL, i, item)
	{
		good = good && json_is_string(item);
		out[i] = json_string_value(item);
	}
	if (good)
		return (int)json_array_size(list);
	api_problem(c, 400, "%s must be a list of at most %d strings", name, most);
	return -1;
}

static struct source *source_of_watch(struct api_call *c, const char *name)
{
	const struct settings *s = &c->setup->settings;
	const struct watch *w = settings_watch(s, name);
	struct source *source = NULL;
	struct failure f = {0};
	if (!w)
		api_problem(c, 404, "there is no watch \"%s\"", name);
	else if (!w->work.given)
		api_problem(c, 422, "watch %s has no work: section", name);
	else if (settings_database(s, w) != c->database)
		api_problem(c, 400, "watch %s is in database %s: add ?database=%s", name, w->database,
		            settings_database(s, w)->name);
	else if (source_table(w, NULL, c->session->store, &source, &f))
		api_worker_failed(c, &f);
	return source;
}

struct source *api_source_named(struct api_call *c)
{
	const char *queue = NULL, *watch = NULL, *kinds[KINDS_MOST] = {NULL};
	if (!api_body_text(c, "queue", &queue) || !api_body_text(c, "watch", &watch))
		return NULL;
	int n = api_worker_texts_of(c, "kinds", kinds, KINDS_MOST);
	if (n < 0)
		return NULL;
	if (!queue == !watch || (watch && n)) {
		api_problem(c, 400, "give queue, and kinds if wanted, or watch");
		return NULL;
	}
	return watch ? source_of_watch(c, watch) : source_queue_kinds(queue, kinds, n);
}

/* ---- register, beat, leave ---- */

/* Without a host and a process: only its lease shows that it is alive. */
static bool incarnation_remote(struct incarnation *out)
{
	uint64_t bits;
	*out = (struct incarnation){.host = "http"};
	if (!chance_bytes(&bits, sizeof bits))
		return false;
	snprintf(out->nonce, sizeof out->nonce, "%016llx", (unsigned long long)bits);
	return true;
}

/* What it works on, one per line; the built-in queue if not given. */
static bool read_serves(struct api_call *c, const char **serves)
{
	const char *names[SERVES_MOST] = {NULL};
	AUTO_BUF out = BUF_INIT;
	int n = api_worker_texts_of(c, "serves", names, SERVES_MOST);
	for (int i = 0; i < n; i++)
		buf_addf(&out, "%s%s", i ? "\n" : "", names[i]);
	*serves = n > 0 ? arena_strdup(&c->arena, buf_text(&out)) : BUILTIN_NAME;
	return n >= 0;
}

struct answered_worker {
	int64_t worker;
	const char *secret;
	int64_t lease_us, beat_us;
};

#define AT(member) FIELD_AT(struct answered_worker, member)
static const struct field registered_fields[] = {
	{"worker", FIELD_NUMBER, AT(worker)},
	{"secret", AT(secret)},
	{"lease_s", FIELD_SECONDS, AT(lease_us)},
	{"beat_s", FIELD_SECONDS, AT(beat_us)},
	{0},
};
#undef AT
static const struct record registered_record = {.fields = registered_fields};

static void answer_registered(struct api_call *c, int64_t id, const char *secret, int64_t lease_us)
{
	const struct answered_worker r = {id, secret, lease_us, lease_us / BEATS_A_LEASE};
	struct viewer v = api_viewer(c, NULL);
	record_json(&registered_record, &r, &v, &c->out->body);
	buf_add(&c->out->body, "\n");
	c->out->status = 201;
}

/* Store its hash with the worker, in the transaction that registers it. */
static defib_err worker_secret_keep(struct store *s, int64_t worker, const char *secret,
                                    struct failure *f)
{
	char hash[SHA256_HEX];
	sha256_hex(secret, strlen(secret), hash);
	struct store_param params[] = {P_INT(worker), P_TEXT(hash)};
	return dialect_exec(s, "UPDATE defib.worker SET secret = $2 WHERE id = $1", params, 2, NULL,
	                    NULL, f);
}

/* A worker is never registered without its secret: no caller could act for it. */
static defib_err register_with(struct store *s, const char *name, const struct incarnation *who,
                               int64_t lease_us, const char *serves, const char *secret,
                               int64_t *id, struct failure *f)
{
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = registry_register(s, name, who, lease_us / 1000, serves, id, f);
	if (!err)
		err = worker_secret_keep(s, *id, secret, f);
	return store_end(s, err, f);
}

/* A new one; false: no random numbers are available. */
static bool worker_secret_make(char out[WORKER_SECRET_BYTES])
{
	unsigned char bytes[(WORKER_SECRET_BYTES - 1) / 2];
	if (!chance_bytes(bytes, sizeof bytes))
		return false;
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

static void call_register(struct api_call *c)
{
	int64_t lease_us = LEASE_USUAL_US, id;
	const char *name = c->actor, *serves;
	char secret[WORKER_SECRET_BYTES];
	struct incarnation who;
	struct failure f = {0};
	if (!api_body_text(c, "name", &name) || !api_body_duration(c, "lease", &lease_us) ||
	    !read_serves(c, &serves))
		return;
	if (lease_us < LEASE_LEAST_US || lease_us > LEASE_MOST_US)
		api_problem(c, 400, "lease must be from 3s to 1h");
	else if (!incarnation_remote(&who) || !worker_secret_make(secret))
		api_problem(c, 500, "no random numbers are available");
	else if (register_with(c->session->store, name, &who, lease_us, serves, secret, &id, &f))
		api_worker_failed(c, &f);
	else
		answer_registered(c, id, secret, lease_us);
	explicit_bzero(secret, sizeof secret);
}

static const struct field cancelling_fields[] = {
	{"key", FIELD_AT(struct settlement, key)},
	{"epoch", FIELD_NUMBER, FIELD_AT(struct settlement, epoch)},
	{0},
};
static const struct record cancelling_record = {.fields = cancelling_fields};

/* For the queue; for a table, its own settlements report it. */
static defib_err add_cancelling(struct api_call *c, int64_t id, struct failure *f)
{
	struct source *queue = source_queue("", NULL);
	struct viewer v = api_viewer(c, NULL);
	struct settlement *asked = NULL;
	int n = 0;
	defib_err err = queue->ops->cancelling(queue, c->session->store, id, &c->arena, &asked, &n, f);
	buf_add(&c->out->body, ",\"cancelling\":[");
	for (int i = 0; i < n; i++) {
		buf_add(&c->out->body, i ? "," : "");
		record_json(&cancelling_record, &asked[i], &v, &c->out->body);
	}
	buf_add(&c->out->body, "]}\n");
	queue->ops->free(queue);
	return err;
}

static void call_beat(struct api_call *c)
{
	int64_t id, holding = 0, owned = 0;
	struct failure f = {0};
	bool own;
	if (!api_worker_allowed(c, &id, &own) || !api_body_int(c, "holding", 0, INT32_MAX, &holding))
		return;
	defib_err err = registry_renew(c->session->store, id, NULL, holding, NULL, &owned, &f);
	if (!err) {
		buf_addf(&c->out->body, "{\"owned\":%lld", (long long)owned);
		err = add_cancelling(c, id, &f);
	}
	if (err)
		api_worker_failed(c, &f);
}

#define JOBS_NOTED 1000

/* Record it, inside a transaction. Nothing if the ledger is off. */
static defib_err worker_note(struct api_call *c, const struct in_its_name *what, struct failure *f)
{
	static const char *const none[] = {"*"};
	const char *const *jobs = what->n ? what->jobs : none;
	int n = what->n ? what->n : 1;
	const struct ledger_context ctx = {what->watch ? what->watch : BUILTIN_NAME, "worker",
	                                   c->actor};
	struct ledger_entry *entries = ARENA_ARRAY(&c->arena, struct ledger_entry, n);
	const char *evidence = arena_printf(&c->arena, "{\"worker\":%lld}", (long long)what->worker);
	if (c->setup->settings.ledger == LEDGER_OFF)
		return DEFIB_OK;
	for (int i = 0; i < n; i++)
		entries[i] = (struct ledger_entry){.job = jobs[i],
		                                   .event = ENTRY_WORKER_OVERRIDDEN,
		                                   .rule = RULE_BY_HAND,
		                                   .reason = what->act,
		                                   .evidence = evidence};
	return ledger_append(c->session->store, &ctx, entries, n, &c->arena, f);
}

/* Its jobs go to others, and each job's history says why. */
static defib_err note_ended(struct api_call *c, int64_t id, struct failure *f)
{
	struct roster_job *jobs = NULL;
	int n = 0;
	defib_err err = roster_jobs(c->session->store, id, JOBS_NOTED, &c->arena, &jobs, &n, f);
	struct in_its_name what = {.worker = id, .act = "the worker was ended by an admin"};
	if (!err && n == 0)
		return worker_note(c, &what, f);
	const char **keys = ARENA_ARRAY(&c->arena, const char *, n + 1);
	what.jobs = keys;
	for (int i = 0; !err && i < n; i += what.n) {
		what.watch = jobs[i].watch;
		for (what.n = 0; i + what.n < n && text_eq(jobs[i + what.n].watch, what.watch); what.n++)
			keys[what.n] = jobs[i + what.n].job;
		err = worker_note(c, &what, f);
	}
	return err;
}

static defib_err api_worker_leave(struct api_call *c, int64_t id, bool own, struct failure *f)
{
	struct store *s = c->session->store;
	if (own)
		return registry_leave(s, id, NULL, f);
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = registry_leave(s, id, NULL, f);
	if (!err)
		err = note_ended(c, id, f);
	return store_end(s, err, f);
}

static void call_leave(struct api_call *c)
{
	int64_t id;
	bool own;
	struct failure f = {0};
	if (!api_worker_allowed(c, &id, &own))
		return;
	if (api_worker_leave(c, id, own, &f))
		api_worker_failed(c, &f);
	else
		c->out->status = 204;
}

/* ---- the routes ---- */

#define WORKER "/workers/{id}"

const struct api_route api_worker_routes[] = {
	API_POST("/queues/{queue}/jobs", ROLE_OPERATOR, API_SPOOLED,
             "jobs kind payload delay priority max_attempts timeout unique_key tags",
             "put jobs into a queue", call_enqueue),
	API_POST("/workers", ROLE_OPERATOR, API_DATABASE, "name lease serves", "register a worker",
             call_register),
	API_POST(WORKER "/beat", ROLE_OPERATOR, API_DATABASE, "holding", "renew a worker's lease",
             call_beat),
	{"DELETE", WORKER, ROLE_OPERATOR, API_DATABASE, "", false, true, "end a worker cleanly",
     call_leave},
	API_POST(WORKER "/claim", ROLE_OPERATOR, API_DATABASE, "queue kinds watch n", "claim jobs",
             call_claim),
	API_POST(WORKER "/settle", ROLE_OPERATOR, API_DATABASE, "queue watch results",
             "report the results of jobs", call_settle),
	API_POST(WORKER "/progress", ROLE_OPERATOR, API_DATABASE, "watch key epoch step text",
             "report the progress of a job", call_progress),
	{.method = NULL},
};

/* ---- ownership of workers ---- */

/* Takes the same time for any secret. */
static bool is_its_secret(const char *kept, const char *shown)
{
	char hash[SHA256_HEX];
	unsigned char differ = 0;
	if (!kept || !shown || strlen(kept) != sizeof hash - 1)
		return false;
	sha256_hex(shown, strlen(shown), hash);
	for (size_t i = 0; i < sizeof hash - 1; i++)
		differ |= (unsigned char)(hash[i] ^ kept[i]);
	return differ == 0;
}

static bool api_worker_refuse(struct api_call *c, int64_t id)
{
	struct failure f = {0};
	metrics_add(c->api->metrics, METRIC_HTTP_DENIED, 1, NO_LABELS);
	log_event(LOG_WARN, "a request for a worker was refused: wrong secret",
	          LOG_STR("actor", c->actor), LOG_INT("worker", id), LOG_STR("route", c->route->path));
	fail(&f, DEFIB_PERMISSION, "worker %lld belongs to another caller", (long long)id);
	fail_next(&f,
	          "send the secret that its registration returned, in the header " WORKER_SECRET_HEADER
	          ", or an admin's token");
	return api_failed_as(c, 403, &f);
}

bool api_worker_allowed(struct api_call *c, int64_t *id, bool *own)
{
	struct store *s = c->session->store;
	struct failure f = {0};
	struct store_rows rows;
	*own = false;
	if (!api_worker_named(c, id))
		return false;
	struct store_param param = P_INT(*id);
	if (dialect_exec(s, "SELECT secret FROM defib.worker WHERE id = $1", &param, 1, &c->arena,
	                 &rows, &f))
		return api_worker_failed(c, &f);
	if (rows.nrows == 0) {
		/* Nobody can act for it, not even an admin: its row was removed, or it never was. */
		fail(&f, DEFIB_LEASE_LOST, "worker %lld is not registered", (long long)*id);
		return api_worker_failed(c, &f);
	}
	*own = is_its_secret(row_text(&rows, 0, 0), c->request->worker_secret);
	return *own || c->role >= ROLE_ADMIN || api_worker_refuse(c, *id);
}

defib_err api_worker_note(struct api_call *c, const struct in_its_name *what, struct failure *f)
{
	struct store *s = c->session->store;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	return store_end(s, worker_note(c, what, f), f);
}

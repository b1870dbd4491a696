/* SPDX-License-Identifier: Apache-2.0
 * propose.c: which columns of a table mean what. propose_lines.c writes the lines.
 */
#include "setup/propose.h"

#include "setup/propose_lines.h"
#include "setup/propose_words.h"
#include "store/dialect.h"

#include <ctype.h>

#define WORDS(name) const char *const words_##name[]
#define VALUES(name) const char *const values_##name[]

/* What only a queue has: which queue it is, and when a row may be claimed. */
WORDS(queue) = {"queue",     "queue_name", "queue_id",   "available_at", "run_at",
                "run_after", "visible_at", "not_before", "next_run_at",  NULL};
WORDS(state) = {"status",     "state",       "status_id", "state_id", "status_code",
                "state_name", "status_name", "phase",     "stage",    NULL};
WORDS(flag) = {"processing", "is_processing", "running", "is_running", "in_progress",
               "locked",     "is_locked",     "claimed", "reserved",   "being_processed",
               "working",    "busy",          "picked",  "is_picked",  "leased",
               "fetched",    "acquired",      NULL};
/* Words that only occur with work; accounts are locked too, and seats reserved. */
WORDS(flag_of_work) = {"processing",  "is_processing",   "running", "is_running",
                       "in_progress", "being_processed", "working", NULL};
WORDS(beat) = {"last_heartbeat", "heartbeat_at",  "last_heartbeat_at", "heartbeat",
               "heartbeat_on",   "last_beat",     "beat_at",           "last_seen",
               "last_seen_at",   "alive_at",      "last_alive",        "pinged_at",
               "last_ping",      "kept_alive_at", "latest_heartbeat",  NULL};
WORDS(lease) = {
	"lease_expires_at", "locked_until",     "lease_until",    "leased_until",  "lock_expires_at",
	"lock_until",       "claim_expires_at", "reserved_until", "visible_after", NULL};
WORDS(lock) = {"locked_at",    "claimed_at",  "reserved_at", "leased_at",
               "attempted_at", "acquired_at", "taken_at",    "picked_at",
               "picked_up_at", "dequeued_at", NULL};
/* In a queue they mean the same; elsewhere a mail was delivered, or a page fetched. */
WORDS(handed) = {"delivered_at", "fetched_at", NULL};
WORDS(updated) = {
	"status_changed_at", "state_changed_at", "status_updated_at", "updated_at",    "modified_at",
	"last_updated",      "updated_on",       "updated",           "last_modified", "modified",
	"changed_at",        "date_updated",     "update_time",       "mtime",         NULL};
WORDS(started) = {"started_at",   "started_on", "processing_started_at", "start_time",
                  "started",      "began_at",   "run_at_started",        "performed_at",
                  "date_started", "start_date", "started_at_epoch_ms",   "fired_time",
                  "fired_at",     NULL};
WORDS(deadline) = {"expires_at",   "expire_at",  "deadline", "deadline_at", "timeout_at",
                   "times_out_at", "expires_on", "expires",  "vt",          NULL};
WORDS(finished) = {"finished_at",  "completed_at", "ended_at",     "done_at",  "finalized_at",
                   "completed_on", "finished_on",  "processed_at", "end_time", "completed",
                   "date_done",    "finished",     "end_date",     NULL};
WORDS(ended_badly) = {"failed_at",    "failed_on",   "dead_at",     "discarded_at",
                      "cancelled_at", "canceled_at", "archived_at", NULL};
WORDS(owner) = {"locked_by",   "claimed_by",  "reserved_by",  "leased_by",    "lock_owner",
                "lease_owner", "worker_id",   "attempted_by", "locked_by_id", "taken_by",
                "picked_by",   "process_id",  "worker_name",  "executor_id",  "runner_id",
                "node_id",     "instance_id", "hostname",     "worker",       "instance_name",
                "fetched_by",  NULL};
WORDS(holder) = {"worker_id",   "locked_by",  "claimed_by",  "leased_by", "picked_by",
                 "lease_owner", "lock_owner", "reserved_by", "taken_by",  NULL};
WORDS(error) = {
	"error", "last_error", "error_message", "failure_reason", "error_text", "last_error_message",
	"err",   "exception",  "error_msg",     "failure",        NULL};
WORDS(attempts) = {"attempts",    "attempt",     "attempt_count",  "retry_count",
                   "retries",     "tries",       "num_attempts",   "try_count",
                   "try_number",  "failures",    "fail_count",     "failure_count",
                   "error_count", "num_retries", "delivery_count", NULL};
WORDS(max) = {"max_attempts",
              "max_retries",
              "retry_limit",
              "max_tries",
              "attempts_max",
              "retries_max",
              "max_attempt_count",
              "attempt_limit",
              "max_retry_count",
              "max_failures",
              NULL};
WORDS(kind) = {"kind",      "job_type", "task_type",  "type",  "workflow_type",   "job_class",
               "task_name", "task",     "queue_name", "queue", "task_identifier", NULL};
WORDS(show) = {"url",  "document_number", "domain",    "title",  "slug", "file_name", "filename",
               "path", "subject",         "reference", "number", "name", NULL};

VALUES(running) = {
	"processing", "running",       "in_progress", "inprogress", "executing", "doing",
	"working",    "pending_async", "reserved",    "claimed",    "leased",    "locked",
	"in_flight",  "picked_up",     "dequeued",    "acquired",   "busy",      NULL};
VALUES(maybe) = {"active", "started", "in_process", "taken", "ongoing", "open", NULL};
VALUES(begun) = {"started", "in_process", "taken", NULL};
VALUES(pending) = {"pending", NULL};
VALUES(queued) = {"enqueued", "queued", NULL};
VALUES(stopping) = {"ending",      "cancelling", "canceling", "stopping",
                    "terminating", "deleting",   "aborting",  NULL};
VALUES(ready) = {"queued",  "enqueued",  "ready",   "available", "todo",        "pending",
                 "waiting", "new",       "retry",   "retryable", "unprocessed", "submitted",
                 "created", "scheduled", "planned", NULL};
VALUES(failed) = {"failed", "error", "errored", "failure", "discarded", "dead", "crashed", NULL};
VALUES(over) = {"done",     "completed",  "complete",  "finished", "succeeded",
                "success",  "processed",  "cancelled", "canceled", "discarded",
                "archived", "successful", NULL};

void snake_case(const char *text, char *out, size_t size)
{
	size_t n = 0;
	for (const char *at = text; *at && n + 2 < size; at++) {
		bool upper = isupper((unsigned char)*at);
		if (upper && at > text && islower((unsigned char)at[-1]))
			out[n++] = '_';
		out[n++] = isalnum((unsigned char)*at) ? (char)tolower((unsigned char)*at) : '_';
	}
	out[n] = '\0';
}

/* fetchedat equals fetched_at for tables without underscores. */
static bool same_word(const char *word, const char *name)
{
	if (text_eq(word, name))
		return true;
	if (strchr(name, '_'))
		return false;
	for (; *word; word++)
		if (*word != '_' && *word != *name++)
			return false;
	return *name == '\0';
}

int word_exact(const char *const *words, const char *text)
{
	char name[80];
	snake_case(text, name, sizeof name);
	for (int i = 0; words[i]; i++)
		if (same_word(words[i], name))
			return i;
	return -1;
}

int word_rank(const char *const *words, const char *text)
{
	char name[80];
	int exact = word_exact(words, text);
	if (exact >= 0)
		return exact;
	snake_case(text, name, sizeof name);
	for (int i = 0; words[i]; i++) {
		size_t all = strlen(name), tail = strlen(words[i]);
		if (all > tail && name[all - tail - 1] == '_' && text_eq(name + all - tail, words[i]))
			return i;
	}
	return -1;
}

/* 2026-11-15…, or a number of seconds or milliseconds since 1970, not in its first years. */
static bool looks_like_time(const char *value)
{
	char *end = NULL;
	double number = strtod(value, &end);
	if (*end == '\0')
		return number >= 1e8;
	return strlen(value) >= 10 && value[4] == '-' && value[7] == '-' &&
	       isdigit((unsigned char)value[0]) != 0;
}

/* Whether the column can hold a time: by its type, or by a value that looks like one. */
static bool column_is_time(const struct table_column *c, enum store_engine engine)
{
	switch (c->class) {
	case CLASS_INSTANT:
	case CLASS_NAIVE:
		return true;
	case CLASS_NUMBER:
		return !c->newest || looks_like_time(c->newest);
	case CLASS_TEXT:
	case CLASS_OTHER:
		/* A number that is stored as text is compared as text where values have types. */
		if (!dialect_of(engine)->has_time_types)
			return !c->newest || looks_like_time(c->newest);
		return c->newest && looks_like_time(c->newest) &&
		       c->newest[strspn(c->newest, "0123456789.")];
	default:
		return false;
	}
}

bool fits_any(const struct table_facts *t, const struct table_column *c)
{
	(void)t;
	(void)c;
	return true;
}

bool fits_time(const struct table_facts *t, const struct table_column *c)
{
	return column_is_time(c, t->engine);
}

bool fits_text(const struct table_facts *t, const struct table_column *c)
{
	(void)t;
	return c->class == CLASS_TEXT;
}

static bool fits_number(const struct table_facts *t, const struct table_column *c)
{
	(void)t;
	return c->class == CLASS_NUMBER;
}

bool fits_owner(const struct table_facts *t, const struct table_column *c)
{
	(void)t;
	return c->class != CLASS_BOOL && c->class != CLASS_INSTANT && c->class != CLASS_NAIVE;
}

const struct table_column *column_named(const struct table_facts *t, const char *const *words,
                                        column_fits fits)
{
	const struct table_column *best = NULL;
	int best_rank = 0;
	for (int whole = 1; whole >= 0 && !best; whole--)
		for (int i = 0; i < t->ncolumns; i++) {
			const struct table_column *c = &t->columns[i];
			int rank = whole ? word_exact(words, c->name) : word_rank(words, c->name);
			if (rank >= 0 && fits(t, c) && (!best || rank < best_rank)) {
				best = c;
				best_rank = rank;
			}
		}
	return best;
}

const char *value_word(const struct column_value *v)
{
	return v->label ? v->label : v->value;
}

bool column_is_empty(const struct table_facts *t, const struct table_column *c)
{
	if (!c->counted)
		return false;
	if (t->counted_in_work && t->in_work > 0)
		return 2 * c->in_work < t->in_work;
	return t->rows > 0 && c->filled == 0;
}

/* ---- which rows are running ---- */

static const struct column_value *
value_named(const struct table_column *c, const char *const *words, const struct column_value *but)
{
	const struct column_value *best = NULL;
	int best_rank = 0;
	for (int whole = 1; whole >= 0 && !best; whole--)
		for (int i = 0; i < c->nvalues; i++) {
			const struct column_value *v = &c->values[i];
			/* The value that rows begin with is hardly what a worker sets. */
			if ((but && v == but) || text_eq(v->value, c->standard))
				continue;
			int rank = whole ? word_exact(words, value_word(v)) : word_rank(words, value_word(v));
			if (rank >= 0 && (!best || rank < best_rank)) {
				best = v;
				best_rank = rank;
			}
		}
	return best;
}

/* Rows may begin in these states: the column's default counts. */
static const struct column_value *resting_value(const struct table_column *c,
                                                const char *const *words,
                                                const struct column_value *but)
{
	struct table_column open = *c;
	open.standard = NULL;
	return value_named(&open, words, but);
}

#define ASK_STATE "is a row in this state running?"

/* A word that means little alone, combined with another: */
enum company {
	COMPANY_NONE,
	COMPANY_OF_WORK,  /* a value that queues have and address books do not */
	COMPANY_OF_QUEUE, /* a value for waiting rows, and a column for the owner of a row */
};

/* From the most to the least certain reading; an uncertain one must be checked by an operator. */
static const struct {
	const char *const *words;
	enum company needs;
	const char *check;
	bool queue;
} running_words[] = {
	{values_running, COMPANY_NONE, NULL, true},
	{values_maybe, COMPANY_OF_WORK, NULL, true},
	{values_pending, COMPANY_OF_QUEUE, ASK_STATE, true},
	{values_stopping, COMPANY_OF_WORK, ASK_STATE, false},
};

static bool has_company(const struct table_facts *t, const struct table_column *c,
                        const struct column_value *v, enum company needs)
{
	if (needs == COMPANY_NONE)
		return true;
	if (needs == COMPANY_OF_QUEUE)
		return resting_value(c, values_queued, v) && column_named(t, words_owner, fits_owner);
	return resting_value(c, values_ready, v) || resting_value(c, values_failed, v) ||
	       resting_value(c, values_over, v);
}

static bool may_hold_state(const struct table_column *c)
{
	return c->class == CLASS_TEXT || c->class == CLASS_NUMBER || c->class == CLASS_OTHER;
}

static void propose_find_state(struct found_columns *f)
{
	size_t n = sizeof running_words / sizeof *running_words;
	for (size_t w = 0; w < n && !f->running; w++)
		for (int i = 0; i < f->t->ncolumns && !f->running; i++) {
			const struct table_column *c = &f->t->columns[i];
			const struct column_value *v =
				may_hold_state(c) ? value_named(c, running_words[w].words, NULL) : NULL;
			if (!v || !has_company(f->t, c, v, running_words[w].needs))
				continue;
			f->state = c;
			f->running = v;
			f->running_check = running_words[w].check;
			f->running_sure = running_words[w].queue;
			f->by = BY_STATE;
		}
}

static bool fits_flag(const struct table_facts *t, const struct table_column *c)
{
	(void)t;
	return c->class == CLASS_BOOL;
}

static bool fits_state(const struct table_facts *t, const struct table_column *c)
{
	(void)t;
	return may_hold_state(c);
}

static bool fits_nullable_time(const struct table_facts *t, const struct table_column *c)
{
	return c->nullable && column_is_time(c, t->engine);
}

static bool fits_used_lock(const struct table_facts *t, const struct table_column *c)
{
	return fits_nullable_time(t, c) && !(c->counted && c->filled == 0);
}

static bool fits_holder(const struct table_facts *t, const struct table_column *c)
{
	return fits_owner(t, c) && c->nullable && !facts_is_key(t, c);
}

/* A row exists only while a worker has it: it holds the owner and the end of its lease. */
static bool is_held_by_owner(struct found_columns *f)
{
	f->owner = column_named(f->t, words_holder, fits_holder);
	return f->owner && (column_named(f->t, words_lease, fits_time) ||
	                    column_named(f->t, words_deadline, fits_time));
}

/* Columns in use before unused ones, and words with other meanings outside queues last. */
static void find_lock(struct found_columns *f)
{
	f->lock = column_named(f->t, words_lock, fits_used_lock);
	if (!f->lock)
		f->lock = column_named(f->t, words_lock, fits_nullable_time);
	if (!f->lock && column_named(f->t, words_queue, fits_any))
		f->lock = column_named(f->t, words_handed, fits_nullable_time);
}

static void find_running(struct found_columns *f)
{
	propose_find_state(f);
	find_lock(f);
	if (f->by != BY_NOTHING)
		return;
	f->flag = column_named(f->t, words_flag, fits_flag);
	f->running_sure = true;
	if (f->flag) {
		f->by = BY_FLAG;
	} else if (f->lock) {
		f->by = BY_LOCK;
	} else if (is_held_by_owner(f)) {
		f->by = BY_OWNER;
		f->running_check = "is a row with an owner running?";
	} else {
		/* A state with unnamed codes is shown to the user, who knows them. */
		f->state = column_named(f->t, words_state, fits_state);
		f->running_sure = false;
		if (f->started && f->started->nullable && f->finished && f->finished->nullable)
			f->by = BY_TIMES;
	}
}

static void find_rest(struct found_columns *f)
{
	if (f->by != BY_STATE)
		return;
	f->ready = resting_value(f->state, values_ready, f->running);
	f->ready_sure = f->ready != NULL;
	for (int i = 0; !f->ready && i < f->state->nvalues; i++)
		if (text_eq(f->state->values[i].value, f->state->standard))
			f->ready = &f->state->values[i];
	f->failed = resting_value(f->state, values_failed, f->running);
}

/* ---- the sign of life ---- */

static bool fits_used_time(const struct table_facts *t, const struct table_column *c)
{
	return fits_time(t, c) && !column_is_empty(t, c);
}

static bool fits_time_by_name(const struct table_facts *t, const struct table_column *c)
{
	bool shown = c->counted && t->counted_in_work && t->in_work > 0;
	return fits_time(t, c) && !(shown && c->in_work == 0);
}

static bool fits_count(const struct table_facts *t, const struct table_column *c)
{
	return fits_number(t, c) && !facts_is_key(t, c);
}

static void find_sign(struct found_columns *f)
{
	const struct {
		const char *const *words;
		enum sign_of what;
	} own[] = {
		{words_beat, SIGN_OF_BEAT},     {words_lease, SIGN_OF_LEASE},
		{words_lock, SIGN_OF_LOCK},     {words_updated, SIGN_OF_UPDATE},
		{words_started, SIGN_OF_START}, {words_deadline, SIGN_OF_DEADLINE},
	};
	/* By their contents, and then, if no row is running, by their names. */
	for (int named = 0; named < 2 && !f->sign; named++)
		for (size_t i = 0; i < sizeof own / sizeof *own && !f->sign; i++) {
			column_fits fits = named ? fits_time_by_name : fits_used_time;
			f->sign = column_named(f->t, own[i].words, fits);
			if (!f->sign && own[i].what == SIGN_OF_LOCK && f->lock && fits(f->t, f->lock))
				f->sign = f->lock;
			f->sign_of = f->sign ? own[i].what : SIGN_OF_NOTHING;
			/* A beat in a related table says more than a time that is written once. */
			if (i == 0 && !f->sign && f->t->nrelated > 0) {
				f->related = &f->t->related[0];
				f->sign_of = SIGN_OF_BEAT;
				return;
			}
		}
}

const char *time_type_of(const struct table_facts *t, const struct table_column *c)
{
	char *end = NULL;
	if (c->class == CLASS_INSTANT ||
	    (c->class == CLASS_NAIVE && dialect_of(t->engine)->has_time_types))
		return "";
	double number = c->newest ? strtod(c->newest, &end) : 0;
	if (c->newest && *end == '\0')
		return number >= 1e11 ? "epoch_ms" : "epoch";
	return c->class == CLASS_NUMBER ? "epoch" : "text";
}

void propose(const struct table_facts *t, struct arena *a, struct proposal *out)
{
	struct found_columns f = {.t = t, .a = a, .out = out};
	*out = (struct proposal){.table = t->table};
	f.started = column_named(t, words_started, fits_time);
	f.finished = column_named(t, words_finished, fits_time);
	find_running(&f);
	find_rest(&f);
	find_sign(&f);
	f.updated = column_named(t, words_updated, fits_time);
	if (!f.owner)
		f.owner = column_named(t, words_owner, fits_owner);
	f.error = column_named(t, words_error, fits_text);
	f.max = column_named(t, words_max, fits_number);
	f.attempts = column_named(t, words_attempts, fits_count);
	if (f.attempts == f.max)
		f.attempts = NULL;
	f.kind = column_named(t, words_kind, fits_text);
	propose_lines(&f);
}

struct proposed_line *proposal_line(struct proposal *p, const char *key)
{
	for (int i = 0; i < p->nlines; i++)
		if (text_eq(p->lines[i].key, key))
			return &p->lines[i];
	return NULL;
}

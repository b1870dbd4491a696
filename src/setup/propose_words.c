/* SPDX-License-Identifier: Apache-2.0 */
/* propose_words.c: see propose_words.h. */
#include "setup/propose_words.h"

#include "base/text.h"
#include "store/dialect.h"

#include <ctype.h>

#define WORDS(name) const char *const words_##name[]
#define VALUES(name) const char *const values_##name[]

/* What only a queue has: which one it is, and when a row may be taken. */
WORDS(queue) = {"queue",     "queue_name", "queue_id",   "available_at", "run_at",
                "run_after", "visible_at", "not_before", "next_run_at",  NULL};
WORDS(state) = {"status",     "state",       "status_id", "state_id", "status_code",
                "state_name", "status_name", "phase",     "stage",    NULL};
WORDS(flag) = {"processing", "is_processing", "running", "is_running", "in_progress",
               "locked",     "is_locked",     "claimed", "reserved",   "being_processed",
               "working",    "busy",          "picked",  "is_picked",  "leased",
               "fetched",    "acquired",      NULL};
/* Those that only work has; an account is locked, a seat reserved. */
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
/* Of a queue the same; elsewhere a mail has arrived, a page was read. */
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

/* fetchedat is fetched_at to who writes no underscores. */
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

/* 2026-11-15…, or a number of seconds or milliseconds since 1970 that is not in its first years. */
static bool looks_like_time(const char *value)
{
	char *end = NULL;
	double number = strtod(value, &end);
	if (*end == '\0')
		return number >= 1e8;
	return strlen(value) >= 10 && value[4] == '-' && value[7] == '-' &&
	       isdigit((unsigned char)value[0]) != 0;
}

bool column_is_time(const struct table_column *c, enum store_engine engine)
{
	switch (c->class) {
	case CLASS_INSTANT:
	case CLASS_NAIVE:
		return true;
	case CLASS_NUMBER:
		return !c->newest || looks_like_time(c->newest);
	case CLASS_TEXT:
	case CLASS_OTHER:
		return c->newest ? looks_like_time(c->newest) : !dialect_of(engine)->has_time_types;
	default:
		return false;
	}
}

bool column_is_text(const struct table_column *c)
{
	return c->class == CLASS_TEXT;
}

bool column_is_number(const struct table_column *c)
{
	return c->class == CLASS_NUMBER;
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
	return column_is_text(c);
}

bool fits_number(const struct table_facts *t, const struct table_column *c)
{
	(void)t;
	return column_is_number(c);
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

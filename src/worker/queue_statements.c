/* SPDX-License-Identifier: Apache-2.0 */
/* queue_statements.c: see queue.h. */

#include "worker/queue_statements.h"

#include "worker/queue.h"

#include "embedded.h"
#include "ledger/seal.h"
#include "store/dialect.h"
#include "worker/workflow.h"

#include <assert.h>
#include <pthread.h>

/* ---- the statements of an engine ---- */

/* clang-format off */
#define STATEMENTS(X) \
	X(look) X(claim) X(settle_done) X(settle_facts) X(settle_other) X(keep_result) X(repeated) \
	X(note_late) X(step_facts) X(record_run) X(keep_run) X(record_attempt) X(drop_attempts) \
	X(record_undo_again) X(record_undo) X(record_result) X(move_job) X(note_rollback) \
	X(note_undo_failed) X(note_rolled_back) X(repeated_step) X(enqueue) X(same_unique_key) \
	X(enqueue_data) X(cancel) X(promote_look) X(promote) X(progress)
/* clang-format on */

/* Each is a statement, NULL if the engine has none, and its number of parameters. */
struct queue_statement {
	const char *sql;
	int nparams;
};
struct statements {
#define X(name) struct queue_statement name;
	STATEMENTS(X)
#undef X
};

/* A statement takes the parameters up to the highest that it uses. */
static int nparams_of(const char *sql, char mark)
{
	long most = 0;
	for (const char *at = sql; (at = strchr(at, mark)) != NULL;) {
		long n = strtol(at + 1, (char **)&at, 10);
		most = n > most ? n : most;
	}
	return (int)most;
}

/* The part `name` of sql/ENGINE_turn.sql, translated. */
static struct queue_statement statement_of(const char *name, const struct dialect *d)
{
	struct buf sql = BUF_INIT;
	char part[64];
	snprintf(part, sizeof part, "sql/%s_turn.sql@%s", d->name, name);
	const char *text = embedded_text(part);
	if (!text)
		return (struct queue_statement){0};
	dialect_add(d, &sql, text);
	int n = nparams_of(buf_text(&sql), d->mark);
	return (struct queue_statement){buf_detach(&sql), n};
}

/* Read once per process and engine, and never freed: sessions identify a statement by its text. */
static const struct statements *statements(const struct store *s)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct known_statements {
		struct statements all;
		const struct dialect *of;
		struct known_statements *next;
	} * first;
	const struct dialect *d = store_dialect(s);
	pthread_mutex_lock(&lock);
	struct known_statements *k = first;
	while (k && k->of != d)
		k = k->next;
	if (!k) {
		k = mem_alloc(sizeof *k);
		*k = (struct known_statements){.of = d, .next = first};
#define X(statement) k->all.statement = statement_of(#statement, d);
		STATEMENTS(X)
#undef X
		first = k;
	}
	pthread_mutex_unlock(&lock);
	return &k->all;
}

static defib_err queue_statements_run(struct store *s, const struct queue_statement *st,
                                      const struct store_param *params, struct arena *a,
                                      struct store_rows *rows, struct failure *f)
{
	assert(st->sql != NULL);
	return store_exec(s, st->sql, params, st->nparams, a, rows, f);
}

/* ---- claim ---- */

static defib_err queue_statements_must_live(struct store *s, int64_t worker, struct arena *a,
                                            struct failure *f)
{
	struct store_param param = P_INT(worker);
	struct store_rows rows;
	defib_err err = dialect_exec(s, "SELECT 1 FROM defib.worker WHERE id = $1 AND state = 'alive'",
	                             &param, 1, a, &rows, f);
	if (!err && rows.nrows == 0)
		return fail(f, DEFIB_LEASE_LOST, "worker %lld was declared dead", (long long)worker);
	return err;
}

defib_err queue_statements_claim(struct store *s, const char *queue, const char *kinds,
                                 int64_t worker, int64_t n, struct arena *a,
                                 struct store_rows *rows, struct failure *f)
{
	/* An idle check must not take the write lock of the whole database. */
	struct store_param look[] = {P_TEXT(queue), P_TEXT(kinds)};
	struct store_param params[] = {P_INT(worker), P_TEXT(queue), P_INT(n), P_TEXT(kinds)};
	bool own = !s->in_tx;
	defib_err err =
		own ? queue_statements_run(s, &statements(s)->look, look, a, rows, f) : DEFIB_OK;
	if (err || (own && rows->nrows == 0))
		return err;
	err = own ? store_begin(s, TX_WRITE, f) : DEFIB_OK;
	if (err)
		return err;
	err = queue_statements_must_live(s, worker, a, f);
	if (!err)
		err = queue_statements_run(s, &statements(s)->claim, params, a, rows, f);
	if (own)
		err = store_end(s, err, f);
	return err;
}

/* ---- the end of a job ---- */

static defib_err settle_by_rule(struct store *s, const struct settlement *e,
                                struct store_param params[11], struct arena *a,
                                struct store_rows *rows, struct failure *f)
{
	defib_err err = queue_statements_run(s, &statements(s)->settle_facts, params, a, rows, f);
	if (err || rows->nrows == 0)
		return err;
	const struct settle_facts facts = {
		.as = e->as,
		.cancelling = row_bool(rows, 0, 0),
		.attempts = row_int(rows, 0, 1, 0),
		.max_attempts = row_int(rows, 0, 2, 0),
		.delay_ms = e->delay_ms,
	};
	const struct settle_result r = settle_after(&facts);
	params[4] = P_TEXT(r.state);
	params[5] = P_INT(r.attempts);
	params[6] = P_INT(r.crashed);
	params[7] = P_INT(r.over);
	params[8] = P_INT(r.keeps_cause);
	params[9] = r.wait_ms >= 0 ? P_INT(r.wait_ms) : P_TEXT(NULL);
	params[10] = P_TEXT(r.cause);
	return queue_statements_run(s, &statements(s)->settle_other, params, a, rows, f);
}

static defib_err settle_one(struct store *s, int64_t worker, struct settlement *e, struct arena *a,
                            struct failure *f)
{
	struct store_param params[11] = {P_TEXT(e->key), P_INT(e->epoch), P_INT(worker),
	                                 P_TEXT(e->error)};
	struct store_param result[] = {P_TEXT(e->key), P_TEXT(e->result)};
	struct store_rows rows;
	defib_err err = e->as == SETTLE_DONE
	                    ? queue_statements_run(s, &statements(s)->settle_done, params, a, &rows, f)
	                    : settle_by_rule(s, e, params, a, &rows, f);
	e->accepted = !err && rows.affected > 0;
	if (e->accepted && e->result)
		err = queue_statements_run(s, &statements(s)->keep_result, result, a, NULL, f);
	return err;
}

/* ---- the end of a step ---- */

struct queue_ending {
	struct store *s;
	struct arena *a;
	int64_t worker;
	struct settlement *given;
	int64_t attempts;
	bool undoing;
	enum step_after after;
};

static defib_err run_step(const struct queue_ending *e, const struct queue_statement *st,
                          struct store_rows *rows, struct failure *f)
{
	const struct settlement *g = e->given;
	struct store_param params[] = {
		P_TEXT(g->key),
		P_INT(g->epoch),
		P_INT(e->worker),
		P_TEXT(step_after_names[e->after]),
		P_TEXT(settle_names[g->as]),
		P_TEXT(g->step.name),
		P_INT(g->step.position),
		P_INT(g->step.saga),
		P_TEXT(g->result),
		P_TEXT(g->error),
		g->delay_ms >= 0 ? P_INT(g->delay_ms) : P_TEXT(NULL),
		P_TEXT(g->step.passed),
		P_INT(g->step.side == STEP_SIDE_UNDO),
		P_INT(e->attempts),
	};
	return queue_statements_run(e->s, st, params, e->a, rows, f);
}

static defib_err decide_step(struct queue_ending *e, bool *ours, struct failure *f)
{
	struct store_rows rows;
	defib_err err = run_step(e, &statements(e->s)->step_facts, &rows, f);
	*ours = !err && rows.nrows == 1;
	if (!*ours)
		return err;
	struct step_facts facts = {
		.as = e->given->as,
		.more = e->given->step.more,
		.cancelling = row_bool(&rows, 0, 0),
		.attempts_left = row_bool(&rows, 0, 1),
		.saga = row_bool(&rows, 0, 2),
		.undoing = row_bool(&rows, 0, 3),
		.any_done = row_bool(&rows, 0, 5),
	};
	e->undoing = facts.undoing;
	e->attempts = row_int(&rows, 0, 4, 0);
	e->after = step_after(&facts);
	return DEFIB_OK;
}

/* An attempt that the step's own record will not describe. */
static defib_err record_attempt(const struct queue_ending *e, bool moves_on, struct failure *f)
{
	defib_err err = DEFIB_OK;
	if (e->undoing && (moves_on || e->after == AFTER_RETRY))
		err = run_step(e, &statements(e->s)->keep_run, NULL, f);
	if (err || e->given->as == SETTLE_DONE || (e->undoing && moves_on))
		return err;
	err = run_step(e, &statements(e->s)->record_attempt, NULL, f);
	return err ? err : run_step(e, &statements(e->s)->drop_attempts, NULL, f);
}

static defib_err queue_statements_record(const struct queue_ending *e, struct failure *f)
{
	bool moves_on = e->after == AFTER_NEXT || e->after == AFTER_ROLLED_BACK;
	defib_err err = record_attempt(e, moves_on, f);
	if (err)
		return err;
	if (e->undoing && e->after == AFTER_RETRY)
		return run_step(e, &statements(e->s)->record_undo_again, NULL, f);
	if (e->undoing)
		return moves_on ? run_step(e, &statements(e->s)->record_undo, NULL, f) : DEFIB_OK;
	if (e->given->as == SETTLE_DONE)
		err = run_step(e, &statements(e->s)->record_run, NULL, f);
	if (!err && e->after == AFTER_DONE)
		err = run_step(e, &statements(e->s)->record_result, NULL, f);
	return err;
}

static defib_err queue_statements_note(const struct queue_ending *e, struct failure *f)
{
	bool undone = e->undoing && (e->after == AFTER_NEXT || e->after == AFTER_ROLLED_BACK);
	defib_err err = DEFIB_OK;
	if (e->after == AFTER_ROLLBACK)
		err = run_step(e, &statements(e->s)->note_rollback, NULL, f);
	else if (undone)
		err = run_step(e, &statements(e->s)->note_undo_failed, NULL, f);
	if (!err && e->after == AFTER_ROLLED_BACK)
		err = run_step(e, &statements(e->s)->note_rolled_back, NULL, f);
	return err || (e->after != AFTER_ROLLBACK && !undone && e->after != AFTER_ROLLED_BACK)
	           ? err
	           : seal_added(e->s, e->a, f);
}

static defib_err look_repeated(struct queue_ending *e, struct failure *f)
{
	struct store_rows rows;
	defib_err err = run_step(e, &statements(e->s)->repeated_step, &rows, f);
	if (!err && rows.nrows == 1)
		e->given->accepted = row_bool(&rows, 0, 0);
	return err;
}

static defib_err settle_step(struct queue_ending *e, struct failure *f)
{
	bool ours;
	defib_err err = decide_step(e, &ours, f);
	if (err)
		return err;
	if (!ours)
		return look_repeated(e, f);
	assert(e->undoing == (e->given->step.side == STEP_SIDE_UNDO));
	err = queue_statements_record(e, f);
	if (!err)
		err = run_step(e, &statements(e->s)->move_job, NULL, f);
	if (!err)
		err = queue_statements_note(e, f);
	e->given->accepted = !err;
	return err;
}

static defib_err settle_steps(struct store *s, int64_t worker, struct settlement *all, int n,
                              struct arena *a, struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; i < n && !err; i++) {
		struct queue_ending e = {.s = s, .a = a, .worker = worker, .given = &all[i]};
		if (all[i].step.side != STEP_SIDE_NONE)
			err = settle_step(&e, f);
	}
	return err;
}

/* ---- late settlements ---- */

/* For a settlement that was not written: was it written before? If not, it came too late. */
static defib_err look_again(struct store *s, int64_t worker, struct settlement *e, bool *late,
                            struct arena *a, struct failure *f)
{
	struct store_param was[] = {P_TEXT(e->key), P_INT(e->epoch), P_TEXT(settle_names[e->as]),
	                            P_INT(e->step.side != STEP_SIDE_NONE), P_INT(worker)};
	struct store_param note[] = {P_TEXT(e->key), P_INT(e->epoch), P_INT(worker),
	                             P_TEXT(settle_names[e->as])};
	struct store_rows rows;
	defib_err err = queue_statements_run(s, &statements(s)->repeated, was, a, &rows, f);
	e->accepted = !err && rows.nrows > 0 && row_bool(&rows, 0, 0);
	if (err || e->accepted || e->as == SETTLE_RELEASED || e->as == SETTLE_STOPPED)
		return err;
	*late = true;
	return queue_statements_run(s, &statements(s)->note_late, note, a, NULL, f);
}

defib_err queue_statements_settle(struct store *s, int64_t worker, struct settlement *all, int n,
                                  struct arena *a, struct failure *f)
{
	defib_err err = DEFIB_OK;
	bool late = false;
	for (int i = 0; i < n && !err; i++)
		if (all[i].step.side == STEP_SIDE_NONE)
			err = settle_one(s, worker, &all[i], a, f);
	if (!err)
		err = settle_steps(s, worker, all, n, a, f);
	for (int i = 0; i < n && !err; i++)
		if (!all[i].accepted)
			err = look_again(s, worker, &all[i], &late, a, f);
	return err || !late ? err : seal_added(s, a, f);
}

/* ---- new jobs ---- */

static defib_err insert_data(struct store *s, int64_t id, const struct enqueue *j, struct arena *a,
                             struct failure *f)
{
	struct store_param params[] = {P_INT(id), P_TEXT(j->payload), P_TEXT(j->tags)};
	if (!j->payload && !j->tags)
		return DEFIB_OK;
	return queue_statements_run(s, &statements(s)->enqueue_data, params, a, NULL, f);
}

defib_err queue_statements_enqueue(struct store *s, const struct enqueue *j, struct arena *a,
                                   int64_t *id, struct failure *f)
{
	struct store_rows rows;
	struct store_param params[] = {
		P_TEXT(j->queue),
		P_TEXT(j->kind),
		P_TEXT(j->delay_ms > 0 ? "scheduled" : "queued"),
		P_INT(j->delay_ms),
		P_INT(j->priority),
		P_INT(j->max_attempts ? j->max_attempts : 5),
		j->timeout_ms ? P_INT(j->timeout_ms) : P_TEXT(NULL),
		P_TEXT(j->unique_key),
	};
	defib_err err = queue_statements_run(s, &statements(s)->enqueue, params, a, &rows, f);
	if (!err && rows.nrows == 1) {
		*id = row_int(&rows, 0, 0, 0);
		return insert_data(s, *id, j, a, f);
	}
	struct store_param unique[] = {P_TEXT(j->queue), P_TEXT(j->unique_key)};
	if (!err)
		err = queue_statements_run(s, &statements(s)->same_unique_key, unique, a, &rows, f);
	if (!err)
		*id = rows.nrows ? row_int(&rows, 0, 0, 0) : 0;
	return err;
}

/* ---- queries about one job ---- */

defib_err queue_statements_cancel(struct store *s, int64_t id, struct arena *a,
                                  struct store_rows *rows, struct failure *f)
{
	return queue_statements_run(s, &statements(s)->cancel, &P_INT(id), a, rows, f);
}

defib_err queue_statements_progress(struct store *s, int64_t worker, const char *key, int64_t epoch,
                                    const char *step, const char *text, bool *accepted,
                                    struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_param params[] = {P_INT(worker), P_TEXT(key), P_INT(epoch), P_TEXT(step),
	                               P_TEXT(text)};
	struct store_rows rows;
	defib_err err = queue_statements_run(s, &statements(s)->progress, params, &a, &rows, f);
	*accepted = !err && rows.nrows > 0 && row_bool(&rows, 0, 0);
	return err;
}

defib_err queue_statements_promote(struct store *s, int64_t most, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	const struct statements *all = statements(s);
	struct store_param param = P_INT(most);
	struct store_rows rows = {0};
	defib_err err = all->promote_look.sql
	                    ? queue_statements_run(s, &all->promote_look, NULL, &a, &rows, f)
	                    : DEFIB_OK;
	if (err || (all->promote_look.sql && rows.nrows == 0))
		return err;
	return queue_statements_run(s, &all->promote, &param, &a, NULL, f);
}

/* SPDX-License-Identifier: Apache-2.0
 * fault_test.h: a store that fails on purpose, at one chosen call.
 *
 * It wraps a real session and looks like one. `before`: the database never sees the call. `after`:
 * the database executes it and the successful reply is hidden, as when the reply to a COMMIT is
 * lost.
 *
 * A lost session ends its open transaction: the inner session is rolled back at that moment, as the
 * server would do, and stays usable for the test to see what was really done.
 */
#ifndef STORE_FAULT_TEST_H
#define STORE_FAULT_TEST_H

#include "store/store.h"

#include <assert.h>
#include <stdatomic.h>

enum fault_call { FAULT_EXEC, FAULT_BEGIN, FAULT_COMMIT };
#define FAULT_CALLS (FAULT_COMMIT + 1)
enum fault_when { FAULT_BEFORE, FAULT_AFTER };

struct fault_plan {
	enum fault_call call;
	int nth; /* 1: the first call of that kind; 0: never */
	enum fault_when when;
	defib_err code;
	bool lose; /* also lose the session; CONNECTION and UNKNOWN_OUTCOME always do */

	atomic_int seen[FAULT_CALLS]; /* calls so far, by kind and of all lanes */
	bool fired;
};

struct fault_store {
	struct store base;
	struct store *inner;
	struct fault_plan *plan;
};

static struct fault_store *fault_of(struct store *s)
{
	return (struct fault_store *)s;
}

static bool fault_due(struct fault_plan *plan, enum fault_call call)
{
	int seen = atomic_fetch_add(&plan->seen[call], 1) + 1;
	return plan->call == call && plan->nth == seen;
}

static defib_err fault_inject(struct fault_store *w, struct failure *f)
{
	defib_err code = w->plan->code;
	assert(code != DEFIB_OK);
	w->plan->fired = true;
	if (w->plan->lose || code == DEFIB_CONNECTION || code == DEFIB_UNKNOWN_OUTCOME) {
		store_rollback(w->inner);
		w->base.lost = true;
	}
	return fail(f, code, "%s: injected: %s", w->base.name, defib_err_text(code));
}

/* After the inner call: its own failure stands, its success may be hidden. */
static defib_err fault_answer(struct fault_store *w, bool hide, defib_err err, struct failure *f)
{
	w->base.lost = w->base.lost || w->inner->lost;
	return err == DEFIB_OK && hide ? fault_inject(w, f) : err;
}

static defib_err fault_exec(struct store *s, const char *sql, const struct store_param *params,
                            int nparams, struct arena *a, struct store_rows *rows,
                            struct failure *f)
{
	struct fault_store *w = fault_of(s);
	bool now = fault_due(w->plan, FAULT_EXEC);
	if (now && w->plan->when == FAULT_BEFORE)
		return fault_inject(w, f);
	return fault_answer(w, now, store_exec(w->inner, sql, params, nparams, a, rows, f), f);
}

static defib_err fault_describe(struct store *s, const char *sql, struct arena *a,
                                struct store_column **cols, int *ncols, struct failure *f)
{
	return fault_answer(fault_of(s), false,
	                    store_describe(fault_of(s)->inner, sql, a, cols, ncols, f), f);
}

static defib_err fault_begin(struct store *s, enum store_tx mode, struct failure *f)
{
	struct fault_store *w = fault_of(s);
	bool now = fault_due(w->plan, FAULT_BEGIN);
	if (now && w->plan->when == FAULT_BEFORE)
		return fault_inject(w, f);
	defib_err err = fault_answer(w, now, store_begin(w->inner, mode, f), f);
	if (err)
		store_rollback(w->inner);
	return err;
}

static defib_err fault_commit(struct store *s, struct failure *f)
{
	struct fault_store *w = fault_of(s);
	bool now = fault_due(w->plan, FAULT_COMMIT);
	if (now && w->plan->when == FAULT_BEFORE)
		return fault_inject(w, f);
	return fault_answer(w, now, store_commit(w->inner, f), f);
}

static void fault_rollback(struct store *s)
{
	store_rollback(fault_of(s)->inner);
}

static void fault_close(struct store *s)
{
	store_close(fault_of(s)->inner);
	free(s);
}

/* The wrapper owns `inner` and closes it; `plan` is the caller's and outlives it. */
static struct store *fault_wrap(struct store *inner, struct fault_plan *plan)
{
	static const struct store_ops ops = {
		.exec = fault_exec,
		.describe = fault_describe,
		.begin = fault_begin,
		.commit = fault_commit,
		.rollback = fault_rollback,
		.close = fault_close,
	};
	struct fault_store *w = mem_alloc(sizeof(*w));
	assert(inner && plan && !inner->in_tx);
	w->base = *inner;
	w->base.ops = &ops;
	w->inner = inner;
	w->plan = plan;
	return &w->base;
}

#endif

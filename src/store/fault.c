/* SPDX-License-Identifier: Apache-2.0
 * fault.c: injecting each class of failure before and after the database acts.
 *
 * A lost session takes its open transaction with it: the inner session is
 * rolled back at that moment, as the server would, and stays usable for the
 * test to look at what was really done.
 */
#include "store/fault.h"

#include <assert.h>

struct fault_store {
	struct store base;
	struct store *inner;
	struct fault_plan *plan;
};

static struct fault_store *of(struct store *s)
{
	return (struct fault_store *)s;
}

static bool due(struct fault_plan *plan, enum fault_call call)
{
	plan->seen[call]++;
	return plan->call == call && plan->nth == plan->seen[call];
}

static defib_err inject(struct fault_store *w, struct failure *f)
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
static defib_err answer(struct fault_store *w, bool hide, defib_err err, struct failure *f)
{
	w->base.lost = w->base.lost || w->inner->lost;
	return err == DEFIB_OK && hide ? inject(w, f) : err;
}

static defib_err fault_exec(struct store *s, const char *sql, const struct store_param *params,
                            int nparams, struct arena *a, struct store_rows *rows,
                            struct failure *f)
{
	struct fault_store *w = of(s);
	bool now = due(w->plan, FAULT_EXEC);

	if (now && w->plan->when == FAULT_BEFORE) {
		return inject(w, f);
	}
	return answer(w, now, store_exec(w->inner, sql, params, nparams, a, rows, f), f);
}

static defib_err fault_describe(struct store *s, const char *sql, struct arena *a,
                                struct store_column **cols, int *ncols, struct failure *f)
{
	return answer(of(s), false, store_describe(of(s)->inner, sql, a, cols, ncols, f), f);
}

static defib_err fault_begin(struct store *s, enum store_tx mode, struct failure *f)
{
	struct fault_store *w = of(s);
	bool now = due(w->plan, FAULT_BEGIN);

	if (now && w->plan->when == FAULT_BEFORE) {
		return inject(w, f);
	}
	defib_err err = answer(w, now, store_begin(w->inner, mode, f), f);
	if (err) {
		store_rollback(w->inner);
	}
	return err;
}

static defib_err fault_commit(struct store *s, struct failure *f)
{
	struct fault_store *w = of(s);
	bool now = due(w->plan, FAULT_COMMIT);

	if (now && w->plan->when == FAULT_BEFORE) {
		return inject(w, f);
	}
	return answer(w, now, store_commit(w->inner, f), f);
}

static void fault_rollback(struct store *s)
{
	store_rollback(of(s)->inner);
}

static void fault_close(struct store *s)
{
	store_close(of(s)->inner);
	free(s);
}

struct store *fault_wrap(struct store *inner, struct fault_plan *plan)
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/jobs.h"

#include "base/hash.h"

#include <assert.h>

const char **jobs_of(const char *const *first, size_t size, int n, struct arena *a)
{
	const char **jobs = ARENA_ARRAY(a, const char *, n + 1);
	for (int i = 0; i < n; i++)
		jobs[i] = *(const char *const *)((const char *)first + (size_t)i * size);
	return jobs;
}

/* The slot of a job, or where it would be. */
static unsigned jobs_slot_of(const struct job_index *x, const char *job)
{
	unsigned at = (unsigned)fnv1a(FNV_START, job, strlen(job)) & x->mask;
	while (x->slots[at] >= 0 && strcmp(x->jobs[x->slots[at]], job) != 0)
		at = (at + 1) & x->mask;
	return at;
}

void job_index_init(struct job_index *x, const char *const *jobs, int n, struct arena *a)
{
	unsigned size = 16;
	while (size < 2 * (unsigned)n)
		size *= 2;
	*x = (struct job_index){jobs, ARENA_ARRAY(a, int, size), size - 1};
	for (unsigned i = 0; i < size; i++)
		x->slots[i] = -1;
	for (int i = 0; i < n; i++) {
		unsigned at = jobs_slot_of(x, jobs[i]);
		if (x->slots[at] < 0)
			x->slots[at] = i;
	}
}

int job_index_find(const struct job_index *x, const char *job)
{
	assert(x->slots != NULL);
	return x->slots[jobs_slot_of(x, job)];
}

/* ---- statements over many jobs ---- */

defib_err ledger_lock(struct store *s, struct arena *a, struct failure *f)
{
	return store_dialect(s)->has_sequences ? store_exec(s, LEDGER_LOCK, NULL, 0, a, NULL, f)
	                                       : DEFIB_OK;
}

void jobs_relation(struct relation *r, enum store_engine engine, const char *watch,
                   const char *const *jobs, int n)
{
	relation_init(r, engine);
	r->brief = true;
	relation_column(r, "watch", "text");
	relation_column(r, "job", "text");
	for (int i = 0; i < n; i++) {
		relation_text(r, watch);
		relation_text(r, jobs[i]);
		relation_end_row(r);
	}
}

defib_err run_over(struct store *s, struct relation *r, const char *head, const char *tail,
                   const struct store_param *more, int nmore, struct arena *a,
                   struct store_rows *rows, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX + 4];
	AUTO_BUF sql = BUF_INIT;
	int n = relation_nparams(r);
	assert(nmore <= 4);
	buf_add(&sql, head);
	relation_select(r, 1, &sql);
	buf_add(&sql, tail);
	relation_params(r, params);
	for (int i = 0; i < nmore; i++)
		params[n++] = more[i];
	return dialect_exec(s, buf_text(&sql), params, n, a, rows, f);
}

defib_err drop_jobs(struct store *s, const char *table, const char *watch, const char *const *jobs,
                    int n, struct arena *a, struct failure *f)
{
	AUTO_RELATION r = {0};
	if (n == 0)
		return DEFIB_OK;
	const char *head = arena_printf(a, "DELETE FROM %s WHERE (watch, job) IN (", table);
	jobs_relation(&r, s->engine, watch, jobs, n);
	return run_over(s, &r, head, ")", NULL, 0, a, NULL, f);
}

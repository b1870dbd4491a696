/* SPDX-License-Identifier: Apache-2.0
 * source_chosen.c: see source.h. A table's source does everything except claims: for each
 * claim a new one is made that claims only the next jobs of the list.
 */

#include "worker/source_chosen.h"

#include "recover/look.h"
#include "store/sql.h"
#include "watch/lease_sql.h"
#include "worker/source_table.h"
#include "worker/source_table_settle.h"

#include <assert.h>

struct chosen_source {
	struct table_source table; /* for everything but claims */
	struct source_ops ops;     /* the table's, except for a few */
	struct chosen_options options;
	int offered;
	int64_t *claimed_ms; /* by job; written before its child starts, read at its end */
};

static struct chosen_source *chosen_of(struct source *src)
{
	return (struct chosen_source *)src;
}

static int chosen_position(const struct chosen_source *c, const char *job)
{
	int i = 0;
	while (i < c->options.n && !text_eq(c->options.jobs[i].job, job))
		i++;
	return i < c->options.n ? i : -1;
}

/* Keys are data; sessions have standard_conforming_strings, so a literal can hold any text. */
static void chosen_add_keys(const struct watch *w, const struct aged *jobs, int n, struct buf *out)
{
	for (int i = 0; i < n; i++)
		for (int k = 0; k < w->key.n; k++) {
			buf_add(out, k ? " AND t." : (i ? ") OR (t." : "(t."));
			sql_ident(out, w->key.items[k]);
			buf_add(out, " = ");
			sql_literal(out, jobs[i].key[k]);
		}
	buf_add(out, ")");
}

/* The watch as if only these jobs were ready. */
static struct watch narrowed(const struct watch *w, const struct aged *jobs, int n, struct arena *a)
{
	struct watch own = *w;
	AUTO_BUF ready = BUF_INIT, alive = BUF_INIT;
	buf_addf(&ready, "((%s) OR ((%s)", w->work.ready.text, w->running.text);
	sql_owner_alive(w, &alive);
	if (alive.len)
		buf_addf(&ready, " AND (%s) IS NOT TRUE", buf_text(&alive));
	buf_add(&ready, ")) AND (");
	chosen_add_keys(w, jobs, n, &ready);
	buf_add(&ready, ")");
	own.work.chosen.text = arena_strdup(a, buf_text(&ready));
	own.work.rollback_ready.text = NULL;
	own.work.batch = n;
	return own;
}

static void tell_not_claimed(const struct chosen_source *c, int from, int to,
                             const struct claimed *got, int ngot)
{
	for (int i = from; i < to; i++) {
		bool taken = false;
		for (int k = 0; k < ngot; k++)
			taken = taken || text_eq(got[k].key, c->options.jobs[i].job);
		if (!taken)
			c->options.not_claimed(c->options.ctx, c->options.jobs[i].job);
	}
}

static defib_err chosen_claim(struct source *src, struct store *s, int64_t worker, int64_t n,
                              struct arena *a, struct claimed **out, int *nout, struct failure *f)
{
	struct chosen_source *c = chosen_of(src);
	struct source *table = NULL;
	int64_t open = c->options.n - c->offered;
	int from = c->offered, most = (int)(n < open ? n : open);
	*nout = 0;
	if (most == 0)
		return DEFIB_OK;
	const struct watch own = narrowed(c->options.watch, c->options.jobs + from, most, a);
	defib_err err = source_table(&own, NULL, s, &table, f);
	if (err)
		return err;
	err = table->ops->claim(table, s, worker, most, a, out, nout, f);
	table->ops->free(table);
	if (err)
		return err;
	c->offered += most;
	for (int i = 0; i < *nout; i++) {
		int at = chosen_position(c, (*out)[i].key);
		assert(at >= from && at < from + most);
		c->claimed_ms[at] = clock_boot_ms();
	}
	tell_not_claimed(c, from, from + most, *out, *nout);
	/* If none could be claimed, try the next: an empty result would mean the end of the list. */
	return *nout == 0 ? chosen_claim(src, s, worker, n, a, out, nout, f) : DEFIB_OK;
}

static defib_err chosen_settle(struct source *src, struct store *s, int64_t worker,
                               struct settlement *all, int n, struct arena *a, struct failure *f)
{
	struct chosen_source *c = chosen_of(src);
	defib_err err = table_settle(src, s, worker, all, n, a, f);
	for (int i = 0; !err && i < n; i++) {
		int at = chosen_position(c, all[i].key);
		if (at >= 0)
			c->options.ended(c->options.ctx, &all[i], clock_boot_ms() - c->claimed_ms[at]);
	}
	return err;
}

/*
 * Claims and ends are reported at once, so each is committed by itself: a later failure must not
 * roll them back.
 */
static defib_err chosen_turn(struct source *src, struct store *s, struct turn_part *p,
                             struct arena *a, struct failure *f)
{
	int nends = p->nends;
	defib_err err = nends > 0 ? chosen_settle(src, s, p->worker, p->ends, nends, a, f) : DEFIB_OK;
	if (err)
		return err;
	p->nends = 0;
	err = source_turn_by_parts(src, s, p, a, f);
	p->nends = nends;
	if (!err || nends == 0)
		return err;
	/* The ends are recorded; a turn without ends will report what is wrong with claims. */
	fail_clear(f);
	return DEFIB_OK;
}

static void chosen_free(struct source *src)
{
	free(chosen_of(src)->claimed_ms);
	table_free(src);
}

defib_err source_chosen(const struct chosen_options *o, struct store *s, struct source **out,
                        struct failure *f)
{
	struct chosen_source *c = mem_alloc(sizeof *c);
	assert(o->n > 0);
	*out = NULL;
	defib_err err = table_open(&c->table, o->watch, NULL, s, f);
	if (err)
		return err;
	c->ops = *c->table.base.ops;
	c->ops.claim = chosen_claim;
	c->ops.settle = chosen_settle;
	c->ops.turn = chosen_turn;
	c->ops.free = chosen_free;
	c->table.base.ops = &c->ops;
	c->options = *o;
	c->claimed_ms = mem_alloc(sizeof *c->claimed_ms * (size_t)o->n);
	*out = &c->table.base;
	return DEFIB_OK;
}

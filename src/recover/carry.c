/* SPDX-License-Identifier: Apache-2.0 */
/* carry.c: see carry.h. */
#include "recover/carry.h"

#include "base/clock.h"

#include <unistd.h>

#define TRIES_MAX 4
#define TRIES_MS 8000 /* no new try after that: each may cost its own deadline */

#define BATCH_NAME 96

/* "20261115-084500-1a2b3c4d": readable in a ledger, unique by its random part. */
void carrier_begin(struct carrier *c, const char *actor)
{
	struct timespec now;
	struct tm tm;
	uint32_t tail = 0;
	c->actor = actor;
	c->transactions = 0;
	chance_seed(&c->chance);
	tail = (uint32_t)(c->chance.state >> 20);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	size_t n = strftime(c->name, sizeof c->name, "%Y%m%d-%H%M%S", &tm);
	snprintf(c->name + n, sizeof c->name - n, "-%08x", tail);
}

struct tries tries_begin(void)
{
	return (struct tries){clock_boot_ms(), 1};
}

bool try_again(struct carrier *c, struct tries *t, defib_err err)
{
	bool helps = err == DEFIB_LOCKED || err == DEFIB_CONNECTION || err == DEFIB_UNKNOWN_OUTCOME;
	if (!helps || t->n == TRIES_MAX || clock_boot_ms() - t->begun_ms > TRIES_MS)
		return false;
	usleep((useconds_t)(chance_draw(&c->chance) * 100000.0 * (1 << t->n)));
	t->n++;
	return true;
}

/*
 * A commit whose reply was lost is resolved by reading: the ledger has the
 * batch, or it was not done. Without a ledger the batch is simply applied
 * again: rows that were written are no longer as they were judged.
 */
static defib_err was_committed(struct carrier *c, const char *batch, bool *done, struct failure *f)
{
	if (!c->ledger->ready)
		return DEFIB_OK;
	return ledger_has_batch(c->session->store, batch, &c->arena, done, f);
}

/* One try. `unsure` names a batch that may have been committed, "" when there is none. */
static defib_err apply_once(struct carrier *c, struct candidate *batch, int n,
                            char unsure[BATCH_NAME], struct failure *f)
{
	char name[BATCH_NAME];
	bool done = false;
	defib_err err = session_ready(c->session, f);
	if (!err && unsure[0])
		err = was_committed(c, unsure, &done, f);
	if (err)
		return err;
	struct carrier *counts = c->chief ? c->chief : c;
	int part = __atomic_add_fetch(&counts->transactions, 1, __ATOMIC_RELAXED);
	snprintf(name, sizeof name, "%s.%d", c->name, part);
	if (c->opened != c->session->opened) {
		c->may_lock_signs = apply_may_lock_signs(c->session->store, c->sql);
		c->opened = c->session->opened;
	}
	struct apply ap = {c->session->store,
	                   c->sql,
	                   c->ledger,
	                   c->actor,
	                   name,
	                   c->may_lock_signs,
	                   c->chief ? c->first : part == 1};
	if (!done)
		err = apply_batch(&ap, batch, n, &c->arena, f);
	snprintf(unsure, BATCH_NAME, "%s", err == DEFIB_UNKNOWN_OUTCOME ? name : "");
	if (!err)
		apply_blockers(&ap, batch, n, &c->arena);
	return err;
}

static defib_err apply_with_tries(struct carrier *c, struct candidate *batch, int n,
                                  struct failure *f)
{
	struct tries t = tries_begin();
	char unsure[BATCH_NAME] = "";
	defib_err err;
	do {
		fail_clear(f);
		err = apply_once(c, batch, n, unsure, f);
	} while (err && try_again(c, &t, err));
	for (int i = 0; err && i < n; i++)
		if (batch[i].decision.act)
			batch[i].outcome = OUTCOME_LEFT;
	if (err && unsure[0]) {
		fail_prefix(f, "whether batch %s was committed is unknown", unsure);
		fail_next(f, "look for it in the ledger when the database is back");
		err = f->code = DEFIB_UNKNOWN_OUTCOME;
	}
	return err;
}

/* One bad row must not hold up the others. */
defib_err carry(struct carrier *c, struct candidate *batch, int n, struct arena *keep,
                struct failure *f)
{
	defib_err err = apply_with_tries(c, batch, n, f);
	if (!err || !store_blames_rows(f))
		return err;
	if (n == 1) {
		batch->outcome = OUTCOME_REFUSED;
		batch->refusal = arena_strdup(keep, f->what);
		fail_clear(f);
		return DEFIB_OK;
	}
	fail_clear(f);
	err = carry(c, batch, n / 2, keep, f);
	return err ? err : carry(c, batch + n / 2, n - n / 2, keep, f);
}

int acting_first(struct candidate *all, int n, struct arena *a)
{
	struct candidate *rest = ARENA_ARRAY(a, struct candidate, n);
	int acting = 0, nrest = 0;
	for (int i = 0; i < n; i++)
		if (all[i].outcome == OUTCOME_LEFT)
			all[acting++] = all[i];
		else
			rest[nrest++] = all[i];
	memcpy(all + acting, rest, sizeof *rest * (size_t)nrest);
	return acting;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "life/part.h"

#define FIRST_OF_ALL 3
#define FIRST_OF_HOST 2
#define SILENT_SHARE 500 /* thousandths of a lease: a live worker renews after a third */

void part_init(struct part *p)
{
	*p = (struct part){0};
}

static void release_member(struct part_member *m)
{
	free(m->serves);
}

void part_release(struct part *p)
{
	for (int i = 0; i < p->n; i++)
		release_member(&p->members[i]);
	free(p->members);
	*p = (struct part){0};
}

void part_self(struct part *p, int64_t id, const struct incarnation *who)
{
	p->self = id;
	p->self_who = *who;
}

static int part_place_of(const struct part *p, int64_t id)
{
	return place_by_id(p->members, sizeof *p->members, p->n, id);
}

bool part_knows(const struct part *p, int64_t id)
{
	int at = part_place_of(p, id);
	return at < p->n && p->members[at].id == id;
}

const char *part_serves(const struct part *p, int64_t id)
{
	return part_knows(p, id) ? p->members[part_place_of(p, id)].serves : NULL;
}

void part_forget(struct part *p, int64_t id)
{
	int at = part_place_of(p, id);
	if (at == p->n || p->members[at].id != id)
		return;
	release_member(&p->members[at]);
	p->n--;
	memmove(&p->members[at], &p->members[at + 1], sizeof *p->members * (size_t)(p->n - at));
}

static void part_add_member(struct part *p, const struct registered *r)
{
	int at = part_place_of(p, r->id);
	if (at < p->n && p->members[at].id == r->id)
		return;
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 16;
		p->members = mem_grow(p->members, sizeof *p->members * (size_t)p->cap);
	}
	memmove(&p->members[at + 1], &p->members[at], sizeof *p->members * (size_t)(p->n - at));
	p->members[at] = (struct part_member){.id = r->id,
	                                      .here = incarnation_same_host(&r->who, &p->self_who),
	                                      .who = r->who,
	                                      .serves = r->serves ? mem_strdup(r->serves) : NULL};
	p->n++;
}

static int part_row_of(const struct registered *rows, int n, int64_t id)
{
	int at = place_by_id(rows, sizeof *rows, n, id);
	return at < n && rows[at].id == id ? at : -1;
}

/* Whether a partial reading would have included it, if it existed. */
static bool would_show(const struct part *p, const struct registered *rows, int n, int64_t id)
{
	int at = part_row_of(rows, n, p->self);
	if (id <= rows[PART_SIDE - 1].id || id >= rows[n - PART_SIDE].id)
		return true;
	if (at < 0)
		return false;
	int from = at > PART_SIDE ? at - PART_SIDE : 0, to = at + PART_SIDE;
	return id >= rows[from].id && id <= rows[to < n ? to : n - 1].id;
}

struct part_seen part_look(struct part *p, const struct registered *rows, int n, bool whole)
{
	struct part_seen seen = {.whole = whole || n <= 2 * PART_SIDE};
	/* All of the last ones are new to us: there may be more between them and those we know. */
	seen.missed = !seen.whole && rows[n - PART_SIDE].id > p->highest;
	for (int i = p->n - 1; i >= 0; i--) {
		int64_t id = p->members[i].id;
		if (part_row_of(rows, n, id) >= 0 || (!seen.whole && !would_show(p, rows, n, id)))
			continue;
		seen.gone += id != p->self;
		part_forget(p, id);
	}
	for (int i = 0; i < n; i++)
		part_add_member(p, &rows[i]);
	if (n > 0 && rows[n - 1].id > p->highest && !seen.missed)
		p->highest = rows[n - 1].id;
	return seen;
}

/* The next worker of this host before (-1) or after (1) the position, around the ring. */
static int next_here(const struct part *p, int at, int step)
{
	do
		at = (at + step + p->n) % p->n;
	while (!p->members[at].here);
	return at;
}

int part_fellows(const struct part *p, int64_t *ids, struct incarnation *who)
{
	int self = part_place_of(p, p->self), n = 0, here = 0;
	for (int i = 0; i < p->n; i++)
		here += p->members[i].here && p->members[i].id != p->self;
	if (self == p->n || p->members[self].id != p->self || !p->members[self].here)
		return 0;
	for (int i = 0, before = self, after = self; i < PART_SIDE && n < here; i++) {
		const int both[] = {after = next_here(p, after, 1), before = next_here(p, before, -1)};
		for (int k = 0; k < 2 && n < here; k++) {
			ids[n] = p->members[both[k]].id;
			who[n++] = p->members[both[k]].who;
		}
	}
	return n;
}

int part_remote(const struct part *p, int64_t *ids)
{
	int n = 0;
	for (int i = 0; i < p->n; i++)
		if (!p->members[i].here && p->members[i].id != p->self)
			ids[n++] = p->members[i].id;
	return n;
}

bool part_reads_locks(const struct part *p)
{
	int before = 0, before_here = 0;
	for (int i = 0; i < p->n && p->members[i].id < p->self; i++) {
		before++;
		before_here += p->members[i].here;
	}
	return before < FIRST_OF_ALL || before_here < FIRST_OF_HOST;
}

bool part_sweeps(const struct part *p, const struct silence *s, const char *watch)
{
	for (int i = 0; i < p->n && p->members[i].id < p->self; i++) {
		const struct part_member *m = &p->members[i];
		bool recovers = m->serves && m->who.pid > 0 && silence_share(s, m->id) <= SILENT_SHARE;
		if (recovers && (!watch || serves_watch(m->serves, watch)))
			return false;
	}
	return true;
}

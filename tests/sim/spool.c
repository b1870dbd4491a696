/* SPDX-License-Identifier: Apache-2.0
 * spool.c: ends that a process could not record, on its disk, as worker/spooling.c treats them. An
 * end that could not be submitted waits; one that the database refuses is set aside.
 */
#include "sim.h"

#include "store/store.h"

#define ASIDE_US (5 * SECOND) /* sooner than worker/spooling.c, so that runs are short */

int job_of(const char *key)
{
	return (int)strtol(key, NULL, 10);
}

/* Those that wait, without those set aside. */
int64_t spool_waiting(const struct process *p, int pool)
{
	int64_t n = 0;
	for (int i = 0; i < p->nspool; i++)
		n += p->spool[i].job % POOLS == pool && !p->spool[i].aside;
	return n;
}

void spool_tell(struct sim *s, struct process *p)
{
	for (int i = 0; i < POOLS; i++)
		process_step(
			s, p,
			(struct engine_event){.kind = EVENT_WAITING, .pool = i, .count = spool_waiting(p, i)});
}

static void note_aside(struct sim *s, struct process *p, bool by_row)
{
	s->marks[MARK_aside] = true;
	p->aside_taken = p->aside_taken || !by_row;
}

/*
 * worker/spooling.c: an end that the server refuses is set aside, one that could not be submitted
 * waits.
 */
void spool_keep(struct sim *s, struct process *p, struct job *j, const struct failure *why)
{
	bool full = s->now < s->full_until[p->host], aside = why && !store_unavailable(why->code);
	aside = aside && !old(OLD_refused_end_waits);
	while (j) {
		struct job *next = j->queued;
		bool kept = !full && p->nspool < SPOOL_MOST;
		s->marks[MARK_full] |= full;
		if (kept) {
			check_spooled(s, p, j);
			p->spool[p->nspool++] = (struct end){.job = job_of(j->claim.key),
			                                     .pid = p->pid,
			                                     .worker = j->worker,
			                                     .epoch = j->claim.epoch,
			                                     .as = j->as,
			                                     .aside = aside};
			s->marks[MARK_spooled] = true;
			if (aside)
				note_aside(s, p, store_blames_rows(why));
			say(s, "process %d %s the end of job %s, epoch %lld, as %s", (int)(p - s->processes),
			    aside ? "sets aside" : "keeps", j->claim.key, (long long)j->claim.epoch,
			    settle_names[j->as]);
		}
		j->queued = NULL;
		process_step(s, p, (struct engine_event){.kind = EVENT_SPOOLED, .job = j, .yes = kept});
		j = next;
	}
	spool_tell(s, p);
}

void spool_add(const struct process *p, struct call *c)
{
	for (int i = 0; i < p->nspool; i++)
		if (c->pool < 0 || p->spool[i].job % POOLS == c->pool)
			c->spool[c->nspool++] = p->spool[i];
}

/* Ends that are set aside are offered now and then, besides the turns. */
bool spool_due(const struct sim *s, const struct process *p)
{
	for (int i = 0; s->now >= p->aside_us && i < p->nspool; i++)
		if (p->spool[i].aside)
			return true;
	return false;
}

void spool_offer(struct sim *s, struct process *p)
{
	struct call *c = call_begin(s, p, THREAD_TURN, CALL_ASIDE);
	c->pool = -1;
	p->aside_us = s->now + ASIDE_US;
	p->aside_taken = false;
	spool_add(p, c);
	call_send(s, c);
}

static struct end *spooled(struct process *p, const struct end *e)
{
	for (int i = 0; i < p->nspool; i++) {
		struct end *mine = &p->spool[i];
		if (mine->job == e->job && mine->worker == e->worker && mine->pid == e->pid &&
		    mine->epoch == e->epoch)
			return mine;
	}
	return NULL;
}

/* Processed ends leave the spool; refused ones are set aside. */
void spool_answered(struct sim *s, struct process *p, const struct call *c)
{
	for (int i = 0; i < c->nspool; i++) {
		struct end *e = spooled(p, &c->spool[i]);
		if (!e || c->spool[i].aside != (c->kind == CALL_ASIDE))
			continue;
		if (c->spool[i].refused || c->denied) {
			e->aside = true;
			note_aside(s, p, !c->denied);
			continue;
		}
		s->marks[e->aside ? MARK_aside_taken : MARK_drained] = true;
		s->marks[MARK_inherited] |= e->pid != p->pid;
		memmove(e, e + 1, sizeof *e * (size_t)(--p->nspool - (e - p->spool)));
	}
}

/* As turns_spool_forget() does. */
void spool_forget(struct sim *s, struct process *p, const struct call *c)
{
	int n = 0;
	for (int i = 0; i < p->nspool; i++) {
		const struct end *e = &p->spool[i];
		bool has = !e->aside || e->worker != c->claimer || e->job % POOLS != c->pool;
		for (int k = 0; k < c->nhas; k++)
			has = has || (c->has[k].job == e->job && c->has[k].epoch == e->epoch);
		s->marks[MARK_forgotten] |= !has;
		if (has)
			p->spool[n++] = *e;
	}
	p->nspool = n;
}

bool spool_has(const struct process *p, const struct call *c, const struct end *has)
{
	for (int i = 0; i < p->nspool; i++)
		if (p->spool[i].job == has->job && p->spool[i].worker == c->claimer &&
		    p->spool[i].epoch == has->epoch)
			return true;
	return false;
}

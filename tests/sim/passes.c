/* SPDX-License-Identifier: Apache-2.0
 * passes.c: a pass over the watched table, as recover/scan.c makes it for a daemon or for the sweep
 * of a worker. Overrides, judge, decide, guard and absence are the real ones.
 */
#include "ledger/overrides.h"
#include "recover/judge.h"
#include "sim.h"

void pass_init(struct sim *s, struct process *p)
{
	p->guard = guard_new(&s->watch);
	p->watch = &s->watch;
	p->factor = 1;
}

void pass_release(struct process *p)
{
	guard_free(p->guard);
	p->guard = NULL;
	arena_release(&p->arena);
}

static void set_factor(struct sim *s, struct process *p, double factor)
{
	if (p->factor == factor)
		return;
	arena_clear(&p->arena);
	p->factor = factor;
	p->watch = watch_raised(&s->watch, factor, &p->arena);
	guard_rules(p->guard, p->watch);
}

/* hear() of worker/sweeper.c, watch_loop_override() of daemon/watch_loop.c. */
void pass_hear(struct sim *s, struct process *p, const struct call *c)
{
	struct override all[2];
	int n = 0;
	if (c->paused)
		all[n++] = (struct override){.watch = "*", .name = "pause"};
	if (c->raised_by[0])
		all[n++] =
			(struct override){.watch = s->watch.name, .name = "raise", .value = c->raised_by};
	struct override_sum said = override_of(all, n, s->watch.name);
	if (p->kind == IS_WORKER && old(OLD_sweeps_ignore_overrides))
		said = (struct override_sum){.factor = 1};
	p->led = c->led;
	p->heard_us = c->heard_us;
	p->paused = said.paused;
	if (p->kind == IS_DAEMON)
		guard_pause(p->guard, said.paused);
	set_factor(s, p, said.factor);
}

bool pass_begin(struct sim *s, struct process *p, const struct call *c)
{
	struct census_row census[WATCHED];
	char names[WATCHED][16];
	int n = 0;
	for (int i = 0; i < c->nseen; i++) {
		int k = 0;
		(void)snprintf(names[n], sizeof names[n], "p%d", c->seen[i].as.owner);
		while (k < n && !text_eq(names[k], names[n]))
			k++;
		if (k == n)
			census[n++] = (struct census_row){.owner = names[k], .sign_us = c->seen[i].as.sign_us};
		else if (census[k].sign_us < c->seen[i].as.sign_us)
			census[k].sign_us = c->seen[i].as.sign_us;
	}
	say(s, "process %d looks at %d rows of the watched table, now %.4f%s", (int)(p - s->processes),
	    c->nseen, (double)(c->now_us % (100000 * SECOND)) / SECOND,
	    p->kind == IS_DAEMON && p->passes ? ", leading" : "");
	p->first_us = p->first_us ? p->first_us : c->now_us;
	absence_state(&p->absence, s->backends[c->backend].timeline);
	absence_read(&p->absence, c->backend, c->now_us, boot_us(s, p));
	guard_begin(p->guard, &p->absence.doubt, c->now_us, boot_us(s, p), census, n, false);
	return all_fell_silent(s, p, c);
}

static void mark_held(struct sim *s, const struct process *p, enum guard_by by)
{
	s->marks[MARK_sweep_held_back] |= p->kind == IS_WORKER && by != GUARD_PASS;
	if (p->kind == IS_WORKER)
		return;
	s->marks[MARK_daemon_doubt] |= by == GUARD_DOUBT;
	s->marks[MARK_daemon_look] |= by == GUARD_LOOK;
	s->marks[MARK_daemon_brake] |= by == GUARD_BRAKE;
	s->marks[MARK_daemon_paused] |= by == GUARD_PAUSED;
}

static bool is_let(struct sim *s, struct process *p, const struct call *c, struct seen *one)
{
	static const struct decide_options with_ledger = {.ledger = true};
	char texts[2][16];
	struct facts f = watched_facts(s, one, c->now_us, texts);
	struct judgement j = judge(p->watch, &f);
	bool dead = j.verdict == VERDICT_DEAD || j.verdict == VERDICT_ORPHAN;
	if (j.verdict == VERDICT_NONE || (p->kind == IS_WORKER && p->sweep.dead_only && !dead))
		return false;
	struct decision d = decide(p->watch, &f, &j, &with_ledger);
	if (!d.act)
		return false;
	one->remedy = d.remedy;
	if (p->kind == IS_WORKER && old(OLD_sweeps_unguarded))
		return true;
	enum guard_by by = guard_ask(p->guard, &f, &j).by;
	mark_held(s, p, by);
	return by == GUARD_PASS;
}

void pass_judge(struct sim *s, struct process *p, const struct call *c, bool silent,
                struct call *next)
{
	const struct gone_suspect *gone;
	int ngone;
	for (int i = 0; i < c->nseen; i++) {
		struct seen one = c->seen[i];
		if (!is_let(s, p, c, &one))
			continue;
		next->seen[next->nseen++] = one;
		if (silent)
			broken(s, "all fell silent at once, and their jobs were taken");
	}
	guard_end(p->guard, &gone, &ngone);
	next->now_us = c->now_us;
	next->heard_us = p->heard_us;
}

void pass_applied(struct process *p, const struct call *c)
{
	int64_t written = 0;
	for (int i = 0; i < c->nseen; i++) {
		written += c->seen[i].written && !c->failed;
		if (c->failed || !c->seen[i].written)
			guard_give_back(p->guard);
	}
	guard_batch(p->guard, written, MS, c->failed);
}

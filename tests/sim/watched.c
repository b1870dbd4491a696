/* SPDX-License-Identifier: Apache-2.0
 * watched.c: a user's table, which daemons watch. Its workers write their heartbeat into their row
 * and have no fencing: a worker that was declared dead still finishes. An operator holds, releases,
 * requeues and undoes.
 */
#include "sim.h"

#define BEAT_US (500 * MS)
#define LATE_BEAT_US (750 * MS) /* less often than configured: a guard allows for two beats */
#define STUCK_US (3 * SECOND)
#define RETRY_US (50 * MS)
#define BACKOFF_US (700 * MS) /* longer than a beat: only the second look finds them stuck */
#define IDLE_US (200 * MS)
#define ATTEMPTS 2

void watched_draw(struct sim *s)
{
	bool has = roll(s, 3) == 0;
	int daemons = 1 + (int)roll(s, DAEMONS), foreign = 1 + (int)roll(s, FOREIGN);
	/*
	 * With a limit above the number of owners it never engages: then the other guards must suffice.
	 */
	static const int64_t ceilings[] = {10, 20, 60}, brakes[] = {2, 1000};
	s->sweeps = roll(s, 2) && has;
	bool led = !s->sweeps || roll(s, 2);
	s->ndaemons = has && led ? daemons : 0;
	s->backoff_us = roll(s, 2) ? BACKOFF_US : RETRY_US;
	s->beat_us = roll(s, 2) ? LATE_BEAT_US : BEAT_US;
	s->nforeign = has ? foreign : 0;
	s->watch.name = "watched";
	s->watch.alive_at.text = "alive_at";
	s->watch.owner.text = "owner";
	s->watch.attempts.text = "attempts";
	s->watch.max_attempts.text = "max_attempts";
	s->watch.beat_us = BEAT_US;
	s->watch.every_us = SECOND;
	s->watch.stuck_after = (struct threshold){.given = true, .standard_us = STUCK_US};
	s->watch.actions[REMEDY_REQUEUE].form = ACTION_SET;
	s->watch.guard = (struct guard_limits){.brake_share = 0.55,
	                                       .brake_owners = brakes[roll(s, 2)],
	                                       .brake_ceiling_us = ceilings[roll(s, 3)] * SECOND,
	                                       .pace_per_s = 50,
	                                       .pace_burst = 100};
	for (int i = 0; i < WATCHED && has; i++)
		s->db.watched[i].state = ROW_READY;
}

struct facts watched_facts(const struct sim *s, const struct seen *one, int64_t now_us,
                           char text[2][16])
{
	const struct watched *r = &one->as;
	(void)s;
	(void)snprintf(text[0], 16, "%d", one->row);
	(void)snprintf(text[1], 16, "p%d", r->owner);
	return (struct facts){.job = text[0],
	                      .owner = text[1],
	                      .running = r->state == ROW_RUNNING,
	                      .owner_alive = KNOWN_NOT,
	                      .has_attempts = true,
	                      .attempts = r->attempts,
	                      .has_max_attempts = true,
	                      .max_attempts = ATTEMPTS,
	                      .has_sign[SIGN_ALIVE] = true,
	                      .sign_us[SIGN_ALIVE] = r->sign_us,
	                      .hold = r->held ? HOLD_STATE_OPERATOR : HOLD_STATE_NONE,
	                      .released = r->released,
	                      .now_us = now_us};
}

/* ---- what statements do ---- */

static void do_hear(struct sim *s, struct call *c)
{
	c->started_us = s->started_us;
	c->heard_us = s->now;
	c->paused = s->db.paused_us != 0;
	if (s->db.raised_us)
		memcpy(c->raised_by, s->db.raised_by, sizeof c->raised_by);
	c->led = s->db.leader && server_us(s) <= s->db.leads_until_us;
}

static void do_lead(struct sim *s, struct call *c)
{
	int64_t now_us = server_us(s);
	if (s->db.leader != c->pid && now_us <= s->db.leads_until_us)
		return;
	s->marks[MARK_took_over] |= s->db.leader && s->db.leader != c->pid;
	s->db.leader = c->pid;
	s->db.leads_until_us = now_us + LEADER_LEASE_MS * 1000;
	c->yes = true;
}

static void do_look_at_all(struct sim *s, struct call *c)
{
	c->now_us = server_us(s);
	for (int i = 0; i < WATCHED; i++)
		if (s->db.watched[i].state == ROW_RUNNING)
			c->seen[c->nseen++] = (struct seen){.row = i, .as = s->db.watched[i]};
}

/*
 * I7: a live worker that has the job and could beat keeps it. A daemon that starts after the
 * server's clock has jumped cannot distinguish it from a stale backlog: guard/guard.c.
 */
static void check_taken(struct sim *s, const struct call *c, int row, const struct watched *r)
{
	const struct process *v = process_of_pid(s, r->owner), *d = process_of_pid(s, c->pid);
	if (!d || r->sign_us + STUCK_US < d->first_us)
		return;
	/*
	 * One late beat is not enough: silence must be seen twice, one beat apart, or could have been.
	 */
	if (c->now_us - r->sign_us < STUCK_US + BEAT_US)
		broken(s, "a job was taken at the first look");
	if (!v || v->row != row || v->claim != r->claim)
		return;
	/* After an outage it has two beats to be heard, and no longer. */
	bool soon = s->now < s->disturbed_us + STUCK_US + 2 * BEAT_US;
	if (unable_us(s, v) < (soon ? BEAT_US : STUCK_US - 2 * BEAT_US))
		broken(s, "I7: a job was taken from a worker that lives and beats");
}

/* Overrides that were in force when they were read, and still are. */
static void check_overrides(struct sim *s, const struct call *c, const struct watched *r)
{
	double factor = strtod(s->db.raised_by, NULL);
	if (s->db.paused_us && s->db.paused_us <= c->heard_us)
		broken(s, "a job of a paused watch was taken");
	if (s->db.raised_us && s->db.raised_us <= c->heard_us &&
	    (double)(c->now_us - r->sign_us) < (double)STUCK_US * factor)
		broken(s, "a job was taken before its raised threshold");
}

static void write_one(struct sim *s, struct call *c, struct seen *one)
{
	struct watched *r = &s->db.watched[one->row];
	struct seen now = {.row = one->row, .as = *r};
	char texts[2][2][16];
	struct facts judged = watched_facts(s, one, c->now_us, texts[0]);
	struct facts is = watched_facts(s, &now, server_us(s), texts[1]);
	/* As bar_held() of recover/apply.c: a hold is not a fact of the row. */
	bool held = r->held && !one->as.held;
	s->marks[MARK_held_meanwhile] |= held;
	one->written = facts_same(&s->watch, &judged, &is) && !held;
	s->marks[MARK_daemon_changed] |= !one->written;
	if (!one->written)
		return;
	say(s, "process %d: %s row %d of p%d", c->process, remedy_names[one->remedy], one->row,
	    r->owner);
	if (r->held)
		broken(s, "a job that an operator holds was taken");
	check_overrides(s, c, r);
	check_taken(s, c, one->row, r);
	if (one->remedy == REMEDY_HOLD) {
		r->held = true;
		s->marks[MARK_daemon_held] = true;
		return;
	}
	s->marks[s->processes[c->process].kind == IS_WORKER ? MARK_sweep_recovered
	                                                    : MARK_daemon_recovered] = true;
	*r = (struct watched){.state = ROW_READY,
	                      .attempts = r->attempts,
	                      .undo_owner = r->owner,
	                      .undo_sign_us = r->sign_us};
}

bool all_fell_silent(struct sim *s, struct process *p, const struct call *c)
{
	int silent = 0, owners = 0;
	int64_t least_us = INT64_MAX, most_us = 0;
	bool disturbed = p->disturbed != p->absence.doubt.total;
	p->disturbed = p->absence.doubt.total;
	if (disturbed)
		memset(p->fresh, 0, sizeof p->fresh);
	for (int i = 0; i < c->nseen; i++) {
		int64_t sign_us = c->seen[i].as.sign_us, *fresh = &p->fresh[c->seen[i].row];
		int64_t *old = &p->silent[c->seen[i].row];
		bool is_old = c->now_us - sign_us > STUCK_US;
		bool is_fresh = !is_old && *old != sign_us;
		silent += is_old && *fresh == sign_us;
		*old = is_old ? sign_us : *old;
		int k = 0; /* one may have lost the reply to a claim, and have another row */
		while (c->seen[k].as.owner != c->seen[i].as.owner)
			k++;
		owners += k == i;
		*fresh = is_fresh ? sign_us : *fresh;
		least_us = sign_us < least_us ? sign_us : least_us;
		most_us = sign_us > most_us ? sign_us : most_us;
	}
	/* None is held for longer than the ceiling; the first of them may be for that long. */
	return silent == c->nseen && owners > s->watch.guard.brake_owners &&
	       most_us - least_us <= STUCK_US &&
	       c->now_us - least_us - STUCK_US < s->watch.guard.brake_ceiling_us;
}

static void do_apply(struct sim *s, struct call *c)
{
	int leading = 0;
	for (int i = 0; i < DAEMONS; i++)
		leading += s->processes[PROCESSES + i].exists && s->processes[PROCESSES + i].leads;
	s->marks[MARK_two_lead] |= leading > 1;
	for (int i = 0; i < c->nseen; i++)
		write_one(s, c, &c->seen[i]);
}

static void do_foreign(struct sim *s, struct call *c)
{
	struct process *p = process_of_pid(s, c->pid);
	struct watched *r = &s->db.watched[c->row >= 0 ? c->row : 0];
	if (c->foreign == FOREIGN_CLAIM) {
		int i = 0;
		while (i < WATCHED && s->db.watched[i].state != ROW_READY)
			i++;
		c->row = i < WATCHED ? i : -1;
		if (c->row < 0)
			return;
		r = &s->db.watched[i];
		*r = (struct watched){.state = ROW_RUNNING,
		                      .owner = c->pid,
		                      .claim = c->claim = ++s->serial,
		                      .sign_us = server_us(s),
		                      .attempts = r->attempts + 1};
	} else if (c->foreign == FOREIGN_BEAT && r->state == ROW_RUNNING) {
		r->sign_us = server_us(s);
		r->released = false;
	} else if (c->foreign == FOREIGN_DONE) {
		s->marks[MARK_late_done] |= r->owner != c->pid;
		*r = (struct watched){.state = ROW_FINAL};
	}
	say(s, "p%d: %s row %d, sign %.4f", c->pid,
	    c->foreign == FOREIGN_CLAIM  ? "claims"
	    : c->foreign == FOREIGN_BEAT ? "beats"
	                                 : "finishes",
	    c->row, (double)(server_us(s) % (100000 * SECOND)) / SECOND);
	if (p) {
		p->unable_us = 0;
		p->unable_since = p->unable_since ? s->now : 0;
	}
}

void watched_execute(struct sim *s, struct call *c)
{
	if (c->kind == CALL_HEAR || c->kind == CALL_LEAD)
		do_hear(s, c);
	if (c->kind == CALL_HEAR)
		return;
	if (c->kind == CALL_LEAD)
		do_lead(s, c);
	else if (c->kind == CALL_LOOK)
		do_look_at_all(s, c);
	else if (c->kind == CALL_APPLY)
		do_apply(s, c);
	else
		do_foreign(s, c);
}

/* ---- its workers ---- */

void foreign_go(struct sim *s, struct process *p)
{
	if (p->threads[THREAD_SWEEP].call)
		return;
	bool over = p->row >= 0 && s->now >= p->ends_us;
	if (p->row >= 0 && !over && s->now < p->beat_us) {
		int64_t next = p->beat_us < p->ends_us ? p->beat_us : p->ends_us;
		process_wake_in(s, p, THREAD_SWEEP, next - s->now);
		return;
	}
	struct call *c = call_begin(s, p, THREAD_SWEEP, CALL_FOREIGN);
	c->foreign = p->row < 0 ? FOREIGN_CLAIM : over ? FOREIGN_DONE : FOREIGN_BEAT;
	c->row = p->row;
	call_send(s, c);
}

void foreign_answered(struct sim *s, struct process *p, const struct call *c)
{
	bool idle = false;
	if (c->failed) {
		bool down = s->now < s->down_until + RETRY_US;
		process_wake_in(s, p, THREAD_SWEEP, down ? s->backoff_us : RETRY_US);
		return;
	}
	if (c->foreign == FOREIGN_CLAIM) {
		p->row = c->row;
		p->claim = c->claim;
		p->ends_us = s->now + about(s, s->healed ? SECOND : 3 * SECOND);
		idle = c->row < 0;
	} else if (c->foreign == FOREIGN_DONE) {
		p->row = -1;
	}
	p->beat_us = s->now + s->beat_us;
	if (idle)
		process_wake_in(s, p, THREAD_SWEEP, IDLE_US);
	else
		foreign_go(s, p);
}

/* ---- an operator ---- */

static void act_on(struct sim *s, int row, uint64_t act)
{
	struct watched *r = &s->db.watched[row];
	if (act == 0 && r->state == ROW_RUNNING && !r->held) {
		r->held = true;
		s->marks[MARK_operator_held] = true;
	} else if (act == 1 && r->held) {
		r->held = false;
		r->released = true;
		s->marks[MARK_operator_released] = true;
	} else if (act == 2 && r->state == ROW_RUNNING) {
		*r = (struct watched){.state = ROW_READY, .attempts = r->attempts};
		s->marks[MARK_operator_requeued] = true;
	} else if (act == 3 && r->state == ROW_READY && r->undo_owner) {
		*r = (struct watched){.state = ROW_RUNNING,
		                      .owner = r->undo_owner,
		                      .sign_us = r->undo_sign_us,
		                      .attempts = r->attempts,
		                      .held = true};
		s->marks[MARK_operator_undid] = true;
	}
}

static bool any_stuck(const struct sim *s)
{
	for (int i = 0; i < WATCHED; i++)
		if (s->db.watched[i].state == ROW_RUNNING &&
		    server_us(s) - s->db.watched[i].sign_us > STUCK_US)
			return true;
	return false;
}

static void override(struct sim *s, uint64_t act)
{
	static const char *const factors[] = {"3", "6"};
	if (act == 0) {
		s->db.paused_us = s->db.paused_us ? 0 : s->now;
		s->marks[MARK_operator_paused] |= s->db.paused_us && any_stuck(s);
	} else if (act == 1) {
		s->db.raised_us = s->db.raised_us ? 0 : s->now;
		(void)snprintf(s->db.raised_by, sizeof s->db.raised_by, "%s", factors[roll(s, 2)]);
		s->marks[MARK_operator_raised] |= s->db.raised_us != 0;
	}
	if (act < 2)
		say(s, "the watch is %s, its threshold %s", s->db.paused_us ? "paused" : "not paused",
		    s->db.raised_us ? s->db.raised_by : "as configured");
}

void operator_acts(struct sim *s)
{
	if (s->now < s->down_until || s->now < s->readonly_until)
		return;
	if (s->nforeign)
		override(s, roll(s, 4));
	for (int i = 0; i < WATCHED; i++)
		if (roll(s, 2))
			act_on(s, i, roll(s, 4));
	/* The worst moment: a daemon has decided, and has not written yet. */
	for (int i = 0; i < PROCESSES + DAEMONS; i++) {
		const struct call *c = s->processes[i].threads[THREAD_SWEEP].call;
		for (int k = 0; c && c->kind == CALL_APPLY && k < c->nseen; k++)
			act_on(s, c->seen[k].row, 0);
	}
}

/* A held job waits for an operator forever. */
bool watched_final(const struct sim *s)
{
	for (int i = 0; i < WATCHED && s->nforeign; i++)
		if (s->db.watched[i].state != ROW_FINAL && !s->db.watched[i].held)
			return false;
	return true;
}

/* SPDX-License-Identifier: Apache-2.0
 * trouble.c: faults. A seed draws which kinds of fault it has, how often they occur and how long
 * they last; so some runs have one kind often, others many at once.
 */
#include "sim.h"

static bool is_cut(const struct sim *s, enum fault kind)
{
	return s->cuts.without >> kind & 1;
}

static void next_trouble(struct sim *s, enum fault kind)
{
	if (s->mean_us[kind] && !s->healed)
		after(s, about(s, s->mean_us[kind]), EV_TROUBLE, -1)->number = kind;
}

/* Random numbers are also drawn for what is left out, so that the rest does not change. */
static void draw_faults(struct sim *s)
{
	static const double most[RATE_FAULTS] = {
		[FAULT_error] = 0.2, [FAULT_lost_reply] = 0.2, [FAULT_late] = 0.1};
	for (int i = 0; i < RATE_FAULTS; i++) {
		bool has = roll(s, 2);
		double rate = most[i] * (double)roll(s, 1000) / 1000;
		has = has && !s->fair && !is_cut(s, (enum fault)i);
		s->rates[i] = has ? s->calm ? rate / 50 : rate : 0;
	}
	for (int i = RATE_FAULTS; i < FAULTS; i++) {
		bool has = roll(s, s->safety ? 2 : 3) == 0;
		int64_t mean_us = SECOND / 2 << (roll(s, 4) + (s->calm ? 3 : 0));
		s->mean_us[i] = has && !s->fair && !is_cut(s, (enum fault)i) ? mean_us : 0;
	}
}

void trouble_draw(struct sim *s)
{
	static const int64_t leases[] = {1500, 3000, 5000}, brakes[] = {20000, 20000, -1, -1, 0};
	s->nprocesses = 2 + (int)roll(s, PROCESSES - 1);
	s->lease_ms = leases[roll(s, 3)];
	s->brake_ms = brakes[roll(s, 5)];
	s->latency_us = 200 + (int64_t)roll(s, 3000);
	s->run_us = MS << roll(s, 12);
	s->linger_us = MS << roll(s, 13);
	s->pause_us = s->lease_ms * 200 << roll(s, 4);
	s->sweep_us = roll(s, 4) == 0 ? s->lease_ms * 500 : 0;
	s->keeps_refusing = roll(s, 2);
	for (int i = 0; i < HOSTS; i++)
		s->boot_us[i] = (int64_t)roll(s, 1000) * SECOND;
	watched_draw(s);
	draw_faults(s);
	for (int i = RATE_FAULTS; i < FAULT_stay; i++) {
		uint64_t others = s->random;
		s->random = s->streams[i];
		next_trouble(s, (enum fault)i);
		s->streams[i] = s->random;
		s->random = others;
	}
}

int64_t unable_us(const struct sim *s, const struct process *p)
{
	return p->unable_us + (p->unable_since ? s->now - p->unable_since : 0);
}

static bool is_unable(const struct sim *s, const struct process *p)
{
	return p->exists && (p->paused_until > s->now || p->hung || !reachable(s, p));
}

void note_unable(struct sim *s, struct process *p)
{
	bool unable = is_unable(s, p);
	if (unable && !p->unable_since)
		p->unable_since = s->now;
	if (unable || !p->unable_since)
		return;
	p->unable_us += s->now - p->unable_since;
	p->unable_since = 0;
	p->unable_end = s->now;
}

void trouble_resume(struct sim *s, int i)
{
	note_unable(s, &s->processes[i]);
}

static void pause_process(struct sim *s, int i)
{
	struct process *p = &s->processes[i];
	int64_t us = about(s, s->pause_us);
	if (!p->exists)
		return;
	say(s, "process %d is stopped for %lld ms", i, (long long)(us / 1000));
	if (p->paused_until < s->now + us)
		p->paused_until = s->now + us;
	s->marks[MARK_long_pause] |= p->nruns > 0 && us > s->lease_ms * 1000;
	note_unable(s, p);
	after(s, us, EV_RESUME, i);
}

/* Packets vanish, without an error. */
static void cut_off(struct sim *s, int host)
{
	int64_t us = about(s, s->pause_us);
	say(s, "host %d is cut off for %lld ms", host, (long long)(us / 1000));
	if (s->cut_until[host] < s->now + us)
		s->cut_until[host] = s->now + us;
	for (int i = 0; i < ALL; i++)
		if (s->processes[i].exists && s->processes[i].host == host) {
			note_unable(s, &s->processes[i]);
			after(s, us, EV_RESUME, i);
			s->marks[MARK_long_cut] |= s->processes[i].nruns > 0 && us > s->lease_ms * 1000;
		}
}

static void disturb(struct sim *s, int64_t until)
{
	s->disturbed_from = s->now > s->disturbed_us ? s->now : s->disturbed_from;
	s->disturbed_us = s->disturbed_us > until ? s->disturbed_us : until;
}

static void go_down(struct sim *s, int64_t us)
{
	s->down_until = s->now + us;
	disturb(s, s->down_until);
	s->started_us = server_us(s) + us;
	backends_end(s);
}

static void mark_lost(struct sim *s, const struct tables *copy)
{
	for (int i = 0; i < JOBS; i++) {
		const struct row *now = &s->db.jobs[i], *old = &copy->jobs[i];
		s->marks[MARK_lost_claim] |= now->epoch > old->epoch;
		s->marks[MARK_lost_end] |= now->last_epoch > old->last_epoch;
		s->marks[MARK_lost_job] |= now->state != ROW_NONE && old->state == ROW_NONE;
	}
	s->marks[MARK_lost_worker] |= s->db.nworkers > copy->nworkers;
}

static void fail_over(struct sim *s)
{
	int back = (int)roll(s, (uint64_t)s->ncopies);
	int from = (s->copy + COPIES - back) % COPIES;
	const struct tables *copy = &s->copies[from];
	int64_t ids = s->db.ids;
	say(s, "failover, %d copies back", back);
	s->marks[MARK_fail_over] = true;
	mark_lost(s, copy);
	s->db = *copy;
	/*
	 * A sequence writes ahead by 32: it is usually ahead of the assigned ids; otherwise ids repeat.
	 */
	if (roll(s, 2))
		s->db.ids = ids;
	s->timeline++;
	/* An operator's word that was lost, or is back, counts from now on. */
	s->db.paused_us = s->db.paused_us ? s->now : 0;
	s->db.raised_us = s->db.raised_us ? s->now : 0;
	sqlite_restore(s, from);
	for (int i = 0; i < s->ntruths; i++)
		s->truths[i].given_up = true;
	go_down(s, about(s, SECOND));
	for (int i = 0; i < JOBS; i++)
		s->last_epoch[i] = s->db.jobs[i].epoch;
	for (int i = 0; i < JOBS; i++)
		if (s->db.jobs[i].state == ROW_NONE && s->enqueued[i]) {
			/* An acknowledged enqueue that was not replayed is lost: the client sends it again. */
			s->enqueued[i] = false;
			after(s, 2 * SECOND, EV_ENQUEUE, -1)->number = i;
		}
	s->copies[s->copy] = s->db;
	sqlite_keep(s, s->copy);
	s->ncopies = 1;
}

static bool anybody_runs(const struct sim *s)
{
	for (int i = 0; i < s->nprocesses; i++)
		if (s->processes[i].exists && s->processes[i].nruns > 0)
			return true;
	return false;
}

static void move_clock(struct sim *s)
{
	static const int64_t steps[] = {-7200, -60, -6, 6, 60, 86400};
	int64_t step = steps[roll(s, 6)];
	/*
	 * A sign of life from a clock that was set back is accepted until that time is reached again;
	 * two jumps that cancel each other between two looks are not seen.
	 */
	if (s->nforeign > 0)
		step = s->seed / 2 % 2 ? -6 : step < 0 ? -step : step;
	disturb(s, s->now);
	s->back_us += step < 0 ? -step * SECOND : 0;
	say(s, "the server's clock jumps by %lld s", (long long)step);
	s->marks[step > 0 ? MARK_clock_forward : MARK_clock_back] |= anybody_runs(s);
	s->clock_us += step * SECOND;
}

/* Statements sent meanwhile are executed when it is over. */
static void stall(struct sim *s, int64_t us)
{
	if (s->stalled_until < s->now + us)
		s->stalled_until = s->now + us;
	disturb(s, s->stalled_until);
}

/*
 * As when a hypervisor stops both: a process that continues then has seen no failed call, while the
 * others could not write.
 */
static void freeze(struct sim *s, int i)
{
	int64_t us = about(s, s->lease_ms * 1000), before = about(s, 5 * MS);
	struct process *p = &s->processes[i];
	if (!p->exists || us <= before)
		return;
	say(s, "process %d and the server are stopped for %lld ms", i, (long long)(us / 1000));
	if (p->paused_until < s->now + us)
		p->paused_until = s->now + us;
	note_unable(s, p);
	after(s, us, EV_RESUME, i);
	s->marks[MARK_frozen] |= us > s->lease_ms * 1000;
	if (roll(s, 2))
		go_down(s, us - before);
	else
		stall(s, us - before);
}

/* Any process: a worker, a daemon or one of the watched table's. */
static int any_process(struct sim *s)
{
	int i = (int)roll(s, (uint64_t)(s->nprocesses + s->ndaemons + s->nforeign));
	if (i < s->nprocesses)
		return i;
	i -= s->nprocesses;
	return PROCESSES + (i < s->ndaemons ? i : DAEMONS + i - s->ndaemons);
}

/* One session, or all of a process. */
static void terminate_some(struct sim *s)
{
	int64_t open[64], n = 0;
	int of = any_process(s);
	for (int64_t i = 1; i < s->nbackends && n < 64; i++)
		if (s->backends[i].open)
			open[n++] = i;
	if (n > 0 && roll(s, 2))
		backend_end(s, open[roll(s, (uint64_t)n)], true);
	else
		for (int i = 0; i < n; i++)
			if (s->backends[open[i]].process == of)
				backend_end(s, open[i], true);
}

static void mark_crash(struct sim *s, const struct process *p)
{
	const struct call *life = p->threads[THREAD_LIFE].call, *turn = p->threads[THREAD_TURN].call;
	enum life_do does = life ? life->action.what : LIFE_WAIT;
	s->marks[MARK_crash_registering] |= does == LIFE_REGISTER;
	s->marks[MARK_crash_renewing] |= does == LIFE_RENEW;
	s->marks[MARK_crash_declaring] |= does == LIFE_DECLARE;
	s->marks[MARK_crash_claiming] |= turn && turn->room > 0;
	s->marks[MARK_crash_settling] |= turn && turn->nends > 0;
	s->marks[MARK_crash_draining] |= turn && turn->drain && turn->nspool > 0;
	s->marks[MARK_crash_recovering] |= p->threads[THREAD_SWEEP].call != NULL;
	s->marks[MARK_crash_running] |= p->nruns > 0;
}

static void crash(struct sim *s, int i)
{
	if (!s->processes[i].exists)
		return;
	say(s, "process %d is killed", i);
	mark_crash(s, &s->processes[i]);
	process_end(s, i);
	after(s, about(s, SECOND), EV_RESTART, i);
}

static void happens(struct sim *s, enum fault kind)
{
	int i = any_process(s), host = (int)roll(s, HOSTS);
	int64_t us = about(s, s->lease_ms * 1000);
	next_trouble(s, kind);
	if (kind == FAULT_crash) {
		crash(s, i);
	} else if (kind == FAULT_pause) {
		pause_process(s, i);
	} else if (kind == FAULT_partition) {
		cut_off(s, host);
	} else if (kind == FAULT_terminate) {
		terminate_some(s);
	} else if (kind == FAULT_outage) {
		say(s, "the server is down for %lld ms", (long long)(us / 1000));
		go_down(s, us);
	} else if (kind == FAULT_read_only) {
		say(s, "the server is read-only for %lld ms", (long long)(us / 1000));
		s->readonly_until = s->now + us;
		disturb(s, s->readonly_until);
	} else if (kind == FAULT_fail_over) {
		fail_over(s);
	} else if (kind == FAULT_clock) {
		move_clock(s);
	} else if (kind == FAULT_slow) {
		s->slow_until = s->now + us;
	} else if (kind == FAULT_spool_full) {
		s->full_until[host] = s->now + us;
	} else if (kind == FAULT_refused) {
		s->refuses[roll(s, JOBS)] ^= true;
	} else if (kind == FAULT_rights) {
		say(s, "rights are revoked for %lld ms", (long long)(us / 1000));
		s->rights_until = s->now + us;
	} else if (kind == FAULT_lacks) {
		s->lacks_until[host] = s->now + us;
	} else if (kind == FAULT_cancel) {
		int job = (int)roll(s, JOBS);
		if (s->db.jobs[job].state == ROW_RUNNING || roll(s, 4) == 0) {
			model_cancel(s, job);
			sqlite_cancel(s, job);
		}
	} else if (kind == FAULT_freeze) {
		freeze(s, i);
	} else if (kind == FAULT_operator) {
		operator_acts(s);
	} else if (kind == FAULT_stop && s->processes[i].exists && i < PROCESSES) {
		s->processes[i].stop = true;
		process_poke(s, &s->processes[i], THREAD_TURN);
	}
}

void trouble_happens(struct sim *s, enum fault kind)
{
	uint64_t others = s->random;
	if (s->healed || (s->cuts.faults >= 0 && s->faults >= s->cuts.faults))
		return;
	s->faults++;
	s->random = s->streams[kind];
	happens(s, kind);
	s->streams[kind] = s->random;
	s->random = others;
}

/* All but one may never return: their jobs are left to the others. */
static void leave_few(struct sim *s)
{
	int last = (int)roll(s, (uint64_t)s->nprocesses);
	for (int i = 0; i < s->nprocesses; i++) {
		struct process *p = &s->processes[i];
		if (i == last || roll(s, 2))
			continue;
		if (p->exists) {
			say(s, "process %d is killed for good", i);
			process_end(s, i);
		}
		p->gone = true;
		s->marks[MARK_few_left] = true;
	}
}

static bool is_used(const struct sim *s, int i)
{
	return i < s->nprocesses || (i >= PROCESSES && i < PROCESSES + s->ndaemons) ||
	       (i >= PROCESSES + DAEMONS && i < PROCESSES + DAEMONS + s->nforeign);
}

void trouble_heal(struct sim *s)
{
	say(s, "all is healed");
	s->disturbed_us = s->stalled_until > s->now ? s->stalled_until : s->now;
	s->healed = true;
	memset(s->rates, 0, sizeof s->rates);
	s->down_until = s->readonly_until = s->slow_until = s->rights_until = 0;
	if (!s->keeps_refusing)
		memset(s->refuses, 0, sizeof s->refuses);
	s->db.paused_us = s->db.raised_us = 0;
	for (int i = 0; i < HOSTS; i++)
		s->cut_until[i] = s->full_until[i] = s->lacks_until[i] = 0;
	if (s->mean_us[FAULT_stay])
		leave_few(s);
	for (int i = 0; i < ALL; i++) {
		struct process *p = &s->processes[i];
		note_unable(s, p);
		if (!p->exists && !p->gone && is_used(s, i))
			after(s, SECOND, EV_RESTART, i);
	}
}

/* SPDX-License-Identifier: Apache-2.0
 * trouble.c: what goes wrong. A seed draws which kinds of fault it has, how often they come and
 * how long they last; so some runs have one kind often, others many at once.
 */
#include "sim.h"

static double share(struct sim *s, double most)
{
	return roll(s, 2) ? most * (double)roll(s, 1000) / 1000 : 0;
}

static void next_trouble(struct sim *s, enum trouble kind)
{
	if (s->mean_us[kind] && !s->healed)
		after(s, about(s, s->mean_us[kind]), EV_TROUBLE, -1)->number = kind;
}

void trouble_draw(struct sim *s)
{
	static const int64_t leases[] = {1500, 3000, 5000};
	s->nprocesses = 2 + (int)roll(s, PROCESSES - 1);
	s->lease_ms = leases[roll(s, 3)];
	s->latency_us = 200 + (int64_t)roll(s, 3000);
	s->run_us = MS << roll(s, 12);
	s->linger_us = MS << roll(s, 13);
	s->pause_us = s->lease_ms * 200 << roll(s, 4);
	s->error = share(s, 0.2);
	s->lost_reply = share(s, 0.2);
	s->late = share(s, 0.1);
	for (int i = 0; i < HOSTS; i++)
		s->boot_us[i] = (int64_t)roll(s, 1000) * SECOND;
	for (int i = 0; i < TROUBLES; i++) {
		s->mean_us[i] = roll(s, 3) == 0 ? SECOND / 2 << roll(s, 4) : 0;
		next_trouble(s, (enum trouble)i);
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
	note_unable(s, p);
	after(s, us, EV_RESUME, i);
}

/* Packets vanish: nobody is told. */
static void cut_off(struct sim *s, int host)
{
	int64_t us = about(s, s->pause_us);
	say(s, "host %d is cut off for %lld ms", host, (long long)(us / 1000));
	if (s->cut_until[host] < s->now + us)
		s->cut_until[host] = s->now + us;
	for (int i = 0; i < s->nprocesses; i++)
		if (s->processes[i].exists && s->processes[i].host == host) {
			note_unable(s, &s->processes[i]);
			after(s, us, EV_RESUME, i);
		}
}

static void fail_over(struct sim *s)
{
	int back = (int)roll(s, (uint64_t)s->ncopies);
	int64_t ids = s->db.ids;
	say(s, "fail-over, %d copies back", back);
	s->marks[MARK_failover] = true;
	for (int i = 0; i < JOBS; i++)
		if (s->db.jobs[i].epoch > s->copies[back].jobs[i].epoch)
			s->marks[MARK_lost_claim] = true;
	s->db = s->copies[back];
	/*
	 * A sequence writes ahead by 32, so what was replayed is mostly ahead of what was given. That
	 * an id is given twice, because just that record was lost, is not simulated.
	 */
	s->db.ids = ids;
	s->timeline++;
	for (int i = 0; i < s->ntruths; i++)
		s->truths[i].given_up = true;
	s->down_until = s->now + about(s, SECOND);
	for (int i = 0; i < JOBS; i++)
		s->last_epoch[i] = s->db.jobs[i].epoch;
	for (int i = 0; i < JOBS; i++)
		if (s->db.jobs[i].state == ROW_NONE && s->enqueued[i]) {
			/* An acknowledged enqueue that was not replayed is lost: the client sends it again. */
			s->enqueued[i] = false;
			after(s, 2 * SECOND, EV_ENQUEUE, -1)->number = i;
		}
	s->ncopies = 0;
	s->copies[0] = s->db;
	s->ncopies = 1;
	backends_end(s);
}

static void move_clock(struct sim *s)
{
	static const int64_t steps[] = {-7200, -60, -6, 6, 60, 86400};
	int64_t step = steps[roll(s, 6)];
	say(s, "the server's clock jumps by %lld s", (long long)step);
	s->clock_us += step * SECOND;
}

static void terminate_one(struct sim *s)
{
	int64_t open[64], n = 0;
	for (int64_t i = 1; i < s->nbackends && n < 64; i++)
		if (s->backends[i].open)
			open[n++] = i;
	if (n > 0)
		backend_end(s, open[roll(s, (uint64_t)n)], true);
}

void trouble_happens(struct sim *s, enum trouble kind)
{
	int i = (int)roll(s, (uint64_t)s->nprocesses), host = (int)roll(s, HOSTS);
	int64_t us = about(s, s->lease_ms * 1000);
	if (s->healed)
		return;
	next_trouble(s, kind);
	switch (kind) {
	case TROUBLE_CRASH:
		if (s->processes[i].exists) {
			say(s, "process %d is killed", i);
			process_end(s, i);
			after(s, about(s, SECOND), EV_RESTART, i);
		}
		break;
	case TROUBLE_PAUSE:
		pause_process(s, i);
		break;
	case TROUBLE_PARTITION:
		cut_off(s, host);
		break;
	case TROUBLE_TERMINATE:
		terminate_one(s);
		break;
	case TROUBLE_OUTAGE:
		say(s, "the server is down for %lld ms", (long long)(us / 1000));
		s->down_until = s->now + us;
		backends_end(s);
		break;
	case TROUBLE_READONLY:
		say(s, "the server is read-only for %lld ms", (long long)(us / 1000));
		s->readonly_until = s->now + us;
		break;
	case TROUBLE_FAILOVER:
		fail_over(s);
		break;
	case TROUBLE_CLOCK:
		move_clock(s);
		break;
	case TROUBLE_SLOW:
		s->slow_until = s->now + us;
		break;
	case TROUBLE_SPOOL_FULL:
		s->full_until[host] = s->now + us;
		break;
	case TROUBLE_REFUSED:
		s->refuses[roll(s, JOBS)] ^= true;
		break;
	case TROUBLE_LACKS:
		s->lacks_until[host] = s->now + us;
		break;
	case TROUBLE_CANCEL:
		s->db.jobs[roll(s, JOBS)].cancel |= roll(s, 4) == 0;
		break;
	case TROUBLE_STOP:
		s->processes[i].stop = s->processes[i].exists;
		if (s->processes[i].exists)
			process_poke(s, &s->processes[i], THREAD_TURN);
		break;
	case TROUBLES:
		break;
	}
}

void trouble_heal(struct sim *s)
{
	say(s, "all is healed");
	s->healed = true;
	s->error = s->lost_reply = s->late = 0;
	s->down_until = s->readonly_until = s->slow_until = 0;
	memset(s->refuses, 0, sizeof s->refuses);
	for (int i = 0; i < HOSTS; i++)
		s->cut_until[i] = s->full_until[i] = s->lacks_until[i] = 0;
	for (int i = 0; i < s->nprocesses; i++) {
		struct process *p = &s->processes[i];
		note_unable(s, p);
		if (!p->exists)
			after(s, SECOND, EV_RESTART, i);
	}
}

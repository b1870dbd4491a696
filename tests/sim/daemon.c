/* SPDX-License-Identifier: Apache-2.0
 * daemon.c: a daemon that watches the table of watched.c. What daemon/database_loop.c and
 * recover/scan.c do with a session is done here with events.
 */
#include "sim.h"

#define ATTEND_US SECOND
#define ROUND_US (400 * MS)
#define AGAIN_LEAST_US (200 * MS)

void daemon_begin(struct sim *s, struct process *p)
{
	pass_init(s, p);
	process_wake_in(s, p, THREAD_SWEEP, 1);
}

void daemon_go(struct sim *s, struct process *p)
{
	int64_t now_us = boot_us(s, p);
	if (p->threads[THREAD_SWEEP].call)
		return;
	absence_tick(&p->absence, now_us);
	if (now_us >= p->lead_us) {
		p->lead_us = now_us + LEADER_RENEW_MS * 1000;
		p->led_until_us = p->leads ? p->led_until_us : 0;
		call_send(s, call_begin(s, p, THREAD_SWEEP, CALL_LEAD));
		return;
	}
	if (now_us >= p->due_us) {
		p->passes = p->leads && now_us < p->led_until_us;
		p->due_us = now_us + (p->passes ? s->watch.every_us : ATTEND_US);
		call_send(s, call_begin(s, p, THREAD_SWEEP, CALL_LOOK));
		return;
	}
	int64_t next_us = p->lead_us < p->due_us ? p->lead_us : p->due_us;
	process_wake_in(s, p, THREAD_SWEEP, next_us - now_us);
}

static void looked(struct sim *s, struct process *p, const struct call *c)
{
	bool silent = pass_begin(s, p, c);
	if (!p->passes) {
		daemon_go(s, p);
		return;
	}
	struct call *next = call_begin(s, p, THREAD_SWEEP, CALL_APPLY);
	pass_judge(s, p, c, silent, next);
	struct guard_report r;
	guard_report(p->guard, &r);
	int64_t again_us = r.again_us ? r.again_us - c->now_us : s->watch.every_us;
	again_us = again_us < AGAIN_LEAST_US ? AGAIN_LEAST_US : again_us;
	if (again_us < s->watch.every_us)
		p->due_us = boot_us(s, p) + again_us;
	if (next->nseen > 0 && boot_us(s, p) < p->led_until_us) {
		call_send(s, next);
		return;
	}
	for (int i = 0; i < next->nseen; i++)
		guard_give_back(p->guard);
	p->threads[THREAD_SWEEP].call = NULL;
	free(next);
	daemon_go(s, p);
}

void daemon_answered(struct sim *s, struct process *p, const struct call *c)
{
	if (c->failed) {
		absence_begins(&p->absence, "cannot query the database");
		p->leads = false;
		process_wake_in(s, p, THREAD_SWEEP, ROUND_US);
		if (c->kind == CALL_APPLY)
			guard_batch(p->guard, 0, MS, true);
		return;
	}
	if (c->kind == CALL_LEAD) {
		if (!p->asked)
			absence_server_started(&p->absence, c->started_us);
		p->asked = true;
		p->leads = c->yes;
		pass_hear(s, p, c);
		p->led_until_us = p->lead_us - LEADER_RENEW_MS * 1000 + LEADER_LEASE_MS * 1000;
		daemon_go(s, p);
	} else if (c->kind == CALL_LOOK) {
		looked(s, p, c);
	} else {
		pass_applied(p, c);
		daemon_go(s, p);
	}
}

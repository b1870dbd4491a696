/* SPDX-License-Identifier: Apache-2.0
 * daemon.c: a daemon that watches the table of watched.c. What daemon/database_loop.c and
 * recover/scan.c do with a session is done here with events; judge, decide, guard and absence are
 * the real ones.
 */
#include "sim.h"

#define ATTEND_US SECOND
#define ROUND_US (400 * MS)
#define AGAIN_LEAST_US (200 * MS)

void daemon_begin(struct sim *s, struct process *p)
{
	p->guard = guard_new(&s->watch);
	process_wake_in(s, p, THREAD_SWEEP, 1);
}

void daemon_end(struct process *p)
{
	guard_free(p->guard);
	p->guard = NULL;
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

static void begin_guard(struct sim *s, struct process *p, const struct call *c)
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
	say(s, "daemon %d%s looks at %d rows, now %.4f", (int)(p - s->processes),
	    p->passes ? ", leading," : "", c->nseen, (double)(c->now_us % (100000 * SECOND)) / SECOND);
	p->first_us = p->first_us ? p->first_us : c->now_us;
	absence_read(&p->absence, c->backend, c->now_us, boot_us(s, p));
	guard_begin(p->guard, &p->absence.doubt, c->now_us, boot_us(s, p), census, n, false);
}

static bool is_let(struct sim *s, struct process *p, const struct call *c, struct seen *one)
{
	static const struct decide_options with_ledger = {.ledger = true};
	char texts[2][16];
	struct facts f = watched_facts(s, one, c->now_us, texts);
	struct judgement j = judge(&s->watch, &f);
	if (j.verdict == VERDICT_NONE)
		return false;
	struct decision d = decide(&s->watch, &f, &j, &with_ledger);
	if (!d.act)
		return false;
	one->remedy = d.remedy;
	enum guard_by by = guard_ask(p->guard, &f, &j).by;
	s->marks[MARK_daemon_doubt] |= by == GUARD_DOUBT;
	s->marks[MARK_daemon_look] |= by == GUARD_LOOK;
	s->marks[MARK_daemon_brake] |= by == GUARD_BRAKE;
	return by == GUARD_PASS;
}

static void looked(struct sim *s, struct process *p, const struct call *c)
{
	const char *const *gone;
	int ngone;
	begin_guard(s, p, c);
	bool silent = all_fell_silent(s, p, c);
	if (!p->passes) {
		daemon_go(s, p);
		return;
	}
	struct call *next = call_begin(s, p, THREAD_SWEEP, CALL_APPLY);
	for (int i = 0; i < c->nseen; i++) {
		struct seen one = c->seen[i];
		if (!is_let(s, p, c, &one))
			continue;
		next->seen[next->nseen++] = one;
		if (silent)
			broken(s, "all fell silent at once, and a daemon took their jobs");
	}
	guard_end(p->guard, &gone, &ngone);
	struct guard_report r;
	guard_report(p->guard, &r);
	int64_t again_us = r.again_us ? r.again_us - c->now_us : s->watch.every_us;
	again_us = again_us < AGAIN_LEAST_US ? AGAIN_LEAST_US : again_us;
	if (again_us < s->watch.every_us)
		p->due_us = boot_us(s, p) + again_us;
	next->now_us = c->now_us;
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

static void applied(struct sim *s, struct process *p, const struct call *c)
{
	int64_t written = 0;
	for (int i = 0; i < c->nseen; i++) {
		written += c->seen[i].written && !c->failed;
		if (c->failed || !c->seen[i].written)
			guard_give_back(p->guard);
	}
	guard_batch(p->guard, written, MS, c->failed);
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
		p->led_until_us = p->lead_us - LEADER_RENEW_MS * 1000 + LEADER_LEASE_MS * 1000;
		daemon_go(s, p);
	} else if (c->kind == CALL_LOOK) {
		looked(s, p, c);
	} else {
		applied(s, p, c);
	}
}

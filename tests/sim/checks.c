/* SPDX-License-Identifier: Apache-2.0
 * checks.c: what must hold (the invariants of docs/internals/simulator.md), according to the
 * outside bookkeeper: the jobs themselves, the enqueuers and the code that kills and stops
 * processes.
 */
#include "sim.h"

#define LACKED_MOST 9 /* jobs in hand when a host begins to lack resources, and two probes */
#define COMPARES_MOST 1
#define STOP_US (SECOND + 100 * MS) /* … and it checks this often */
#define HEARD_US (100 * MS)
#define UNLUCKY 3 /* failures by chance in a row, which a short lease may not survive */

struct truth *truth_of(struct sim *s, int job, int64_t worker, int pid, int64_t epoch)
{
	for (int i = s->ntruths - 1; i >= 0; i--) {
		struct truth *t = &s->truths[i];
		if (t->job == job && t->worker == worker && t->epoch == epoch && (!pid || t->pid == pid))
			return t;
	}
	return NULL;
}

/* I5, I7: on this timeline no other live worker has claimed it and runs it. */
static void check_alone(struct sim *s, int job)
{
	for (int i = 0; i < s->nprocesses; i++) {
		const struct process *p = &s->processes[i];
		for (int k = 0; p->exists && k < p->nruns; k++) {
			const struct truth *t = p->runs[k].truth < 0 ? NULL : &s->truths[p->runs[k].truth];
			if (t && t->job == job && t->timeline == s->timeline && is_alive(s, t->worker))
				broken(s, "I5: a job was claimed while another that is alive runs it");
		}
	}
}

void check_claimed(struct sim *s, int job, int64_t worker, int pid, int64_t epoch)
{
	check_alone(s, job);
	if (epoch <= s->last_epoch[job])
		broken(s, "I4: an epoch did not rise");
	s->last_epoch[job] = epoch;
	if (s->ntruths == s->cap_truths) {
		s->cap_truths = s->cap_truths ? 2 * s->cap_truths : 256;
		s->truths = mem_grow(s->truths, sizeof *s->truths * (size_t)s->cap_truths);
	}
	s->truths[s->ntruths++] = (struct truth){.job = job,
	                                         .pid = pid,
	                                         .worker = worker,
	                                         .epoch = epoch,
	                                         .timeline = s->timeline,
	                                         .ended = -2};
}

/* What is recorded is how that run ended; a job that never began can only be released. */
void check_settled(struct sim *s, const struct end *e)
{
	const struct truth *t = truth_of(s, e->job, e->worker, 0, e->epoch);
	if (!t)
		broken(s, "I3: an end of a claim that never was");
	else if (t->pid != e->pid)
		broken(s, "I3: an end was recorded by a process that has not claimed the job");
	else if (t->given_up && e->as == SETTLE_RELEASED)
		return;
	else if (t->ended == -1)
		broken(s, "I2: an end was recorded while the job still runs");
	else if (t->ended == -2 && e->as != SETTLE_RELEASED && e->as != SETTLE_STOPPED)
		broken(s, "I2: a job that never began was recorded as ended");
	else if (t->ended >= 0 && t->ended != (int)e->as &&
	         (e->as != SETTLE_STOPPED || t->ended == SETTLE_DONE))
		broken(s, "I2: a run was recorded with another end than it had");
}

/*
 * A process that was able again during an outage could renew when that was over, and a process that
 * does not know that its session has ended cannot replace it.
 */
static int64_t able_since(const struct sim *s, const struct process *v)
{
	bool within = v->unable_end >= s->disturbed_from && v->unable_end <= s->disturbed_us;
	int64_t able_us = within ? s->disturbed_us : v->unable_end;
	return able_us > v->told_us ? able_us : v->told_us;
}

/* I7: a live worker is not declared dead for what was not its own fault. */
void check_declared(struct sim *s, const struct member *m, const struct death *d)
{
	struct process *v = process_of_pid(s, m->pid);
	if (text_eq(d->cause, "silent"))
		s->marks[MARK_silent] = true;
	else if (d->unheard_ms)
		s->marks[MARK_lock] = true;
	else
		s->marks[MARK_exit] = true;
	/* A registration whose reply was lost belongs to no process. */
	if (!v || v->life.worker != m->id)
		return;
	if (text_eq(d->cause, "silent")) {
		/* The observer has read a stamp that was written after the renewal was sent. */
		if (lease_ends_ms(&v->life.lease) > boot_ms(s, v))
			broken(s, "I18: a worker was declared dead for its silence before its lease was over");
		/* It renews after a third, and has a third for tries that fail, if not all do. */
		if (unable_us(s, v) < s->lease_ms * 1000 / 3 && v->unlucky < UNLUCKY)
			broken(s, "I7: a living worker was declared dead for its silence");
	} else if (!d->unheard_ms) {
		broken(s, "I7: a living worker was declared dead for an exit");
	} else if (!v->unable_since && able_since(s, v) < s->now - d->unheard_ms * 1000 - 100 * MS) {
		broken(s, "I7: a living worker was declared dead because its lock was gone");
	}
}

/* I10: after a clean exit the end of every run is recorded or stored. */
void check_left(struct sim *s, const struct process *p)
{
	for (int i = 0; i < JOBS; i++) {
		const struct row *r = &s->db.jobs[i];
		const struct truth *t = truth_of(s, i, r->owner, 0, r->epoch);
		bool kept = false;
		if (r->state != ROW_RUNNING || r->owner != p->worker || !t || t->ended < 0 || t->given_up)
			continue;
		for (int k = 0; k < p->nspool; k++)
			kept = kept || (p->spool[k].job == i && p->spool[k].epoch == r->epoch);
		if (!kept)
			broken(s, "I10: a worker that was asked to stop left without the end of a run");
	}
}

static void check_database(struct sim *s)
{
	for (int i = 0; i < JOBS; i++) {
		const struct row *r = &s->db.jobs[i];
		if (s->enqueued[i] && r->state == ROW_NONE)
			broken(s, "I1: an acknowledged job is not there");
		if (r->state == ROW_RUNNING && r->owner == 0)
			broken(s, "I5: a running job has no owner");
	}
}

/* Without faults, no worker is suspected, compared, refused or held. */
void check_fair(struct sim *s)
{
	static const enum mark suspicions[] = {MARK_silent,   MARK_exit,  MARK_lock,  MARK_declared,
	                                       MARK_stale,    MARK_again, MARK_stray, MARK_brake,
	                                       MARK_expired,  MARK_aside, MARK_alone, MARK_spooled,
	                                       MARK_late_done};
	for (size_t i = 0; s->fair && i < sizeof suspicions / sizeof *suspicions; i++)
		if (s->marks[suspicions[i]]) {
			say(s, "in fair weather: %s", mark_names[suspicions[i]]);
			broken(s, "nothing went wrong, and something was suspected");
		}
	/* Sometimes claims are in progress at two renewals in a row. */
	if (s->fair && s->compares > COMPARES_MOST)
		broken(s, "nothing went wrong, and workers compared what they have");
}

/* Jobs that the host cannot start are not claimed repeatedly: only those in hand, and a probe. */
void check_lacked(struct sim *s, const struct process *p)
{
	if (p->lacked > LACKED_MOST + (s->now - p->lacked_us) / SECOND)
		broken(s, "jobs are claimed that the host cannot start");
}

/* A spool has one record of an end, whatever refuses it and however often. */
void check_spooled(struct sim *s, const struct process *p, const struct job *j)
{
	for (int i = 0; i < p->nspool; i++) {
		const struct end *e = &p->spool[i];
		if (e->job == job_of(j->claim.key) && e->worker == j->worker && e->pid == p->pid &&
		    e->epoch == j->claim.epoch)
			broken(s, "an end is in the spool twice");
	}
}

/* A thread that sleeps hears what its session receives. */
void check_heard(struct sim *s, const struct process *p)
{
	if (s->now - p->unheard_us > HEARD_US && p->paused_until < p->unheard_us)
		broken(s, "work was announced to a worker, and it slept on");
}

/* As engine.h says about claims, and about ends that wait in the spool. */
void check_asked(struct sim *s, const struct process *p, const struct turn_part *part)
{
	if (p->part == 0 && part->room > 0 && p->told_contact != CONTACT_GOOD)
		broken(s, "jobs were asked for while the lease was not renewed");
	for (int i = 0; part->room > 0 && i < p->nruns; i++)
		if (p->runs[i].job->claim.alone)
			broken(s, "jobs were asked for beside one that is to run alone");
	if (part->nends > 0 && !part->drain && spool_waiting(p, part->pool) > 0)
		broken(s, "ends were to be recorded before older ones that wait in the spool");
}

/*
 * Jobs that must not overlap are asked to stop when their lease expires by the worker's own clock,
 * whatever the turn thread waits for. A worker that was declared dead checks once a second.
 */
static void check_expired(struct sim *s, struct process *p)
{
	bool over = p->worker && life_contact(&p->life, boot_ms(s, p)) == CONTACT_EXPIRED;
	p->expired_us = !over ? 0 : p->expired_us ? p->expired_us : s->now;
	if (p->paused_until > p->expired_us && over)
		p->expired_us = p->paused_until;
	if (!over || s->now < p->expired_us + STOP_US)
		return;
	for (int i = 0; i < p->nruns; i++)
		if (run_pools[p->runs[i].job->pool].exclusive && !p->runs[i].job->stop)
			broken(s, "a job that must not overlap runs on when its lease is over");
}

/* No process runs a job that it does not have in hand. */
static void check_process(struct sim *s, struct process *p)
{
	if (!p->exists)
		return;
	if (engine_holding(p->engine) < p->nruns)
		broken(s, "a job runs that is not in hand");
	if (p->nruns > 0)
		check_expired(s, p);
	else
		p->expired_us = 0;
}

void check_event(struct sim *s)
{
	check_database(s);
	for (int i = 0; i < s->nprocesses; i++)
		check_process(s, &s->processes[i]);
}

/* Other ends than those that a table refuses forever. */
static bool has_more(const struct sim *s, const struct process *p)
{
	for (int i = 0; i < p->nspool; i++)
		if (!s->refuses[p->spool[i].job])
			return true;
	return false;
}

bool all_final(const struct sim *s)
{
	for (int i = 0; i < JOBS; i++)
		if (s->db.jobs[i].state != ROW_FINAL && !s->refuses[i])
			return false;
	for (int i = 0; i < s->nprocesses; i++) {
		const struct process *p = &s->processes[i];
		if (p->exists && (engine_holding(p->engine) > 0 || has_more(s, p)))
			return false;
	}
	return watched_final(s);
}

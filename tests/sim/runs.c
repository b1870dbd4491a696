/* SPDX-License-Identifier: Apache-2.0
 * runs.c: the jobs that a process runs: how they begin, end and are stopped.
 */
#include "sim.h"

#define LOOK_US SECOND /* LOOK_MS of worker/worker.c */

static void end_job(struct sim *s, struct process *p, int i, enum settle_as as)
{
	struct job *j = p->runs[i].job;
	struct truth *t = p->runs[i].truth < 0 ? NULL : &s->truths[p->runs[i].truth];
	say(s, "process %d: job %s, epoch %lld, ends as %s", (int)(p - s->processes), j->claim.key,
	    (long long)j->claim.epoch, settle_names[as]);
	j->as = as;
	j->ran_ms = 1;
	if (t)
		t->ended = (int)as;
	if (p->runs[i].number)
		number_close(p, p->runs[i].number);
	p->runs[i] = p->runs[--p->nruns];
	p->ended[p->nended++] = j;
	process_poke(s, p, THREAD_TURN);
}

static int running(const struct process *p, int pool)
{
	int n = 0;
	for (int i = 0; i < p->nruns; i++)
		n += p->runs[i].begun && p->runs[i].job->pool == pool;
	return n;
}

const struct engine_pool run_pools[POOLS] = {
	{.concurrency = 3, .poll_ms = 200, .same_jobs = 0},
	{.concurrency = 2,
     .poll_ms = 300,
     .same_jobs = 1,
     .announced = true,
     .exclusive = true,
     .ahead = 2},
};

static void begin_runs(struct sim *s, struct process *p)
{
	for (int i = 0; i < p->nruns; i++) {
		struct run *r = &p->runs[i];
		if (r->begun || running(p, r->job->pool) >= run_pools[r->job->pool].concurrency)
			continue;
		r->begun = true;
		if (s->now < s->lacks_until[p->host]) { /* host_lacks() of worker/worker_jobs.c */
			p->lacking++;
			s->marks[MARK_lacking] = true;
			p->lacked_us = p->lacked++ ? p->lacked_us : s->now;
			check_lacked(s, p);
			end_job(s, p, i--, SETTLE_RELEASED);
			continue;
		}
		p->able++;
		p->lacked = 0;
		r->number = number_open(s, p, NUMBER_CHILD);
		after(s, about(s, s->run_us), EV_RUN, (int)(p - s->processes))->number = r->serial;
	}
}

void run_start(struct sim *s, struct process *p, struct job *j)
{
	int job = (int)strtol(j->claim.key, NULL, 10);
	struct truth *t = truth_of(s, job, j->worker, p->pid, j->claim.epoch);
	if (t && t->ended != -2)
		broken(s, "I2: a claim was started twice");
	if (j->worker != p->worker)
		broken(s, "I18: a job was started that was claimed by a worker declared dead since");
	if (t)
		t->ended = -1;
	/* It was lost with its worker before, and might have been the reason. */
	s->marks[MARK_alone] |= j->claim.alone;
	for (int i = 0; i < p->nruns; i++)
		if (j->claim.alone || p->runs[i].job->claim.alone)
			broken(s, "a job that is to run alone was started beside another");
	p->runs[p->nruns++] =
		(struct run){.job = j, .serial = ++s->serial, .truth = t ? (int)(t - s->truths) : -1};
	begin_runs(s, p);
	if (run_pools[j->pool].exclusive)
		process_wake_in(s, p, THREAD_RUNS, 1);
}

/* Its descriptor is not in the interest set: it is a zombie, and its job runs. */
static bool is_unseen(struct sim *s, const struct process *p, struct run *r)
{
	if (!r->number || number_is_heard(p, r->number))
		return false;
	say(s, "process %d does not see that job %s has ended", (int)(p - s->processes),
	    r->job->claim.key);
	return true;
}

void process_run_over(struct sim *s, struct process *p, int64_t serial)
{
	static const enum settle_as ends[] = {SETTLE_DONE, SETTLE_DONE, SETTLE_DONE, SETTLE_FAILED};
	for (int i = 0; i < p->nruns; i++)
		if (p->runs[i].serial == serial) {
			if (is_unseen(s, p, &p->runs[i]))
				return;
			end_job(s, p, i, s->healed ? SETTLE_DONE : ends[roll(s, 4)]);
			begin_runs(s, p);
			return;
		}
}

/* Some programs obey soon, the others run to their end. */
void run_stop(struct sim *s, struct process *p, const struct job *j)
{
	for (int i = 0; i < p->nruns; i++)
		if (p->runs[i].job == j && (!p->runs[i].begun || roll(s, 2))) {
			if (is_unseen(s, p, &p->runs[i]))
				return;
			end_job(s, p, i, SETTLE_STOPPED);
			begin_runs(s, p);
			return;
		}
}

void runs_stop_expired(struct sim *s, struct process *p)
{
	bool any = false;
	int64_t ends_ms = p->life.worker ? lease_ends_ms(&p->life.lease) : 0;
	for (int i = p->nruns - 1; i >= 0; i--) {
		struct job *j = p->runs[i].job;
		if (!run_pools[j->pool].exclusive)
			continue;
		any = true;
		if (boot_ms(s, p) < ends_ms && j->worker == p->worker)
			continue;
		j->lost = true;
		if (!atomic_exchange(&j->stop, true)) {
			s->marks[MARK_expired] = true;
			run_stop(s, p, j);
		}
	}
	int64_t in_us = ends_ms * 1000 - boot_us(s, p);
	if (any)
		process_wake_in(s, p, THREAD_RUNS, in_us > 0 && in_us < LOOK_US ? in_us : LOOK_US);
}

void runs_return(struct sim *s, struct process *p, int pool)
{
	for (int i = p->nruns - 1; i >= 0; i--)
		if (!p->runs[i].begun && p->runs[i].job->pool == pool)
			end_job(s, p, i, SETTLE_RELEASED);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c: see sim.h. */
#include "sim.h"

#include <stdarg.h>

#define FAULTS_US (12 * SECOND)
#define SAFETY_US (16 * SECOND)
#define CALM_US (24 * SECOND)
#define SAFETY_SEEDS 4 /* one in this many is never healed */
#define CALM_SEEDS                                                                                 \
	10                /* one of so many has few faults, for longer: guards come to an end between  \
	                   */
#define FAIR_SEEDS 32 /* … has none */
#define COPY_US (200 * MS)

enum store_kind store_kind;

const char *const mark_names[] = {
#define X(name) #name,
	MARK_LIST(X)
#undef X
};
const char *const fault_names[] = {
#define X(name) #name,
	FAULT_LIST(X)
#undef X
};
const char *const old_names[] = {
#define X(name) #name,
	OLD_LIST(X)
#undef X
};
uint32_t old_ways;

static uint64_t draw(uint64_t *state, uint64_t n)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (*state >> 11) % n;
}

uint64_t roll(struct sim *s, uint64_t n)
{
	return draw(&s->random, n);
}

bool odds(struct sim *s, enum fault rate)
{
	double p = s->rates[rate];
	return p > 0 && (double)draw(&s->streams[rate], 1000000) < p * 1000000;
}

int64_t about(struct sim *s, int64_t mean)
{
	return 1 + (int64_t)roll(s, (uint64_t)(2 * mean));
}

int64_t boot_us(const struct sim *s, const struct process *p)
{
	return s->now + s->boot_us[p->host];
}

int64_t boot_ms(const struct sim *s, const struct process *p)
{
	return boot_us(s, p) / 1000;
}

void say(struct sim *s, const char *format, ...)
{
	va_list args;
	if (!s->verbose)
		return;
	va_start(args, format);
	printf("%10.4f  ", (double)s->now / SECOND);
	vprintf(format, args);
	printf("\n");
	va_end(args);
}

void broken(struct sim *s, const char *what)
{
	say(s, "BROKEN: %s", what);
	if (!s->broken)
		s->broken = what;
}

/* ---- the heap ---- */

static bool before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(struct event *a, struct event *b)
{
	struct event t = *a;
	*a = *b;
	*b = t;
}

/* The caller may fill in everything except the time. */
struct event *after(struct sim *s, int64_t us, enum event_kind kind, int process)
{
	if (s->nheap == s->cap_heap) {
		s->cap_heap = s->cap_heap ? 2 * s->cap_heap : 256;
		s->heap = mem_grow(s->heap, sizeof *s->heap * (size_t)s->cap_heap);
	}
	int i = s->nheap++;
	s->heap[i] = (struct event){
		.at = s->now + (us > 0 ? us : 0), .order = s->order++, .kind = kind, .process = process};
	if (process >= 0)
		s->heap[i].pid = s->processes[process].pid;
	while (i > 0 && before(&s->heap[i], &s->heap[(i - 1) / 2])) {
		swap(&s->heap[i], &s->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	return &s->heap[i];
}

static struct event next_event(struct sim *s)
{
	struct event first = s->heap[0];
	s->heap[0] = s->heap[--s->nheap];
	for (int i = 0;;) {
		int least = i;
		for (int k = 2 * i + 1; k <= 2 * i + 2 && k < s->nheap; k++)
			least = before(&s->heap[k], &s->heap[least]) ? k : least;
		if (least == i)
			return first;
		swap(&s->heap[i], &s->heap[least]);
		i = least;
	}
}

/* ---- events ---- */

static void enqueue(struct sim *s, int job)
{
	/* A client without a reply tries again with the same key. */
	if (s->now < s->down_until || s->now < s->readonly_until) {
		after(s, 300 * MS, EV_ENQUEUE, -1)->number = job;
		return;
	}
	model_enqueue(s, job);
	sqlite_enqueue(s, job);
	if (odds(s, FAULT_lost_reply)) {
		after(s, 300 * MS, EV_ENQUEUE, -1)->number = job;
		return;
	}
	s->enqueued[job] = true;
	for (int i = 0; i < s->nprocesses; i++)
		after(s, about(s, s->latency_us), EV_WORK, i);
}

static void copy(struct sim *s)
{
	s->copy = (s->copy + 1) % COPIES;
	s->copies[s->copy] = s->db;
	sqlite_keep(s, s->copy);
	s->ncopies = s->ncopies < COPIES ? s->ncopies + 1 : COPIES;
	if (!s->healed)
		after(s, about(s, COPY_US), EV_COPY, -1);
}

static bool of_process(enum event_kind kind)
{
	return kind == EV_WAKE || kind == EV_REPLY || kind == EV_DEADLINE || kind == EV_NOTICE ||
	       kind == EV_RUN || kind == EV_EXIT || kind == EV_WORK || kind == EV_NEWCOMER;
}

static void happen(struct sim *s, struct event *ev)
{
	struct process *p = ev->process >= 0 ? &s->processes[ev->process] : NULL;
	if (of_process(ev->kind) && (!p->exists || p->pid != ev->pid)) {
		if (ev->kind == EV_REPLY)
			free(ev->call);
		return;
	}
	if (of_process(ev->kind) && p->paused_until > s->now) {
		struct event *later = after(s, p->paused_until - s->now, ev->kind, ev->process);
		later->thread = ev->thread;
		later->number = ev->number;
		later->call = ev->call;
		return;
	}
	switch (ev->kind) {
	case EV_WAKE:
		process_wake(s, ev);
		break;
	case EV_EXECUTE:
		call_execute(s, ev->call);
		break;
	case EV_REPLY:
		call_reply(s, ev->call);
		break;
	case EV_DEADLINE:
		call_deadline(s, ev->number, p, ev->thread);
		break;
	case EV_BACKEND:
		backend_end(s, ev->number, true);
		break;
	case EV_NOTICE:
		process_notice(s, p, ev->thread);
		break;
	case EV_RUN:
		process_run_over(s, p, ev->number);
		break;
	case EV_EXIT:
		process_exit_seen(s, p, ev->number, true);
		break;
	case EV_WORK:
		process_announced(s, p);
		break;
	case EV_NEWCOMER:
		p->newcomer = true;
		process_poke(s, p, THREAD_LIFE);
		break;
	case EV_RESTART:
		if (!p->exists)
			process_begin(s, ev->process);
		break;
	case EV_RESUME:
		trouble_resume(s, ev->process);
		break;
	case EV_ENQUEUE:
		enqueue(s, (int)ev->number);
		break;
	case EV_TROUBLE:
		trouble_happens(s, (enum fault)ev->number);
		break;
	case EV_COPY:
		copy(s);
		break;
	case EV_KINDS:
		break;
	}
}

static void mix(struct sim *s, const struct event *ev)
{
	uint64_t parts[] = {(uint64_t)ev->at, (uint64_t)ev->kind, (uint64_t)(ev->process + 1)};
	for (int i = 0; i < 3; i++)
		s->hash = (s->hash ^ parts[i]) * UINT64_C(1099511628211);
}

static void run_until(struct sim *s, int64_t end)
{
	while (!s->broken && s->nheap > 0 && s->heap[0].at <= end) {
		struct event ev = next_event(s);
		s->now = ev.at;
		s->events++;
		mix(s, &ev);
		happen(s, &ev);
		check_event(s);
		if (s->healed && all_final(s))
			return;
	}
	if (s->now < end)
		s->now = end;
}

/*
 * How long everything may take to become final once no faults occur any more: the ceiling of the
 * brake, quiet after our own outages, jobs without a live owner (checked every 15 s), ends that are
 * set aside, and the jobs themselves. The longest of 200,000 seeds took half of what is added.
 */
static int64_t bound_us(const struct sim *s)
{
	int64_t brake_ms = s->brake_ms < 0 ? 0 : s->brake_ms ? s->brake_ms : SILENCE_CEILING_MS;
	int64_t watch_us = s->nforeign ? 2 * s->watch.guard.brake_ceiling_us + s->back_us : 0;
	return (brake_ms + 10 * s->lease_ms) * 1000 + watch_us + 60 * SECOND;
}

static void begin(struct sim *s, uint64_t seed, const struct cuts *cuts)
{
	*s = (struct sim){.seed = seed,
	                  .random = seed * UINT64_C(2654435761) + UINT64_C(88172645463325252),
	                  .hash = UINT64_C(14695981039346656037),
	                  .now = 1000 * SECOND,
	                  .nbackends = 1,
	                  .store = store_kind,
	                  .locks = store_kind == KEEP_MODEL || seed / 2 % 2,
	                  .timeline = 1,
	                  .safety = seed % SAFETY_SEEDS == 0,
	                  .calm = seed % CALM_SEEDS == 1,
	                  .fair = seed % FAIR_SEEDS == 7,
	                  .cuts = cuts ? *cuts : (struct cuts){.faults = -1}};
	for (int i = 0; i < 8; i++)
		(void)roll(s, 2);
	for (int i = 0; i < FAULTS; i++)
		s->streams[i] = (roll(s, UINT64_MAX) << 8) + 1;
	trouble_draw(s);
	sqlite_begin(s);
	copy(s);
}

void sim_run(struct sim *s, uint64_t seed, const struct cuts *cuts, bool verbose)
{
	begin(s, seed, cuts);
	s->verbose = verbose;
	for (int i = 0; i < s->nprocesses; i++) {
		s->processes[i].host = (int)roll(s, HOSTS);
		after(s, about(s, s->lease_ms * 300), EV_RESTART, i);
	}
	for (int i = 0; i < s->ndaemons + s->nforeign; i++) {
		int at = PROCESSES + (i < s->ndaemons ? i : DAEMONS + i - s->ndaemons);
		s->processes[at].host = (int)roll(s, HOSTS);
		after(s, about(s, SECOND), EV_RESTART, at);
	}
	for (int i = 0; i < JOBS; i++)
		after(s, about(s, (s->calm ? CALM_US : FAULTS_US) / 3), EV_ENQUEUE, -1)->number = i;
	run_until(s, s->now + (s->safety ? SAFETY_US : s->calm ? CALM_US : FAULTS_US));
	if (s->broken || s->safety)
		return;
	trouble_heal(s);
	int64_t healed = s->now;
	s->bound_us = bound_us(s);
	run_until(s, healed + s->bound_us);
	if (!s->broken && !all_final(s))
		broken(s, "I12: not everything came to its end when all was healed");
	for (int i = 0; i < JOBS; i++)
		s->marks[MARK_refused_for_good] |= s->refuses[i] && s->db.jobs[i].state == ROW_RUNNING;
	s->healed_us = s->now - healed;
	check_fair(s);
}

void sim_release(struct sim *s)
{
	for (int i = 0; i < ALL; i++)
		if (s->processes[i].exists)
			process_end(s, i);
	/* A call is in one event at a time: its execution or its reply. */
	for (int i = 0; i < s->nheap; i++)
		free(s->heap[i].call);
	free(s->heap);
	free(s->backends);
	free(s->truths);
}

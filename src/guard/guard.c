/* SPDX-License-Identifier: Apache-2.0
 * guard.c: applies doubt, brake, second look and pace in order.
 *
 * The second look. A live worker may beat late once, so silence must be seen twice, one beat apart:
 * one beat by our own clock (the database's may have been set) and of time in which a beat could
 * have been seen (doubt_clean_us) and written (guard_barred). A job that was past its limit before
 * our first pass needs no second look, and the brake does not apply to it. A lease is the
 * exception: its worker may have been alive but unable to write until we started.
 *
 * Memory for suspects is bounded, but a job without room does not starve: if its sign is older than
 * the limit plus one beat, it would have been the same at a look one beat ago, so that age replaces
 * the first look.
 */
#include "guard/guard.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>

#define QUIET_BEATS 2
#define CLOCK_SLACK_US US_PER_S  /* the two clocks may differ by this without a step */
#define QUIET_US (30 * US_PER_S) /* if there are no beats */

const char *const guard_names[] = {
#define X(id, name) name,
	GUARD_LIST(X)
#undef X
		NULL,
};

/* ---- the second look ---- */

/*
 * Jobs that were seen silent once, until a second look. Memory only: the guard decides which are
 * stuck.
 *
 * A pass copies the suspects that it sees again from `known` to `next`; a suspect that a whole pass
 * does not see is gone. The number is bounded; a job without room is judged without this memory.
 */

struct suspect {
	const char *job, *owner;
	enum sign sign;
	int64_t sign_us;
	int64_t seen_us, seen_boot_us; /* first sighting: the database's clock and our own */
	bool confirmed;                /* by a second look */
	bool passed;                   /* was let through: it is not reported as gone */
	bool met;                      /* in this pass */
};

struct suspects {
	struct arena arenas[2]; /* texts of `known` and of `next` */
	int at;                 /* index of the arena of `known` */
	struct suspect *known;  /* by job */
	struct suspect *next;   /* in this pass */
	int nknown, nnext, cap_known, cap_next;
	bool open;
	struct gone_suspect *gone;
	int cap_gone;
};

static int guard_by_job(const void *a, const void *b)
{
	return strcmp(((const struct suspect *)a)->job, ((const struct suspect *)b)->job);
}

static struct suspect *guard_add(struct suspects *s, const struct suspect *from)
{
	struct arena *texts = &s->arenas[1 - s->at];
	if (s->nnext == SUSPECTS_MOST)
		return NULL;
	if (s->nnext == s->cap_next) {
		s->cap_next = s->cap_next ? s->cap_next * 2 : 64;
		s->next = mem_grow(s->next, sizeof *s->next * (size_t)s->cap_next);
	}
	struct suspect *to = &s->next[s->nnext++];
	*to = *from;
	to->job = arena_strdup(texts, from->job);
	to->owner = from->owner ? arena_strdup(texts, from->owner) : NULL;
	to->met = false;
	return to;
}

/* The suspects of this pass become the known ones. */
static void turn_over(struct suspects *s)
{
	struct suspect *spare = s->known;
	int cap_spare = s->cap_known;
	s->known = s->next;
	s->nknown = s->nnext;
	s->cap_known = s->cap_next;
	s->next = spare;
	s->cap_next = cap_spare;
	s->nnext = 0;
	s->at = 1 - s->at;
	s->open = false;
	if (s->nknown)
		qsort(s->known, (size_t)s->nknown, sizeof *s->known, guard_by_job);
}

/* A pass begins. If the previous one was never ended, its suspects are kept. */
static void suspects_begin(struct suspects *s)
{
	if (s->open) {
		for (int i = 0; i < s->nknown; i++)
			if (!s->known[i].met)
				(void)guard_add(s, &s->known[i]);
		turn_over(s);
	}
	arena_clear(&s->arenas[1 - s->at]);
	s->open = true;
}

static struct suspect *guard_find(const struct suspects *s, const char *job)
{
	struct suspect key = {.job = job};
	return s->nknown ? bsearch(&key, s->known, (size_t)s->nknown, sizeof key, guard_by_job) : NULL;
}

/* This job is silent: its entry, new if its owner or sign has changed; NULL: no room. */
static struct suspect *suspects_see(struct suspects *s, const char *job, const char *owner,
                                    enum sign sign, int64_t sign_us, int64_t now_us,
                                    int64_t boot_us)
{
	struct suspect *old = guard_find(s, job);
	struct suspect first = {.job = job,
	                        .owner = owner,
	                        .sign = sign,
	                        .sign_us = sign_us,
	                        .seen_us = now_us,
	                        .seen_boot_us = boot_us};
	assert(s->open && job != NULL);
	if (old)
		old->met = true;
	bool again = old && old->sign_us == sign_us && text_eq(old->owner, owner);
	return guard_add(s, again ? old : &first);
}

/* The pass saw all jobs: suspects that it did not see are gone. Texts live until the next begin. */
static void suspects_end(struct suspects *s, const struct gone_suspect **gone, int *ngone)
{
	assert(s->open);
	int n = 0;
	if (s->cap_gone < s->nknown) {
		s->cap_gone = s->nknown;
		s->gone = mem_grow(s->gone, sizeof *s->gone * (size_t)s->cap_gone);
	}
	for (int i = 0; i < s->nknown; i++)
		if (!s->known[i].met && !s->known[i].passed)
			s->gone[n++] = (struct gone_suspect){s->known[i].job, s->known[i].owner,
			                                     s->known[i].sign, s->known[i].sign_us};
	*gone = s->gone;
	*ngone = n;
	turn_over(s);
}

static void suspects_clear(struct suspects *s)
{
	arena_release(&s->arenas[0]);
	arena_release(&s->arenas[1]);
	free(s->known);
	free(s->next);
	free(s->gone);
	*s = (struct suspects){0};
}

/* ---- the guard ---- */

struct guard {
	struct brake_rules rules;
	int64_t beat_us;
	struct brake brake;
	struct suspects suspects;
	struct pace pace;
	struct pace_rules pace_rules;
	/* of the current pass */
	const struct doubt *doubt;
	int64_t now_us, boot_us, first_us;
	int64_t pace_us; /* our own clock, including the time that batches took */
	bool begun, override, barred;
	int64_t held[GUARD_COUNT];
	int64_t paid; /* let through, and not returned */
	int64_t confirmed, again_us;
	bool doubting;
	const char *doubt_cause;
	int64_t doubt_until_us;
};

static int64_t quiet_us(const struct watch *w)
{
	return w->beat_us ? QUIET_BEATS * w->beat_us : QUIET_US;
}

static void set_pace(struct guard *g, const struct watch *w)
{
	struct pace_rules r = {.per_s = w->guard.off ? 0 : w->guard.pace_per_s,
	                       .burst = w->guard.pace_burst};
	bool paused = g->pace.paused;
	if (g->begun && r.per_s == g->pace_rules.per_s && r.burst == g->pace_rules.burst)
		return;
	g->pace_rules = r;
	pace_init(&g->pace, &r);
	pace_pause(&g->pace, paused);
}

void guard_rules(struct guard *g, const struct watch *w)
{
	g->beat_us = w->beat_us;
	g->rules = (struct brake_rules){
		.on = !w->guard.off && w->beat_us > 0 && w->guard.brake_ceiling_us > 0,
		.share = w->guard.brake_share,
		.owners = w->guard.brake_owners,
		.ceiling_us = w->guard.brake_ceiling_us,
		.limit_us = w->stuck_after.given ? threshold_least(&w->stuck_after) : 0,
		.quiet_us = quiet_us(w),
	};
	set_pace(g, w);
}

struct guard *guard_new(const struct watch *w)
{
	struct guard *g = mem_alloc(sizeof *g);
	guard_rules(g, w);
	return g;
}

void guard_free(struct guard *g)
{
	if (!g)
		return;
	brake_clear(&g->brake);
	suspects_clear(&g->suspects);
	free(g);
}

void guard_pause(struct guard *g, bool paused)
{
	pace_pause(&g->pace, paused);
}

/* Would a job whose limit ends at this moment be excused? Then we are in doubt, asked or not. */
static void doubt_now(struct guard *g)
{
	g->doubt_until_us = 0;
	g->doubt_cause = NULL;
	g->doubting = doubt_excuses(g->doubt, g->now_us - g->rules.quiet_us, g->rules.quiet_us,
	                            g->rules.quiet_us, g->now_us, &g->doubt_until_us, &g->doubt_cause);
}

void guard_begin(struct guard *g, const struct doubt *d, int64_t now_us, int64_t boot_us,
                 const struct census_row *census, int n, bool override)
{
	assert(d != NULL && (census != NULL || n == 0));
	/* After the clock was set back, a sign from before our first look may be a new one. */
	if (!g->begun)
		g->first_us = now_us;
	else if (now_us - g->now_us < boot_us - g->boot_us - CLOCK_SLACK_US)
		g->first_us = 0;
	g->begun = true;
	g->doubt = d;
	g->now_us = now_us;
	g->boot_us = g->pace_us = boot_us;
	g->override = override;
	g->barred = false;
	g->again_us = g->paid = 0;
	for (int i = 0; i < GUARD_COUNT; i++)
		g->held[i] = 0;
	doubt_now(g);
	suspects_begin(&g->suspects);
	brake_step(&g->brake, &g->rules, d, now_us, boot_us, census, n);
}

void guard_barred(struct guard *g)
{
	g->barred = true;
}

static struct guard_answer guard_pass(void)
{
	return (struct guard_answer){.by = GUARD_PASS};
}

static struct guard_answer guard_answer_by(enum guard_by by, int64_t until_us)
{
	return (struct guard_answer){.by = by, .until_us = until_us};
}

static struct guard_answer ask_doubt(struct guard *g, const struct facts *f,
                                     const struct judgement *j)
{
	int64_t alive_us = f->sign_us[j->sign], limit_us = j->limit_us, until_us;
	const char *cause;
	if (sign_kinds[j->sign].deadline) {
		/* A deadline does not say how long the lease was: the whole quiet time counts. */
		alive_us -= g->rules.quiet_us;
		limit_us += g->rules.quiet_us;
	}
	if (!doubt_excuses(g->doubt, alive_us, limit_us, g->rules.quiet_us, g->now_us, &until_us,
	                   &cause))
		return guard_pass();
	g->doubting = true;
	g->doubt_cause = cause;
	g->doubt_until_us = until_us > g->doubt_until_us ? until_us : g->doubt_until_us;
	return guard_answer_by(GUARD_DOUBT, until_us);
}

/* The time since the first sighting that counts. */
static int64_t believed_us(const struct guard *g, const struct suspect *s)
{
	int64_t ours_us = g->boot_us - s->seen_boot_us;
	int64_t clean_us = doubt_clean_us(g->doubt, s->seen_us, g->now_us);
	return ours_us < clean_us ? ours_us : clean_us;
}

static struct guard_answer confirm(struct guard *g, struct suspect *s)
{
	if (g->now_us < s->seen_us || g->barred) {
		/*
		 * The database's clock was set back: this is the first sighting by the new clock. Or a lock
		 * keeps workers from writing: that time does not count.
		 */
		s->seen_us = g->now_us;
		s->seen_boot_us = g->boot_us;
		s->confirmed = s->confirmed && !g->barred;
	}
	int64_t left_us = g->beat_us - believed_us(g, s);
	if (!s->confirmed && left_us > 0)
		return guard_answer_by(GUARD_LOOK, g->now_us + left_us);
	g->confirmed += !s->confirmed;
	s->confirmed = true;
	return guard_pass();
}

/* The latest time at which the brake releases, by the database's clock. */
static int64_t ceiling_us(const struct guard *g)
{
	return g->now_us + g->rules.ceiling_us - (g->boot_us - g->brake.since_boot_us);
}

static struct guard_answer ask_silent(struct guard *g, const struct facts *f,
                                      const struct judgement *j, struct suspect **suspect)
{
	struct guard_answer a = ask_doubt(g, f, j);
	int64_t sign_us = f->sign_us[j->sign];
	/*
	 * A lease that was over when we started may be one that could not be renewed: it gets a second
	 * look.
	 */
	bool old = sign_us + j->limit_us < g->first_us && !sign_kinds[j->sign].deadline;
	if (a.by != GUARD_PASS || g->beat_us == 0 || old)
		return a;
	*suspect =
		suspects_see(&g->suspects, f->job, f->owner, j->sign, sign_us, g->now_us, g->boot_us);
	/* Sightings also count under the brake: a job that it releases was seen for long enough. */
	if (*suspect)
		a = confirm(g, *suspect);
	else if (g->barred || j->measured_us < j->limit_us + g->beat_us)
		a = guard_answer_by(GUARD_LOOK, sign_us + j->limit_us + g->beat_us);
	return brake_holds(&g->brake, f->owner) ? guard_answer_by(GUARD_BRAKE, ceiling_us(g)) : a;
}

/* Its turn comes after all jobs that wait before it. */
static struct guard_answer ask_pace(struct guard *g)
{
	if (pace_take(&g->pace, 1, g->pace_us) == 1) {
		g->paid++;
		return guard_pass();
	}
	int64_t eta_us = pace_eta_us(&g->pace, g->held[GUARD_PACE] + 1, g->pace_us);
	return guard_answer_by(GUARD_PACE, g->now_us + eta_us);
}

/* The earliest moment at which a job that waits now may pass. */
static void guard_note(struct guard *g, struct guard_answer a)
{
	g->held[a.by]++;
	if (a.by == GUARD_PASS || a.by == GUARD_PACE || a.until_us == 0)
		return;
	if (g->again_us == 0 || a.until_us < g->again_us)
		g->again_us = a.until_us;
}

struct guard_answer guard_ask(struct guard *g, const struct facts *f, const struct judgement *j)
{
	struct suspect *suspect = NULL;
	struct guard_answer a = guard_pass();
	assert(g->doubt != NULL && j->verdict != VERDICT_NONE);
	if (verdict_has(j->verdict, VERDICT_DOUBTED))
		a = ask_silent(g, f, j, &suspect);
	if (g->override)
		a = guard_pass();
	if (a.by == GUARD_PASS && g->pace.paused)
		a = guard_answer_by(GUARD_PAUSED, 0);
	else if (a.by == GUARD_PASS && verdict_has(j->verdict, VERDICT_PACED))
		a = ask_pace(g);
	if (suspect && a.by == GUARD_PASS)
		suspect->passed = true;
	guard_note(g, a);
	return a;
}

void guard_give_back(struct guard *g)
{
	/* Dead jobs passed without tokens. */
	if (g->paid == 0)
		return;
	g->paid--;
	pace_give_back(&g->pace, 1);
}

void guard_batch(struct guard *g, int64_t jobs, int64_t took_us, bool failed)
{
	pace_batch(&g->pace, jobs, took_us, failed);
	g->pace_us += took_us;
}

bool is_near_miss(const struct gone_suspect *was, const struct facts *now)
{
	bool same = now->has_sign[was->sign] && now->sign_us[was->sign] == was->sign_us;
	return !same || !text_eq(now->owner, was->owner) || now->owner_alive == KNOWN_YES;
}

void guard_end(struct guard *g, const struct gone_suspect **gone, int *ngone)
{
	suspects_end(&g->suspects, gone, ngone);
	g->doubt = NULL;
}

int64_t guard_admit(struct guard *g, int64_t want, int64_t boot_us, int64_t *wait_us)
{
	g->pace_us = boot_us > g->pace_us ? boot_us : g->pace_us;
	int64_t n = pace_take(&g->pace, want, g->pace_us);
	*wait_us = n ? 0 : pace_eta_us(&g->pace, want, g->pace_us);
	return n;
}

void guard_admitted_less(struct guard *g, int64_t n)
{
	pace_give_back(&g->pace, n);
}

/* A pass for each single job would be a waste: wait for about one second's worth. */
static int64_t pace_again_us(const struct guard *g)
{
	double second = g->pace.rate > 1 ? g->pace.rate : 1;
	int64_t few = (int64_t)second;
	int64_t n = g->held[GUARD_PACE] < few ? g->held[GUARD_PACE] : few;
	return g->now_us + pace_eta_us(&g->pace, n, g->pace_us);
}

void guard_report(const struct guard *g, struct guard_report *out)
{
	const struct brake *b = &g->brake;
	*out = (struct guard_report){
		.suspects = g->suspects.open ? g->suspects.nnext : g->suspects.nknown,
		.confirmed = g->confirmed,
		.braking = b->engaged,
		.brake_since_us = b->engaged ? b->since_us : 0,
		.brake_until_us = b->engaged ? ceiling_us(g) : 0,
		.brake_silent = b->silent,
		.brake_beating = b->beating,
		.brakes = b->engagements,
		.brake_ended = b->ended,
		.doubting = g->doubting,
		.doubt_cause = g->doubt_cause,
		.doubt_until_us = g->doubt_until_us,
		.rate = g->pace.rate,
		.paused = g->pace.paused,
		.again_us = g->again_us,
	};
	for (int i = 0; i < GUARD_COUNT; i++)
		out->held[i] = g->held[i];
	if (g->held[GUARD_PACE] && !g->pace.paused) {
		int64_t again_us = pace_again_us(g);
		if (out->again_us == 0 || again_us < out->again_us)
			out->again_us = again_us;
	}
}

/* "12:05:00Z" of an ISO time, without the day. */
static void guard_add_time(struct buf *out, int64_t us)
{
	AUTO_BUF iso = BUF_INIT;
	time_iso(us, &iso);
	assert(iso.len >= 19);
	buf_addn(out, buf_text(&iso) + 11, 8);
	buf_addch(out, 'Z');
}

static void explain_doubt(const struct guard *g, int64_t n, struct buf *out)
{
	buf_addf(out, "the observer itself was away (%s); %" PRId64 " are judged again by ",
	         g->doubt_cause, n);
	guard_add_time(out, g->doubt_until_us);
}

static void explain_brake(const struct guard *g, int64_t n, struct buf *out)
{
	const struct brake *b = &g->brake;
	(void)n;
	buf_addf(out, "%" PRId64 " of %" PRId64 " owners fell silent within ", b->silent,
	         b->silent + b->beating);
	duration_text(g->rules.limit_us, out);
	buf_add(out, "; releases when they return or their end is known, at ");
	guard_add_time(out, ceiling_us(g));
	buf_add(out, " at the latest");
}

static void explain_look(const struct guard *g, int64_t n, struct buf *out)
{
	buf_addf(out, "%" PRId64 " were silent at the first look; the second look follows after ", n);
	duration_text(g->beat_us, out);
}

static void explain_pace(const struct guard *g, int64_t n, struct buf *out)
{
	buf_addf(out, "%" PRId64 " wait for the pace of %.3g per second", n, g->pace.rate);
	if (g->pace.paused)
		return;
	buf_add(out, ", the last in ");
	duration_text(pace_eta_us(&g->pace, n, g->pace_us), out);
}

static void explain_paused(const struct guard *g, int64_t n, struct buf *out)
{
	(void)g;
	buf_addf(out, "an operator paused recovery of this watch; %" PRId64 " wait until it is resumed",
	         n);
}

void guard_sentence(const struct guard *g, struct buf *out)
{
	static void (*const explain[GUARD_COUNT])(const struct guard *, int64_t, struct buf *) = {
		[GUARD_DOUBT] = explain_doubt, [GUARD_BRAKE] = explain_brake,   [GUARD_LOOK] = explain_look,
		[GUARD_PACE] = explain_pace,   [GUARD_PAUSED] = explain_paused,
	};
	int64_t all = 0, passed = g->held[GUARD_PASS];
	const char *before = ", because ";
	for (int i = 0; i < GUARD_COUNT; i++)
		all += g->held[i];
	if (all == 0)
		buf_add(out, "nothing is held back: nothing is stuck");
	else if (passed == all)
		buf_addf(out, "nothing is held back: all %" PRId64 " passed", all);
	else
		buf_addf(out, "held %" PRId64 " of %" PRId64, all - passed, all);
	for (int i = 0; i < GUARD_COUNT; i++) {
		if (!explain[i] || g->held[i] == 0)
			continue;
		buf_add(out, before);
		explain[i](g, g->held[i], out);
		before = "; ";
	}
}

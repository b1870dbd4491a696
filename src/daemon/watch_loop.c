/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/watch_loop.h"

#include "base/clock.h"
#include "base/log.h"
#include "ledger/events.h"
#include "ledger/orders.h"
#include "recover/evidence.h"
#include "recover/startup.h"
#include "view/output.h"
#include "view/stats.h"

#define PACED_MS 1000    /* between passes while jobs wait for the pace */
#define AWAY_US 30000000 /* after an outage, a silent owner may still be heard */
#define SOON_MS 100      /* shortest time between passes */

struct watch_loop *watch_loop_new(const struct watch *w, const char *actor, bool ledger_off)
{
	struct watch_loop *p = mem_alloc(sizeof *p);
	p->watch = w;
	p->factor = 1;
	p->unseen = true;
	p->reading.waiting = p->reading.oldest_ms = SERIES_UNKNOWN;
	p->guard = guard_new(w);
	p->starts = starts_new();
	p->options = (struct scan_options){.fix = true,
	                                   .actor = actor,
	                                   .ledger_off = ledger_off,
	                                   .guard = p->guard,
	                                   .starts = p->starts};
	return p;
}

void watch_loop_free(struct watch_loop *p)
{
	scanner_free(p->scanner);
	guard_free(p->guard);
	starts_free(p->starts);
	bound_release(&p->learning.bound);
	watch_metrics_release(&p->meter);
	reading_release(&p->reading);
	buf_release(&p->cycle.jobs);
	arena_release(&p->arena);
	free(p);
}

/* Whether a guard's memory (keys, owners, signs) is about the same rows. */
static bool same_rows(const struct watch *a, const struct watch *b)
{
	bool same = text_eq(a->table, b->table) && text_eq(a->owner.text, b->owner.text) &&
	            a->key.n == b->key.n;
	for (int i = 0; same && i < a->key.n; i++)
		same = text_eq(a->key.items[i], b->key.items[i]);
	for (int i = 0; same && i < SIGN_COUNT; i++)
		same = text_eq(watch_sign(a, i)->text, watch_sign(b, i)->text);
	return same && text_eq(a->waiting.text, b->waiting.text) &&
	       text_eq(a->due_at.text, b->due_at.text) && text_eq(a->kind.text, b->kind.text);
}

void watch_loop_renew(struct watch_loop *p, const struct watch *w, bool ledger_off)
{
	if (!same_rows(p->watch, w)) {
		guard_free(p->guard);
		p->guard = guard_new(w);
		starts_clear(p->starts);
		guard_pause(p->guard, p->paused);
		p->options.guard = p->guard;
		p->unseen = true;
	}
	p->watch = w;
	p->options.ledger_off = ledger_off;
	/* Rebuilt when overrides are read next, which is before the next pass. */
	scanner_free(p->scanner);
	p->scanner = NULL;
	p->raised = NULL;
	learning_renew(&p->learning);
	p->due_ms = 0;
}

/* ---- overrides ---- */

/* Other thresholds mean other statements: the scanner is rebuilt, what the guard saw is kept. */
static void watch_loop_set_factor(struct watch_loop *p, struct session *session, double factor,
                                  const char *actor)
{
	if (p->scanner && factor == p->factor)
		return;
	if (factor != p->factor) {
		char text[32];
		const char *by = text;
		snprintf(text, sizeof text, "%g", factor);
		log_event(LOG_WARN, factor > 1 ? "thresholds are raised" : "thresholds are as configured",
		          LOG_STR("watch", p->watch->name), LOG_STR("factor", by), LOG_STR("actor", actor));
	}
	scanner_free(p->scanner);
	arena_clear(&p->arena);
	p->factor = factor;
	p->raised = watch_raised(p->watch, factor, &p->arena);
	guard_rules(p->guard, p->raised);
	p->scanner = scanner_new(session, p->raised, &p->options);
}

/*
 * The database's clock, from its last reading and our own clock since: schedules use the same clock
 * as ages, without another statement. Before the first reading the host's clock is used, for the
 * one pass that makes it.
 */
static int64_t database_us(const struct absence *v)
{
	return v->opened ? v->clocks.database_us + clock_boot_us() - v->clocks.own_us : clock_wall_us();
}

/* Without guards, once: an override that was used may still be read until it is cleared. */
static void set_override(struct watch_loop *p)
{
	bool past = p->override_us && p->override_us != p->overrode_us;
	if (past && !p->options.override_guard)
		p->due_ms = 0;
	p->options.override_guard = past;
}

static void use_override(struct watch_loop *p, struct session *session)
{
	struct failure f = {0};
	bool was;
	if (!p->options.override_guard || p->last.failure.code)
		return;
	p->options.override_guard = false;
	p->overrode_us = p->override_us;
	log_event(LOG_WARN, "a scan ignored its guards, as an operator ordered",
	          LOG_STR("watch", p->watch->name));
	if (session_ready(session, &f) ||
	    override_remove(session->store, p->watch->name, OVERRIDE_GUARDS, &was, &f))
		log_event(LOG_WARN, f.what);
}

/* Who may tell a daemon to ignore guards may do so for its own watches. */
static bool may_override(const struct watch_loop *p, struct session *session, const char *role)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	const char *refusal = NULL;
	defib_err err = order_check(session->store, p->watch, role, &a, &refusal, &f);
	if (err || refusal)
		row_set_aside("defib.setting", p->watch->name, err ? f.what : refusal);
	return !err && !refusal;
}

void watch_loop_override(struct watch_loop *p, struct session *session,
                         const struct override *overrides, int n)
{
	double factor = watch_raise(p->watch, database_us(p->options.absence));
	const char *actor = "schedule";
	struct override_sum sum = override_of(overrides, n, p->watch->name);
	if (sum.factor > factor) {
		factor = sum.factor;
		actor = sum.raised_by;
	}
	if (sum.override_us && sum.override_us != p->override_us &&
	    !may_override(p, session, sum.override_role))
		sum.override_us = 0;
	p->override_us = sum.override_us;
	/* An override takes effect at once, not at the end of a long interval. */
	if (sum.paused != p->paused || factor != p->factor)
		p->due_ms = 0;
	p->paused = sum.paused;
	guard_pause(p->guard, sum.paused);
	set_override(p);
	watch_loop_set_factor(p, session, factor, actor);
}

/* ---- a pass ---- */

static void watch_loop_count_pass(struct watch_loop *p)
{
	const struct scan_result *r = &p->last;
	p->counts.passes++;
	p->counts.failed += r->failure.code != DEFIB_OK;
	p->counts.found += r->found;
	p->counts.changed += r->outcomes[OUTCOME_CHANGED];
	p->counts.near_misses += r->near_misses;
	if (!r->ledger) {
		p->counts.recovered += r->outcomes[OUTCOME_RECOVERED];
		p->counts.held += r->outcomes[OUTCOME_HELD] - r->held_before;
		p->counts.retried += r->retried;
	}
	if (!r->failure.code) {
		p->last_ok_us = r->now_us;
		p->last_ok_ms = clock_boot_ms();
	}
}

void watch_loop_count(struct watch_loop *p, const struct event_count *e)
{
	p->counts.recovered += e->counts & COUNTS_RECOVERED ? e->n : 0;
	p->counts.held += e->counts & COUNTS_HELD ? e->n : 0;
	p->counts.retried += text_eq(e->event, act_event(ACT_THEN)) && !e->verdict ? e->n : 0;
	watch_metrics_entries(&p->meter, e);
}

/* When a guard could let a job through, or pace allows more; else the watch's own interval. */
static int64_t next_pass_ms(const struct watch_loop *p)
{
	int64_t every = p->watch->every_us / 1000;
	const struct scan_result *r = &p->last;
	struct guard_report g;
	guard_report(p->guard, &g);
	int64_t again = g.again_us ? (g.again_us - r->now_us) / 1000 + 1 : every;
	if (r->guarded[GUARD_PACE] && again > PACED_MS)
		again = PACED_MS;
	int64_t next = again < every ? again : every;
	return next > SOON_MS ? next : SOON_MS;
}

static bool was_away(const struct absence *v)
{
	const struct doubt *d = &v->doubt;
	return v->cause || (d->n > 0 && database_us(v) - d->outages[d->n - 1].end_us < AWAY_US);
}

/* Once, before the first pass: cleanup after dead instances. */
static void start_up(struct watch_loop *p, struct session *session)
{
	struct startup_options o = {.doubtful = was_away(p->options.absence),
	                            .ledger_off = p->options.ledger_off,
	                            .go_on = p->options.go_on,
	                            .ctx = p->options.observer.ctx};
	struct startup_result result;
	struct failure f = {0};
	if (p->started || p->paused)
		return;
	p->started = true;
	if (startup_reconcile(session, p->raised, &o, &result, &f))
		log_event(LOG_ERROR, "cleanup after dead instances is incomplete",
		          LOG_STR("watch", p->watch->name), LOG_STR("because", f.what));
	if (result.outcomes[OUTCOME_RECOVERED] > 0)
		groups_tell(&(struct group_part){p->watch, result.outcomes[OUTCOME_RECOVERED]}, 1);
	if (p->options.ledger_off)
		watch_metrics_startup(&p->meter, result.outcomes);
}

static void watch_loop_measure(struct watch_loop *p)
{
	struct guard_report g;
	guard_report(p->guard, &g);
	watch_metrics_pass(&p->meter,
	                   &(struct watch_metrics_pass){
						   .watch = p->watch,
						   .result = &p->last,
						   .guard = &g,
						   .factor = p->factor,
						   .mistakes = p->learning.counted ? &p->learning.mistakes : NULL,
						   .wall_us = clock_wall_us(),
					   });
}

void watch_loop_pass(struct watch_loop *p, struct session *session, const char *actor)
{
	int64_t start = clock_boot_ms();
	watch_metrics_begin(&p->meter, p->due_ms, start);
	start_up(p, session);
	buf_clear(&p->cycle.jobs);
	p->cycle.named = p->cycle.more = 0;
	scanner_pass(p->scanner, &p->last);
	use_override(p, session);
	int64_t next = next_pass_ms(p);
	/* From its start: a long pass is not added to the interval. Missed passes become one. */
	int64_t now = clock_boot_ms();
	p->due_ms = start + next > now ? start + next : now;
	p->unseen = false;
	watch_loop_count_pass(p);
	guard_log_changes(&p->guards_logged, p->guard, session, p->watch, &p->last, actor);
	late_log_changes(&p->late_logged, session, p->watch, &p->last, actor);
	cycle_log(&p->cycle, p->watch, &p->last, next);
	if (!p->last.failure.code)
		learning_take(&p->learning, session, p->watch, p->options.ledger_off);
	watch_loop_measure(p);
}

/* ---- its state ---- */

static void add_int(struct buf *out, const char *name, int64_t n)
{
	json_number(out, name, true, n);
}

/* A text or a time that does not exist is left out. */
static void watch_loop_add_text(struct buf *out, const char *name, const char *text)
{
	if (text && *text)
		json_text(out, name, text);
}

static void watch_loop_add_time(struct buf *out, const char *name, int64_t us)
{
	if (us)
		json_time(out, name, true, us);
}

/* Rows that wait: a number of their own, and why. */
static void add_late(const struct waiting_result *r, struct buf *out)
{
	AUTO_BUF sentence = BUF_INIT;
	if (!r->asked)
		return;
	late_sentence(r, &sentence);
	add_int(out, "late", r->late);
	add_int(out, "unstarted", r->unstarted);
	watch_loop_add_text(out, "late_says", buf_text(&sentence));
}

static void add_guard(const struct watch_loop *p, const struct guard_report *r, struct buf *out)
{
	AUTO_BUF sentence = BUF_INIT;
	guard_sentence(p->guard, &sentence);
	buf_addf(out, ",\"guarded\":{\"total\":%lld", (long long)cycle_guarded(&p->last));
	for (int i = GUARD_PASS + 1; i < GUARD_COUNT; i++)
		add_int(out, guard_names[i], p->last.guarded[i]);
	buf_add(out, "}");
	watch_loop_add_text(out, "guard", buf_text(&sentence));
	add_int(out, "suspects", r->suspects);
	add_int(out, "brakes", r->brakes);
	json_bool(out, "braking", r->braking);
	json_bool(out, "doubting", r->doubting);
	json_bool(out, "paused", r->paused);
	buf_addf(out, ",\"rate\":%.1f", r->rate);
	watch_loop_add_text(out, "doubt_cause", r->doubting ? r->doubt_cause : NULL);
	watch_loop_add_time(out, "doubt_until", r->doubting ? r->doubt_until_us : 0);
	watch_loop_add_time(out, "brake_until", r->braking ? r->brake_until_us : 0);
	watch_loop_add_text(out, "brake_ended", r->brake_ended);
}

void watch_loop_info(const struct watch_loop *p, struct buf *out)
{
	const struct scan_result *r = &p->last;
	struct guard_report g;
	guard_report(p->guard, &g);
	buf_addf(out, "{\"factor\":%g", p->factor);
	add_int(out, "every_s", p->watch->every_us / US_PER_S);
	add_int(out, "passes", p->counts.passes);
	add_int(out, "failed_passes", p->counts.failed);
	add_int(out, "running", r->running);
	json_bool(out, "never_seen_running", r->never_seen);
	json_bool(out, "row_security", r->row_security);
	add_int(out, "found", r->found);
	/* Before and after the pass; jobs that are on hold or wait behind a guard are neither. */
	add_int(out, "stuck", r->found - r->held_before);
	add_int(out, "left_stuck",
	        r->outcomes[OUTCOME_LEFT] + r->outcomes[OUTCOME_LOCKED] + r->outcomes[OUTCOME_REFUSED]);
	add_int(out, "on_hold", r->on_hold);
	add_int(out, "excused", r->excused);
	add_late(&r->waiting, out);
	add_int(out, "recovered_total", p->counts.recovered);
	add_int(out, "held_total", p->counts.held);
	add_int(out, "retried_total", p->counts.retried);
	add_int(out, "near_misses_total", p->counts.near_misses);
	if (p->reading.counts)
		add_int(out, READINGS_PLACE, p->reading.ledger_id);
	if (p->learning.counted) {
		const struct viewer v = viewer_local(NULL, NULL);
		buf_add(out, ",\"false_positives\":");
		record_json(&mistakes_record, &p->learning.mistakes, &v, out);
	}
	watch_loop_add_time(out, "last_finished_scan", p->last_ok_us);
	watch_loop_add_text(out, "failure", r->failure.code ? r->failure.what : NULL);
	if (r->guarded[GUARD_PACE] || r->guarded[GUARD_PAUSED])
		add_int(out, "waiting", r->left);
	if (r->guarded[GUARD_PACE])
		add_int(out, "eta_s", g.rate > 0 ? (int64_t)((double)r->left / g.rate) + 1 : 0);
	add_guard(p, &g, out);
	buf_add(out, "}");
}

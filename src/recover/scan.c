/* SPDX-License-Identifier: Apache-2.0
 * scan.c: see scan.h.
 *
 * A page of candidates is read at once and applied in batches, each in a
 * transaction of its own. Memory is bounded by the page; a million stuck rows
 * are a few dozen pages.
 */
#include "recover/scan.h"

#include "base/clock.h"
#include "base/log.h"
#include "ledger/counts.h"
#include "recover/bound.h"
#include "recover/carry.h"
#include "recover/census.h"
#include "recover/evidence.h"
#include "recover/held.h"
#include "recover/judge.h"
#include "recover/look.h"
#include "recover/masked.h"
#include "recover/mistakes.h"
#include "recover/seen.h"
#include "recover/waiting.h"
#include "recover/wake.h"
#include "store/dialect.h"
#include "watch/compile_write.h"
#include "watch/lexer.h"

#include <assert.h>

#define LANES_FROM 2 /* batches: a smaller number is done before more sessions could be opened */

struct scanner {
	struct session *session;
	const struct watch *watch;
	const struct scan_options *options;
	struct scan_result *result;
	struct arena page;
	struct bound bound;
	struct carrier carrier;
	struct lanes *lanes; /* of a pass over many; else NULL */
	struct census_sql census;
	int64_t late_ms; /* when to check for late completions and ended holds again */
	bool seen;       /* a row was running once, or the ledger has an entry */
	struct unseen unseen;
	int64_t unseen_ms; /* when to check again */
	bool by_memory;    /* these jobs were found by what was seen of them before */
	int64_t ended_ms;  /* not before: when claims of ended runs are read again */
	bool barred;       /* a lock keeps workers from writing */
	bool paced;        /* the pace, or an operator, lets nothing more through in this pass */
};

static defib_err scan_set_up(struct scanner *p, struct failure *f)
{
	const struct scan_options *o = p->options;
	defib_err err = o->forced ? bound_can(p->watch, (int)o->remedy, f) : DEFIB_OK;
	if (err)
		return err;
	bool anew = !p->bound.ready;
	err = bound_open(&p->bound, p->session, p->watch,
	                 o->ledger_off ? LEDGER_NONE
	                 : o->fix      ? LEDGER_CREATE
	                               : LEDGER_FIND,
	                 f);
	if (!err && anew)
		census_compile(&p->bound.sql, &p->bound.arena, &p->census);
	return err;
}

static defib_err first_reading(struct scanner *p, struct failure *f)
{
	struct scan_result *r = p->result;
	defib_err err = scan_set_up(p, f);
	r->ledger = p->bound.ledger.ready;
	r->ledger_made = p->bound.ledger.made;
	snprintf(r->ledger_off, sizeof r->ledger_off, "%s", p->bound.ledger.off_because);
	r->ledger_advice = p->bound.ledger.off_advice;
	if (!err && !p->options->owner)
		err = look_running(p->session->store, &p->bound.sql, &r->running, f);
	r->running_known = !err && !p->options->owner;
	r->running_capped = r->running >= ROWS_COUNT_MAX;
	/* After the first reading: a missing privilege on the table is the more important error. */
	if (!err && p->options->fix)
		err = bound_refuse_loop(&p->bound, p->watch, p->options->forced, p->options->remedy, f);
	return err;
}

void candidate_prepare(const struct watch *w, const struct facts *f, const struct judgement *j,
                       const struct scan_options *o, bool ledger, struct arena *a,
                       struct candidate *out)
{
	struct decide_options d = {ledger, o->forced, o->remedy};
	AUTO_BUF text = BUF_INIT;
	*out = (struct candidate){.facts = *f, .judgement = *j};
	out->decision = decide(w, f, j, &d);
	out->does = (int)out->decision.remedy;
	const char *template = o->reason ? o->reason : reason_template(w, out->decision.remedy);
	if (!o->reason && text_eq(out->decision.cause, HOLD_POISON)) {
		buf_addf(&text, POISON_REASON "%lld", (long long)decide_crashes(f));
		poison_reason_end(w, &text);
	} else {
		reason_text(w, template, f, j, &text);
	}
	out->reason = arena_strdup(a, buf_text(&text));
	buf_clear(&text);
	evidence_json(w, f, j, &text);
	out->evidence = arena_strdup(a, buf_text(&text));
	if (o->override_guard)
		out->evidence =
			arena_printf(a, "%.*s,\"override_guard\":true}", (int)text.len - 1, buf_text(&text));
	if (!out->decision.act)
		out->outcome = act_outcome((int)out->decision.remedy);
}

void judged_candidate(const struct watch *w, const struct facts *f, bool ledger, struct arena *a,
                      struct candidate *out)
{
	struct judgement j = judge_shown(w, f);
	struct scan_options o = {0};
	if (j.verdict != VERDICT_NONE) {
		candidate_prepare(w, f, &j, &o, ledger, a, out);
		return;
	}
	AUTO_BUF evidence = BUF_INIT;
	evidence_json(w, f, &j, &evidence);
	*out = (struct candidate){
		.facts = *f, .judgement = j, .evidence = arena_strdup(a, buf_text(&evidence))};
}

static void count_outcome(struct scan_result *r, const struct candidate *c)
{
	bool before = c->outcome == OUTCOME_HELD && !c->decision.act;
	r->outcomes[c->outcome]++;
	r->held_before += before;
	if (!before && c->judgement.measured && !c->judgement.waited &&
	    c->judgement.measured_us > r->oldest_sign_us)
		r->oldest_sign_us = c->judgement.measured_us;
}

/* Reported with its watch (struct waiting_result): it counts as no job that is stuck. */
static bool is_only_reported(const struct candidate *c)
{
	return verdict_has(c->judgement.verdict, VERDICT_WAITS) && c->decision.remedy == REMEDY_REPORT;
}

static void report(struct scanner *p, const struct candidate *batch, int n)
{
	const struct scan_observer *ob = &p->options->observer;
	for (int i = 0; i < n; i++) {
		bool done = batch[i].outcome == OUTCOME_RECOVERED || batch[i].outcome == OUTCOME_HELD;
		if (!is_only_reported(&batch[i]))
			count_outcome(p->result, &batch[i]);
		if (done && batch[i].judgement.waited)
			starts_changed(p->options->starts, batch[i].facts.job);
		if (ob->job)
			ob->job(ob->ctx, p->watch, &batch[i]);
	}
	if (ob->progress)
		ob->progress(ob->ctx, p->watch, p->result);
}

/* ---- guards: in the daemon only ---- */

static void ask_guard(struct scanner *p, struct candidate *c)
{
	if (!p->options->guard || !c->decision.act)
		return;
	c->guard = guard_ask(p->options->guard, &c->facts, &c->judgement);
	p->result->guarded[c->guard.by]++;
	if (c->guard.by == GUARD_PASS)
		return;
	c->outcome = OUTCOME_GUARDED;
	c->decision.act = false;
	p->paced = p->paced || c->guard.by == GUARD_PACE || c->guard.by == GUARD_PAUSED;
}

static void report_to_guard(struct scanner *p, const struct candidate *batch, int n,
                            int64_t took_us, bool failed)
{
	int64_t asked = 0, written = 0;
	if (!p->options->guard)
		return;
	for (int i = 0; i < n; i++) {
		bool done = batch[i].outcome == OUTCOME_RECOVERED || batch[i].outcome == OUTCOME_HELD;
		asked += batch[i].decision.act;
		written += batch[i].decision.act && done;
		if (batch[i].decision.act && !done)
			guard_give_back(p->options->guard);
	}
	if (asked)
		guard_batch(p->options->guard, written, took_us, failed);
}

/* Something was read at this time of the database's. */
static void read_clocks(struct scanner *p, int64_t now_us)
{
	struct absence *v = p->options->absence;
	absence_state(v, p->session->states);
	absence_read(v, p->session->opened, now_us, clock_boot_us());
}

/* What the guard must know before it decides on single jobs. */
static defib_err begin_guard(struct scanner *p, struct failure *f)
{
	const struct scan_options *o = p->options;
	struct census census;
	bool barred = false;
	p->paced = false;
	if (!o->guard)
		return DEFIB_OK;
	defib_err err = census_read(p->session->store, &p->census, &p->page, &census, f);
	if (!err && (p->watch->beat_us || (o->starts && watch_waits(p->watch))))
		err = census_barred(p->session->store, p->bound.binding.watch, &barred, f);
	if (err)
		return err;
	p->result->now_us = census.now_us;
	read_clocks(p, census.now_us);
	guard_begin(o->guard, &o->absence->doubt, census.now_us, clock_boot_us(), census.rows, census.n,
	            o->override_guard);
	p->barred = barred;
	if (barred && p->watch->beat_us)
		guard_barred(o->guard);
	return DEFIB_OK;
}

/* Suspects that are gone: those that beat again were near misses. */
static defib_err end_guard(struct scanner *p, struct failure *f)
{
	const struct scan_options *o = p->options;
	const struct gone_suspect *gone = NULL;
	int ngone = 0;
	if (!o->guard)
		return DEFIB_OK;
	/* Only a pass that reached all jobs can tell which suspects are gone. */
	if (!p->paced && !p->result->stopped && !p->result->limited)
		guard_end(o->guard, &gone, &ngone);
	defib_err err =
		near_misses(&(struct look){p->session->store, &p->bound.sql, &p->bound.ledger, &p->page},
	                gone, ngone, &p->result->near_misses, f);
	if (!err && p->paced)
		err = held_stuck(p->session->store, &p->bound.sql, p->bound.ledger.ready, &p->result->left,
		                 f);
	return err;
}

static bool scan_goes_on(const struct scanner *p)
{
	const struct scan_options *o = p->options;
	if (!p->result->stopped && o->go_on && !o->go_on(o->observer.ctx))
		p->result->stopped = true;
	return !p->result->stopped && !p->paced;
}

/* A dry run shows what --fix would do, and --fix creates a missing ledger first. */
static bool will_have_ledger(const struct scanner *p)
{
	return p->bound.ledger.ready || (!p->options->fix && !p->options->ledger_off);
}

/* Judge and decide; returns how many of them are stuck. */
static int prepare_batch(struct scanner *p, const struct facts *facts, int n, struct arena *a,
                         struct candidate **out)
{
	struct candidate *batch = *out = ARENA_ARRAY(a, struct candidate, n);
	int stuck = 0, reported = 0;
	for (int i = 0; i < n; i++) {
		struct judgement j = judge(p->watch, &facts[i]);
		bool doubtful = p->options->dead_only && !verdict_has(j.verdict, VERDICT_AGELESS);
		/* Those are found by a look of their own, not also among the others. */
		bool elsewhere = j.measured && watch_remembers(p->watch, j.sign) && !p->by_memory;
		if (j.verdict == VERDICT_NONE || doubtful || elsewhere)
			continue;
		if (judged_excused(&facts[i], &j)) {
			p->result->excused++;
			continue;
		}
		struct candidate *c = &batch[stuck++];
		candidate_prepare(p->watch, &facts[i], &j, p->options, will_have_ledger(p), a, c);
		if (is_only_reported(c) && p->options->guard) {
			stuck--;
			continue;
		}
		reported += is_only_reported(c);
		if (act_has((int)c->decision.remedy, ACT_WAITS))
			c->retry_us = facts[i].now_us + backoff_us(&p->watch->backoff, facts[i].attempts,
			                                           chance_draw(&p->carrier.chance));
		ask_guard(p, c);
	}
	p->result->found += stuck - reported;
	return stuck;
}

static defib_err scan_do_batch(struct scanner *p, const struct facts *facts, int n,
                               struct failure *f)
{
	struct candidate *batch;
	int stuck = prepare_batch(p, facts, n, &p->carrier.arena, &batch);
	defib_err err = DEFIB_OK;
	int64_t start = clock_boot_us();
	if (p->options->fix && stuck)
		err = carry(&p->carrier, batch, stuck, &p->page, f);
	report_to_guard(p, batch, stuck, clock_boot_us() - start, err != DEFIB_OK);
	report(p, batch, stuck); /* also after a failure: a part may have been done */
	arena_clear(&p->carrier.arena);
	return err;
}

/* ---- many batches: written in lanes, while the next are read and judged ---- */

/* Take finished batches, in order; all: wait for the others too. The first failure counts. */
static defib_err take_done(struct scanner *p, bool all, defib_err err, struct failure *f)
{
	while (p->lanes && (all || lanes_full(p->lanes))) {
		struct lane_job *j = lanes_take(p->lanes);
		if (!j)
			break;
		report(p, j->batch, j->stuck);
		if (j->err && !err) {
			err = j->err;
			*f = j->failure;
		}
		lane_job_free(j);
	}
	return err;
}

static defib_err put_batch(struct scanner *p, const struct facts *facts, int n, bool last,
                           struct failure *f)
{
	struct lane_job *j = lane_job_new();
	defib_err err = take_done(p, false, DEFIB_OK, f);
	j->stuck = prepare_batch(p, facts, n, &j->arena, &j->batch);
	/* The facts are freed with the last batch of their page. */
	if (last) {
		j->page = p->page;
		p->page = (struct arena)ARENA_INIT;
	}
	lanes_put(p->lanes, j);
	return err;
}

/*
 * The guard's answers depend on what was done so far, so batches are written one by one then. So
 * are those that must be stable: one that commits makes the other begin again.
 */
static void open_lanes(struct scanner *p, int n)
{
	const struct scan_options *o = p->options;
	if (!p->lanes && o->fix && !o->guard && !watch_writes_beyond(&p->bound.sql) &&
	    !store_dialect(p->session->store)->one_writer && n > LANES_FROM * p->watch->batch)
		p->lanes = lanes_open(p->session, &p->carrier);
}

static defib_err scan_do_page(struct scanner *p, struct facts *facts, int n, struct failure *f)
{
	defib_err err = DEFIB_OK;
	bool mass = p->options->mass || facts_mass(p->watch, facts, n);
	for (int i = 0; i < n; i++)
		facts[i].mass = mass;
	open_lanes(p, n);
	for (int at = 0; at < n && !err && scan_goes_on(p); at += (int)p->watch->batch) {
		int size = n - at < p->watch->batch ? n - at : (int)p->watch->batch;
		err = p->lanes ? put_batch(p, facts + at, size, at + size == n, f)
		               : scan_do_batch(p, facts + at, size, f);
	}
	return err || p->result->stopped ? take_done(p, true, err, f) : err;
}

/* Keep what the next page needs of this one's last row, before its arena is cleared. */
static void keep_position(const struct facts *last, struct arena *a, struct facts *out)
{
	*out = (struct facts){.position = arena_strdup(a, last->position)};
	for (int k = 0; k < WATCH_KEYS_MAX; k++)
		if (last->key[k])
			out->key[k] = arena_strdup(a, last->key[k]);
}

static defib_err look_with_tries(struct scanner *p, int64_t want, const struct facts *after,
                                 struct facts **facts, int *n, struct failure *f)
{
	struct tries t = tries_begin();
	defib_err err;
	do {
		fail_clear(f);
		arena_clear(&p->page);
		err = session_ready(p->session, f);
		if (!err)
			err = look_page(
				&(struct look){p->session->store, &p->bound.sql, &p->bound.ledger, &p->page},
				p->options->owner, want, after, facts, n, f);
	} while (err && try_again(&p->carrier, &t, err));
	/* If the session was replaced meanwhile, what was read is doubtful. */
	if (!err && *n > 0 && p->options->absence)
		read_clocks(p, (*facts)[0].now_us);
	return err;
}

/* Beyond ROWS_COUNT_MAX nobody has counted. */
static int64_t goal_of(int64_t stuck, int64_t limit)
{
	if (limit && limit < stuck)
		return limit;
	return stuck < ROWS_COUNT_MAX ? stuck : 0;
}

/* Jobs whose time is not in their rows, but in what was seen of them before. */
static defib_err scan_seen(struct scanner *p, struct failure *f)
{
	const struct scan_options *o = p->options;
	struct seen_result *r = &p->result->seen;
	struct seen_pass pass = {
		.doubt = o->guard ? &o->absence->doubt : NULL, .barred = p->barred, .keep = o->fix};
	/* A look at a part of the jobs would forget the others. */
	if (!p->bound.sql.look_seen || o->owner || o->dead_only || p->result->stopped)
		return DEFIB_OK;
	r->asked = r->off = true;
	if (o->fix || o->ledger_off)
		snprintf(r->why, sizeof r->why, "%s", p->bound.ledger.off_because);
	if (!p->bound.ledger.ready)
		return DEFIB_OK;
	arena_clear(&p->page);
	defib_err err = seen_look_all(
		&(struct look){p->session->store, &p->bound.sql, &p->bound.ledger, &p->page}, &pass, f);
	*r = (struct seen_result){.asked = true,
	                          .first = pass.first,
	                          .off = pass.off,
	                          .bounded = pass.bounded,
	                          .remembered = pass.remembered};
	snprintf(r->why, sizeof r->why, "%s", pass.why);
	int64_t limit = o->limit ? o->limit : p->watch->limit;
	int64_t room = limit ? limit - p->result->found : pass.n;
	int n = (int)(room < pass.n ? room : pass.n);
	p->by_memory = true;
	if (!err && n > 0)
		err = scan_do_page(p, pass.stuck, n, f);
	p->by_memory = false;
	err = take_done(p, true, err, f);
	arena_clear(&p->page);
	return err;
}

/* A failure here is not a failure of the scan. */
static void scan_wake(struct scanner *p)
{
	struct failure f = {0};
	struct waiting_result *r = &p->result->waiting;
	if (wake_workers(p->session->store, p->watch, &p->bound.ledger, r, p->options->actor, &r->woken,
	                 &f))
		log_event(LOG_WARN, "workers were not notified", LOG_STR("watch", p->watch->name),
		          LOG_STR("because", f.what));
	else if (r->woken)
		log_event(LOG_WARN, "workers were notified, because nobody starts their jobs",
		          LOG_STR("watch", p->watch->name), LOG_STR("channel", p->watch->wake.notify));
}

/* Rows that wait, and are not started. */
static defib_err scan_waiting(struct scanner *p, struct failure *f)
{
	const struct scan_options *o = p->options;
	struct guard_report g = {0};
	if (!p->bound.sql.look_waiting || o->owner || o->dead_only || o->forced || p->result->stopped ||
	    (o->guard && !o->starts))
		return DEFIB_OK;
	if (o->guard)
		guard_report(o->guard, &g);
	struct waiting_pass pass = {.memory = o->starts,
	                            .doubt = o->guard ? &o->absence->doubt : NULL,
	                            .barred = p->barred || g.paused,
	                            .keep = o->fix,
	                            .ended_ms = o->guard ? &p->ended_ms : NULL};
	arena_clear(&p->page);
	defib_err err = waiting_look(
		&(struct look){p->session->store, &p->bound.sql, &p->bound.ledger, &p->page}, &pass, f);
	p->result->waiting = pass.result;
	if (!err && o->fix)
		scan_wake(p);
	int64_t limit = o->limit ? o->limit : p->watch->limit;
	int64_t room = limit ? limit - p->result->found : pass.n;
	int n = (int)(room < pass.n ? room : pass.n);
	if (!err && n > 0)
		err = scan_do_page(p, pass.unstarted, n, f);
	err = take_done(p, true, err, f);
	arena_clear(&p->page);
	return err;
}

static defib_err scan_all_pages(struct scanner *p, struct failure *f)
{
	const struct scan_options *o = p->options;
	int64_t limit = o->limit ? o->limit : p->watch->limit;
	struct arena position[2] = {ARENA_INIT, ARENA_INIT};
	struct facts after, *facts;
	defib_err err = DEFIB_OK;
	int n = 0;
	/* A limit applies to the jobs that are read, not to the counts of the table. */
	if (limit || o->expects)
		err = held_stuck(p->session->store, &p->bound.sql, p->bound.ledger.ready, &p->result->stuck,
		                 f);
	if (!err)
		p->result->goal = goal_of(p->result->stuck, limit);
	for (int page = 0; !err && scan_goes_on(p); page++) {
		int64_t want = PAGE_ROWS;
		if (limit && limit - p->result->found < want)
			want = limit - p->result->found;
		if (want == 0)
			break;
		err = look_with_tries(p, want, page ? &after : NULL, &facts, &n, f);
		if (err || n == 0)
			break;
		arena_clear(&position[page % 2]);
		keep_position(&facts[n - 1], &position[page % 2], &after);
		err = scan_do_page(p, facts, n, f);
		arena_clear(&p->page);
		if (n < want)
			break;
	}
	err = take_done(p, true, err, f);
	if (!err)
		err = scan_seen(p, f);
	if (!err)
		err = scan_waiting(p, f);
	lanes_close(p->lanes);
	p->lanes = NULL;
	if (p->result->stuck < p->result->found || !limit)
		p->result->stuck = p->result->found;
	p->result->limited = limit && !err && p->result->stuck > p->result->found;
	arena_release(&position[0]);
	arena_release(&position[1]);
	return err;
}

/* ---- rows that cannot be judged ---- */

static const struct judge_rule no_time = {"unreadable", VERDICT_NONE,
                                          "its sign of life cannot be read as a time"};

/* One bad row is reported and set aside; the others were recovered. An error here is ignored. */
static void report_unreadable(struct scanner *p)
{
	struct unreadable *all;
	struct failure f = {0};
	int n = 0;
	if (p->options->owner || p->options->dead_only)
		return;
	if (look_unreadable(p->session->store, &p->bound.sql, &p->page, &all, &n, &f))
		log_event(LOG_WARN, f.what);
	for (int i = 0; i < n; i++) {
		struct candidate c = {.judgement = {.rule = &no_time},
		                      .decision = {.remedy = REMEDY_REPORT, .why = no_time.why},
		                      .does = REMEDY_REPORT,
		                      .evidence = "{}",
		                      .outcome = OUTCOME_REFUSED};
		memcpy(c.facts.key, all[i].key, sizeof c.facts.key);
		c.facts.job = all[i].job;
		c.refusal = arena_printf(&p->page, "%s is not a time: %s", sign_kinds[all[i].sign].option,
		                         all[i].value);
		report(p, &c, 1);
	}
	arena_clear(&p->page);
}

/* Were earlier recoveries mistakes? A failure here is not a failure of the scan. */
static void check_late(struct scanner *p)
{
	struct failure f = {0};
	int64_t noted = 0;
	if (late_check(p->session->store, &p->bound.binding, p->options->actor, &noted, &f))
		log_event(LOG_WARN, f.what);
	if (noted)
		log_event(LOG_WARN, "recovered jobs were finished by their old workers after all",
		          LOG_STR("watch", p->watch->name), LOG_INT("jobs", noted));
}

/* Checks that need not run at every pass, and whose failure does not matter. */
static void check_now_and_then(struct scanner *p)
{
	struct failure f = {0};
	int64_t now = clock_boot_ms();
	if (!p->options->fix || p->options->owner || !p->bound.ledger.ready || now < p->late_ms)
		return;
	p->late_ms = now + LATE_EVERY_MS;
	check_late(p);
	if (held_clear(p->session->store, &p->bound.sql, &f))
		log_event(LOG_WARN, f.what);
}

struct scanner *scanner_new(struct session *session, const struct watch *w,
                            const struct scan_options *o)
{
	struct scanner *p = mem_alloc(sizeof *p);
	p->session = session;
	p->watch = w;
	p->options = o;
	p->carrier = (struct carrier){
		.session = session, .sql = &p->bound.sql, .ledger = &p->bound.ledger, .opened = -1};
	return p;
}

/*
 * A watch that sees no running row may be misconfigured. Checked until it has seen a row, and not
 * at every pass.
 */
static void look_unseen(struct scanner *p)
{
	struct scan_result *r = p->result;
	int64_t now = clock_boot_ms();
	p->seen = p->seen || r->running > 0 || r->found > 0;
	if (p->seen || !r->running_known || p->watch->may_be_unused)
		return;
	if (now >= p->unseen_ms) {
		unseen_look(p->session->store, p->bound.binding.watch, &p->unseen);
		p->seen = p->unseen.recorded;
		p->unseen_ms = now + LATE_EVERY_MS;
	}
	r->never_seen = unseen_never(&p->unseen);
	r->row_security = r->never_seen && p->unseen.secured;
}

/* For status reports; it decides nothing. */
static void count_held(struct scanner *p)
{
	struct failure f = {0};
	struct held_count held = {0};
	if (!p->options->guard || !p->bound.ledger.ready)
		return;
	if (held_count(p->session->store, &p->bound.sql, &held, &f))
		log_event(LOG_WARN, f.what);
	p->result->on_hold = held.all;
	p->result->excused = held.excused; /* also those that the pass did not reach */
}

defib_err scanner_pass(struct scanner *p, struct scan_result *result)
{
	struct failure *f = &result->failure;
	int64_t start = clock_boot_us();
	*result = (struct scan_result){0};
	p->result = result;
	carrier_begin(&p->carrier, p->options->actor);
	struct tries t = tries_begin();
	defib_err err;
	do {
		fail_clear(f);
		err = first_reading(p, f);
		/* If a session broke, try again; if none could be opened, do not. */
	} while (err && p->session->store && try_again(&p->carrier, &t, err));
	if (!err)
		err = begin_guard(p, f);
	if (!err && p->options->fix && !p->options->owner)
		err = retries_fire(&p->carrier, &p->page, &result->retried, f);
	if (!err)
		err = scan_all_pages(p, f);
	if (!err)
		err = end_guard(p, f);
	if (!err)
		report_unreadable(p);
	if (!err)
		check_now_and_then(p);
	if (!err)
		count_held(p);
	if (!err)
		look_unseen(p);
	if (err == DEFIB_TIMEOUT && p->session->store && !p->session->store->lost)
		fail_advise(f, ADVISE_FIND_INDEX, NULL);
	if (err && p->options->absence)
		absence_begins(p->options->absence, "cannot query the database");
	if (p->carrier.transactions > 0)
		snprintf(result->batch, sizeof result->batch, "%s", p->carrier.name);
	result->took_us = clock_boot_us() - start;
	arena_clear(&p->page);
	arena_clear(&p->carrier.arena);
	f->code = err;
	masked_failure(p->watch, f);
	return err;
}

defib_err scanner_attend(struct scanner *p, struct failure *f)
{
	struct scan_result nobody_asks = {0};
	assert(p->options->guard != NULL);
	p->result = &nobody_asks;
	defib_err err = scan_set_up(p, f);
	if (!err)
		err = begin_guard(p, f);
	arena_clear(&p->page);
	p->result = NULL;
	return err;
}

const struct binding *scanner_binding(const struct scanner *p)
{
	return p->bound.ready ? &p->bound.binding : NULL;
}

void scanner_free(struct scanner *p)
{
	if (!p)
		return;
	bound_release(&p->bound);
	arena_release(&p->page);
	arena_release(&p->carrier.arena);
	free(p);
}

defib_err scan_watch(struct session *session, const struct watch *w, const struct scan_options *o,
                     struct scan_result *result)
{
	struct scanner *p = scanner_new(session, w, o);
	defib_err err = scanner_pass(p, result);
	scanner_free(p);
	return err;
}

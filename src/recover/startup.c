/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/startup.h"

#include "base/clock.h"
#include "base/log.h"
#include "life/instances.h"
#include "recover/bound.h"
#include "recover/browse.h"
#include "recover/carry.h"
#include "recover/judge.h"
#include "watch/terms.h"

#define SLICE_MS 1000 /* of reading a slow table, before asking whether to go on */

static const struct judge_rule left_behind = {
	RULE_STARTUP, VERDICT_DEAD, "it is running, and no instance that works on this watch is left"};

struct startup_run {
	struct session *session;
	const struct watch *watch;
	const struct startup_options *options;
	struct startup_result *result;
	struct scan_options how;
	struct bound bound;
	struct carrier carrier;
	struct startup_report report;
	struct arena page;
	bool stopped;     /* because go_on() returned false */
	int64_t begun_us; /* the database's clock at the first reading; 0: not read yet */
};

/* A job with a sign since we began was not left behind. */
static bool is_newer(const struct startup_run *r, const struct facts *f)
{
	for (int s = 0; s < SIGN_COUNT; s++)
		if (!sign_kinds[s].deadline && f->has_sign[s] && f->sign_us[s] > r->begun_us)
			return true;
	return false;
}

static struct judgement judge_left(const struct startup_run *r, const struct facts *f)
{
	struct judgement j = judge(r->watch, f);
	bool doubtful =
		r->options->doubtful && !r->result->all && !verdict_has(j.verdict, VERDICT_SEEN);
	/* The watch's remedy at start overrides a hold that no operator made. */
	bool held = hold_in_force(f->hold) &&
	            !(r->how.forced && r->result->all && f->hold != HOLD_STATE_OPERATOR);
	if (!f->running || f->owner_alive == KNOWN_YES || held || is_newer(r, f) || doubtful ||
	    judged_excused(f, &j))
		j.verdict = VERDICT_NONE;
	else if (j.verdict == VERDICT_NONE && r->result->all && (r->how.forced || f->has_epoch))
		j = (struct judgement){.verdict = left_behind.verdict, .rule = &left_behind};
	return j;
}

static void startup_prepare(struct startup_run *r, const struct facts *f, const struct judgement *j,
                            struct candidate *out)
{
	candidate_prepare(r->watch, f, j, &r->how, r->bound.ledger.ready, &r->carrier.arena, out);
	snprintf(out->decision.rule, sizeof out->decision.rule, RULE_STARTUP);
	if (r->how.forced)
		out->decision.cause = RULE_STARTUP;
	if (act_has((int)out->decision.remedy, ACT_WAITS))
		out->retry_us = f->now_us + backoff_us(&r->watch->backoff, f->attempts,
		                                       chance_draw(&r->carrier.chance));
}

/* How long it had run; if nothing says when it began, how long it was silent: its age in `list`. */
static int64_t ran_or_silent_us(const struct browsed *b)
{
	const struct facts *f = &b->facts;
	int64_t since = f->has_sign[SIGN_STARTED] ? f->sign_us[SIGN_STARTED]
	                : b->has_since            ? b->since_us
	                                          : f->now_us;
	return f->now_us - since;
}

static defib_err startup_do_batch(struct startup_run *r, struct browsed *rows, int n,
                                  struct failure *f)
{
	struct arena *a = &r->carrier.arena;
	struct candidate *batch = ARENA_ARRAY(a, struct candidate, n + 1);
	struct facts *left = ARENA_ARRAY(a, struct facts, n + 1);
	int nleft = 0;
	for (int i = 0; i < n; i++) {
		if (judge_left(r, &rows[i].facts).verdict == VERDICT_NONE)
			continue;
		rows[nleft] = rows[i];
		left[nleft++] = rows[i].facts;
	}
	bool mass = facts_mass(r->watch, left, nleft);
	for (int i = 0; i < nleft; i++) {
		left[i].mass = mass;
		left[i].restart = true;
		struct judgement j = judge_left(r, &left[i]);
		startup_prepare(r, &left[i], &j, &batch[i]);
	}
	r->result->found += nleft;
	defib_err err = nleft ? carry(&r->carrier, batch, nleft, &r->page, f) : DEFIB_OK;
	for (int i = 0; i < nleft; i++) {
		r->result->outcomes[batch[i].outcome]++;
		startup_report_job(&r->report, r->watch, &batch[i], rows[i].state,
		                   ran_or_silent_us(&rows[i]));
	}
	arena_clear(a);
	return err;
}

static defib_err read_page(struct startup_run *r, const struct browse_position *after,
                           struct browse_bound *bound, struct browsed **rows, int *n, bool *more,
                           struct failure *f)
{
	const struct term running = {.what = TERM_RUNNING};
	struct browse ask = {.terms = &running,
	                     .nterms = 1,
	                     .sort = browse_sort(&running, 1),
	                     .after = after,
	                     .limit = PAGE_ROWS,
	                     .facts = true,
	                     .bound = bound};
	struct tries t = tries_begin();
	defib_err err;
	do {
		fail_clear(f);
		arena_clear(&r->page);
		err = session_ready(r->session, f);
		if (!err)
			err = browse_jobs(
				&(struct look){r->session->store, &r->bound.sql, &r->bound.ledger, &r->page}, &ask,
				rows, n, more, f);
	} while (err && try_again(&r->carrier, &t, err));
	if (!err && *n > 0 && r->begun_us == 0)
		r->begun_us = (*rows)[0].facts.now_us;
	return err;
}

static bool startup_goes_on(struct startup_run *r)
{
	const struct startup_options *o = r->options;
	r->stopped = r->stopped || (o->go_on && !o->go_on(o->ctx));
	return !r->stopped;
}

static defib_err startup_do_page(struct startup_run *r, struct browsed *rows, int n,
                                 struct failure *f)
{
	int batch = (int)r->watch->batch;
	defib_err err = DEFIB_OK;
	for (int at = 0; at < n && !err && startup_goes_on(r); at += batch)
		err = startup_do_batch(r, rows + at, n - at < batch ? n - at : batch, f);
	return err;
}

static defib_err startup_all_pages(struct startup_run *r, struct failure *f)
{
	struct arena position[2] = {ARENA_INIT, ARENA_INIT};
	struct browse_bound bound = {.for_ms = SLICE_MS};
	struct browse_position after;
	struct browsed *rows = NULL;
	defib_err err = DEFIB_OK;
	bool more = true;
	int n = 0;
	for (int page = 0; !err && more && !r->stopped; page++) {
		err = read_page(r, page ? &after : NULL, &bound, &rows, &n, &more, f);
		if (err || (n == 0 && !bound.cut))
			break;
		/* The next page begins after this one's last row, whose arena is cleared. */
		arena_clear(&position[page % 2]);
		browse_position_copy(more ? &rows[n - 1].at : &bound.end, &position[page % 2], &after);
		err = startup_do_page(r, rows, n, f);
		more = (more || bound.cut) && startup_goes_on(r);
		bound.at_once = bound.by_key;
	}
	arena_release(&position[0]);
	arena_release(&position[1]);
	return err;
}

/* Nothing is begun without a configured remedy, or without a limit on requeueing. */
static defib_err check_remedy(const struct startup_run *r, struct failure *f)
{
	struct decide_options d = {r->bound.ledger.ready, r->how.forced, r->how.remedy};
	if (r->how.forced)
		return bound_can(r->watch, (int)r->how.remedy, f);
	if (!decide_can_loop(r->watch, &d))
		return DEFIB_OK;
	fail(f, DEFIB_REFUSED,
	     "watch %s: requeue at every start, without attempts and without a ledger, could loop "
	     "forever",
	     r->watch->name);
	fail_next(f, "keep the ledger on, give attempts: and max_attempts:, or say startup: off");
	return DEFIB_REFUSED;
}

static defib_err who_lives(struct startup_run *r, struct failure *f)
{
	struct instances others;
	defib_err err = session_ready(r->session, f);
	if (!err)
		err = instances_of(r->session->store, r->watch->name, r->options->self, &others, f);
	if (err)
		return err;
	r->result->live = others.live;
	bool sure = others.live == 0 && !(r->options->doubtful && others.silent > 0);
	r->result->all = sure && (r->options->self != 0 || others.ever);
	return DEFIB_OK;
}

defib_err startup_reconcile(struct session *session, const struct watch *w,
                            const struct startup_options *o, struct startup_result *result,
                            struct failure *f)
{
	struct startup_run r = {
		.session = session,
		.watch = w,
		.options = o,
		.result = result,
		.how = {.forced = w->startup.mode == STARTUP_DO,
	            .remedy = w->startup.remedy,
	            .reason = w->startup.reason},
		.carrier = {.session = session, .opened = -1},
	};
	*result = (struct startup_result){0};
	if (w->startup.mode == STARTUP_OFF)
		return DEFIB_OK;
	defib_err err = who_lives(&r, f);
	/* What age alone can decide, the daemon's passes decide too, under their guards. */
	if (err || (!result->all && o->self == 0 && w->startup.mode == STARTUP_RECOVER))
		return err;
	r.carrier.sql = &r.bound.sql;
	r.carrier.ledger = &r.bound.ledger;
	carrier_begin(&r.carrier, RULE_STARTUP);
	startup_report_init(&r.report, w);
	err = bound_open(&r.bound, session, w, o->ledger_off ? LEDGER_NONE : LEDGER_CREATE, f);
	if (!err)
		err = check_remedy(&r, f);
	if (!err)
		err = startup_all_pages(&r, f);
	startup_report_end(&r.report, w, result);
	bound_release(&r.bound);
	arena_release(&r.page);
	arena_release(&r.carrier.arena);
	return err;
}

/* ---- the log ---- */

/* The last place is that of all names that found no place of their own. */
static void startup_count_name(struct startup_count *all, int *n, const char *name, int64_t by)
{
	int i = 0;
	while (i < *n && i < STARTUP_NAMES_MAX && !text_eq(all[i].name, name))
		i++;
	if (i == *n) {
		snprintf(all[i].name, sizeof all[i].name, "%s", i < STARTUP_NAMES_MAX ? name : "other");
		(*n)++;
	}
	all[i].n += by;
}

static void count_state(struct startup_report *r, const struct watch *w, const char *state,
                        enum remedy remedy, int64_t by)
{
	const char *named = state ? state_named(w, state) : "running";
	char name[64];
	snprintf(name, sizeof name, "%.40s_%s", named ? named : state, act_kinds[remedy].count);
	log_key(name);
	startup_count_name(r->states, &r->nstates, name, by);
}

void startup_report_init(struct startup_report *r, const struct watch *w)
{
	*r = (struct startup_report){0};
	if (w->startup.mode != STARTUP_DO)
		return;
	count_state(r, w, "running", w->startup.remedy, 0);
	count_state(r, w, "cancelling", w->startup.remedy, 0);
}

void startup_report_job(struct startup_report *r, const struct watch *w, const struct candidate *c,
                        const char *state, int64_t us)
{
	bool done = c->outcome == OUTCOME_RECOVERED || c->outcome == OUTCOME_HELD ||
	            c->decision.remedy == REMEDY_REPORT;
	char kind[64];
	/* Changed: another instance that starts at the same time has it, and logs it. */
	log_event(c->outcome == OUTCOME_CHANGED ? LOG_DEBUG : LOG_WARN,
	          "job of an instance that is gone", LOG_STR("watch", w->name),
	          LOG_STR("job", c->facts.job), LOG_STR("kind", c->facts.kind), LOG_STR("state", state),
	          LOG_INT(c->facts.has_sign[SIGN_STARTED] ? "ran_s" : "silent_s", us / 1000000),
	          LOG_STR("remedy", remedy_names[c->decision.remedy]),
	          LOG_STR("outcome", outcome_names[c->outcome]));
	if (!done)
		return;
	count_state(r, w, state, c->decision.remedy, 1);
	if (!c->facts.kind)
		return;
	snprintf(kind, sizeof kind, "%s", c->facts.kind);
	log_key(kind);
	startup_count_name(r->kinds, &r->nkinds, kind, 1);
}

void startup_report_end(const struct startup_report *r, const struct watch *w,
                        const struct startup_result *result)
{
	static const enum outcome not_done[] = {OUTCOME_CHANGED, OUTCOME_LOCKED, OUTCOME_REFUSED};
	struct log_field fields[2 * (STARTUP_NAMES_MAX + 1) + 8];
	int n = 0;
	/* Without a special configuration, nothing found means no line. */
	if (w->startup.mode != STARTUP_DO && result->found == 0)
		return;
	for (int i = 0; i < r->nstates; i++)
		fields[n++] = LOG_INT(r->states[i].name, r->states[i].n);
	fields[n++] = LOG_STR("watch", w->name);
	fields[n++] = LOG_INT("live_instances", result->live);
	for (int i = 0; i < r->nkinds; i++)
		fields[n++] = LOG_INT(r->kinds[i].name, r->kinds[i].n);
	for (size_t i = 0; i < sizeof not_done / sizeof *not_done; i++)
		if (result->outcomes[not_done[i]])
			fields[n++] = LOG_INT(outcome_names[not_done[i]], result->outcomes[not_done[i]]);
	fields[n] = (struct log_field){NULL, NULL, 0};
	log_write(LOG_INFO, "scheduler_startup_cleanup", fields);
}

/* SPDX-License-Identifier: Apache-2.0
 * exits.c: see exits.h.
 *
 * Claims are read, then the jobs, then the claims again: a claim that is there both times was valid
 * in between, so what was read of its job is about the run of the dead program and of no other.
 * From there on, apply's second reading under the row's lock protects as usual.
 */
#include "recover/exits.h"

#include "base/clock.h"
#include "base/log.h"
#include "ledger/jobs.h"
#include "ledger/orders.h"
#include "recover/attach.h"
#include "recover/bound.h"
#include "recover/carry.h"
#include "recover/look.h"

#define PAGE_CLAIMS 1000 /* read at a time */

static const struct judge_rule exit_seen = {"exit-seen", VERDICT_DEAD,
                                            "the program that took it has ended"};

struct exits {
	struct session *session;
	const struct watch *watch;
	struct scan_options how;
	bool ledger_off;
	struct bound bound;
	struct carrier carrier;
	struct arena page;
};

/* A claim of the program, and whether its session still exists. */
struct held_claim {
	const char *job;
	int64_t claim, pid, at_us;
	bool lives;
};

struct exits *exits_new(struct session *session, const struct watch *w, const char *actor,
                        bool ledger_off)
{
	struct exits *x = mem_alloc(sizeof *x);
	x->session = session;
	x->watch = w;
	x->ledger_off = ledger_off;
	x->how = (struct scan_options){.fix = true, .actor = actor};
	x->carrier = (struct carrier){
		.session = session, .sql = &x->bound.sql, .ledger = &x->bound.ledger, .opened = -1};
	return x;
}

void exits_free(struct exits *x)
{
	if (!x)
		return;
	bound_release(&x->bound);
	arena_release(&x->page);
	arena_release(&x->carrier.arena);
	free(x);
}

static defib_err need_attached(struct exits *x, struct failure *f)
{
	enum attached is = ATTACHED_NOT;
	const char *name = x->watch->name;
	defib_err err = attach_refusal(x->watch, x->bound.binding.engine, f);
	if (!err)
		err = attach_state(x->session->store, &x->bound.binding, &is, f);
	if (err || is == ATTACHED_FRESH)
		return err;
	fail(f, DEFIB_REFUSED, "watch %s is %s", name, attached_texts[is]);
	fail_advise(f, ADVISE_ATTACH, name);
	return DEFIB_REFUSED;
}

static defib_err open_bound(struct exits *x, struct failure *f)
{
	return bound_open(&x->bound, x->session, x->watch, x->ledger_off ? LEDGER_NONE : LEDGER_CREATE,
	                  f);
}

defib_err exits_ready(struct exits *x, struct failure *f)
{
	defib_err err = open_bound(x, f);
	if (!err)
		err = need_attached(x, f);
	return err ? err : bound_refuse_loop(&x->bound, x->watch, false, REMEDY_REQUEUE, f);
}

/* ---- claims ---- */

/* The program's claims above `after` up to `until`, in order, at most one page. */
static defib_err read_claims(struct exits *x, const char *application, int64_t after, int64_t until,
                             struct held_claim **out, int *n, struct failure *f)
{
#define M(member) ROW_MEMBER(struct held_claim, member)
	static const struct row_member members[] = {M(job), M(claim), M(pid), M(at_us), M(lives)};
#undef M
	struct store_param params[] = {P_TEXT(x->watch->name), P_TEXT(application), P_INT(after),
	                               P_INT(until), P_INT(PAGE_CLAIMS)};
	struct store_rows rows;
	/*
	 * A session of this pid that began after the claim is a different one; not every role may see
	 * when it began.
	 */
	defib_err err = store_exec(
		x->session->store,
		"SELECT c.job, c.claim, c.pid, (extract(epoch FROM c.at) * 1000000)::bigint, EXISTS ("
		"SELECT 1 FROM pg_stat_activity a WHERE a.pid = c.pid AND "
		"coalesce(a.backend_start <= c.at, true)) FROM defib.claimed_by c "
		"WHERE c.watch = $1 AND c.application = $2 AND c.claim > $3::bigint "
		"AND c.claim <= $4::bigint ORDER BY c.claim LIMIT $5::bigint",
		params, 5, &x->page, &rows, f);
	*out = ROWS_READ(&rows, members, struct held_claim, &x->page, n);
	return err;
}

static const struct held_claim *claim_of_job(const struct held_claim *all, int n, const char *job)
{
	for (int i = 0; i < n; i++)
		if (text_eq(all[i].job, job))
			return &all[i];
	return NULL;
}

/* The claim of a job if it is the same in both readings; NULL: another session has it now. */
static const struct held_claim *same_claim(const struct held_claim *first, int nfirst,
                                           const struct held_claim *second, int nsecond,
                                           const char *job)
{
	const struct held_claim *a = claim_of_job(first, nfirst, job);
	const struct held_claim *b = claim_of_job(second, nsecond, job);
	return a && b && a->claim == b->claim ? a : NULL;
}

/* ---- one batch ---- */

static struct judgement judge_exit(const struct watch *w, const struct facts *f)
{
	struct judgement j = {.verdict = exit_seen.verdict, .rule = &exit_seen};
	enum sign s = watch_first_sign(w);
	/* For texts like "silent for 5s"; it decides nothing. */
	if (!sign_kinds[s].deadline && f->has_sign[s]) {
		j.measured = true;
		j.sign = s;
		j.measured_us = f->now_us - f->sign_us[s];
		(void)watch_limit_of(w, s, f, &j.limit_us, &j.limit_from);
	}
	return j;
}

/* What is known about the end and the former owner, added to the usual evidence. */
static const char *more_evidence(struct exits *x, const char *evidence, const struct program *p,
                                 const struct held_claim *c)
{
	AUTO_BUF out = BUF_INIT, at = BUF_INIT;
	time_iso(c->at_us, &at);
	buf_addf(&out, "%.*s,\"exit\":", (int)strlen(evidence) - 1, evidence);
	buf_add_json(&out, p->ending ? p->ending : "gone, unseen");
	buf_add(&out, ",\"program\":");
	buf_add_json(&out, p->command);
	buf_add(&out, ",\"session\":");
	buf_add_json(&out, p->application);
	buf_addf(&out, ",\"session_pid\":%lld,\"claimed_at\":\"%s\"}", (long long)c->pid,
	         buf_text(&at));
	return arena_strdup(&x->carrier.arena, buf_text(&out));
}

/*
 * When the program ended, by the database's clock; if that was not seen, its rows' signs are used.
 */
static void note_end(const struct program *p, struct facts *f)
{
	f->has_lost = p->ended_boot_us || p->ended_at_us;
	f->lost_us = p->ended_boot_us ? f->now_us - elapsed_us(p->ended_boot_us, clock_boot_us())
	                              : p->ended_at_us;
}

static void exits_prepare(struct exits *x, const struct facts *f, const struct program *p,
                          const struct held_claim *c, struct candidate *out)
{
	struct judgement j = judge_exit(x->watch, f);
	candidate_prepare(x->watch, f, &j, &x->how, x->bound.ledger.ready, &x->carrier.arena, out);
	out->evidence = more_evidence(x, out->evidence, p, c);
	out->expected = f->before;
	if (act_has((int)out->decision.remedy, ACT_WAITS))
		out->retry_us = f->now_us + backoff_us(&x->watch->backoff, f->attempts,
		                                       chance_draw(&x->carrier.chance));
}

/* Jobs that are not recovered yet; for all other outcomes the claim is handled. */
static bool is_waiting(const struct candidate *c)
{
	return c->outcome == OUTCOME_LOCKED || c->outcome == OUTCOME_CHANGED;
}

static bool job_waits(const struct candidate *batch, int n, const char *job)
{
	for (int i = 0; i < n; i++)
		if (is_waiting(&batch[i]) && text_eq(batch[i].facts.job, job))
			return true;
	return false;
}

static void exits_count(const struct candidate *batch, int n, struct exit_result *r)
{
	for (int i = 0; i < n; i++) {
		r->outcomes[batch[i].outcome]++;
		r->waiting += is_waiting(&batch[i]);
	}
}

/* Delete the claims that are handled: a job that was claimed again has a new one. */
static defib_err forget_claims(struct exits *x, const struct program *p,
                               const struct held_claim *claims, int n,
                               const struct candidate *batch, int nbatch, struct failure *f)
{
	int64_t *over = ARENA_ARRAY(&x->page, int64_t, n + 1);
	int nover = 0;
	for (int i = 0; i < n; i++)
		if (!job_waits(batch, nbatch, claims[i].job))
			over[nover++] = claims[i].claim;
	return nover ? claims_forget(x->session->store, p, over, nover, f) : DEFIB_OK;
}

static defib_err do_jobs(struct exits *x, const struct program *p, const struct held_claim *claims,
                         int n, struct exit_result *r, struct failure *f)
{
	const char **jobs = JOBS_OF(claims, job, n, &x->page);
	struct facts *facts = NULL;
	struct held_claim *again = NULL;
	int nfacts = 0, nagain = 0, stuck = 0;
	defib_err err =
		look_jobs(&(struct look){x->session->store, &x->bound.sql, &x->bound.ledger, &x->page},
	              jobs, n, &facts, &nfacts, f);
	if (!err)
		err = read_claims(x, p->application, claims[0].claim - 1, claims[n - 1].claim, &again,
		                  &nagain, f);
	if (err)
		return err;
	struct candidate *batch = ARENA_ARRAY(&x->carrier.arena, struct candidate, nfacts + 1);
	for (int i = 0; i < nfacts; i++) {
		const struct held_claim *c = same_claim(claims, n, again, nagain, facts[i].job);
		facts[i].clean = p->clean;
		note_end(p, &facts[i]);
		if (c && facts[i].running)
			exits_prepare(x, &facts[i], p, c, &batch[stuck++]);
	}
	if (stuck)
		err = carry(&x->carrier, batch, stuck, &x->page, f);
	exits_count(batch, stuck, r);
	if (!err)
		err = forget_claims(x, p, claims, n, batch, stuck, f);
	arena_clear(&x->carrier.arena);
	return err;
}

/* One page of claims; *after moves past it, *more says whether there may be another. */
static defib_err release_page(struct exits *x, const struct program *p, bool living, int64_t *after,
                              bool *more, struct exit_result *result, struct failure *f)
{
	struct held_claim *claims = NULL;
	int n = 0, take = 0, batch = (int)x->watch->batch;
	arena_clear(&x->page);
	defib_err err = read_claims(x, p->application, *after, INT64_MAX, &claims, &n, f);
	*more = n == PAGE_CLAIMS;
	if (n)
		*after = claims[n - 1].claim;
	for (int i = 0; i < n; i++) {
		result->waiting += claims[i].lives && !living;
		if (!claims[i].lives || living)
			claims[take++] = claims[i];
	}
	/* No batch is larger than a page, so that its second reading is complete. */
	for (int at = 0; !err && at < take; at += batch)
		err = do_jobs(x, p, claims + at, take - at < batch ? take - at : batch, result, f);
	return err;
}

defib_err exits_release(struct exits *x, const struct program *p, bool living,
                        struct exit_result *result, struct failure *f)
{
	int64_t after = 0;
	bool more = true;
	*result = (struct exit_result){0};
	carrier_begin(&x->carrier, x->how.actor);
	defib_err err = open_bound(x, f);
	while (!err && more)
		err = release_page(x, p, living, &after, &more, result, f);
	return err;
}

/* ---- what other watchers left ---- */

static defib_err exits_finish(struct exits *x, const struct program *p, int64_t *freed,
                              struct failure *f)
{
	struct exit_result r;
	int64_t sessions = 0;
	bool removed = false;
	defib_err err = exits_release(x, p, true, &r, f);
	*freed += r.outcomes[OUTCOME_RECOVERED];
	if (r.outcomes[OUTCOME_RECOVERED])
		log_event(LOG_WARN, "recovered the jobs of a program that ended together with its watcher",
		          LOG_STR("watch", x->watch->name), LOG_STR("program", p->command),
		          LOG_INT("jobs", r.outcomes[OUTCOME_RECOVERED]));
	if (r.outcomes[OUTCOME_REFUSED])
		log_event(LOG_ERROR, "the database refuses to recover the jobs of an ended program",
		          LOG_STR("watch", x->watch->name), LOG_STR("program", p->command),
		          LOG_INT("jobs", r.outcomes[OUTCOME_REFUSED]));
	if (!err && !p->old)
		err = program_sessions(x->session->store, p->application, &sessions, f);
	/* A session may still write what its program sent last. */
	return err || r.waiting || sessions ? err : program_remove(x->session->store, p, &removed, f);
}

defib_err exits_sweep(struct exits *x, int64_t *freed, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct program *gone = NULL;
	int n = 0;
	*freed = 0;
	defib_err err = session_ready(x->session, f);
	if (!err)
		err = programs_gone(x->session->store, x->watch->name, &a, &gone, &n, f);
	for (int i = 0; !err && i < n; i++) {
		const char *refusal = NULL;
		err = order_check(x->session->store, x->watch, gone[i].role, &a, &refusal, f);
		if (refusal)
			row_set_aside("defib.program", gone[i].application, refusal);
		else if (!err)
			err = exits_finish(x, &gone[i], freed, f);
	}
	return err;
}

/*
 * scan.c: see scan.h.
 *
 * A page of candidates is read at once and applied in batches, each in a
 * transaction of its own. Memory is bounded by the page; a million stuck rows
 * are a few dozen pages.
 */
#include "recover/scan.h"

#include "base/clock.h"
#include "recover/apply.h"
#include "recover/evidence.h"
#include "recover/look.h"

#include <assert.h>
#include <sys/random.h>
#include <unistd.h>

#define PAGE_ROWS 10000
#define TRIES_MAX 4
#define TRIES_MS 8000 /* no new try after that: each may cost its own deadline */

#define BATCH_NAME 96

struct scanner {
	struct session *session;
	const struct watch *watch;
	const struct scan_options *options;
	struct scan_result *result;
	struct arena setup, page, batch;
	struct binding binding;
	struct watch_sql sql;
	struct ledger ledger;
	bool ready;       /* bound and compiled */
	int transactions; /* of this pass */
	uint64_t chance;  /* state of a small random generator, for jitter */
};

static double next_chance(struct scanner *p)
{
	p->chance ^= p->chance << 13;
	p->chance ^= p->chance >> 7;
	p->chance ^= p->chance << 17;
	return (double)(p->chance >> 11) / 9007199254740992.0;
}

/* "20261115-084500-1a2b3c4d": readable in a ledger, unique by its random part. */
static void name_scan(struct scanner *p)
{
	struct timespec now;
	struct tm tm;
	uint32_t tail = 0;
	if (getrandom(&p->chance, sizeof p->chance, 0) != (ssize_t)sizeof p->chance || p->chance == 0)
		p->chance = (uint64_t)clock_wall_us() | 1U;
	tail = (uint32_t)(p->chance >> 20);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	size_t n = strftime(p->result->batch, sizeof p->result->batch, "%Y%m%d-%H%M%S", &tm);
	snprintf(p->result->batch + n, sizeof p->result->batch - n, "-%08x", tail);
}

static bool can_do(const struct watch *w, enum remedy r)
{
	return r == REMEDY_REPORT || r == REMEDY_HOLD || w->actions[r].form != ACTION_NONE;
}

static defib_err refuse_loop(const struct scanner *p, struct failure *f)
{
	const struct scan_options *o = p->options;
	struct decide_options d = {p->ledger.ready, o->forced, o->remedy};
	if (!o->fix || !decide_can_loop(p->watch, &d))
		return DEFIB_OK;
	fail(f, DEFIB_REFUSED,
	     "watch %s: requeue without attempts and without a ledger could loop for ever (%s)",
	     p->watch->name, p->ledger.off_because);
	fail_next(f, "let defib keep its ledger, give attempts: and max_attempts:, or accept it with "
	             "crash_budget: off");
	return DEFIB_REFUSED;
}

static defib_err set_up(struct scanner *p, struct failure *f)
{
	const struct watch *w = p->watch;
	const struct scan_options *o = p->options;
	if (o->forced && !can_do(w, o->remedy)) {
		fail(f, DEFIB_CONFIG, "watch %s does not say how to %s", w->name, remedy_names[o->remedy]);
		fail_next(f, "add %s: to the watch", remedy_names[o->remedy]);
		return DEFIB_CONFIG;
	}
	defib_err err = session_ready(p->session, f);
	if (err || p->ready)
		return err;
	arena_clear(&p->setup);
	err = watch_bind(w, p->session->store, &p->setup, &p->binding, f);
	if (!err)
		err = watch_compile(&p->binding, &p->setup, &p->sql, f);
	if (!err)
		err = watch_prepare(&p->sql, p->session->store, &p->setup, f);
	if (!err && o->ledger_off)
		snprintf(p->ledger.off_because, sizeof p->ledger.off_because, "ledger: off");
	else if (!err)
		err = ledger_open(p->session->store, o->fix, &p->ledger, f);
	p->ready = !err;
	return err;
}

static defib_err first_reading(struct scanner *p, struct failure *f)
{
	struct scan_result *r = p->result;
	defib_err err = set_up(p, f);
	r->ledger = p->ledger.ready;
	r->ledger_made = p->ledger.made;
	snprintf(r->ledger_off, sizeof r->ledger_off, "%s", p->ledger.off_because);
	if (!err && !p->options->owner)
		err = look_running(p->session->store, &p->sql, &r->running, f);
	r->running_capped = r->running >= RUNNING_COUNT_MAX;
	/* After the first reading: a table that may not be read is the greater news. */
	if (!err)
		err = refuse_loop(p, f);
	return err;
}

void candidate_prepare(const struct watch *w, const struct facts *f, const struct judgement *j,
                       const struct scan_options *o, bool ledger, struct arena *a,
                       struct candidate *out)
{
	struct decide_options d = {ledger, o->forced, o->remedy};
	struct buf text = BUF_INIT;
	*out = (struct candidate){.facts = *f, .judgement = *j};
	out->decision = decide(w, f, j, &d);
	out->does = (int)out->decision.remedy;
	reason_text(o->reason ? o->reason : w->reason, f, j, &text);
	out->reason = arena_strdup(a, buf_text(&text));
	buf_clear(&text);
	evidence_json(w, f, j, &text);
	out->evidence = arena_strdup(a, buf_text(&text));
	buf_release(&text);
	if (!out->decision.act)
		out->outcome = out->decision.remedy == REMEDY_HOLD ? OUTCOME_HELD : OUTCOME_LEFT;
}

static void tell(struct scanner *p, const struct candidate *batch, int n)
{
	const struct scan_observer *ob = &p->options->observer;
	for (int i = 0; i < n; i++) {
		p->result->outcomes[batch[i].outcome]++;
		if (ob->job)
			ob->job(ob->ctx, p->watch, &batch[i]);
	}
	if (ob->progress)
		ob->progress(ob->ctx, p->watch, p->result);
}

struct tries {
	int64_t begun_ms;
	int n;
};

static struct tries tries_begin(void)
{
	return (struct tries){clock_boot_ms(), 1};
}

/* Whether to do again what failed so; after a pause, if so. */
static bool try_again(struct scanner *p, struct tries *t, defib_err err)
{
	bool helps = err == DEFIB_LOCKED || err == DEFIB_CONNECTION || err == DEFIB_UNKNOWN_OUTCOME;
	if (!helps || t->n == TRIES_MAX || clock_boot_ms() - t->begun_ms > TRIES_MS)
		return false;
	usleep((useconds_t)(next_chance(p) * 100000.0 * (1 << t->n)));
	t->n++;
	return true;
}

/*
 * A commit whose reply was lost is resolved by reading: the ledger has the
 * batch, or it was not done. Without a ledger the batch is simply applied
 * again: rows that were written are no longer as they were judged.
 */
static defib_err was_committed(struct scanner *p, const char *batch, bool *done, struct failure *f)
{
	if (!p->ledger.ready)
		return DEFIB_OK;
	return ledger_has_batch(p->session->store, batch, &p->batch, done, f);
}

/* One try. `unsure` names a batch that may have been committed, "" when there is none. */
static defib_err apply_once(struct scanner *p, struct candidate *batch, int n,
                            char unsure[BATCH_NAME], struct failure *f)
{
	char name[BATCH_NAME];
	bool done = false;
	defib_err err = session_ready(p->session, f);
	if (!err && unsure[0])
		err = was_committed(p, unsure, &done, f);
	if (err)
		return err;
	snprintf(name, sizeof name, "%s.%d", p->result->batch, ++p->transactions);
	struct apply ap = {p->session->store, &p->sql, &p->ledger, p->options->actor, name};
	if (!done)
		err = apply_batch(&ap, batch, n, &p->batch, f);
	snprintf(unsure, BATCH_NAME, "%s", err == DEFIB_UNKNOWN_OUTCOME ? name : "");
	if (!err)
		apply_blockers(&ap, batch, n, &p->batch);
	return err;
}

static defib_err apply_with_tries(struct scanner *p, struct candidate *batch, int n,
                                  struct failure *f)
{
	struct tries t = tries_begin();
	char unsure[BATCH_NAME] = "";
	defib_err err;
	do {
		fail_clear(f);
		err = apply_once(p, batch, n, unsure, f);
	} while (err && try_again(p, &t, err));
	for (int i = 0; err && i < n; i++)
		if (batch[i].decision.act)
			batch[i].outcome = OUTCOME_LEFT;
	if (err && unsure[0]) {
		fail_prefix(f, "it is not known whether batch %s was committed", unsure);
		fail_next(f, "look for it in the ledger when the database is back");
		err = f->code = DEFIB_UNKNOWN_OUTCOME;
	}
	return err;
}

/* What the rows themselves are to blame for; one bad row must not hold up the others. */
static bool blames_rows(const struct failure *f)
{
	return f->code == DEFIB_CONSTRAINT || strncmp(f->sqlstate, "22", 2) == 0;
}

static defib_err apply_some(struct scanner *p, struct candidate *batch, int n, struct failure *f)
{
	defib_err err = apply_with_tries(p, batch, n, f);
	if (!err || !blames_rows(f))
		return err;
	if (n == 1) {
		batch->outcome = OUTCOME_REFUSED;
		batch->refusal = arena_strdup(&p->page, f->what);
		fail_clear(f);
		return DEFIB_OK;
	}
	fail_clear(f);
	err = apply_some(p, batch, n / 2, f);
	return err ? err : apply_some(p, batch + n / 2, n - n / 2, f);
}

static defib_err do_batch(struct scanner *p, const struct facts *facts, int n, struct failure *f)
{
	struct candidate *batch = ARENA_ARRAY(&p->batch, struct candidate, n);
	int stuck = 0;
	for (int i = 0; i < n; i++) {
		struct judgement j = judge(p->watch, &facts[i]);
		if (j.verdict == VERDICT_NONE)
			continue;
		struct candidate *c = &batch[stuck++];
		candidate_prepare(p->watch, &facts[i], &j, p->options, p->ledger.ready, &p->batch, c);
		if (c->decision.remedy == REMEDY_RETRY)
			c->retry_us =
				facts[i].now_us + backoff_us(&p->watch->backoff, facts[i].attempts, next_chance(p));
	}
	p->result->found += stuck;
	defib_err err = DEFIB_OK;
	if (p->options->fix && stuck)
		err = apply_some(p, batch, stuck, f);
	tell(p, batch, stuck); /* also after a failure: a part may have been done */
	arena_clear(&p->batch);
	return err;
}

static defib_err do_page(struct scanner *p, const struct facts *facts, int n, struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int at = 0; at < n && !err; at += (int)p->watch->batch) {
		int size = n - at < p->watch->batch ? n - at : (int)p->watch->batch;
		err = do_batch(p, facts + at, size, f);
	}
	return err;
}

/* Keep what the next page needs of this one's last row, before its arena goes. */
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
			err = look_page(p->session->store, &p->sql, &p->ledger, p->options->owner, want, after,
			                &p->page, facts, n, f);
	} while (err && try_again(p, &t, err));
	return err;
}

static defib_err all_pages(struct scanner *p, struct failure *f)
{
	const struct scan_options *o = p->options;
	int64_t limit = o->limit ? o->limit : p->watch->limit;
	struct arena position[2] = {ARENA_INIT, ARENA_INIT};
	struct facts after, *facts;
	defib_err err = DEFIB_OK;
	int n = 0;

	for (int page = 0; !err; page++) {
		int64_t want = PAGE_ROWS;
		if (limit && limit - p->result->found < want)
			want = limit - p->result->found;
		p->result->limited = want == 0;
		if (want == 0)
			break;
		err = look_with_tries(p, want, page ? &after : NULL, &facts, &n, f);
		if (err || n == 0)
			break;
		arena_clear(&position[page % 2]);
		keep_position(&facts[n - 1], &position[page % 2], &after);
		err = do_page(p, facts, n, f);
		arena_clear(&p->page);
		if (n < want)
			break;
	}
	arena_release(&position[0]);
	arena_release(&position[1]);
	return err;
}

struct scanner *scanner_new(struct session *session, const struct watch *w,
                            const struct scan_options *o)
{
	struct scanner *p = mem_alloc(sizeof *p);
	p->session = session;
	p->watch = w;
	p->options = o;
	return p;
}

defib_err scanner_pass(struct scanner *p, struct scan_result *result)
{
	struct failure *f = &result->failure;
	int64_t start = clock_boot_us();
	*result = (struct scan_result){0};
	p->result = result;
	p->transactions = 0;
	name_scan(p);
	struct tries t = tries_begin();
	defib_err err;
	do {
		fail_clear(f);
		err = first_reading(p, f);
		/* A session that broke is worth another; one that could not be had is not. */
	} while (err && p->session->store && try_again(p, &t, err));
	if (!err)
		err = all_pages(p, f);
	if (p->transactions == 0)
		result->batch[0] = '\0';
	result->took_us = clock_boot_us() - start;
	arena_clear(&p->page);
	arena_clear(&p->batch);
	f->code = err;
	return err;
}

void scanner_free(struct scanner *p)
{
	if (!p)
		return;
	arena_release(&p->setup);
	arena_release(&p->page);
	arena_release(&p->batch);
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

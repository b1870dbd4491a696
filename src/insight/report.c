/* SPDX-License-Identifier: Apache-2.0 */
#include "insight/report.h"

#include "base/clock.h"
#include "insight/learn.h"
#include "ledger/digest_store.h"
#include "ledger/events.h"
#include "ledger/overrides.h"
#include "recover/bound.h"
#include "recover/evidence.h"
#include "recover/held.h"

#include <jansson.h>

/* ---- totals ---- */

bool report_period(int64_t since_us, int64_t now_us, struct period *out)
{
	out->to_us = (now_us / 1000 + 1) * 1000; /* times of entries are truncated */
	out->from_us = out->to_us - since_us;
	return since_us >= REPORT_LEAST_US && since_us <= REPORT_MOST_US;
}

int report_days(const struct period *p, struct arena *a, struct report_day **out)
{
	int64_t first = p->from_us / DAY_US, last = (p->to_us - 1) / DAY_US;
	int n = (int)(last - first + 1);
	*out = ARENA_ARRAY(a, struct report_day, n);
	for (int i = 0; i < n; i++) {
		AUTO_BUF iso = BUF_INIT;
		time_iso((first + i) * DAY_US, &iso);
		snprintf((*out)[i].day, sizeof(*out)[i].day, "%.10s", buf_text(&iso));
	}
	return n;
}

/* Numbers besides those that events.h defines: which one an event of a scan belongs to. */
#define N(member) offsetof(struct report_numbers, member)
static const struct {
	const char *event, *rule; /* rule NULL: any */
	size_t offset;
} further[] = {
	{ENTRY_ZOMBIE_DETECTED, NULL, N(reported)},  {ENTRY_RETRIES_EXHAUSTED, NULL, N(exhausted)},
	{ENTRY_LATE_COMPLETION, NULL, N(late)},      {ENTRY_WORKER_RETURNED, NULL, N(returned)},
	{ENTRY_CHANGED_MEANWHILE, NULL, N(changed)}, {ENTRY_GUARD_HELD, "brake-holds", N(brakes)},
};

#undef N

static void report_add_number(struct report_numbers *to, size_t offset, int64_t n)
{
	*(int64_t *)((char *)to + offset) += n;
}

/* The numbers of one row of counted entries. */
static struct report_numbers numbers_of(const struct digest_event *e)
{
	unsigned counts = event_counts(e->event, e->judged, e->by_hand);
	const struct event_name *name = event_named(e->event);
	struct report_numbers out = {
		.detected = counts & COUNTS_DETECTED ? e->n : 0,
		.recovered = counts & COUNTS_RECOVERED ? e->n : 0,
		.held = counts & COUNTS_HELD ? e->n : 0,
		.rolled_back = counts & COUNTS_ROLLED_BACK ? e->n : 0,
		.by_hand = e->by_hand ? e->n : 0,
	};
	out.recovered_by_hand = e->by_hand ? out.recovered : 0;
	for (int r = 0; r < REMEDY_COUNT && out.recovered; r++)
		if (text_eq(remedy_names[r], name->remedy))
			out.by_remedy[r] += e->n;
	for (size_t i = 0; i < sizeof further / sizeof *further && !e->by_hand; i++)
		if (text_eq(further[i].event, e->event) &&
		    (!further[i].rule || text_eq(further[i].rule, e->rule)))
			report_add_number(&out, further[i].offset, e->n);
	return out;
}

static void add_numbers(struct report_numbers *to, const struct report_numbers *n)
{
	for (size_t k = 0; k < sizeof *n / sizeof(int64_t); k++)
		report_add_number(to, k * sizeof(int64_t), ((const int64_t *)n)[k]);
}

static struct report_day *day_named(struct report_watch *w, const char *day)
{
	for (int i = 0; i < w->ndays; i++)
		if (text_eq(w->days[i].day, day))
			return &w->days[i];
	return NULL;
}

static void report_add_event(const struct digest_event *e, struct report_watch *out)
{
	struct report_numbers one = numbers_of(e);
	add_numbers(e->before ? &out->before : &out->now, &one);
	struct report_day *day = e->before ? NULL : day_named(out, e->day);
	if (!day)
		return;
	day->recovered += one.recovered;
	day->held += one.held;
	day->reported += one.reported;
}

void report_add_up(const struct digest_event *events, int n, struct report_watch *out)
{
	for (int i = 0; i < n; i++)
		report_add_event(&events[i], out);
}

void report_total(const struct report *r, struct report_numbers *now, struct report_numbers *before)
{
	*now = *before = (struct report_numbers){0};
	for (int i = 0; i < r->nwatches; i++) {
		add_numbers(now, &r->watches[i].now);
		add_numbers(before, &r->watches[i].before);
	}
}

/* ---- reading one watch ---- */

/* One watch being read, in its open session. */
struct report_reading {
	struct session *session;
	struct store *store;
	const struct period *period;
	struct arena *arena;
	struct report_watch *out;
};

typedef defib_err (*read_fn)(struct report_reading *x, struct failure *f);

/* Owners as they may be shown, whatever the evidence had when it was written. */
static void mask_owners(struct report_reading *x)
{
	struct digest_list *t = &x->out->owners;
	for (int i = 0; i < t->n && x->out->watch->owner.text; i++) {
		AUTO_BUF shown = BUF_INIT;
		shown_owner(x->out->watch, t->items[i].name, &shown);
		t->items[i].name = arena_strdup(x->arena, buf_text(&shown));
	}
}

static defib_err report_read_ledger(struct report_reading *x, struct failure *f)
{
	struct report_watch *w = x->out;
	struct digest d;
	defib_err err = ledger_digest(x->store, w->watch->name, x->period, REPORT_TOP, x->arena, &d, f);
	if (err)
		return err;
	report_add_up(d.events, d.nevents, w);
	w->times = d.times;
	w->causes = d.tops[DIGEST_CAUSES];
	w->kinds = d.tops[DIGEST_KINDS];
	w->owners = d.tops[DIGEST_OWNERS];
	w->jobs = d.tops[DIGEST_JOBS];
	w->actors = d.tops[DIGEST_ACTORS];
	mask_owners(x);
	return DEFIB_OK;
}

static defib_err read_mistakes(struct report_reading *x, struct failure *f)
{
	return digest_mistakes(x->store, x->out->watch->name, x->period, &x->out->mistakes, f);
}

/* Only its row shows whether a hold is in force: the only use of the user's tables. */
static defib_err report_read_holds(struct report_reading *x, struct failure *f)
{
	struct report_watch *w = x->out;
	struct bound b = {0};
	struct held_count held = {0};
	defib_err err = bound_open(&b, x->session, w->watch, LEDGER_FIND, f);
	if (!err)
		err = held_count(x->store, &b.sql, &held, f);
	if (!err && held.all)
		err = held_jobs(x->store, &b.sql, REPORT_TOP, x->arena, &w->holds, &w->nholds, f);
	w->waiting = err ? 0 : held.all;
	bound_release(&b);
	return err;
}

/* What the leader last reported about itself. */
static defib_err read_near_misses(struct report_reading *x, struct failure *f)
{
	struct status_row *rows;
	int n = 0;
	bool there = false;
	defib_err err = daemon_table_open(x->store, "status", false, &there, f);
	if (err == DEFIB_PERMISSION) { /* then it is unknown, as without a daemon */
		fail_clear(f);
		return DEFIB_OK;
	}
	if (!err && there)
		err = status_read(x->store, x->arena, &rows, &n, f);
	for (int i = 0; !err && i < n; i++) {
		if (!text_eq(rows[i].watch, x->out->watch->name))
			continue;
		json_auto_t *info = json_loads(rows[i].info, 0, NULL);
		const json_t *misses = json_object_get(info, "near_misses_total");
		x->out->has_near_misses = json_is_integer(misses);
		x->out->near_misses = json_integer_value(misses);
	}
	return err;
}

/* If a threshold fits, there is nothing to suggest. */
static bool worth_saying(enum advice a)
{
	return a != ADVICE_FEW && a != ADVICE_FITS;
}

static defib_err read_advice(struct report_reading *x, struct failure *f)
{
	struct report_watch *w = x->out;
	struct learned learned;
	struct suggestion s;
	if (w->watch->learn == LEARN_OFF)
		return DEFIB_OK;
	defib_err err = learn_recall(x->store, w->watch->name, x->arena, &learned, f);
	if (err)
		return err;
	w->advice = ARENA_ARRAY(x->arena, const char *, learned.n + 1);
	for (int i = 0; i < learned.n; i++) {
		const struct learned_kind *k = &learned.kinds[i];
		AUTO_BUF sentence = BUF_INIT;
		if (run_times_n(&k->times) <= 0)
			continue;
		suggest(w->watch, k->kind, &k->times, &s);
		if (worth_saying(s.advice)) {
			suggestion_sentence(&s, *k->kind ? k->kind : w->watch->name, &sentence);
			w->advice[w->nadvice++] = arena_strdup(x->arena, buf_text(&sentence));
		}
	}
	return DEFIB_OK;
}

/* Each separately: one that takes too long does not affect the others. */
static const read_fn readers[] = {
	report_read_ledger, read_mistakes, report_read_holds, read_near_misses, read_advice,
};

static defib_err report_read_watch(struct report_reading *x, bool ledger_off, struct failure *f)
{
	bool exists = false;
	struct report_watch *w = x->out;
	w->ndays = report_days(x->period, x->arena, &w->days);
	if (ledger_off) {
		w->no_ledger = "the ledger is off (ledger: off)";
		return DEFIB_OK;
	}
	defib_err err = ledger_exists(x->store, &exists, f);
	if (!err && !exists)
		w->no_ledger = "there is no ledger yet: nothing was ever recovered";
	for (size_t i = 0; i < sizeof readers / sizeof *readers && !err && exists; i++) {
		struct failure one = {0};
		if (readers[i](x, &one) && !w->missing.code)
			w->missing = one;
		if (x->store->lost) {
			*f = one;
			err = one.code;
		}
	}
	return err;
}

/* ---- all of them ---- */

static bool known_lost(const struct report *r, const struct database *d)
{
	for (int i = 0; i < r->nlost; i++)
		if (text_eq(r->lost[i].database, d->name))
			return true;
	return false;
}

void report_gather(const struct report_source *sources, int n, const struct period *p,
                   bool ledger_off, struct arena *a, struct report *out)
{
	*out = (struct report){.period = *p};
	out->watches = ARENA_ARRAY(a, struct report_watch, n + 1);
	out->lost = ARENA_ARRAY(a, struct report_lost, n + 1);
	for (int i = 0; i < n; i++) {
		const struct report_source *s = &sources[i];
		struct report_watch *w = &out->watches[out->nwatches];
		struct failure f = {0};
		if (known_lost(out, s->database))
			continue;
		*w = (struct report_watch){.watch = s->watch, .database = s->database};
		defib_err err = session_ready(s->session, &f);
		struct report_reading x = {s->session, s->session->store, &out->period, a, w};
		if (!err)
			err = report_read_watch(&x, ledger_off, &f);
		if (err)
			out->lost[out->nlost++] = (struct report_lost){s->database->name, f};
		else
			out->nwatches++;
	}
}

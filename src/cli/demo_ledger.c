/*
 * demo_ledger.c: what defib did about it, read from the ledger as it is written.
 *
 * Time to recovery is measured from outside: from the moment at which we killed the worker,
 * froze it or saw its end, to the entry by which its job was given back. A page worker is
 * known to nobody; there it is the time since the row's last sign of life.
 */
#include "cli/demo.h"

#include "base/text.h"
#include "ledger/events.h"
#include "life/incarnation.h"

#define SAGAS_TOLD 3

/* A run of entries that one line tells. */
struct told {
	const char *event, *owner, *verdict;
	bool page, poison;
	unsigned counts; /* as what each of them counts (ledger/events.h) */
	int64_t jobs, job, took_ms;
};

enum column {
	ID,
	WATCH,
	JOB,
	EVENT,
	VERDICT,
	RULE,
	OWNER,
	EPOCH,
	AT_MS,
	SIGN_MS,
	INCARNATION,
	NAME
};

static const char postgres_read[] =
	"SELECT l.id, l.watch, l.job, l.event, l.verdict, l.rule, l.evidence->>'owner', l.epoch, "
	"(extract(epoch FROM l.at) * 1000)::bigint, "
	"(extract(epoch FROM (l.evidence->>'alive_at')::timestamptz) * 1000)::bigint, "
	"w.incarnation, w.name FROM defib.ledger l LEFT JOIN defib.worker w ON w.id::text = "
	"coalesce(l.evidence->>'owner', substr(l.actor, 8)) "
	"WHERE l.id > $1 AND l.watch IN ('queue', $2) ORDER BY l.id LIMIT 1000";
static const char sqlite_read[] =
	"SELECT l.id, l.watch, l.job, l.event, l.verdict, l.rule, l.evidence->>'owner', l.epoch, "
	"CAST((julianday(l.at) - 2440587.5) * 86400000 AS INTEGER), "
	"CAST((julianday(l.evidence->>'alive_at') - 2440587.5) * 86400000 AS INTEGER), "
	"w.incarnation, w.name FROM defib_ledger l LEFT JOIN defib_worker w ON CAST(w.id AS TEXT) = "
	"coalesce(l.evidence->>'owner', substr(l.actor, 8)) "
	"WHERE l.id > ?1 AND l.watch IN ('queue', ?2) ORDER BY l.id LIMIT 1000";

/* Since when the job was left alone, by the database's clock; 0: not known. */
static int64_t left_alone_ms(struct demo *d, const struct store_rows *r, int row, bool page)
{
	struct incarnation who;
	const char *incarnation = row_text(r, row, INCARNATION);
	if (page)
		return row_int(r, row, SIGN_MS, 0);
	if (!incarnation || !incarnation_parse(incarnation, &who))
		return 0;
	demo_given_up(d, who.pid);
	int64_t death = demo_death_ms(d, who.pid);
	return death ? death + d->clock_ahead_ms : 0;
}

static int64_t took_ms(struct demo *d, const struct store_rows *r, int row, bool page)
{
	int64_t since = left_alone_ms(d, r, row, page), at = row_int(r, row, AT_MS, 0);
	if (!since)
		return -1;
	return at > since ? at - since : 0;
}

static struct demo_entry *add_entry(struct demo *d)
{
	if (d->nentries == d->entries_cap) {
		d->entries_cap = d->entries_cap ? 2 * d->entries_cap : 256;
		d->entries = mem_grow(d->entries, sizeof *d->entries * (size_t)d->entries_cap);
	}
	return &d->entries[d->nentries++];
}

/* ---- telling ---- */

static void tell_held(struct demo *d, const struct told *t)
{
	if (t->poison)
		demo_say(d, COLOR_GREEN,
		         "job %lld was lost with its worker too often: held for a person, as poison",
		         (long long)t->job);
	else
		demo_say(d, COLOR_YELLOW, "%lld job%s of %s held for a person (verdict %s)",
		         (long long)t->jobs, t->jobs == 1 ? "" : "s", t->owner, t->verdict);
}

static void tell_recovered(struct demo *d, const struct told *t)
{
	char after[48] = "";
	if (t->took_ms >= 0)
		snprintf(after, sizeof after, ", after %.3f s", (double)t->took_ms / 1000.0);
	if (t->page)
		demo_say(d, COLOR_GREEN, "%lld page%s recovered by the watch%s without a sign of life",
		         (long long)t->jobs, t->jobs == 1 ? "" : "s", after);
	else
		demo_say(d, COLOR_GREEN, "%lld job%s of %s recovered%s (verdict %s)", (long long)t->jobs,
		         t->jobs == 1 ? "" : "s", t->owner, after, t->verdict);
}

/* The first few by name; then one line for all that follow. */
static void tell_saga(struct demo *d, int64_t order)
{
	d->sagas++;
	if (d->sagas <= SAGAS_TOLD)
		demo_say(d, COLOR_YELLOW, "order %lld cannot be shipped: its saga takes back what was done",
		         (long long)order);
	else if (d->sagas == SAGAS_TOLD + 1)
		demo_say(d, COLOR_YELLOW, "and so with further orders, each of them told in the ledger");
}

static void tell(struct demo *d, const struct told *t)
{
	if (t->jobs == 0)
		return;
	if (t->counts & EVENT_RECOVERED)
		tell_recovered(d, t);
	else if (t->counts & EVENT_HELD)
		tell_held(d, t);
	else if (text_eq(t->event, "ROLLBACK_STARTED"))
		tell_saga(d, t->job);
	else if (text_eq(t->event, "LATE_COMPLETION"))
		demo_say(d, COLOR_GREEN, "%s is fenced: %lld late result%s of its old jobs refused",
		         t->owner, (long long)t->jobs, t->jobs == 1 ? "" : "s");
	else if (text_eq(t->event, "WORKER_RETURNED"))
		demo_say(d, COLOR_GREEN, "%s came back and was told that it had been given up", t->owner);
}

static void read_row(struct demo *d, const struct store_rows *r, int row, struct told *t)
{
	bool page = text_eq(row_text(r, row, WATCH), d->pages);
	int64_t job = row_int(r, row, JOB, 0);
	const char *event = row_text(r, row, EVENT);
	d->last_entry = row_int(r, row, ID, d->last_entry);
	bool of_worker = text_eq(event, "WORKER_RETURNED");
	if (!page && !of_worker && !demo_is_ours(d, job))
		return;
	const char *name = row_text(r, row, NAME);
	unsigned counts = event_counts(event, row_text(r, row, VERDICT) != NULL,
	                               text_eq(row_text(r, row, RULE), EVENT_BY_HAND));
	struct demo_entry e = {.job = job,
	                       .epoch = row_int(r, row, EPOCH, -1),
	                       .page = page,
	                       .recovered = (counts & EVENT_RECOVERED) != 0,
	                       .poison = text_eq(event, "HELD") &&
	                                 text_eq(row_text(r, row, RULE), "crash-budget")};
	e.took_ms = counts & (EVENT_RECOVERED | EVENT_HELD) ? took_ms(d, r, row, page) : -1;
	d->recovered += e.recovered;
	d->late += text_eq(event, "LATE_COMPLETION");
	*add_entry(d) = e;
	struct told now = {event,
	                   name ? demo_label(name) : "a worker",
	                   row_text(r, row, VERDICT),
	                   page,
	                   e.poison,
	                   counts,
	                   1,
	                   job,
	                   e.took_ms};
	bool same = t->jobs && text_eq(t->event, event) && text_eq(t->owner, now.owner) &&
	            t->page == page && t->poison == e.poison && t->counts == counts;
	if (!same) {
		tell(d, t);
		*t = now;
		return;
	}
	t->jobs++;
	t->took_ms = e.took_ms > t->took_ms ? e.took_ms : t->took_ms;
}

defib_err demo_ledger_follow(struct demo *d, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct store_rows rows = {0};
	struct told t = {0};
	struct store_param params[] = {P_INT(d->last_entry), P_TEXT(d->pages)};
	defib_err err = demo_ask(d, demo_sql(d, postgres_read, sqlite_read), params, 2, &a, &rows, f);
	for (int i = 0; i < rows.nrows && !err; i++)
		read_row(d, &rows, i, &t);
	tell(d, &t);
	arena_release(&a);
	return err;
}

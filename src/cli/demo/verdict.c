/* SPDX-License-Identifier: Apache-2.0
 * demo/verdict.c: what defib did about the faults, read from the ledger and printed as it happens;
 * and at the end whether the promises were kept.
 *
 * Time to recovery is measured as in every report: from `lost_at` in the evidence to the entry.
 */
#include "cli/demo/verdict.h"

#include "cli/demo/acts.h"
#include "cli/demo/crew.h"
#include "cli/demo/demo.h"
#include "cli/demo/story.h"
#include "ledger/digest_store.h"
#include "ledger/events.h"
#include "life/incarnation.h"
#include "store/dialect.h"

#include <dirent.h>
#include <errno.h>

#define SAGAS_SHOWN 3

/* A run of entries that one line reports. */
struct entry_run {
	const char *event, *owner, *verdict;
	bool page, poison;
	unsigned counts; /* what each of them counts as (ledger/events.h) */
	int64_t jobs, job, took_us;
};

enum column { ID, WATCH, JOB, EVENT, VERDICT, RULE, OWNER, EPOCH, TOOK_US, INCARNATION, NAME };

static void read_sql(struct buf *sql)
{
	buf_add(sql, "SELECT l.id, l.watch, l.job, l.event, l.verdict, l.rule, l.evidence->>'owner', "
	             "l.epoch, CAST((");
	sql_seconds_lost("l.at", sql);
	buf_add(sql, ") * 1000000 AS bigint), w.incarnation, w.name FROM defib.ledger AS l LEFT JOIN "
	             "defib.worker AS w ON CAST(w.id AS text) = coalesce(l.evidence->>'owner', "
	             "substr(l.actor, 8)) WHERE l.id > $1 AND l.watch IN ('queue', $2) ORDER BY l.id "
	             "LIMIT 1000");
}

/* The worker's process that had the job; 0: unknown. */
static pid_t owner_pid(const struct store_rows *r, int row)
{
	struct incarnation who;
	const char *incarnation = row_text(r, row, INCARNATION);
	return incarnation && incarnation_parse(incarnation, &who) ? who.pid : 0;
}

/* What the entry means for the acts. */
static void note_act(struct demo *d, const struct store_rows *r, int row,
                     const struct demo_entry *e)
{
	const char *event = row_text(r, row, EVENT);
	pid_t pid = owner_pid(r, row);
	if (text_eq(event, ENTRY_LATE_COMPLETION) || text_eq(event, ENTRY_WORKER_RETURNED))
		demo_act_back(d, text_eq(event, ENTRY_LATE_COMPLETION));
	else if (e->poison)
		demo_act_held(d);
	else if (e->recovered && e->page)
		demo_act_page(d, row_int(r, row, TOOK_US, -1));
	else if (e->recovered)
		demo_act_recovered(d, pid, e->job, row_int(r, row, TOOK_US, -1));
	if (pid && !e->page && (e->recovered || text_eq(event, ENTRY_HELD)))
		demo_given_up(d, pid);
}

static struct demo_entry *add_entry(struct demo *d)
{
	if (d->nentries == d->entries_cap) {
		d->entries_cap = d->entries_cap ? 2 * d->entries_cap : 256;
		d->entries = mem_grow(d->entries, sizeof *d->entries * (size_t)d->entries_cap);
	}
	return &d->entries[d->nentries++];
}

/* ---- reporting ---- */

static void print_held(struct demo *d, const struct entry_run *t)
{
	if (t->poison)
		demo_event(d, COLOR_GREEN,
		           "job %lld lost its worker too often: held for an operator, as poison",
		           (long long)t->job);
	else
		demo_event(d, COLOR_YELLOW, "%lld job%s of %s held for an operator (verdict %s)",
		           (long long)t->jobs, t->jobs == 1 ? "" : "s", t->owner, t->verdict);
}

static void print_recovered(struct demo *d, const struct entry_run *t)
{
	AUTO_BUF after = BUF_INIT;
	if (t->took_us >= 0) {
		buf_add(&after, ", after ");
		duration_text(t->took_us, &after);
	}
	if (t->page)
		demo_event(d, COLOR_GREEN, "%lld page%s recovered by the watch%s without a sign of life",
		           (long long)t->jobs, t->jobs == 1 ? "" : "s", buf_text(&after));
	else
		demo_event(d, COLOR_GREEN, "%lld job%s of %s recovered%s (verdict %s)", (long long)t->jobs,
		           t->jobs == 1 ? "" : "s", t->owner, buf_text(&after), t->verdict);
}

/* The first few by name; then one line for all others. */
static void print_saga(struct demo *d, int64_t order)
{
	d->sagas++;
	if (d->sagas <= SAGAS_SHOWN)
		demo_event(d, COLOR_YELLOW,
		           "order %lld cannot be shipped: its saga undoes the finished steps",
		           (long long)order);
	else if (d->sagas == SAGAS_SHOWN + 1)
		demo_event(d, COLOR_YELLOW, "and the same for further orders; the ledger records each");
}

static void print_run(struct demo *d, const struct entry_run *t)
{
	if (t->jobs == 0)
		return;
	if (t->counts & COUNTS_RECOVERED)
		print_recovered(d, t);
	else if (t->counts & COUNTS_HELD)
		print_held(d, t);
	else if (text_eq(t->event, ENTRY_ROLLBACK_STARTED))
		print_saga(d, t->job);
	else if (text_eq(t->event, ENTRY_LATE_COMPLETION))
		demo_event(d, COLOR_GREEN, "%s is fenced: %lld late result%s of its old jobs refused",
		           t->owner, (long long)t->jobs, t->jobs == 1 ? "" : "s");
	else if (text_eq(t->event, ENTRY_WORKER_RETURNED))
		demo_event(d, COLOR_GREEN, "%s came back and learned that it had been declared dead",
		           t->owner);
}

static void read_row(struct demo *d, const struct store_rows *r, int row, struct entry_run *t)
{
	bool page = text_eq(row_text(r, row, WATCH), d->pages);
	int64_t job = row_int(r, row, JOB, 0);
	const char *event = row_text(r, row, EVENT);
	d->last_entry = row_int(r, row, ID, d->last_entry);
	bool of_worker = text_eq(event, ENTRY_WORKER_RETURNED);
	if (!page && !of_worker && !demo_is_ours(d, job))
		return;
	const char *name = row_text(r, row, NAME);
	unsigned counts = event_counts(event, row_text(r, row, VERDICT) != NULL,
	                               text_eq(row_text(r, row, RULE), RULE_BY_HAND));
	struct demo_entry e = {.job = job,
	                       .epoch = row_int(r, row, EPOCH, -1),
	                       .page = page,
	                       .recovered = (counts & COUNTS_RECOVERED) != 0,
	                       .poison = text_eq(event, ENTRY_HELD) &&
	                                 text_eq(row_text(r, row, RULE), "crash-budget")};
	bool ended = counts & (COUNTS_RECOVERED | COUNTS_HELD);
	int64_t took_us = ended ? row_int(r, row, TOOK_US, -1) : -1;
	note_act(d, r, row, &e);
	d->recovered += e.recovered;
	d->late += text_eq(event, ENTRY_LATE_COMPLETION);
	*add_entry(d) = e;
	struct entry_run now = {event,
	                        name ? demo_label(name) : "a worker",
	                        row_text(r, row, VERDICT),
	                        page,
	                        e.poison,
	                        counts,
	                        1,
	                        job,
	                        took_us};
	bool same = t->jobs && text_eq(t->event, event) && text_eq(t->owner, now.owner) &&
	            t->page == page && t->poison == e.poison && t->counts == counts;
	if (!same) {
		print_run(d, t);
		*t = now;
		return;
	}
	t->jobs++;
	t->took_us = took_us > t->took_us ? took_us : t->took_us;
}

defib_err demo_ledger_follow(struct demo *d, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows = {0};
	struct entry_run t = {0};
	struct store_param params[] = {P_INT(d->last_entry), P_TEXT(d->pages)};
	AUTO_BUF sql = BUF_INIT;
	read_sql(&sql);
	defib_err err = demo_ask(d, dialect_sql(dialect_of(d->engine), &a, buf_text(&sql)), params, 2,
	                         &a, &rows, f);
	for (int i = 0; i < rows.nrows && !err; i++)
		read_row(d, &rows, i, &t);
	print_run(d, &t);
	return err;
}

/*
 * ---- the verdict ----
 *
 * Three independent sources: what was enqueued (the ids we got), what was done (the effects, files
 * that jobs left), and what the database says (states and ledger). A job is
 *
 *   lost           gone, failed, or marked done without the effect of the run that ended it
 *   stuck          not over, or held without a ledger entry that it met too many crashes
 *   settled twice  an effect of an earlier run whose loss the ledger does not explain: that
 *                  run was accepted as its end, and the job ran again
 */

struct effect {
	bool page;
	int64_t job, epoch;
	char step[16];
};

struct effects {
	struct effect *items;
	int n, cap;
};

static int by_job(const void *a, const void *b)
{
	const struct effect *x = a, *y = b;
	if (x->page != y->page)
		return x->page ? 1 : -1;
	if (x->job != y->job)
		return x->job < y->job ? -1 : 1;
	int steps = strcmp(x->step, y->step);
	if (steps)
		return steps;
	return (x->epoch > y->epoch) - (x->epoch < y->epoch);
}

/* KIND.JOB.STEP.EPOCH */
static bool read_name(const char *name, struct effect *e)
{
	char text[64], *rest = text, *part[4] = {NULL};
	utf8_copy(text, sizeof text, name);
	for (int i = 0; i < 4; i++)
		part[i] = strsep(&rest, ".");
	if (!part[3] || !int_parse(part[1], &e->job) || !int_parse(part[3], &e->epoch))
		return false;
	e->page = text_eq(part[0], "page");
	utf8_copy(e->step, sizeof e->step, part[2]);
	return true;
}

static defib_err read_effects(const struct demo *d, struct effects *all, struct failure *f)
{
	DIR *dir = opendir(d->effects);
	struct dirent *entry;
	struct effect e;
	if (!dir)
		return fail(f, DEFIB_IO, "cannot read %s: %s", d->effects, strerror(errno));
	while ((entry = readdir(dir))) {
		if (!read_name(entry->d_name, &e))
			continue;
		if (all->n == all->cap) {
			all->cap = all->cap ? 2 * all->cap : 1024;
			all->items = mem_grow(all->items, sizeof e * (size_t)all->cap);
		}
		all->items[all->n++] = e;
	}
	closedir(dir);
	if (all->n)
		qsort(all->items, (size_t)all->n, sizeof e, by_job);
	return DEFIB_OK;
}

static bool same_work(const struct effect *a, const struct effect *b)
{
	return a->page == b->page && a->job == b->job && text_eq(a->step, b->step);
}

/* epoch -1: of any run. */
static bool has_effect(const struct effects *all, bool page, int64_t job, const char *step,
                       int64_t epoch)
{
	struct effect wanted = {.page = page, .job = job, .epoch = epoch};
	utf8_copy(wanted.step, sizeof wanted.step, step);
	int low = 0, high = all->n;
	while (low < high) {
		int middle = low + (high - low) / 2;
		if (by_job(&all->items[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < all->n && same_work(&all->items[low], &wanted) &&
	       (epoch < 0 || all->items[low].epoch == epoch);
}

/* ---- settled twice ---- */

/* The ledger of a user's table has no epochs: there each recovery explains one earlier run. */
static int explained(const struct demo *d, const struct effect *e)
{
	int n = 0;
	for (int i = 0; i < d->nentries; i++) {
		const struct demo_entry *entry = &d->entries[i];
		if (entry->page == e->page && entry->job == e->job && (e->page || entry->epoch == e->epoch))
			n++;
	}
	return n;
}

static int64_t count_twice(const struct demo *d, const struct effects *all)
{
	int64_t twice = 0;
	for (int i = 0, earlier = 0; i + 1 < all->n; i++) {
		bool again = same_work(&all->items[i], &all->items[i + 1]);
		earlier = again ? earlier + 1 : 0;
		if (again && explained(d, &all->items[i]) < (all->items[i].page ? earlier : 1))
			twice++;
	}
	return twice;
}

/* ---- lost, stuck ---- */

static bool was_done(const struct effects *all, const char *kind, int64_t job, int64_t epoch)
{
	if (!text_eq(kind, "order"))
		return has_effect(all, false, job, "job", epoch);
	return has_effect(all, false, job, "reserve", -1) &&
	       has_effect(all, false, job, "charge", -1) && has_effect(all, false, job, "ship", epoch);
}

static bool was_undone(const struct effects *all, int64_t job)
{
	return has_effect(all, false, job, "undo_charge", -1) &&
	       has_effect(all, false, job, "undo_reserve", -1);
}

/* Lost with its worker too often, and recorded as such: an operator knows. */
static bool is_held_as_poison(const struct demo *d, int64_t job)
{
	for (int i = 0; i < d->nentries; i++)
		if (d->entries[i].job == job && !d->entries[i].page && d->entries[i].poison)
			return true;
	return false;
}

static void demo_verdict_count_job(const struct demo *d, const struct effects *all,
                                   const struct store_rows *r, int row, struct demo_verdict *v)
{
	int64_t job = row_int(r, row, 0, 0), epoch = row_int(r, row, 3, 0);
	const char *kind = row_text(r, row, 1), *state = row_text(r, row, 2);
	if (text_eq(state, "done")) {
		v->done++;
		v->lost += !was_done(all, kind, job, epoch);
	} else if (text_eq(state, "rolled_back")) {
		v->rolled_back++;
		v->lost += !was_undone(all, job);
	} else if (text_eq(state, "held") && is_held_as_poison(d, job)) {
		v->held++;
	} else if (text_eq(state, "failed") || text_eq(state, "timed_out") ||
	           text_eq(state, "cancelled")) {
		v->lost++;
	} else {
		v->stuck++;
	}
}

static defib_err count_jobs(struct demo *d, const struct effects *all, struct demo_verdict *v,
                            struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows = {0};
	struct store_param queue = P_TEXT(d->queue);
	defib_err err = demo_ask(d, "SELECT id, kind, state, epoch FROM defib.job WHERE queue = $1",
	                         &queue, 1, &a, &rows, f);
	int ours = 0;
	for (int i = 0; i < rows.nrows && !err; i++) {
		if (!demo_is_ours(d, row_int(&rows, i, 0, 0)))
			continue;
		ours++;
		demo_verdict_count_job(d, all, &rows, i, v);
	}
	v->lost += d->nids - ours;
	return err;
}

static defib_err count_pages(struct demo *d, const struct effects *all, struct demo_verdict *v,
                             struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows = {0};
	defib_err err = demo_ask(d, arena_printf(&a, "SELECT id, status, attempts FROM %s", d->pages),
	                         NULL, 0, &a, &rows, f);
	for (int i = 0; i < rows.nrows && !err; i++) {
		bool over = text_eq(row_text(&rows, i, 1), "Complete");
		v->done += over;
		v->stuck += !over;
		v->lost += over &&
		           !has_effect(all, true, row_int(&rows, i, 0, 0), "page", row_int(&rows, i, 2, 0));
	}
	v->lost += d->npages - rows.nrows;
	return err;
}

/* ---- time to recovery ---- */

static defib_err demo_verdict_measure(struct demo *d, struct demo_verdict *v, struct failure *f)
{
	/* Regardless of clocks: no entry is in the future. */
	const struct period run = {d->begun_us, d->begun_us + INT64_C(86400) * US_PER_S};
	for (int i = 0; i < d->nentries; i++)
		v->recovered += d->entries[i].recovered;
	defib_err err = digest_times(d->store, "queue", &run, &v->times, f);
	return err ? err : digest_times(d->store, d->pages, &run, &v->page_times, f);
}

defib_err demo_judge(struct demo *d, struct demo_verdict *v, struct failure *f)
{
	struct effects all = {0};
	*v = (struct demo_verdict){.jobs = d->nids + d->npages, .killed = d->killed + d->killed_by_job};
	defib_err err = demo_ledger_follow(d, f);
	if (!err)
		err = read_effects(d, &all, f);
	if (!err)
		err = count_jobs(d, &all, v, f);
	if (!err)
		err = count_pages(d, &all, v, f);
	if (!err) {
		v->twice = count_twice(d, &all);
		err = demo_verdict_measure(d, v, f);
	}
	free(all.items);
	return err;
}

bool demo_passed(const struct demo_verdict *v)
{
	return v->lost == 0 && v->stuck == 0 && v->twice == 0;
}

static void demo_verdict_show_json(const struct demo *d, const struct demo_verdict *v)
{
	printf("{\"jobs\":%lld,\"done\":%lld,\"rolled_back\":%lld,\"held\":%lld,"
	       "\"workers_killed\":%lld,\"killed_by_job\":%lld,\"page_workers_killed\":%lld,"
	       "\"frozen\":%lld,\"cut\":%lld,\"lost\":%lld,\"stuck\":%lld,\"settled_twice\":%lld,"
	       "\"recovered\":%lld,\"late_refused\":%lld,\"median_ms\":%.3f,\"worst_ms\":%.3f,"
	       "\"pages_median_ms\":%.3f,\"pages_worst_ms\":%.3f,\"kept\":%s}\n",
	       (long long)v->jobs, (long long)v->done, (long long)v->rolled_back, (long long)v->held,
	       (long long)v->killed, (long long)d->killed_by_job, (long long)d->pages_killed,
	       (long long)d->frozen, (long long)d->cut, (long long)v->lost, (long long)v->stuck,
	       (long long)v->twice, (long long)v->recovered, (long long)d->late,
	       (double)v->times.median_us / 1e3, (double)v->times.worst_us / 1e3,
	       (double)v->page_times.median_us / 1e3, (double)v->page_times.worst_us / 1e3,
	       demo_passed(v) ? "true" : "false");
}

/* In the words and numbers of `defib report`. */
static void show_times(const char *what, const struct digest_times *t, struct buf *out)
{
	if (t->n == 0)
		return;
	buf_addf(out, "%s recovered after ", what);
	duration_text(t->median_us, out);
	buf_add(out, " (median), at most ");
	duration_text(t->worst_us, out);
	buf_add(out, "\n");
}

static void show_counts(const struct demo *d, const struct demo_verdict *v, struct buf *out)
{
	buf_add_count(out, v->jobs);
	buf_add(out, " jobs and pages: ");
	buf_add_count(out, v->done);
	buf_addf(out, " done, %lld rolled back by their saga, %lld held for an operator\n",
	         (long long)v->rolled_back, (long long)v->held);
	buf_addf(out, "%lld workers killed; %lld recoveries; %lld late results refused\n",
	         (long long)v->killed + d->pages_killed, (long long)v->recovered, (long long)d->late);
	show_times("jobs", &v->times, out);
	show_times("pages", &v->page_times, out);
}

void demo_show_verdict(struct demo *d, const struct demo_verdict *v)
{
	AUTO_BUF out = BUF_INIT, line = BUF_INIT;
	bool kept = demo_passed(v);
	demo_end_progress(d);
	buf_add(&out, d->cli->quiet ? "" : "\n");
	show_counts(d, v, &out);
	buf_addf(&line, "verdict: lost %lld, stuck %lld, settled twice %lld: %s", (long long)v->lost,
	         (long long)v->stuck, (long long)v->twice,
	         kept ? "every promise was kept" : "a promise was BROKEN");
	out_color(&out, true, kept ? COLOR_GREEN : COLOR_RED, buf_text(&line));
	buf_add(&out, "\n");
	if (!d->cli->json || !d->cli->quiet)
		demo_write(d, buf_text(&out));
	if (d->cli->json)
		demo_verdict_show_json(d, v);
	(void)fflush(stdout);
}

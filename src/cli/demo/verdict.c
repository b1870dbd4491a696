/* SPDX-License-Identifier: Apache-2.0
 * demo/verdict.c: were the promises kept?
 *
 * Three witnesses that do not know each other: what was enqueued (the ids we were given),
 * what was done (the effects, files that jobs left), and what the database says (states and
 * ledger). A job is
 *
 *   lost           gone, failed, or called done without the effect of the run that ended it
 *   stuck          not over, or held without the ledger saying that it met too many crashes
 *   settled twice  an effect of an earlier run whose loss the ledger does not explain: that
 *                  run had been taken as its end, and the job ran again
 */
#include "cli/demo/demo.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>

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

/* Lost with its worker too often, and noted as that: somebody is told. */
static bool is_held_as_poison(const struct demo *d, int64_t job)
{
	for (int i = 0; i < d->nentries; i++)
		if (d->entries[i].job == job && !d->entries[i].page && d->entries[i].poison)
			return true;
	return false;
}

static void count_job(const struct demo *d, const struct effects *all, const struct store_rows *r,
                      int row, struct demo_verdict *v)
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
	struct arena a = ARENA_INIT;
	struct store_rows rows = {0};
	struct store_param queue = P_TEXT(d->queue);
	defib_err err = demo_ask(d, "SELECT id, kind, state, epoch FROM defib.job WHERE queue = $1",
	                         &queue, 1, &a, &rows, f);
	int ours = 0;
	for (int i = 0; i < rows.nrows && !err; i++) {
		if (!demo_is_ours(d, row_int(&rows, i, 0, 0)))
			continue;
		ours++;
		count_job(d, all, &rows, i, v);
	}
	v->lost += d->nids - ours;
	arena_release(&a);
	return err;
}

static defib_err count_pages(struct demo *d, const struct effects *all, struct demo_verdict *v,
                             struct failure *f)
{
	struct arena a = ARENA_INIT;
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
	arena_release(&a);
	return err;
}

/* ---- time to recovery ---- */

static defib_err measure(struct demo *d, struct demo_verdict *v, struct failure *f)
{
	/* Whatever the clocks say: entries of the future are none. */
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
		err = measure(d, v, f);
	}
	free(all.items);
	return err;
}

bool demo_kept(const struct demo_verdict *v)
{
	return v->lost == 0 && v->stuck == 0 && v->twice == 0;
}

static void show_json(const struct demo *d, const struct demo_verdict *v)
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
	       demo_kept(v) ? "true" : "false");
}

/* In the words and numbers of `defib report`. */
static void show_times(const char *watch, const struct digest_times *t, struct buf *out)
{
	if (t->n == 0)
		return;
	buf_addf(out, "time to recover, watch %s: median ", watch);
	duration_text(t->median_us, out);
	buf_add(out, ", longest ");
	duration_text(t->worst_us, out);
	buf_add(out, "\n");
}

void demo_show_verdict(struct demo *d, const struct demo_verdict *v)
{
	struct buf out = BUF_INIT;
	bool kept = demo_kept(v);
	demo_clear_progress(d);
	if (d->cli->json) {
		show_json(d, v);
		(void)fflush(stdout);
		return;
	}
	buf_add(&out, "\n");
	out_count(&out, v->jobs);
	buf_addf(&out, " jobs, %d of them pages: ", d->npages);
	out_count(&out, v->done);
	buf_addf(&out, " done, %lld rolled back by their saga, %lld held for an operator\n",
	         (long long)v->rolled_back, (long long)v->held);
	buf_addf(&out, "workers frozen %lld, cut off %lld; page workers killed %lld\n",
	         (long long)d->frozen, (long long)d->cut, (long long)d->pages_killed);
	buf_addf(&out, "recovered %lld; late results refused %lld\n", (long long)v->recovered,
	         (long long)d->late);
	show_times("queue", &v->times, &out);
	show_times(d->pages, &v->page_times, &out);
	struct buf line = BUF_INIT;
	buf_add(&line, "verdict: jobs ");
	out_count(&line, v->jobs);
	buf_addf(&line, ", workers killed %lld, lost %lld, stuck %lld, settled twice %lld: %s",
	         (long long)v->killed, (long long)v->lost, (long long)v->stuck, (long long)v->twice,
	         kept ? "every promise was kept" : "a promise was BROKEN");
	out_color(&out, d->cli->color_out, kept ? COLOR_GREEN : COLOR_RED, buf_text(&line));
	puts(buf_text(&out));
	(void)fflush(stdout);
	buf_release(&line);
	buf_release(&out);
}

/* SPDX-License-Identifier: Apache-2.0
 * demo/pages.c: a worker as many systems have one: it takes a row by setting its status,
 * works, and sets another. It knows nothing of defib, and when it is killed its row says
 * "Processing" for ever. That is what the watch of the demonstration is for.
 */
#include "cli/demo/demo.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define IDLE_US 200000
#define WORK_US 250000

struct page_worker {
	struct demo demo; /* for its session */
	const char *table, *effects;
	struct arena arena;
};

bool demo_pages_wanted(void)
{
	return getenv("DEFIB_DEMO_PAGES") != NULL;
}

static defib_err take_page(struct page_worker *w, int64_t *id, int64_t *attempt, struct failure *f)
{
	static const char take[] =
		"UPDATE %s SET status = 'Processing', attempts = attempts + 1, updated_at = "
		"{now_transaction} WHERE id = (SELECT id FROM %s WHERE status = 'Queued' ORDER BY id LIMIT "
		"1{skip_locked}) RETURNING id, attempts";
	struct store_rows rows;
	const char *sql = arena_printf(&w->arena, take, w->table, w->table);
	defib_err err = demo_ask(&w->demo, sql, NULL, 0, &w->arena, &rows, f);
	*id = !err && rows.nrows ? row_int(&rows, 0, 0, 0) : 0;
	*attempt = *id ? row_int(&rows, 0, 1, 0) : 0;
	return err;
}

/* Only what is still this attempt's: a page that was given to another stays the other's. */
static defib_err end_page(struct page_worker *w, int64_t id, int64_t attempt, struct failure *f)
{
	static const char end[] = "UPDATE %s SET status = 'Complete', updated_at = {now_transaction} "
							  "WHERE id = $1 AND attempts = $2 AND status = 'Processing'";
	struct store_param params[] = {P_INT(id), P_INT(attempt)};
	const char *sql = arena_printf(&w->arena, end, w->table);
	return demo_ask(&w->demo, sql, params, 2, &w->arena, NULL, f);
}

static bool leave_effect(const struct page_worker *w, int64_t id, int64_t attempt)
{
	char path[512];
	snprintf(path, sizeof path, "%s/page.%lld.page.%lld", w->effects, (long long)id,
	         (long long)attempt);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd >= 0 && close(fd) == 0;
}

/* A database that is busy, or away for a moment, is asked again. */
static bool may_pass(defib_err err)
{
	return err == DEFIB_LOCKED || err == DEFIB_CONNECTION || err == DEFIB_UNKNOWN_OUTCOME ||
	       err == DEFIB_TIMEOUT;
}

static defib_err one_page(struct page_worker *w, struct failure *f)
{
	int64_t id, attempt;
	defib_err err = take_page(w, &id, &attempt, f);
	if (err || !id) {
		usleep(IDLE_US);
		return err;
	}
	usleep((useconds_t)(WORK_US + id * 7919 % 100 * 1000));
	if (!leave_effect(w, id, attempt))
		return fail(f, DEFIB_IO, "page %lld: %s", (long long)id, strerror(errno));
	do
		err = end_page(w, id, attempt, f);
	while (may_pass(err));
	return err;
}

int demo_pages_run(void)
{
	struct page_worker w = {.table = getenv("DEFIB_DEMO_PAGES"), .effects = getenv("DEMO_EFFECTS")};
	struct failure f = {0};
	defib_err err = DEFIB_OK;
	w.demo.url = w.demo.db = getenv("DEFIB_DEMO_URL");
	if (!w.table || !w.effects || !w.demo.url || !store_engine_of(w.demo.url, &w.demo.engine, &f))
		return EXIT_USAGE;
	while (!err || may_pass(err)) {
		err = one_page(&w, &f);
		arena_clear(&w.arena);
	}
	return cli_fail(&f);
}

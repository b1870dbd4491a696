/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/leader_status.h"

#include "base/clock.h"

/* This many intervals, plus time for the scan itself, may pass without a finished scan. */
#define INTERVALS 3
#define SOME_TIME_US (30 * US_PER_S)

defib_err leader_rows_read(struct store *s, struct arena *a, struct leader_rows *out,
                           struct failure *f)
{
	*out = (struct leader_rows){0};
	defib_err err = leader_read(s, a, &out->leaders, &out->nleaders, f);
	return err ? err : status_read(s, a, &out->statuses, &out->nstatuses, f);
}

int64_t leader_owed_us(int64_t every_us)
{
	return INTERVALS * every_us + SOME_TIME_US;
}

static void find_last_scan(struct leader_status *st)
{
	const char *text = json_string_value(json_object_get(st->info, "last_finished_scan"));
	int64_t at_us;
	st->scanned = st->status && time_parse(text, &at_us);
	if (!st->scanned)
		return;
	st->ago_us = st->status->age_us + st->status->at_us - at_us;
	st->ago_us = st->ago_us > 0 ? st->ago_us : 0;
}

/* A leader that has only just begun need not have finished a scan. */
static bool leader_status_is_silent(const struct leader_status *st)
{
	int64_t every_us = json_integer_value(json_object_get(st->info, "every_s")) * US_PER_S;
	int64_t led_us = st->leader->led_us;
	int64_t since_us = st->scanned && st->ago_us < led_us ? st->ago_us : led_us;
	return since_us > leader_owed_us(every_us);
}

static struct leader_status rows_of(const struct leader_rows *rows, const char *watch)
{
	struct leader_status st = {0};
	for (int i = 0; i < rows->nleaders && !st.leader; i++)
		if (text_eq(rows->leaders[i].watch, watch))
			st.leader = &rows->leaders[i];
	for (int i = 0; i < rows->nstatuses && !st.status; i++)
		if (text_eq(rows->statuses[i].watch, watch))
			st.status = &rows->statuses[i];
	return st;
}

bool leader_known(const struct leader_rows *rows, const char *watch)
{
	struct leader_status st = rows_of(rows, watch);
	return st.leader || st.status;
}

struct leader_status leader_status_of(const struct leader_rows *rows, const char *watch)
{
	struct leader_status st = rows_of(rows, watch);
	if (st.status)
		st.info = json_read(st.status->info, 0);
	find_last_scan(&st);
	st.leads = st.leader && st.leader->leads;
	st.silent = st.leads && leader_status_is_silent(&st);
	return st;
}

defib_err brake_allows(struct store *s, const char *watch, const char *override, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct leader_rows rows = {0};
	struct failure unread = {0};
	bool there = false;
	if (!daemon_table_open(s, "leader", false, &there, &unread) && there &&
	    !leader_rows_read(s, &a, &rows, &unread)) {
		struct leader_status st = leader_status_of(&rows, watch);
		const char *guard = json_string_value(json_object_get(st.info, "guard"));
		if (st.leads && !st.silent && json_is_true(json_object_get(st.info, "braking"))) {
			fail(f, DEFIB_REFUSED, "watch %s: nothing was changed: the daemon's brake is on: %s",
			     watch, guard ? guard : "");
			fail_next(f, "wait until it is released, or %s, which the ledger records", override);
		}
		json_decref(st.info);
	}
	return f->code;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/late.h"

#include "base/clock.h"

#include <inttypes.h>

/* "09:12:00Z", with the day if it is not within a day. */
static void add_moment(struct buf *out, int64_t us, int64_t now_us)
{
	AUTO_BUF iso = BUF_INIT;
	time_iso(us, &iso);
	bool near = now_us - us < 24 * 3600 * US_PER_S;
	buf_addn(out, buf_text(&iso) + (near ? 11 : 0), near ? 8 : 19);
	buf_addch(out, 'Z');
}

static void late_add_rows(const struct waiting_result *r, int64_t n, struct buf *out)
{
	buf_add(out, r->capped ? "at least " : "");
	buf_add_count(out, n);
	if (r->schedules)
		buf_add(out, n == 1 ? " schedule has no run" : " schedules have no run");
	else
		buf_add(out, n == 1 ? " job is late" : " jobs are late");
	buf_add(out, r->schedules ? ", the oldest was due " : ", the oldest has waited ");
	duration_text(r->waited_us, out);
	buf_add(out, r->schedules ? " ago (limit " : " (limit ");
	duration_text(r->limit_us, out);
	buf_add(out, ")");
}

/* What is known of those who should start them. */
static void add_workers(const struct waiting_result *r, struct buf *out)
{
	if (r->running) {
		buf_addf(out, "; %" PRId64 " %s", r->running, r->running == 1 ? "job runs" : "jobs run");
		if (r->owners)
			buf_addf(out, " on %" PRId64 " %s", r->owners, r->owners == 1 ? "worker" : "workers");
	}
	if (r->workers == 0)
		buf_add(out, "; no worker is registered");
	else if (r->workers > 0)
		buf_addf(out, "; %" PRId64 " %s registered", r->workers,
		         r->workers == 1 ? "worker is" : "workers are");
}

static void late_add_trend(const struct waiting_result *r, struct buf *out)
{
	const struct starts_trend *t = &r->trend;
	if (!t->known)
		return;
	if (t->per_minute > 0)
		buf_addf(out, ", %.3g more each minute", t->per_minute);
	else if (t->per_minute < 0)
		buf_addf(out, ", %.3g fewer each minute", -t->per_minute);
	if (t->drain_us) {
		buf_add(out, ", none left in ");
		duration_text(t->drain_us, out);
	}
}

void late_sentence(const struct waiting_result *r, struct buf *out)
{
	if (r->late == 0)
		return;
	if (!r->unstarted) {
		late_add_rows(r, r->late, out);
		buf_addf(out,
		         r->unknown ? "; whether they are being started is not known: %s"
		                    : "; jobs are being started",
		         r->because ? r->because : "");
		late_add_trend(r, out);
		return;
	}
	late_add_rows(r, r->unstarted, out);
	if (r->schedules) {
		if (r->moved_on)
			buf_addf(out, "; %" PRId64 " moved on to %s next time without a run", r->moved_on,
			         r->moved_on == 1 ? "its" : "their");
		return;
	}
	buf_add(out, "; nobody has claimed a job");
	if (r->kind[0])
		buf_addf(out, " of kind %s", r->kind);
	if (r->last_us) {
		buf_add(out, " since ");
		add_moment(out, r->last_us, r->now_us);
	}
	if (r->kinds > 1)
		buf_addf(out, " (nor of %d other %s)", r->kinds - 1, r->kinds == 2 ? "kind" : "kinds");
	add_workers(r, out);
}

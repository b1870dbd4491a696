/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/cycle.h"

#include "base/log.h"
#include "lib/advice.h"
#include "recover/announce.h"
#include "recover/evidence.h"
#include "view/output.h"

#include <inttypes.h>

int64_t cycle_guarded(const struct scan_result *r)
{
	int64_t total = 0;
	for (int i = GUARD_PASS + 1; i < GUARD_COUNT; i++)
		total += r->guarded[i];
	return total;
}

/* The shown columns that have a value, else the key. */
static void cycle_add_name(struct buf *out, const struct watch *w, const struct facts *f)
{
	bool any = false;
	for (int i = 0; i < w->show.n; i++) {
		if (!f->show[i])
			continue;
		if (any)
			buf_addch(out, ' ');
		shown_value(w, w->show.items[i], f->show[i], out);
		any = true;
	}
	if (!any)
		buf_add(out, f->job);
}

void cycle_job(struct cycle *c, const struct watch *w, const struct candidate *job)
{
	bool done = job->outcome == OUTCOME_RECOVERED ||
	            (job->outcome == OUTCOME_HELD && !hold_in_force(job->facts.hold));
	if (!done)
		return;
	if (c->named == CYCLE_NAMED) {
		c->more++;
		return;
	}
	if (c->named++)
		buf_add(&c->jobs, ", ");
	cycle_add_name(&c->jobs, w, &job->facts);
}

void cycle_log(const struct cycle *c, const struct watch *w, const struct scan_result *r,
               int64_t next_ms)
{
	if (r->failure.code) {
		struct failure failure = r->failure;
		log_event(LOG_ERROR, "scan failed", LOG_STR("watch", w->name),
		          LOG_STR("because", failure.what), LOG_STR("next", failure_next(&failure)));
		return;
	}
	/* What already waits for an operator is not logged at every pass. */
	bool news = r->found > r->held_before || r->retried;
	AUTO_BUF jobs = BUF_INIT;
	buf_add(&jobs, buf_text(&c->jobs));
	if (c->more)
		buf_addf(&jobs, " and %" PRId64 " more", c->more);
	log_event(news ? LOG_WARN : LOG_DEBUG, "scan", LOG_STR("watch", w->name),
	          LOG_STR("label", w->label ? w->label : w->name), LOG_INT("running", r->running),
	          LOG_INT("found", r->found), LOG_INT("recovered", r->outcomes[OUTCOME_RECOVERED]),
	          LOG_INT("held", r->outcomes[OUTCOME_HELD]), LOG_INT("retried", r->retried),
	          LOG_INT("guarded", cycle_guarded(r)), LOG_STR("jobs", buf_text(&jobs)),
	          LOG_INT("took_ms", r->took_us / 1000), LOG_INT("next_check_s", next_ms / 1000));
}

/* SPDX-License-Identifier: Apache-2.0
 * api_scan.c: one pass over a watch, now: what `defib scan` does and says, within bounds
 * of jobs and time, so that a request pool is not taken for long.
 */
#include "http/api_handlers.h"

#include "base/clock.h"
#include "recover/leader_status.h"
#include "recover/scan.h"
#include "view/output.h"
#include "view/scan.h"

#define FOUND_USUAL 500
#define FOUND_MOST 5000
#define PASS_MS 10000 /* no new batch after that */

struct pass {
	struct api_call *call;
	int64_t end_ms;
	int njobs;
};

static void note_job(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct pass *p = ctx;
	struct buf *out = &p->call->out->body;
	if (p->njobs++)
		buf_add(out, ",");
	scan_job_json(w, c, out);
}

static bool go_on(void *ctx)
{
	const struct pass *p = ctx;
	return clock_boot_ms() < p->end_ms;
}

static bool read_options(struct api_call *c, struct scan_options *o)
{
	static const char *const members[] = {"fix",    "limit",          "remedy",
	                                      "reason", "override_guard", NULL};
	const char *remedy = NULL;
	if (!api_body_takes(c, members) || !api_body_bool(c, "fix", &o->fix) ||
	    !api_body_int(c, "limit", 1, FOUND_MOST, &o->limit) ||
	    !api_body_text(c, "remedy", &remedy) || !api_body_text(c, "reason", &o->reason) ||
	    !api_body_bool(c, "override_guard", &o->override_guard) ||
	    !may_override(c, o->override_guard))
		return false;
	int index = remedy ? word_index(remedy_names, remedy) : REMEDY_REPORT;
	if (index < 0)
		return api_problem(
			c, 400, "remedy must be requeue, retry, fail, rollback, hold or report, not \"%s\"",
			remedy);
	o->forced = remedy != NULL;
	o->remedy = (enum remedy)index;
	return true;
}

static bool ask_brake(struct api_call *c, const struct scan_options *o)
{
	struct failure f = {0};
	return !o->fix || o->override_guard ||
	       !brake_allows(c->session->store, c->watch->name, "send \"override_guard\": true", &f) ||
	       api_failed_as(c, 409, &f);
}

void call_scan(struct api_call *c)
{
	struct pass p = {.call = c, .end_ms = clock_boot_ms() + PASS_MS};
	struct scan_options o = {.limit = FOUND_USUAL,
	                         .actor = c->actor,
	                         .ledger_off = c->setup->settings.ledger == LEDGER_OFF,
	                         .go_on = go_on,
	                         .observer = {note_job, NULL, &p}};
	struct buf *out = &c->out->body;
	struct scan_result r = {0};
	if (!read_options(c, &o) || !ask_brake(c, &o))
		return;
	buf_add(out, "{\"watches\":[");
	scan_begin_json(c->watch, c->database, out);
	if (scan_watch(c->session, c->watch, &o, &r)) {
		api_failed(c, &r.failure);
		return;
	}
	scan_end_json(&r, out);
	buf_add(out, "],");
	scan_counts_json(r.running, r.found, r.outcomes, out);
	json_bool(out, "stopped", r.stopped);
	buf_add(out, "}\n");
}

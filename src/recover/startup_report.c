/* SPDX-License-Identifier: Apache-2.0 */
/* startup_report.c: see startup_report.h. */
#include "recover/startup_report.h"

#include "base/log.h"
#include "base/text.h"
#include "watch/terms.h"

#include <ctype.h>

/* What became of a job, as a part of a field's name. */
static const char *const done_words[] = {
	[REMEDY_REQUEUE] = "requeued",     [REMEDY_RETRY] = "retried", [REMEDY_FAIL] = "failed",
	[REMEDY_ROLLBACK] = "rolled_back", [REMEDY_HOLD] = "held",     [REMEDY_REPORT] = "reported",
};

/* States and kinds are anybody's text; a field's name is one word. */
static void one_word(char *text)
{
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && (unsigned char)*text < 0x80)
			*text = '_';
}

static void count(struct startup_count *all, int *n, const char *name, int64_t by)
{
	int i = 0;
	while (i < *n && !text_eq(all[i].name, name))
		i++;
	if (i == STARTUP_NAMES_MAX)
		name = "other";
	if (i == *n && i <= STARTUP_NAMES_MAX) {
		snprintf(all[i].name, sizeof all[i].name, "%s", name);
		(*n)++;
	}
	all[i].n += by;
}

static void count_state(struct startup_report *r, const struct watch *w, const char *state,
                        enum remedy remedy, int64_t by)
{
	const char *named = state ? state_named(w, state) : "running";
	char name[64];
	snprintf(name, sizeof name, "%.40s_%s", named ? named : state, done_words[remedy]);
	one_word(name);
	count(r->states, &r->nstates, name, by);
}

void startup_report_init(struct startup_report *r, const struct watch *w)
{
	*r = (struct startup_report){0};
	if (w->startup.mode != STARTUP_DO)
		return;
	count_state(r, w, "running", w->startup.remedy, 0);
	count_state(r, w, "cancelling", w->startup.remedy, 0);
}

void startup_report_job(struct startup_report *r, const struct watch *w, const struct candidate *c,
                        const char *state, int64_t ran_us)
{
	bool done = c->outcome == OUTCOME_RECOVERED || c->outcome == OUTCOME_HELD ||
	            c->decision.remedy == REMEDY_REPORT;
	char kind[64];
	/* Changed: another that starts at the same time has it, and tells. */
	log_event(c->outcome == OUTCOME_CHANGED ? LOG_DEBUG : LOG_WARN,
	          "job of an instance that is gone", LOG_STR("watch", w->name),
	          LOG_STR("job", c->facts.job), LOG_STR("kind", c->facts.kind), LOG_STR("state", state),
	          LOG_INT("ran_s", ran_us / 1000000),
	          LOG_STR("remedy", remedy_names[c->decision.remedy]),
	          LOG_STR("outcome", outcome_names[c->outcome]));
	if (!done)
		return;
	count_state(r, w, state, c->decision.remedy, 1);
	if (!c->facts.kind)
		return;
	snprintf(kind, sizeof kind, "%s", c->facts.kind);
	one_word(kind);
	count(r->kinds, &r->nkinds, kind, 1);
}

void startup_report_end(const struct startup_report *r, const struct watch *w,
                        const struct startup_result *result)
{
	static const enum outcome not_done[] = {OUTCOME_CHANGED, OUTCOME_LOCKED, OUTCOME_REFUSED};
	struct log_field fields[2 * (STARTUP_NAMES_MAX + 1) + 8];
	int n = 0;
	/* Where nobody asked for anything special, no news is no line. */
	if (w->startup.mode != STARTUP_DO && result->found == 0)
		return;
	for (int i = 0; i < r->nstates; i++)
		fields[n++] = LOG_INT(r->states[i].name, r->states[i].n);
	fields[n++] = LOG_STR("watch", w->name);
	fields[n++] = LOG_INT("live_instances", result->live);
	for (int i = 0; i < r->nkinds; i++)
		fields[n++] = LOG_INT(r->kinds[i].name, r->kinds[i].n);
	for (size_t i = 0; i < sizeof not_done / sizeof *not_done; i++)
		if (result->outcomes[not_done[i]])
			fields[n++] = LOG_INT(outcome_names[not_done[i]], result->outcomes[not_done[i]]);
	fields[n] = (struct log_field){NULL, NULL, 0};
	log_write(LOG_INFO, "scheduler_startup_cleanup", fields);
}

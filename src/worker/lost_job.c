/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/lost_job.h"

#include "base/hash.h"
#include "base/log.h"
#include "recover/announce.h"
#include "recover/evidence.h"

/* A job, its owner, and its outcome. */
static uint64_t lost_job_state(const struct watch *w, const struct candidate *c)
{
	enum sign sign = watch_first_sign(w);
	char since[24];
	snprintf(since, sizeof since, "%lld",
	         (long long)(c->facts.has_sign[sign] ? c->facts.sign_us[sign] : 0));
	const char *const parts[] = {w->name,
	                             c->facts.job,
	                             c->facts.owner,
	                             since,
	                             remedy_names[c->decision.remedy],
	                             outcome_names[c->outcome]};
	uint64_t hash = FNV_START;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		hash = fnv1a(hash, parts[i] ? parts[i] : "", parts[i] ? strlen(parts[i]) + 1 : 1);
	return hash ? hash : 1;
}

bool lost_job_is_new(struct lost_jobs *logged, const struct watch *watch, const struct candidate *c)
{
	uint64_t state = lost_job_state(watch, c);
	if (c->outcome == OUTCOME_HELD && !c->decision.act)
		return false; /* it was held before, and logged then */
	uint64_t *logged_state = &logged->states[state % LOST_JOBS_KEPT];
	bool news = *logged_state != state;
	*logged_state = state;
	return news;
}

void lost_job_log(struct lost_jobs *logged, const struct watch *watch, const struct candidate *c)
{
	AUTO_BUF owner = BUF_INIT;
	if (c->facts.owner)
		shown_owner(watch, c->facts.owner, &owner);
	log_event(lost_job_is_new(logged, watch, c) ? LOG_WARN : LOG_DEBUG, "job of a lost worker",
	          LOG_STR("watch", watch->name), LOG_STR("job", c->facts.job),
	          LOG_STR("owner", buf_text(&owner)),
	          LOG_STR("verdict", verdict_names[c->judgement.verdict]),
	          LOG_STR("remedy", remedy_names[c->decision.remedy]),
	          LOG_STR("outcome", outcome_names[c->outcome]));
}

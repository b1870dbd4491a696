/* SPDX-License-Identifier: Apache-2.0 */
/* lost_job.c: see lost_job.h. */
#include "worker/lost_job.h"

#include "base/log.h"
#include "recover/evidence.h"

/* FNV-1a, of texts with their ends. */
static uint64_t mixed(uint64_t hash, const char *text)
{
	const char *at = text ? text : "";
	do
		hash = (hash ^ (unsigned char)*at) * 0x100000001b3U;
	while (*at++);
	return hash;
}

/* A job, whose it was, and what became of it. */
static uint64_t state_of(const struct watch *w, const struct candidate *c)
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
	uint64_t hash = 0xcbf29ce484222325U;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		hash = mixed(hash, parts[i]);
	return hash ? hash : 1;
}

bool lost_job_news(struct lost_jobs *told, const struct watch *watch, const struct candidate *c)
{
	uint64_t state = state_of(watch, c);
	if (c->outcome == OUTCOME_HELD && !c->decision.act)
		return false; /* somebody has held it before, and said so */
	uint64_t *kept = &told->states[state % LOST_JOBS_KEPT];
	bool news = *kept != state;
	*kept = state;
	return news;
}

void lost_job_tell(struct lost_jobs *told, const struct watch *watch, const struct candidate *c)
{
	struct buf owner = BUF_INIT;
	if (c->facts.owner)
		shown_owner(watch, c->facts.owner, &owner);
	log_event(lost_job_news(told, watch, c) ? LOG_WARN : LOG_DEBUG, "job of a lost worker",
	          LOG_STR("watch", watch->name), LOG_STR("job", c->facts.job),
	          LOG_STR("owner", buf_text(&owner)),
	          LOG_STR("verdict", verdict_names[c->judgement.verdict]),
	          LOG_STR("remedy", remedy_names[c->decision.remedy]),
	          LOG_STR("outcome", outcome_names[c->outcome]));
	buf_release(&owner);
}

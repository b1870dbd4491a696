/* lost_job.c: see lost_job.h. */
#include "worker/lost_job.h"

#include "base/log.h"
#include "recover/evidence.h"

void lost_job_tell(void *ctx, const struct watch *watch, const struct candidate *c)
{
	struct buf owner = BUF_INIT;
	(void)ctx;
	if (c->facts.owner)
		shown_owner(watch, c->facts.owner, &owner);
	log_event(LOG_WARN, "job of a lost worker", LOG_STR("watch", watch->name),
	          LOG_STR("job", c->facts.job), LOG_STR("owner", buf_text(&owner)),
	          LOG_STR("verdict", verdict_names[c->judgement.verdict]),
	          LOG_STR("remedy", remedy_names[c->decision.remedy]),
	          LOG_STR("outcome", outcome_names[c->outcome]));
	buf_release(&owner);
}

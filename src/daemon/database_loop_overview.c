/* SPDX-License-Identifier: Apache-2.0 */
/* database_loop_overview.c: what a database loop puts into the overview. See database_loop.h. */
#include "base/clock.h"
#include "daemon/database_loop.h"
#include "daemon/overview.h"
#include "daemon/watch_loop.h"

void database_loop_show_watch(struct database_loop *s, const struct watch_loop *p)
{
	struct buf info = BUF_INIT;
	struct guard_report g;
	guard_report(p->guard, &g);
	if (p->counts.passes)
		watch_loop_info(p, &info);
	overview_put_watch(s->options->overview,
	                   &(struct overview_watch){
						   .name = p->watch->name,
						   .database = s->name,
						   .leads = p->leads,
						   .paused = p->paused,
						   .braking = g.braking,
						   .doubting = g.doubting,
						   .passed_us = p->last_ok_us,
						   .passed_ms = p->last_ok_ms,
						   .info = p->counts.passes ? buf_text(&info) : NULL,
						   .failed = p->last.failure.code ? p->last.failure.what : NULL,
					   });
	buf_release(&info);
}

void database_loop_show_database(struct database_loop *s, const struct failure *f)
{
	if (!s->asked || s->up != !f)
		s->since_us = clock_wall_us();
	s->asked = true;
	s->up = !f;
	overview_put_database(s->options->overview, &(struct overview_database){
													.name = s->name,
													.asked = true,
													.up = s->up,
													.error = f ? f->what : NULL,
													.since_us = s->since_us,
													.round_ms = atomic_load(&s->round_ms),
												});
}

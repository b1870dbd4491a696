/* station_board.c: what a station puts on the board, from which HTTP answers. See station.h. */
#include "base/clock.h"
#include "serve/board.h"
#include "serve/post.h"
#include "serve/station.h"

void station_show_watch(struct station *s, const struct post *p)
{
	struct buf info = BUF_INIT;
	struct guard_report g;
	guard_report(p->guard, &g);
	if (p->counts.passes)
		post_info(p, &info);
	board_put_watch(s->options->board,
	                &(struct board_watch){
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

void station_show_database(struct station *s, const struct failure *f)
{
	if (!s->asked || s->up != !f)
		s->since_us = clock_wall_us();
	s->asked = true;
	s->up = !f;
	board_put_database(s->options->board, &(struct board_database){
											  .name = s->name,
											  .asked = true,
											  .up = s->up,
											  .error = f ? f->what : NULL,
											  .since_us = s->since_us,
											  .round_ms = atomic_load(&s->round_ms),
										  });
}

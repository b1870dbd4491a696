/* SPDX-License-Identifier: Apache-2.0 */
/* side_tick.c: see side_tick.h. */
#include "worker/side_tick.h"

#include "base/clock.h"
#include "base/log.h"

#define EVERY_MS 1000
#define MORE_MS 30 /* while more waits: others own its folder meanwhile */

bool side_tick_due(struct side_tick *t)
{
	int64_t now = clock_boot_ms();
	if (!t->queue.folder || now < t->due_ms)
		return false;
	t->due_ms = now + EVERY_MS;
	return side_queue_waits(&t->queue);
}

/* Another that drains it, or a database that is away, is nothing to tell. */
static void complain(struct side_tick *t, const struct failure *f)
{
	if (f->code == DEFIB_REFUSED || store_away(f->code) || t->complained)
		return;
	t->complained = true;
	log_event(LOG_ERROR, "stored jobs cannot be enqueued", LOG_STR("because", f->what),
	          LOG_STR("next", f->next));
}

defib_err side_tick_drain(struct side_tick *t, struct session *s)
{
	struct side_drained done = {0};
	struct failure f = {0};
	defib_err err = session_ready(s, &f);
	if (!err)
		err = side_queue_drain(&t->queue, s->store, &done, &f);
	if (done.jobs)
		log_event(LOG_INFO, "enqueued stored jobs", LOG_INT("jobs", done.jobs),
		          LOG_STR("folder", t->queue.folder));
	if (err)
		complain(t, &f);
	else
		t->complained = false;
	t->due_ms = clock_boot_ms() + (!err && side_queue_waits(&t->queue) ? MORE_MS : EVERY_MS);
	return err;
}

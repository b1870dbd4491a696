/* SPDX-License-Identifier: Apache-2.0 */
/* program_ends.c: see program_ends.h. */
#include "daemon/program_ends.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "recover/exits.h"

#define LOOK_MS 1000

static defib_err sweep(struct session *session, const struct watch_loop *p, struct failure *f)
{
	struct exits *x = exits_new(session, p->watch, p->options.actor, p->options.ledger_off);
	int64_t freed = 0;
	defib_err err = exits_sweep(x, &freed, f);
	exits_free(x);
	if (err != DEFIB_CONNECTION && err) {
		/* A watch that cannot be written is told of by its passes too. */
		log_event(LOG_WARN, "cannot recover the jobs of an ended program",
		          LOG_STR("watch", p->watch->name), LOG_STR("because", f->what));
		fail_clear(f);
		err = DEFIB_OK;
	}
	return err;
}

static bool has_gone(const struct program *gone, int n, const char *watch)
{
	for (int i = 0; i < n; i++)
		if (text_eq(gone[i].watch, watch))
			return true;
	return false;
}

defib_err program_ends_look(struct session *session, struct watch_loop *const *posts, int n,
                            int64_t *due_ms, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct program *gone = NULL;
	int ngone = 0;
	if (clock_boot_ms() < *due_ms)
		return DEFIB_OK;
	*due_ms = clock_boot_ms() + LOOK_MS;
	defib_err err = session_ready(session, f);
	if (!err)
		err = programs_gone(session->store, NULL, &a, &gone, &ngone, f);
	for (int i = 0; !err && i < n; i++)
		if (posts[i]->leads && !posts[i]->paused && has_gone(gone, ngone, posts[i]->watch->name))
			err = sweep(session, posts[i], f);
	arena_release(&a);
	return err;
}

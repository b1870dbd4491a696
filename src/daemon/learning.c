/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/learning.h"

#include "base/clock.h"
#include "base/log.h"
#include "insight/learn.h"

#define EVERY_MS 60000
#define BRIEF_MS 500    /* per statement: a loop that waits longer loses leadership */
#define SLOW_MS 3600000 /* between tries if that is not enough */

static void learning_failed(const struct watch *w, const char *what, const struct failure *f)
{
	log_event(LOG_WARN, what, LOG_STR("watch", w->name), LOG_STR("because", f->what));
}

static void observe(struct learning *l, struct store *s, const struct watch *w, int64_t now)
{
	AUTO_ARENA a = ARENA_INIT;
	struct learned learned;
	struct failure f = {0};
	if (w->learn == LEARN_OFF || !runs_known(w) || now < l->learn_ms)
		return;
	defib_err err = learn_observe(s, &l->bound.binding, true, &a, &learned, &f);
	if (err)
		learning_failed(w, "run times were not observed", &f);
	else
		log_event(LOG_DEBUG, "run times observed", LOG_STR("watch", w->name),
		          LOG_INT("runs", learned.observed));
	if (err == DEFIB_TIMEOUT)
		l->learn_ms = now + SLOW_MS;
}

struct session learning_session(const struct session *session)
{
	struct session own = {.options = session->options, .open = session->open};
	own.options.statement_ms = BRIEF_MS;
	own.options.lock_ms = BRIEF_MS;
	own.options.connect_ms = BRIEF_MS;
	own.options.call_ms = 2 * (int64_t)BRIEF_MS;
	return own;
}

void learning_renew(struct learning *l)
{
	bound_release(&l->bound);
	l->bound = (struct bound){0};
}

void learning_take(struct learning *l, const struct session *session, const struct watch *w,
                   bool ledger_off)
{
	struct failure f = {0};
	int64_t now = clock_boot_ms();
	if (ledger_off || now < l->due_ms)
		return;
	l->due_ms = now + EVERY_MS;
	struct session own = learning_session(session);
	defib_err err = bound_open(&l->bound, &own, w, LEDGER_FIND, &f);
	if (!err && l->bound.ledger.ready) {
		err = mistakes_count(own.store, w->name, &l->mistakes, &f);
		l->counted = l->counted || !err;
	}
	if (err)
		learning_failed(w, "false positives were not counted", &f);
	else
		observe(l, own.store, w, now);
	/* Rebuilt once a minute: kept, it would be half of the memory of a watch. */
	learning_renew(l);
	session_close(&own);
}

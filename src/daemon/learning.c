/* SPDX-License-Identifier: Apache-2.0 */
/* learning.c: see learning.h. */
#include "daemon/learning.h"

#include "base/clock.h"
#include "base/log.h"
#include "insight/learn.h"

#define EVERY_MS 60000
#define BRIEF_MS 500 /* that a statement may take: leadership is lost to who is away for longer */
#define SLOW_MS 3600000 /* between tries where that is not enough */

static void tell_failure(const struct watch *w, const char *what, const struct failure *f)
{
	log_event(LOG_WARN, what, LOG_STR("watch", w->name), LOG_STR("because", f->what));
}

static void observe(struct learning *l, struct store *s, const struct watch *w, int64_t now)
{
	struct arena a = ARENA_INIT;
	struct learned learned;
	struct failure f = {0};
	if (w->learn == LEARN_OFF || !runs_known(w) || now < l->learn_ms)
		return;
	defib_err err = learn_observe(s, &l->bound.binding, true, &a, &learned, &f);
	if (err)
		tell_failure(w, "run times were not observed", &f);
	else
		log_event(LOG_DEBUG, "run times observed", LOG_STR("watch", w->name),
		          LOG_INT("runs", learned.observed));
	if (err == DEFIB_TIMEOUT)
		l->learn_ms = now + SLOW_MS;
	arena_release(&a);
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
		tell_failure(w, "false positives were not counted", &f);
	else
		observe(l, own.store, w, now);
	/* Once a minute it is made anew: kept, it would be half of what a watch takes of memory. */
	learning_renew(l);
	session_close(&own);
}

void learning_info(const struct learning *l, struct buf *out)
{
	const struct mistakes *m = &l->mistakes;
	if (!l->counted)
		return;
	buf_addf(out,
	         ",\"false_positives\":{\"day\":%lld,\"day_recovered\":%lld,\"week\":%lld,"
	         "\"week_recovered\":%lld}",
	         (long long)m->day.mistakes, (long long)m->day.recoveries, (long long)m->week.mistakes,
	         (long long)m->week.recoveries);
}

void learning_release(struct learning *l)
{
	bound_release(&l->bound);
}

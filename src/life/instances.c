/* SPDX-License-Identifier: Apache-2.0 */
#include "life/instances.h"

#include "base/log.h"
#include "life/process.h"
#include "store/dialect.h"

static defib_err was_served(struct store *s, const char *watch, struct arena *a, bool *ever,
                            struct failure *f)
{
	struct store_rows rows;
	defib_err err =
		dialect_exec(s, "SELECT DISTINCT serves FROM defib.worker WHERE serves IS NOT NULL", NULL,
	                 0, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++)
		*ever = *ever || serves_watch(row_text(&rows, i, 0), watch);
	return err;
}

struct instance_seen {
	const struct registered *row;
	enum process_life process;
};

/* Declare those dead whose process is gone. */
static defib_err bury(struct store *s, const char *watch, const struct instance_seen *all, int n,
                      struct failure *f)
{
	static const struct death death = {.cause = "exit seen", .ago_us = ENDED_UNSEEN};
	defib_err err = DEFIB_OK;
	for (int i = 0; i < n && !err; i++) {
		bool won = false;
		if (all[i].process == PROCESS_GONE)
			err = registry_declare_dead(s, all[i].row->id, &death, &won, f);
		if (won && serves_other(all[i].row->serves, &watch, 1))
			registry_announce_death(s);
		if (won)
			log_event(LOG_WARN, "worker is dead", LOG_INT("worker", all[i].row->id),
			          LOG_STR("cause", death.cause));
	}
	return err;
}

/* Workers whose life session is open, by the locks that the server reports. */
struct sessions {
	int64_t *nonces;
	int n;
};

static defib_err read_sessions(struct store *s, struct arena *a, struct sessions *out,
                               struct failure *f)
{
	bool only_reads = true; /* and does not try to become one of the frequent readers */
	*out = (struct sessions){0};
	if (!store_has_session_locks(s))
		return DEFIB_OK;
	return registry_locks_held(s, a, &out->nonces, &out->n, &only_reads, f);
}

/*
 * We have just started and have observed no silence: only the database's clock, which may have
 * jumped, says that a lease has expired. A worker whose session is open is not considered gone
 * because of it.
 */
static bool lives(const struct instance_seen *i, const struct sessions *open)
{
	const struct registered *r = i->row;
	if (!r->expired || r->excused || i->process == PROCESS_LIVES)
		return true;
	for (int k = 0; k < open->n; k++)
		if (open->nonces[k] == worker_nonce(r->id))
			return true;
	return false;
}

defib_err instances_of(struct store *s, const char *watch, int64_t self, struct instances *out,
                       struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct incarnation here;
	struct registered *all = NULL;
	struct sessions open = {0};
	bool there = false;
	int n = 0;
	*out = (struct instances){0};
	defib_err err = dialect_own_table(s, "worker", &there, f); /* else there are no workers */
	if (!err && there)
		err = was_served(s, watch, &a, &out->ever, f);
	if (!err && there)
		err = registry_alive(s, &a, &all, &n, f);
	if (!err)
		err = incarnation_self(&here, f);
	struct instance_seen *seen = ARENA_ARRAY(&a, struct instance_seen, n + 1);
	for (int i = 0; !err && i < n; i++)
		seen[i] = (struct instance_seen){&all[i], process_life(&all[i].who, &here, NULL)};
	if (!err)
		err = bury(s, watch, seen, n, f);
	if (!err && n > 0)
		err = read_sessions(s, &a, &open, f);
	for (int i = 0; !err && i < n; i++) {
		bool counts = seen[i].process != PROCESS_GONE && (self == 0 || all[i].id < self) &&
		              serves_watch(all[i].serves, watch);
		bool alive = lives(&seen[i], &open);
		out->live += counts && alive;
		out->silent += counts && !alive;
	}
	return err;
}

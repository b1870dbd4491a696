/* SPDX-License-Identifier: Apache-2.0 */
#include "life/instances.h"

#include "base/log.h"
#include "life/fellows.h"
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

/* Remove those whose process is gone, after declaring them dead. */
static defib_err bury(struct store *s, struct registered *all, int *n, struct arena *a,
                      struct failure *f)
{
	struct fellows *fellows = NULL;
	int64_t *ids = ARENA_ARRAY(a, int64_t, *n + 1), gone;
	struct incarnation *who = ARENA_ARRAY(a, struct incarnation, *n + 1);
	bool won, seen;
	for (int i = 0; i < *n; i++) {
		ids[i] = all[i].id;
		who[i] = all[i].who;
	}
	defib_err err = fellows_open(&fellows, f);
	if (!err)
		fellows_set(fellows, ids, who, *n);
	while (!err && fellows_dead(fellows, &gone, &seen)) {
		int kept = 0;
		for (int i = 0; i < *n; i++)
			if (all[i].id != gone)
				all[kept++] = all[i];
		*n = kept;
		err = registry_declare_dead(
			s, gone, &(struct death){.cause = "exit seen", .ago_us = seen ? 0 : ENDED_UNSEEN}, &won,
			f);
		if (!err && won)
			log_event(LOG_WARN, "worker is dead", LOG_INT("worker", gone),
			          LOG_STR("cause", "exit seen"));
	}
	fellows_close(fellows);
	return err;
}

/* Workers whose life session is open, by the locks that the server reports. */
struct sessions {
	int64_t *ids;
	int n;
};

static defib_err read_sessions(struct store *s, struct arena *a, struct sessions *out,
                               struct failure *f)
{
	bool only_reads = true; /* and does not try to become one of the frequent readers */
	*out = (struct sessions){0};
	if (!store_has_session_locks(s))
		return DEFIB_OK;
	return registry_locks_held(s, a, &out->ids, &out->n, &only_reads, f);
}

/*
 * We have just started and have observed no silence: only the database's clock, which may have
 * jumped, says that a lease has expired. A worker whose session is open is not considered gone
 * because of it.
 */
static bool lives(const struct registered *r, const struct incarnation *self,
                  const struct sessions *open)
{
	if (!r->expired || r->excused || incarnation_same_host(&r->who, self))
		return true;
	for (int i = 0; i < open->n; i++)
		if (open->ids[i] == r->id)
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
	/* An installation may have no workers, or be older than the column. */
	defib_err err = dialect_own_column(s, "worker", "serves", &there, f);
	if (!err && there)
		err = was_served(s, watch, &a, &out->ever, f);
	if (!err && there)
		err = registry_alive(s, &a, &all, &n, f);
	if (!err)
		err = incarnation_self(&here, f);
	if (!err && n > 0)
		err = bury(s, all, &n, &a, f);
	if (!err && n > 0)
		err = read_sessions(s, &a, &open, f);
	for (int i = 0; !err && i < n; i++) {
		bool counts = (self == 0 || all[i].id < self) && serves_watch(all[i].serves, watch);
		bool alive = lives(&all[i], &here, &open);
		out->live += counts && alive;
		out->silent += counts && !alive;
	}
	return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "life/programs.h"

#include "life/process.h"
#include "store/dialect.h"

#include <ctype.h>

#define NAME_CHARS 32

void program_application(const char *name, const char *nonce, char out[PROGRAM_NAME_SIZE])
{
	char plain[NAME_CHARS + 1];
	int n = 0;
	for (; *name && n < NAME_CHARS; name++)
		if (isascii((unsigned char)*name) &&
		    (isalnum((unsigned char)*name) || strchr("._-", *name)))
			plain[n++] = *name;
	plain[n] = '\0';
	snprintf(out, PROGRAM_NAME_SIZE, "defib-run:%s:%s", n ? plain : "program", nonce);
}

defib_err program_add(struct store *s, const struct program *p, struct failure *f)
{
	struct store_param params[] = {P_TEXT(p->application), P_TEXT(p->watch), P_TEXT(p->watcher),
	                               P_TEXT(p->leader), P_TEXT(p->command)};
	return store_write(s,
	                   "INSERT INTO defib.program (application, watch, watcher, leader, command) "
	                   "VALUES ($1, $2, $3, $4, $5)",
	                   params, 5, NULL, NULL, f);
}

defib_err program_ended(struct store *s, const struct program *p, struct failure *f)
{
	struct store_param params[] = {P_TEXT(p->application), P_TEXT(p->watch), P_TEXT(p->ending),
	                               P_TEXT(p->clean ? "true" : "false")};
	return store_write(
		s,
		"UPDATE defib.program SET ended_at = clock_timestamp(), ending = $3, clean = $4 "
		"WHERE application = $1 AND watch = $2",
		params, 4, NULL, NULL, f);
}

defib_err claims_forget(struct store *s, const struct program *p, const int64_t *claims, int n,
                        struct failure *f)
{
	AUTO_BUF list = BUF_INIT;
	for (int i = 0; i < n; i++)
		buf_addf(&list, "%s%lld", i ? "," : "{", (long long)claims[i]);
	buf_add(&list, "}");
	struct store_param params[] = {P_TEXT(p->application), P_TEXT(p->watch),
	                               P_TEXT(buf_text(&list))};
	/* By claim and not by job: a worker that takes such a job now has a claim of its own. */
	return store_write(s,
	                   "DELETE FROM defib.claimed_by WHERE application = $1 AND watch = $2 "
	                   "AND claim = ANY ($3::bigint[])",
	                   params, 3, NULL, NULL, f);
}

defib_err program_remove(struct store *s, const struct program *p, bool *removed, struct failure *f)
{
	struct store_param params[] = {P_TEXT(p->application), P_TEXT(p->watch)};
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = store_write(s,
	                            "DELETE FROM defib.program p WHERE application = $1 AND watch = $2 "
	                            "AND NOT EXISTS (SELECT 1 FROM defib.claimed_by c WHERE "
	                            "c.application = p.application AND c.watch = p.watch)",
	                            params, 2, &a, &rows, f);
	*removed = rows.affected > 0;
	return err;
}

defib_err program_sessions(struct store *s, const char *application, int64_t *n, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	struct store_param name = P_TEXT(application);
	defib_err err = store_exec(s,
	                           "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 "
	                           "AND datname = current_database()",
	                           &name, 1, &a, &rows, f);
	*n = row_int(&rows, 0, 0, 0);
	return err;
}

/* Nothing is known of the processes of other hosts. */
static bool leader_gone(const struct program *p, const struct incarnation *self)
{
	struct incarnation who;
	return incarnation_parse(p->leader, &who) && process_group_life(&who, self) == PROCESS_GONE;
}

static bool all_gone(const struct program *p, const struct incarnation *self)
{
	struct incarnation who;
	return incarnation_parse(p->watcher, &who) && process_life(&who, self, NULL) == PROCESS_GONE &&
	       leader_gone(p, self);
}

static bool runs(const struct program *p, const struct incarnation *self)
{
	return !p->ending && !leader_gone(p, self);
}

/* Those of a watch (NULL: of all) for which `want` is true. */
static defib_err read_programs(struct store *s, const char *watch,
                               bool (*want)(const struct program *, const struct incarnation *),
                               struct arena *a, struct program **out, int *n, struct failure *f)
{
#define M(member) ROW_MEMBER(struct program, member)
	static const struct row_member members[] = {M(application), M(watch),  M(watcher), M(leader),
	                                            M(command),     M(ending), M(clean),   M(old),
	                                            M(ended_at_us), M(role)};
#undef M
	struct incarnation self;
	struct store_rows rows;
	struct store_param name = P_TEXT(watch);
	int read = 0;
	defib_err err =
		dialect_exec(s,
	                 "SELECT application, watch, watcher, leader, command, ending, clean, "
	                 "coalesce(ended_at, started_at) < clock_timestamp() - interval '1 minute', "
	                 "{us ended_at}, role FROM defib.program WHERE "
	                 "watch = $1 OR $1 IS NULL ORDER BY started_at",
	                 &name, 1, a, &rows, f);
	if (!err)
		err = incarnation_self(&self, f);
	*n = 0;
	*out = ROWS_READ(&rows, members, struct program, a, &read);
	for (int i = 0; !err && i < read; i++)
		if (want(&(*out)[i], &self))
			(*out)[(*n)++] = (*out)[i];
	return err;
}

defib_err programs_gone(struct store *s, const char *watch, struct arena *a, struct program **out,
                        int *n, struct failure *f)
{
	bool there = false;
	*n = 0;
	/*
	 * Only if `defib attach` created it; a role that may not use the table recovers nothing this
	 * way.
	 */
	defib_err err = dialect_own_table(s, "program", &there, f);
	if (err || !there)
		return err;
	return read_programs(s, watch, all_gone, a, out, n, f);
}

defib_err programs_running(struct store *s, struct arena *a, struct program **out, int *n,
                           struct failure *f)
{
	return read_programs(s, NULL, runs, a, out, n, f);
}

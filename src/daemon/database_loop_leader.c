/* SPDX-License-Identifier: Apache-2.0 */
/* database_loop_leader.c: see database_loop.h. */

#include "daemon/database_loop_leader.h"

#include "daemon/database_loop.h"

#include "base/log.h"
#include "lib/advice.h"
#include "life/leader.h"

#define ASK_ALL_MS 30000 /* between requests for all watches, whatever happened to single rows */

void database_loop_step_down(struct database_loop *s)
{
	for (int i = 0; i < s->nloops; i++) {
		bool led = s->loops[i]->leads;
		s->loops[i]->leads = false;
		watch_metrics_away(&s->loops[i]->meter);
		if (led)
			database_loop_show_watch(s, s->loops[i]);
	}
}

static void leader_take_answers(struct database_loop *s, const bool *leads)
{
	for (int i = 0; i < s->nloops; i++) {
		struct watch_loop *p = s->loops[i];
		bool turns = leads[i] != p->leads;
		if (turns)
			log_event(LOG_INFO, leads[i] ? "leads the watch" : "another daemon leads the watch",
			          LOG_STR("watch", p->watch->name), LOG_STR("database", s->database->name));
		if (leads[i] && !p->leads)
			p->due_ms = clock_boot_ms();
		p->leads = leads[i];
		watch_metrics_leads(&p->meter, p->leads);
		if (turns)
			database_loop_show_watch(s, p);
	}
}

static bool waits_to_start(const struct database_loop *s)
{
	for (int i = 0; i < s->nloops; i++)
		if (!s->loops[i]->leads && !s->loops[i]->started)
			return true;
	return false;
}

/*
 * If another daemon renews, this is not a start: its brake may be holding silent jobs. If it does
 * not renew, it was killed a moment ago: then this daemon starts when that lease ends.
 */
static defib_err look_at_leaders(struct database_loop *s, struct failure *f)
{
	struct leader_row *rows = NULL;
	int n = 0;
	defib_err err =
		waits_to_start(s) ? leader_read(s->session.store, &s->arena, &rows, &n, f) : DEFIB_OK;
	for (int i = 0; i < s->nloops && n > 0; i++) {
		struct watch_loop *p = s->loops[i];
		for (int k = 0; k < n && !p->leads; k++) {
			if (!text_eq(rows[k].watch, p->watch->name))
				continue;
			p->started =
				p->started || (p->other_expires_us && p->other_expires_us != rows[k].expires_us);
			p->other_expires_us = rows[k].expires_us;
		}
	}
	return err;
}

/* Keep what we lead by renewing one row; false: all must be asked for. */
static defib_err leader_renew_led(struct database_loop *s, int64_t now, bool *kept,
                                  struct failure *f)
{
	const char *first = NULL;
	int64_t led = 0, held = 0;
	for (int i = 0; i < s->nloops; i++)
		if (s->loops[i]->leads) {
			first = first ? first : s->loops[i]->watch->name;
			led++;
		}
	*kept = false;
	if (!first || now >= s->ask_all_ms)
		return DEFIB_OK;
	defib_err err = leader_renew(s->session.store, s->options->name, first, &held, f);
	*kept = !err && held >= led;
	return err;
}

/* Those that we do not lead, or all. */
static defib_err ask_for(struct database_loop *s, bool all, bool *leads, struct failure *f)
{
	const char **names = ARENA_ARRAY(&s->arena, const char *, s->nloops + 1);
	bool *answers = ARENA_ARRAY(&s->arena, bool, s->nloops + 1);
	int n = 0;
	for (int i = 0; i < s->nloops; i++) {
		leads[i] = !all && s->loops[i]->leads;
		if (!leads[i])
			names[n++] = s->loops[i]->watch->name;
	}
	if (n == 0)
		return DEFIB_OK;
	defib_err err = leader_ask(s->session.store, s->options->name, names, n, answers, f);
	for (int i = 0, at = 0; i < s->nloops && !err; i++)
		if (!leads[i])
			leads[i] = answers[at++];
	return err;
}

defib_err database_loop_ask_to_lead(struct database_loop *s, struct failure *f)
{
	bool *leads = ARENA_ARRAY(&s->arena, bool, s->nloops + 1);
	int64_t before = clock_boot_ms();
	bool kept = false;
	defib_err err = session_ready(&s->session, f);
	if (!err && s->tables)
		err = leader_renew_led(s, before, &kept, f);
	if (!err && s->tables)
		err = ask_for(s, !kept, leads, f);
	if (err)
		return err;
	if (!kept)
		s->ask_all_ms = before + ASK_ALL_MS;
	/* Without the tables no leader can be elected: each daemon scans what it is configured for. */
	for (int i = 0; i < s->nloops && !s->tables; i++)
		leads[i] = true;
	s->renew_ms = before + LEADER_RENEW_MS;
	s->led_until_ms = s->tables ? before + LEADER_LEASE_MS : INT64_MAX;
	leader_take_answers(s, leads);
	return s->tables ? look_at_leaders(s, f) : DEFIB_OK;
}

#define TABLES_MS 30000 /* between checks whether a DBA has created our tables */

defib_err database_loop_tables(struct database_loop *s, struct failure *f)
{
	int64_t now = clock_boot_ms();
	if (s->tables || now < s->tables_ms)
		return DEFIB_OK;
	defib_err err = daemon_table_open(s->session.store, "leader", true, &s->tables, f);
	if (!err && s->closed) {
		log_event(LOG_INFO, "defib's own tables can be used now",
		          LOG_STR("database", s->database->name));
		s->renew_ms = s->overrides_ms = 0; /* leadership and overrides, at once */
		s->closed = false;
	}
	if (err != DEFIB_PERMISSION)
		return err;
	if (!s->closed)
		log_event(LOG_WARN, "works without defib's own tables",
		          LOG_STR("database", s->database->name), LOG_STR("because", f->what),
		          LOG_STR("off", "one leader of several daemons, pause and raise, status, alerts, "
		                         "scheduled reports, learned run times; without the ledger also "
		                         "hold, undo and the crash budget"),
		          LOG_STR("next", failure_next(f)));
	fail_clear(f);
	s->closed = true;
	s->tables_ms = now + TABLES_MS;
	return DEFIB_OK;
}

/* ---- reports to the overview ---- */

void database_loop_show_watch(struct database_loop *s, const struct watch_loop *p)
{
	AUTO_BUF info = BUF_INIT;
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

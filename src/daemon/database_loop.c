/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/database_loop.h"

#include "base/log.h"
#include "daemon/database_loop_leader.h"
#include "daemon/heartbeats.h"
#include "ledger/schema.h"
#include "life/leader.h"
#include "recover/census.h"
#include "recover/exits.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define OVERRIDES_MS 1000 /* between readings of overrides, and of the ledger */
#define ATTEND_MS 1000    /* between looks at a watch that another daemon leads, or its beat */
#define GROUP_MS 1000     /* how early a watch of a group may run, together with its group */
#define PROGRAMS_MS 1000  /* between checks for programs that ended with their watchers */
#define QUEUE_MS 10000    /* between checks for a queue that does not exist yet */
#define RETRY_MS 500      /* first pause while the database is unavailable … */
#define RETRY_MAX_MS 5000 /* … and the longest */

static struct store_options store_options(const struct database_loop *s)
{
	int64_t statement_us = 0;
	for (int i = 0; i < s->nloops; i++)
		if (s->loops[i]->watch->statement_timeout_us > statement_us)
			statement_us = s->loops[i]->watch->statement_timeout_us;
	return (struct store_options){
		.url = s->database->url, .name = s->database->name, .statement_ms = statement_us / 1000};
}

/* Between the batches of a pass: whether it may continue. */
static bool database_loop_go_on(void *ctx)
{
	struct database_loop *s = ctx;
	struct failure f = {0};
	int64_t now = clock_boot_ms();
	atomic_store(&s->round_ms, now);
	absence_tick(&s->absence, now * 1000);
	if (now >= s->renew_ms && database_loop_ask_to_lead(s, &f))
		log_event(LOG_WARN, f.what);
	return !atomic_load(&s->stop) && s->at->leads && clock_boot_ms() < s->led_until_ms &&
	       live_settings_in_force(s->options->setups, s->setup);
}

/* ---- the round ---- */

/* The outcome of a job of the current pass. */
static void database_loop_note_job(void *ctx, const struct watch *w, const struct candidate *c)
{
	const struct database_loop *s = ctx;
	cycle_job(&s->at->cycle, w, c);
	/* The database's clock: as of the reading, plus our own clock since. */
	watch_metrics_job(&s->at->meter, c,
	                  c->facts.now_us + clock_boot_us() - s->absence.clocks.own_us);
}

static struct watch_loop *new_loop(struct database_loop *s, const struct watch *w)
{
	struct watch_loop *p =
		watch_loop_new(w, s->options->actor, s->setup->settings.ledger == LEDGER_OFF);
	p->options.absence = &s->absence;
	p->options.go_on = database_loop_go_on;
	p->options.observer = (struct scan_observer){.job = database_loop_note_job, .ctx = s};
	watch_metrics_init(&p->meter, s->options->metrics, w->name, s->name);
	return p;
}

/* The built-in queue is watched too, once its tables exist. */
static defib_err look_for_queue(struct database_loop *s, struct failure *f)
{
	struct store *store = s->session.store;
	bool there;
	s->queue_ms = clock_boot_ms() + QUEUE_MS;
	defib_err err = schema_has(store, "job", &there, f);
	if (err || !there)
		return err;
	s->loops[s->nloops++] = new_loop(s, builtin_watch(store->engine, &s->keep));
	database_loop_show_watch(s, s->loops[s->nloops - 1]);
	s->queue_ms = INT64_MAX;
	return DEFIB_OK;
}

static defib_err read_overrides(struct database_loop *s, struct failure *f)
{
	struct override *overrides = NULL;
	int n = 0;
	defib_err err =
		s->tables ? override_read(s->session.store, &s->arena, &overrides, &n, f) : DEFIB_OK;
	for (int i = 0; !err && i < s->nloops; i++) {
		bool paused = s->loops[i]->paused;
		watch_loop_override(s->loops[i], &s->session, overrides, n);
		if (paused != s->loops[i]->paused)
			database_loop_show_watch(s, s->loops[i]);
	}
	s->overrides_ms = clock_boot_ms() + OVERRIDES_MS;
	return err;
}

static defib_err tell_status(struct database_loop *s, const struct watch_loop *p, struct failure *f)
{
	AUTO_BUF info = BUF_INIT;
	if (!s->tables)
		return DEFIB_OK;
	watch_loop_info(p, &info);
	defib_err err = session_ready(&s->session, f);
	if (!err)
		err = status_write(s->session.store, p->watch->name, s->options->name, buf_text(&info), f);
	return err;
}

/*
 * New ledger entries, whoever wrote them; what cannot be counted now is counted later. The position
 * is stored at once, so that the next leader neither repeats nor omits entries.
 */
static defib_err database_loop_count_ledger(struct database_loop *s, struct failure *f)
{
	struct failure why = {0};
	s->count_ms = clock_boot_ms() + OVERRIDES_MS;
	defib_err err = readings_ledger(s->session.store, s->started_ms, s->loops, s->nloops, &why);
	if (err) {
		log_event(LOG_DEBUG, "ledger entries cannot be counted", LOG_STR("database", s->name),
		          LOG_STR("because", why.what));
		if (err == DEFIB_CONNECTION)
			*f = why;
		return f->code;
	}
	for (int i = 0; i < s->nloops && !err; i++) {
		struct watch_loop *p = s->loops[i];
		if (!p->reading.gained || !p->leads || !p->counts.passes)
			continue;
		p->reading.gained = false;
		database_loop_show_watch(s, p);
		err = tell_status(s, p, f);
	}
	return err;
}

/* If there is a server: when it was started. Once, before anything is judged. */
static defib_err database_loop_ask_server(struct database_loop *s, struct failure *f)
{
	int64_t start_us = 0;
	defib_err err = census_server_start(s->session.store, &start_us, f);
	if (!err)
		absence_server_started(&s->absence, start_us);
	s->server_asked = !err;
	return err;
}

/* What must be known before any pass: who leads, and which overrides are in force. */
static defib_err prepare_round(struct database_loop *s, struct failure *f)
{
	defib_err err = session_ready(&s->session, f);
	if (!err && !s->server_asked)
		err = database_loop_ask_server(s, f);
	if (!err)
		err = database_loop_tables(s, f);
	if (!err && s->setup->queue && clock_boot_ms() >= s->queue_ms)
		err = look_for_queue(s, f);
	if (!err && clock_boot_ms() >= s->renew_ms)
		err = database_loop_ask_to_lead(s, f);
	if (!err && clock_boot_ms() >= s->overrides_ms)
		err = read_overrides(s, f);
	return err;
}

/* Watches of a group run together, so that one line can report all. */
static bool is_due(const struct database_loop *s, const struct watch_loop *p, int64_t now)
{
	int64_t early = p->watch->every_us / 2000;
	if (now >= p->due_ms || !p->watch->group)
		return now >= p->due_ms;
	early = early < GROUP_MS ? early : GROUP_MS;
	for (int i = 0; i < s->nloops && now + early >= p->due_ms; i++) {
		const struct watch_loop *q = s->loops[i];
		if (q->leads && q->scanner && now >= q->due_ms && text_eq(q->watch->group, p->watch->group))
			return true;
	}
	return false;
}

static void tell_groups(struct database_loop *s)
{
	struct group_part *parts = ARENA_ARRAY(&s->arena, struct group_part, s->nloops + 1);
	for (int i = 0; i < s->nloops; i++) {
		const char *group = s->loops[i]->turn ? s->loops[i]->watch->group : NULL;
		int n = 0;
		for (int k = i; group && k < s->nloops; k++) {
			struct watch_loop *p = s->loops[k];
			if (!p->turn || !text_eq(p->watch->group, group))
				continue;
			parts[n++] = (struct group_part){p->watch, p->last.outcomes[OUTCOME_RECOVERED]};
			p->turn = false;
		}
		if (n)
			group_tell(group, parts, n);
	}
}

static void choose_turns(struct database_loop *s)
{
	int64_t now = clock_boot_ms();
	for (int i = 0; i < s->nloops; i++) {
		struct watch_loop *p = s->loops[i];
		p->turn = p->leads && p->scanner && is_due(s, p, now);
	}
}

static defib_err do_passes(struct database_loop *s, struct failure *f)
{
	defib_err err = DEFIB_OK;
	choose_turns(s);
	for (int i = 0; i < s->nloops && !err && !atomic_load(&s->stop); i++) {
		struct watch_loop *p = s->loops[i];
		p->turn = p->turn && p->leads && p->scanner;
		if (!p->turn)
			continue;
		s->at = p;
		watch_loop_pass(p, &s->session, s->options->actor);
		if (p->last.failure.code == DEFIB_CONNECTION)
			*f = p->last.failure;
		err = f->code || !p->last.found ? f->code : database_loop_count_ledger(s, f);
		database_loop_show_watch(s, p);
		if (!err)
			err = tell_status(s, p, f);
		if (!err && clock_boot_ms() >= s->renew_ms)
			err = database_loop_ask_to_lead(s, f);
	}
	if (!err)
		tell_groups(s);
	return err;
}

/*
 * Watches that others lead are observed too: a daemon that takes over must have seen which owners
 * beat, or its brake would know none. Their leader logs failures to read such a watch.
 */
static defib_err attend(struct database_loop *s, struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; i < s->nloops && err != DEFIB_CONNECTION && !atomic_load(&s->stop); i++) {
		struct watch_loop *p = s->loops[i];
		int64_t beat_ms = p->watch->beat_us / 1000, now = clock_boot_ms();
		if (p->leads || !p->scanner || now < p->due_ms)
			continue;
		p->due_ms = now + (beat_ms > ATTEND_MS ? beat_ms : ATTEND_MS);
		fail_clear(f);
		err = scanner_attend(p->scanner, f);
	}
	return err == DEFIB_CONNECTION ? err : DEFIB_OK;
}

/* Its failures are logged there: they do not concern the watches. */
static void drain_spool(struct database_loop *s)
{
	s->spooled.queue = http_spool_queue(&s->setup->settings, s->database, &s->arena);
	if (stored_jobs_due(&s->spooled))
		(void)stored_jobs_tick(&s->spooled, &s->session);
}

/* A daemon that leads here removes old rows from defib's own tables. */
static void database_loop_retain(struct database_loop *s)
{
	bool leads = false;
	for (int i = 0; i < s->nloops; i++)
		leads = leads || s->loops[i]->leads;
	if (leads && retention_due(&s->retention, &s->setup->settings.retention))
		retention_turn(&s->retention, &s->session, &s->setup->settings.retention,
		               s->options->actor);
}

/* Full jitter, so that many daemons do not return at the same time. */
static int64_t database_loop_pause_ms(struct database_loop *s)
{
	int64_t most = RETRY_MS << (s->failures < 4 ? s->failures : 4);
	if (most > RETRY_MAX_MS)
		most = RETRY_MAX_MS;
	return 50 + (int64_t)(chance_draw(&s->chance) * (double)most);
}

/* ---- programs under `defib run` ---- */

/*
 * Their watcher recovers their jobs when they end. This handles a watcher that was killed with its
 * program, or could not reach the database in time.
 */
static defib_err recover_ended(struct database_loop *s, const struct watch_loop *p,
                               struct failure *f)
{
	struct exits *x = exits_new(&s->session, p->watch, p->options.actor, p->options.ledger_off);
	int64_t freed = 0;
	defib_err err = exits_sweep(x, &freed, f);
	exits_free(x);
	if (err != DEFIB_CONNECTION && err) {
		/* Its passes also log that a watch cannot be written. */
		log_event(LOG_WARN, "cannot recover the jobs of an ended program",
		          LOG_STR("watch", p->watch->name), LOG_STR("because", f->what));
		fail_clear(f);
		err = DEFIB_OK;
	}
	return err;
}

static bool has_ended(const struct program *ended, int n, const char *watch)
{
	for (int i = 0; i < n; i++)
		if (text_eq(ended[i].watch, watch))
			return true;
	return false;
}

/* For the watches that are led and not paused. Fails only if the database is unavailable. */
static defib_err look_for_ended_programs(struct database_loop *s, struct failure *f)
{
	struct program *ended = NULL;
	int n = 0;
	if (clock_boot_ms() < s->ends_ms)
		return DEFIB_OK;
	s->ends_ms = clock_boot_ms() + PROGRAMS_MS;
	defib_err err = session_ready(&s->session, f);
	if (!err)
		err = programs_gone(s->session.store, NULL, &s->arena, &ended, &n, f);
	for (int i = 0; !err && i < s->nloops; i++) {
		const struct watch_loop *p = s->loops[i];
		if (p->leads && !p->paused && has_ended(ended, n, p->watch->name))
			err = recover_ended(s, p, f);
	}
	return err;
}

/* One round; returns how long to wait before the next. */
static int64_t go_round(struct database_loop *s)
{
	struct failure f = {0};
	int64_t now = clock_boot_ms();
	atomic_store(&s->round_ms, now);
	absence_tick(&s->absence, clock_boot_us());
	defib_err err = prepare_round(s, &f);
	if (!err)
		readings_begin(&s->readings, s->loops, s->nloops);
	if (!err && now >= s->count_ms)
		err = database_loop_count_ledger(s, &f);
	if (!err)
		err = do_passes(s, &f);
	if (!err)
		err = look_for_ended_programs(s, &f);
	if (!err)
		err = attend(s, &f);
	if (!err)
		err = background_acts_turn(s, &f);
	if (!err)
		err = heartbeats_look(s->options->beats, s->session.store, s->name, &s->beats_ms, &f);
	if (!err)
		readings_take(&s->readings, &s->session, s->options->metrics, s->name, s->loops, s->nloops);
	if (!err)
		drain_spool(s);
	if (!err)
		database_loop_retain(s);
	watch_metrics_round(s->options->metrics, s->name, !err);
	arena_clear(&s->arena);
	alert_loop_round(s->alerts, s->loops, s->nloops, !err);
	if (err) {
		absence_begins(&s->absence, "cannot query the database");
		if (s->failures++ == 0)
			log_event(LOG_ERROR, "the database cannot be queried",
			          LOG_STR("database", s->database->name), LOG_STR("because", f.what));
		database_loop_step_down(s);
		database_loop_show_database(s, &f);
		return database_loop_pause_ms(s);
	}
	database_loop_show_database(s, NULL);
	scheduled_reports_tick(s->scheduled_reports, s->setup, s->database,
	                       s->nloops > 0 && s->loops[0]->leads, clock_wall_us());
	if (s->failures)
		log_event(LOG_INFO, "the database is back", LOG_STR("database", s->database->name),
		          LOG_INT("tries", s->failures));
	s->failures = 0;
	int64_t wait = s->renew_ms < s->overrides_ms ? s->renew_ms : s->overrides_ms;
	for (int i = 0; i < s->nloops; i++)
		if (s->loops[i]->leads && s->loops[i]->due_ms < wait)
			wait = s->loops[i]->due_ms;
	if (s->tables && s->background.due_ms < wait)
		wait = s->background.due_ms;
	now = clock_boot_ms();
	return wait > now ? wait - now : 0;
}

/* ---- the configuration ---- */

static const struct database *database_loop_database_of(const struct database_loop *s,
                                                        const struct settings *all)
{
	for (int i = 0; i < all->ndatabases; i++)
		if (database_loop_serves(s, &all->databases[i]))
			return &all->databases[i];
	return NULL;
}

static void drop_loop(struct database_loop *s, struct watch_loop *p)
{
	struct failure f = {0};
	log_event(LOG_INFO, "a watch is no longer scanned", LOG_STR("watch", p->watch->name),
	          LOG_STR("database", s->name));
	if (p->leads && s->tables && !session_ready(&s->session, &f) &&
	    leader_leave_watch(s->session.store, s->options->name, p->watch->name, &f))
		log_event(LOG_WARN, f.what);
	overview_drop_watch(s->options->overview, s->name, p->watch->name);
	watch_metrics_end(&p->meter);
	watch_loop_free(p);
}

/* Take the loop of a watch out of the old list. */
static struct watch_loop *take_loop(struct watch_loop **had, int n, const char *name)
{
	for (int i = 0; i < n; i++) {
		struct watch_loop *p = had[i];
		if (p && text_eq(p->watch->name, name)) {
			had[i] = NULL;
			return p;
		}
	}
	return NULL;
}

/* Loops for the watches of s->setup; those that remain keep their memory. */
static void set_loops(struct database_loop *s)
{
	const struct settings *all = &s->setup->settings;
	struct watch_loop **had = s->loops;
	int nhad = s->nloops;
	s->loops = mem_alloc(sizeof(struct watch_loop *) * (size_t)(all->nwatches + 1));
	s->nloops = 0;
	for (int i = 0; i < all->nwatches; i++) {
		const struct watch *w = &all->watches[i];
		if (!s->setup->chosen[i] || settings_database(all, w) != s->database)
			continue;
		struct watch_loop *p = take_loop(had, nhad, w->name);
		if (p)
			watch_loop_renew(p, w, all->ledger == LEDGER_OFF);
		s->loops[s->nloops++] = p ? p : new_loop(s, w);
		database_loop_show_watch(s, s->loops[s->nloops - 1]);
	}
	/* The built-in queue is not in the configuration; it was found. */
	struct watch_loop *queue = s->setup->queue ? take_loop(had, nhad, BUILTIN_NAME) : NULL;
	if (queue)
		s->loops[s->nloops++] = queue;
	s->queue_ms = queue ? INT64_MAX : 0;
	for (int i = 0; i < nhad; i++)
		if (had[i])
			drop_loop(s, had[i]);
	free(had);
}

/*
 * Between two rounds: switch to another configuration if one is in force. The old one is dropped at
 * the end.
 */
static void take_setup(struct database_loop *s)
{
	struct live_settings *next = live_settings_hold(s->options->setups), *old = s->setup;
	const struct database *d = next == old ? NULL : database_loop_database_of(s, &next->settings);
	if (!d) { /* nothing new, or our database is gone: then we are asked to stop */
		live_settings_drop(s->options->setups, next);
		return;
	}
	int64_t statement_ms = s->session.options.statement_ms;
	s->setup = next;
	s->database = d;
	set_loops(s);
	s->session.options = store_options(s);
	if (statement_ms != s->session.options.statement_ms)
		session_close(&s->session);
	readings_renew(&s->readings, s->loops, s->nloops);
	/* At once: leadership of what is new, and its overrides. */
	s->renew_ms = s->overrides_ms = 0;
	live_settings_drop(s->options->setups, old);
}

static void wait_for_poke(const struct database_loop *s, int64_t ms)
{
	struct pollfd fd = {s->poke, POLLIN, 0};
	uint64_t pokes;
	if (poll(&fd, 1, (int)ms) > 0)
		(void)!read(s->poke, &pokes, sizeof pokes);
}

static void *database_loop_main(void *arg)
{
	struct database_loop *s = arg;
	struct failure ignored = {0};
	while (!atomic_load(&s->stop)) {
		take_setup(s);
		wait_for_poke(s, go_round(s));
	}
	if (s->session.store && s->tables && leader_leave(s->session.store, s->options->name, &ignored))
		log_event(LOG_WARN, ignored.what);
	for (int i = 0; i < s->nloops; i++)
		overview_drop_watch(s->options->overview, s->name, s->loops[i]->watch->name);
	metrics_forget(s->options->metrics, s->name, NULL);
	atomic_store(&s->ended, true);
	return NULL;
}

struct database_loop *database_loop_start(const struct daemon_options *o,
                                          struct live_settings *setup, const struct database *d)
{
	struct database_loop *s = mem_alloc(sizeof *s);
	s->options = o;
	s->scheduled_reports = scheduled_reports_new(o->setups);
	s->name = mem_strdup(d->name);
	s->url = mem_strdup(d->url);
	s->setup = live_settings_hold_same(o->setups, setup);
	s->database = d;
	chance_seed(&s->chance);
	s->started_ms = clock_boot_ms();
	set_loops(s);
	s->session = (struct session){.options = store_options(s), .open = store_open};
	s->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	atomic_store(&s->round_ms, clock_boot_ms());
	overview_put_database(
		o->overview, &(struct overview_database){.name = s->name, .since_us = clock_wall_us()});
	s->alerts = alert_loop_start(o, s->name, s->url);
	int failed = s->poke < 0 ? errno : pthread_create(&s->thread, NULL, database_loop_main, s);
	if (failed) {
		log_event(LOG_CRITICAL, "cannot start a thread for a database",
		          LOG_STR("database", d->name));
		abort();
	}
	return s;
}

bool database_loop_serves(const struct database_loop *s, const struct database *d)
{
	return text_eq(s->name, d->name) && text_eq(s->url, d->url);
}

void database_loop_poke(struct database_loop *s)
{
	uint64_t one = 1;
	(void)!write(s->poke, &one, sizeof one);
}

void database_loop_ask_stop(struct database_loop *s)
{
	atomic_store(&s->stop, true);
	alert_loop_ask_stop(s->alerts);
	database_loop_poke(s);
}

void database_loop_end(struct database_loop *s)
{
	pthread_join(s->thread, NULL);
	alert_loop_end(s->alerts);
	for (int i = 0; i < s->nloops; i++)
		watch_loop_free(s->loops[i]);
	free(s->loops);
	scheduled_reports_free(s->scheduled_reports);
	session_close(&s->session);
	readings_release(&s->readings);
	live_settings_drop(s->options->setups, s->setup);
	arena_release(&s->arena);
	arena_release(&s->keep);
	close(s->poke);
	free(s->name);
	free(s->url);
	free(s);
}

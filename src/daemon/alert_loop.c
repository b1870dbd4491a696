/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/alert_loop.h"

#include "base/log.h"
#include "daemon/alert_loop_judge.h"
#include "daemon/alert_loop_send.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOOK_MS 5000    /* between checks for messages that others added to the outbox */
#define AGAIN_MS 1000   /* after a failure */
#define TIDY_MS 3600000 /* between cleanups of the outbox */
#define PARTING_MS 2000 /* time that messages being sent have when the daemon stops */
#define STATEMENT_MS 3000
#define LATE_INTERVALS 3 /* without a finished scan: it is late */

/* ---- reports of the database loop ---- */

static void subject_free(struct subject *s)
{
	free(s->watch);
	free(s);
}

static struct subject *subject_of(struct alert_loop *a, const char *watch)
{
	for (int i = 0; i < a->nsubjects; i++)
		if (text_eq(a->subjects[i]->watch, watch))
			return a->subjects[i];
	a->subjects = mem_grow(a->subjects, sizeof *a->subjects * (size_t)(a->nsubjects + 1));
	struct subject *s = mem_alloc(sizeof *s);
	s->watch = mem_strdup(watch);
	s->fresh = true;
	return a->subjects[a->nsubjects++] = s;
}

/* Stuck jobs before any was recovered: if pace cut the pass short, including the rest. */
static double stuck_of(const struct scan_result *r)
{
	int64_t found = r->found - r->held_before;
	int64_t left = r->left + r->outcomes[OUTCOME_RECOVERED];
	return (double)(found > left ? found : left);
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static void extremes_add(struct pass_extremes *e, const struct pass_extremes *more)
{
	if (!more->any)
		return;
	struct pass_extremes was = e->any ? *e : *more;
	*e = (struct pass_extremes){
		.any = true,
		.least_stuck = was.least_stuck < more->least_stuck ? was.least_stuck : more->least_stuck,
		.most_stuck = larger(was.most_stuck, more->most_stuck),
		.oldest_s = larger(was.oldest_s, more->oldest_s),
	};
}

static void see_pass(struct watch_report *x, const struct watch_loop *p)
{
	x->passes = p->counts.passes;
	if (p->last.failure.code)
		return;
	x->scanned = true;
	x->stuck = stuck_of(&p->last);
	x->oldest_s = (double)p->last.oldest_sign_us / (double)US_PER_S;
	x->unstarted = (double)p->last.waiting.unstarted;
	x->starts_unknown = x->unstarted == 0 && p->last.waiting.unknown > 0;
	AUTO_BUF because = BUF_INIT;
	late_sentence(&p->last.waiting, &because);
	snprintf(x->because, sizeof x->because, "%s", buf_text(&because));
	struct pass_extremes this = {true, x->stuck, x->stuck, x->oldest_s};
	extremes_add(&x->since, &this);
}

static void see_watch(struct alert_loop *a, const struct watch_loop *p, int64_t now_ms)
{
	struct watch_report *x = &subject_of(a, p->watch->name)->seen;
	x->there = true;
	x->every_ms = p->watch->every_us / 1000;
	x->braking = p->guards_logged.braking;
	x->passed_ms = p->last_ok_ms;
	if (p->leads && !x->leads) {
		x->led_ms = now_ms;
		x->scanned = false;
	}
	x->leads = p->leads;
	if (p->leads && p->counts.passes != x->passes)
		see_pass(x, p);
}

void alert_loop_round(struct alert_loop *a, struct watch_loop *const *loops, int n, bool up)
{
	int64_t now_ms = clock_boot_ms();
	pthread_mutex_lock(&a->lock);
	a->tries++;
	a->failures += up ? 0 : 1;
	a->up = up;
	if (up) {
		a->answered_ms = now_ms;
		for (int i = 1; i < a->nsubjects; i++)
			a->subjects[i]->seen.there = false;
		for (int i = 0; i < n; i++)
			see_watch(a, loops[i], now_ms);
	}
	pthread_mutex_unlock(&a->lock);
}

/* ---- what follows ---- */

/*
 * Watches that a reload removed are forgotten once their alerts are resolved; the others are this
 * turn's.
 */
static void take_subjects(struct alert_loop *a)
{
	int kept = 0;
	a->now = ARENA_ARRAY(&a->arena, struct subject *, a->nsubjects);
	a->reports = ARENA_ARRAY(&a->arena, struct watch_report, a->nsubjects);
	for (int i = 0; i < a->nsubjects; i++) {
		struct subject *s = a->subjects[i];
		if (i > 0 && !s->seen.there && (s->over || !s->seen.leads)) {
			subject_free(s);
			continue;
		}
		a->subjects[kept] = a->now[kept] = s;
		a->reports[kept++] = s->seen;
		s->seen.since = (struct pass_extremes){0};
	}
	a->nsubjects = a->nnow = kept;
}

void alert_loop_give_back(struct alert_loop *a)
{
	pthread_mutex_lock(&a->lock);
	for (int i = 0; i < a->nnow; i++)
		extremes_add(&a->now[i]->seen.since, &a->reports[i].since);
	pthread_mutex_unlock(&a->lock);
}

/* If jobs may be silent for an hour, they cannot be found after five minutes. */
static void fit_detection(const struct watch *w, struct alert_rule *r)
{
	double standard = alert_defaults[ALERT_DETECTION_SLOW].limit;
	if (!w || r->limit < standard || r->limit > standard)
		return;
	double patience = 2.0 * (double)threshold_most(&w->stuck_after) / (double)US_PER_S;
	double run = 2.0 * (double)threshold_most(&w->overdue_after) / (double)US_PER_S;
	r->limit = patience > r->limit ? patience : r->limit;
	r->limit = run > r->limit ? run : r->limit;
}

static void put_rules(struct alert_loop *a, struct subject *s, bool there)
{
	const struct settings *settings = &a->setup->settings;
	for (int id = 0; id < ALERT_COUNT; id++) {
		s->rules[id] = alert_rule_for(settings_alerts(settings), (enum alert_id)id, s->watch);
		s->rules[id].enabled = s->rules[id].enabled && there;
	}
	fit_detection(s->watch ? settings_watch(settings, s->watch) : NULL,
	              &s->rules[ALERT_DETECTION_SLOW]);
	alert_windows(&s->counts, s->rules);
}

static void put_facts(struct subject *s, const struct watch_report *x, int64_t now_us,
                      int64_t now_ms)
{
	int64_t last_ms = x->passed_ms > x->led_ms ? x->passed_ms : x->led_ms;
	int64_t late_ms = now_ms - last_ms - LATE_INTERVALS * x->every_ms;
	memcpy(s->because, x->because, sizeof s->because);
	s->counts.now = (struct alert_facts){
		.scanned = x->scanned,
		.stuck = larger(x->stuck, x->since.most_stuck),
		.oldest_s = larger(x->oldest_s, x->since.oldest_s),
		.starts_unknown = x->starts_unknown,
		.unstarted = x->unstarted,
		.braking = x->braking,
		.late_s = (double)late_ms / 1000,
	};
	if (x->since.any) {
		alert_count(&s->counts, COUNT_STUCK, now_us, x->since.least_stuck);
		alert_count(&s->counts, COUNT_STUCK, now_us, x->since.most_stuck);
	}
}

/* Workers come and go: a total that fell says nothing. */
static double risen(double now, double *before)
{
	double by = now > *before ? now - *before : 0;
	*before = now;
	return by;
}

void alert_loop_gather(struct alert_loop *a, int64_t now_us)
{
	struct metrics *m = a->options->metrics;
	const char *const *all = LABELS(NULL, a->database);
	int64_t now_ms = clock_boot_ms();
	pthread_mutex_lock(&a->lock);
	take_subjects(a);
	double tries = a->tries, failures = a->failures;
	int64_t answered_ms = a->answered_ms;
	a->tries = a->failures = 0;
	pthread_mutex_unlock(&a->lock);
	for (int i = 0; i < a->nnow; i++)
		put_rules(a, a->now[i], i == 0 || a->reports[i].there);
	for (int i = 1; i < a->nnow; i++)
		put_facts(a->now[i], &a->reports[i], now_us, now_ms);
	struct alert_subject *whole = &a->now[0]->counts;
	whole->now.away_s = (double)(now_ms - answered_ms) / 1000;
	whole->now.set_aside = metrics_total(m, METRIC_WORKER_ASIDE, all);
	tries += risen(metrics_total(m, METRIC_WORKER_TRIES, all), &a->worker_tries);
	failures += risen(metrics_total(m, METRIC_WORKER_FAILURES, all), &a->worker_failures);
	alert_count(whole, COUNT_TRIES, now_us, tries);
	alert_count(whole, COUNT_FAILURES, now_us, failures);
}

/* The rule for a subject: some know more than a number. */
static struct alert_rule rule_for(const struct subject *s, const struct alert_rule *r)
{
	struct alert_rule own = *r;
	if (r->id == ALERT_UNSTARTED && s->because[0])
		own.says = s->because;
	return own;
}

int alert_loop_messages(struct alert_loop *a, const struct subject *s, const struct alert_rule *r,
                        const struct alert *alert, enum alert_change change, int64_t at_us,
                        struct outgoing *out)
{
	const struct text_list *sinks = alert_rule_sinks(settings_alerts(&a->setup->settings), r);
	const struct alert_rule own = rule_for(s, r);
	struct alert_message m = {
		&own,  message_source(&a->setup->settings),       a->database, s->watch, alert, change,
		at_us, settings_alerts(&a->setup->settings)->link};
	struct buf text[3] = {BUF_INIT, BUF_INIT, BUF_INIT};
	message_id(&m, &text[0]);
	message_document(&m, &text[1]);
	message_topic(&m, &text[2]);
	struct outgoing one = {.kind = "alert",
	                       .id = arena_strdup(&a->arena, buf_text(&text[0])),
	                       .document = arena_strdup(&a->arena, buf_text(&text[1])),
	                       .topic = arena_strdup(&a->arena, buf_text(&text[2]))};
	for (int i = 0; i < sinks->n; i++) {
		out[i] = one;
		out[i].sink = sinks->items[i];
	}
	for (int i = 0; i < 3; i++)
		buf_release(&text[i]);
	return sinks->n;
}

struct alert_row alert_loop_row(struct alert_loop *a, const struct subject *s,
                                const struct alert_rule *r, const struct alert *alert)
{
	const struct alert_rule own = rule_for(s, r);
	struct alert_message m = {.rule = &own,
	                          .source = message_source(&a->setup->settings),
	                          .database = a->database,
	                          .watch = s->watch};
	AUTO_BUF text = BUF_INIT, topic = BUF_INIT;
	if (alert->state != STATE_RESOLVED) {
		alert_sentence(&own, alert->value, &text);
	} else if (alert->fired_us) {
		buf_add(&text, "it fired for ");
		duration_text(alert->since_us - alert->fired_us, &text);
	}
	message_topic(&m, &topic);
	struct alert_row row = {.watch = s->watch,
	                        .rule = r->name,
	                        .severity = r->severity,
	                        .alert = *alert,
	                        .sentence = arena_strdup(&a->arena, buf_text(&text)),
	                        .topic = arena_strdup(&a->arena, buf_text(&topic)),
	                        .holder = a->options->name};
	return row;
}

/* ---- the thread ---- */

/* With a database: the rules, then what must be sent. */
static defib_err turn(struct alert_loop *a, int64_t *wait_ms, struct failure *f)
{
	int64_t now = clock_boot_ms(), every_ms = settings_alerts(&a->setup->settings)->every_us / 1000;
	defib_err err = session_ready(&a->session, f);
	if (!err && !a->tables)
		err = outbox_ready(a->session.store, true, &a->tables, f);
	if (!err && now >= a->judge_ms) {
		a->judge_ms = now + every_ms;
		err = alert_loop_judge(a, f);
	}
	if (!err)
		err = alert_loop_collect(a, f);
	if (!err && now >= a->tidy_ms) {
		a->tidy_ms = now + TIDY_MS;
		err = outbox_tidy(a->session.store, f);
	}
	*wait_ms = LOOK_MS;
	if (!err)
		err = alert_loop_send(a, wait_ms, f);
	return err;
}

static void tell_failing(struct alert_loop *a, const struct failure *f)
{
	if (f && !a->failing)
		log_event(LOG_WARN, "alerts are neither evaluated nor sent",
		          LOG_STR("database", a->database), LOG_STR("because", f->what));
	else if (!f && a->failing)
		log_event(LOG_INFO, "alerts are evaluated and sent again",
		          LOG_STR("database", a->database));
	a->failing = f != NULL;
}

/* Without one: only the alerts that need no database. */
static int64_t turn_away(struct alert_loop *a)
{
	int64_t now = clock_boot_ms();
	if (now >= a->judge_ms) {
		a->judge_ms = now + settings_alerts(&a->setup->settings)->every_us / 1000;
		alert_loop_judge_away(a);
	}
	alert_loop_send_memos(a);
	return AGAIN_MS;
}

static int64_t one_turn(struct alert_loop *a)
{
	struct failure f = {0};
	int64_t wait_ms;
	pthread_mutex_lock(&a->lock);
	bool up = a->up;
	pthread_mutex_unlock(&a->lock);
	a->setup = live_settings_hold(a->options->setups);
	if (!up) {
		wait_ms = turn_away(a);
	} else if (turn(a, &wait_ms, &f)) {
		tell_failing(a, &f);
		wait_ms = AGAIN_MS;
	} else {
		tell_failing(a, NULL);
	}
	live_settings_drop(a->options->setups, a->setup);
	arena_clear(&a->arena);
	int64_t due_ms = a->judge_ms - clock_boot_ms();
	wait_ms = due_ms < wait_ms ? due_ms : wait_ms;
	return wait_ms > 0 ? wait_ms : 0;
}

static void alert_loop_wait_for(struct alert_loop *a, int64_t ms)
{
	struct pollfd fd = {a->wake, POLLIN, 0};
	uint64_t drained;
	if (poll(&fd, 1, (int)ms) > 0)
		(void)!read(a->wake, &drained, sizeof drained);
}

/* Messages being sent arrive, or are aborted and due again. */
static void part(struct alert_loop *a)
{
	int64_t until = clock_boot_ms() + PARTING_MS;
	struct failure f = {0};
	bool up = a->session.store && !a->session.store->lost;
	while (a->senders.away && !f.code) {
		if (clock_boot_ms() >= until || !up)
			senders_recall(&a->senders);
		if (alert_loop_collect(a, &f))
			log_event(LOG_WARN, f.what);
		else if (a->senders.away)
			alert_loop_wait_for(a, 100);
	}
}

static void *alert_loop_main(void *arg)
{
	struct alert_loop *a = arg;
	while (!atomic_load(&a->stop))
		alert_loop_wait_for(a, one_turn(a));
	part(a);
	return NULL;
}

struct alert_loop *alert_loop_start(const struct daemon_options *o, const char *database,
                                    const char *url)
{
	struct alert_loop *a = mem_alloc(sizeof *a);
	a->options = o;
	a->database = mem_strdup(database);
	a->session =
		(struct session){.options = {.url = url, .name = a->database, .statement_ms = STATEMENT_MS},
	                     .open = store_open};
	a->answered_ms = clock_boot_ms();
	a->clock_us = clock_wall_us() - clock_boot_us();
	chance_seed(&a->chance);
	pthread_mutex_init(&a->lock, NULL);
	subject_of(a, ALERT_ANY);
	a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a->senders = (struct senders){.setups = o->setups, .wake = a->wake};
	int failed = a->wake < 0 ? errno : pthread_create(&a->thread, NULL, alert_loop_main, a);
	if (failed) {
		log_event(LOG_CRITICAL, "cannot start a thread for alerts", LOG_STR("database", database));
		abort();
	}
	return a;
}

void alert_loop_ask_stop(struct alert_loop *a)
{
	uint64_t one = 1;
	atomic_store(&a->stop, true);
	(void)!write(a->wake, &one, sizeof one);
}

void alert_loop_end(struct alert_loop *a)
{
	pthread_join(a->thread, NULL);
	senders_recall(&a->senders);
	while (a->senders.away) {
		struct sender *left = senders_next(&a->senders, false);
		if (left)
			sender_free(left);
		else
			alert_loop_wait_for(a, 100);
	}
	alert_loop_forget_memos(a);
	for (int i = 0; i < a->nsubjects; i++)
		subject_free(a->subjects[i]);
	free(a->subjects);
	session_close(&a->session);
	arena_release(&a->arena);
	close(a->wake);
	pthread_mutex_destroy(&a->lock);
	free(a->database);
	free(a);
}

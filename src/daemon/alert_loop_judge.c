/* SPDX-License-Identifier: Apache-2.0
 * alert_loop_judge.c: evaluates the rules for every watch that this daemon leads, and for the
 * database if it leads the first of them; changes are written with their messages, in one
 * transaction. The states are read each time: the previous leader may have changed them.
 *
 * While the database is unavailable, it is unknown who leads, and nothing can be written: the alert
 * about that is made, kept and sent from memory, with its usual topic. When the database is back,
 * both are written before any rule is evaluated again, so that the alert ends where it is listed.
 */

#include "daemon/alert_loop_judge.h"

#include "daemon/alert_loop.h"

#include "base/log.h"
#include "life/leader.h"

#define SOON_MS 100 /* after messages from memory were recorded */

/* ---- what is known ---- */

/* The past of a watch that is new here is in the ledger: then all of it is counted again. */
static void begin_anew(struct alert_loop *a)
{
	static const enum alert_id own[] = {ALERT_STUCK_DOUBLED, ALERT_CONNECTION_FAILURES};
	bool any = false;
	for (int i = 0; i < a->nnow; i++) {
		any = any || a->now[i]->fresh;
		a->now[i]->fresh = false;
	}
	if (!any)
		return;
	a->cursor = 0;
	for (int i = 0; i < a->nnow; i++) {
		struct alert_subject *s = &a->now[i]->counts;
		for (int id = 0; id < ALERT_COUNT; id++) {
			bool counted = id != (int)own[0] && id != (int)own[1];
			if (counted && s->tops[id].cell_us)
				s->tops[id] = (struct window){0};
			if (counted && s->bottoms[id].cell_us)
				s->bottoms[id] = (struct window){0};
		}
		alert_windows(s, a->now[i]->rules);
	}
}

static defib_err alert_judge_count_ledger(struct alert_loop *a, struct failure *f)
{
	struct happened *list;
	int n = 0;
	bool more = true;
	defib_err err = DEFIB_OK;
	begin_anew(a);
	/* All of it before any rule is evaluated: half of the events would give a wrong number. */
	while (more && !err && !atomic_load(&a->stop)) {
		err = happened_read(a->session.store, &a->cursor, &a->arena, &list, &n, &more, f);
		for (int i = 0; !err && i < n; i++)
			for (int k = 1; k < a->nnow; k++)
				if (text_eq(a->now[k]->watch, list[i].watch))
					alert_count(&a->now[k]->counts, list[i].what, list[i].at_us, list[i].n);
	}
	return err;
}

/* Only the daemon that saw it knows since when a firing alert has been calm. */
static void alert_judge_take_rows(struct alert_loop *a, const struct alert_row *rows, int n)
{
	for (int i = 0; i < a->nnow; i++)
		for (int id = 0; id < ALERT_COUNT; id++) {
			struct subject *s = a->now[i];
			struct alert was = s->alerts[id];
			s->alerts[id] = (struct alert){0};
			for (int k = 0; k < n; k++)
				if (text_eq(rows[k].watch, s->watch) && text_eq(rows[k].rule, alert_names[id]))
					s->alerts[id] = rows[k].alert;
			if (s->alerts[id].fired_us == was.fired_us)
				s->alerts[id].calm_us = was.calm_us;
		}
}

/* The leader of the first watch that has one is responsible for the whole: one daemon at a time. */
static defib_err ask_whole(struct alert_loop *a, bool *ours, struct failure *f)
{
	struct leader_row *rows = NULL;
	int n = 0, i = 0;
	*ours = false;
	defib_err err = leader_read(a->session.store, &a->arena, &rows, &n, f);
	while (!err && i < n && !rows[i].leads)
		i++;
	*ours = !err && i < n && text_eq(rows[i].holder, a->options->name);
	return err;
}

/* ---- what changed ---- */

struct changes {
	struct alert_write *writes;
	struct outgoing *messages;
	int nwrites, nmessages;
};

static void judge_rule(struct alert_loop *a, struct subject *s, enum alert_id id, int64_t now_us,
                       struct changes *out)
{
	const struct alert_rule *r = &s->rules[id];
	struct alert before = s->alerts[id];
	struct alert_reading m = alert_measure(&s->counts, r, now_us);
	enum alert_change change = alert_step(r, &m, now_us, &s->alerts[id]);
	if (change == CHANGE_NONE)
		return;
	out->writes[out->nwrites++] =
		(struct alert_write){alert_loop_row(a, s, r, &s->alerts[id]), before};
	if (change != CHANGE_STATE)
		out->nmessages += alert_loop_messages(a, s, r, &s->alerts[id], change, now_us,
		                                      &out->messages[out->nmessages]);
}

static void judge_subjects(struct alert_loop *a, bool whole, int64_t now_us, struct changes *out)
{
	const struct settings *all = &a->setup->settings;
	/* A rule sends each sink at most one message; it may name one twice. */
	const struct alert_settings *alerts = settings_alerts(all);
	int sinks = alerts->sinks.n;
	for (int i = 0; i < alerts->nrules; i++)
		sinks = alerts->rules[i].sinks.n > sinks ? alerts->rules[i].sinks.n : sinks;
	out->writes = ARENA_ARRAY(&a->arena, struct alert_write, a->nnow * ALERT_COUNT);
	out->messages = ARENA_ARRAY(&a->arena, struct outgoing, a->nnow * ALERT_COUNT * (sinks + 1));
	for (int i = 0; i < a->nnow; i++) {
		struct subject *s = a->now[i];
		if (i == 0 ? !whole : !a->reports[i].leads)
			continue;
		for (int id = 0; id < ALERT_COUNT; id++)
			if (s->rules[id].whole == (i == 0))
				judge_rule(a, s, (enum alert_id)id, now_us, out);
	}
}

/* Gauges to which several databases contribute. */
static void show_firing(struct alert_loop *a, bool whole)
{
	double firing[ALERT_COUNT][3] = {{0}};
	for (int i = 0; i < a->nnow; i++)
		for (int id = 0; id < ALERT_COUNT; id++)
			if ((i == 0 ? whole : a->reports[i].leads) &&
			    a->now[i]->alerts[id].state == STATE_FIRING)
				firing[id][a->now[i]->rules[id].severity]++;
	for (int id = 0; id < ALERT_COUNT; id++)
		for (int k = 0; k < 3; k++) {
			if (firing[id][k] == a->firing[id][k])
				continue;
			metrics_add(a->options->metrics, METRIC_ALERTS_FIRING, firing[id][k] - a->firing[id][k],
			            LABELS(alert_names[id], alert_severities[k]));
			a->firing[id][k] = firing[id][k];
		}
}

static int firing_of(const struct subject *s)
{
	int n = 0;
	for (int id = 0; id < ALERT_COUNT; id++)
		n += s->alerts[id].state == STATE_FIRING;
	return n;
}

/* A watch with firing alerts is not well, nor is one whose database has some. */
static void show_firing_count(struct alert_loop *a)
{
	int whole = firing_of(a->now[0]);
	for (int i = 1; i < a->nnow; i++)
		overview_put_firing(a->options->overview, a->database, a->now[i]->watch,
		                    whole + firing_of(a->now[i]));
}

/* ---- while the database is unavailable ---- */

#define MEMOS_MAX 200

static void alert_judge_keep(struct alert_loop *a, const struct outgoing *o)
{
	int n = 0;
	struct memo **end = &a->memos;
	for (; *end; end = &(*end)->next)
		n++;
	if (n >= MEMOS_MAX)
		return;
	*end = mem_alloc(sizeof **end);
	**end = (struct memo){.sink = mem_strdup(o->sink),
	                      .id = mem_strdup(o->id),
	                      .document = mem_strdup(o->document),
	                      .topic = mem_strdup(o->topic)};
}

static void judge_from_memory(struct alert_loop *a, struct subject *s, enum alert_id id,
                              int64_t now_us)
{
	const struct alert_rule *r = &s->rules[id];
	struct alert_reading m = alert_measure(&s->counts, r, now_us);
	enum alert_change change = alert_step(r, &m, now_us, &s->alerts[id]);
	int sinks = alert_rule_sinks(settings_alerts(&a->setup->settings), r)->n;
	if (change != CHANGE_FIRED && change != CHANGE_AGAIN)
		return;
	struct outgoing *messages = ARENA_ARRAY(&a->arena, struct outgoing, sinks + 1);
	int n = alert_loop_messages(a, s, r, &s->alerts[id], change, now_us, messages);
	for (int i = 0; i < n; i++)
		alert_judge_keep(a, &messages[i]);
	a->away = true;
}

/* One cause, one message: overdue scans are reported only if their cause is not. */
void alert_loop_judge_away(struct alert_loop *a)
{
	int64_t now_us = (clock_boot_us() + a->clock_us) / 1000 * 1000;
	alert_loop_gather(a, now_us);
	alert_loop_give_back(a); /* no rule that needs it is evaluated here */
	judge_from_memory(a, a->now[0], ALERT_DATABASE_AWAY, now_us);
	if (a->now[0]->rules[ALERT_DATABASE_AWAY].enabled)
		return;
	for (int i = 1; i < a->nnow; i++)
		if (a->reports[i].leads)
			judge_from_memory(a, a->now[i], ALERT_SCAN_OVERDUE, now_us);
}

static const struct alert_row *alert_judge_row_of(const struct alert_row *rows, int n,
                                                  const char *watch, enum alert_id id)
{
	for (int i = 0; i < n; i++)
		if (text_eq(rows[i].watch, watch) && text_eq(rows[i].rule, alert_names[id]))
			return &rows[i];
	return NULL;
}

/* Alerts that fire in memory but not in the database: another daemon may have been first. */
static int collect_writes(struct alert_loop *a, const struct alert_row *rows, int n,
                          struct alert_write *out)
{
	static const enum alert_id ids[] = {ALERT_DATABASE_AWAY, ALERT_SCAN_OVERDUE};
	int writes = 0;
	for (int i = 0; i < a->nsubjects; i++) {
		struct subject *s = a->subjects[i];
		for (int k = 0; k < 2; k++) {
			const struct alert *mine = &s->alerts[ids[k]];
			const struct alert_row *row = alert_judge_row_of(rows, n, s->watch, ids[k]);
			if (mine->state != STATE_FIRING || s->rules[ids[k]].whole != (i == 0) ||
			    (row && row->alert.state == STATE_FIRING))
				continue;
			out[writes++] = (struct alert_write){alert_loop_row(a, s, &s->rules[ids[k]], mine),
			                                     row ? row->alert : (struct alert){0}};
		}
	}
	return writes;
}

void alert_loop_forget_memos(struct alert_loop *a)
{
	while (a->memos) {
		struct memo *m = a->memos;
		a->memos = m->next;
		free(m->sink);
		free(m->id);
		free(m->document);
		free(m->topic);
		free(m);
	}
}

/* The database is back: record what was made meanwhile. */
static defib_err alert_loop_write_down(struct alert_loop *a, const struct alert_row *rows, int n,
                                       struct failure *f)
{
	int nmessages = 0;
	bool taken = false;
	for (const struct memo *m = a->memos; m; m = m->next) {
		if (m->away)
			return DEFIB_OK; /* its result is not known yet */
		nmessages++;
	}
	struct outgoing *messages = ARENA_ARRAY(&a->arena, struct outgoing, nmessages + 1);
	nmessages = 0;
	for (const struct memo *m = a->memos; m; m = m->next)
		messages[nmessages++] = (struct outgoing){.sink = m->sink,
		                                          .kind = "alert",
		                                          .id = m->id,
		                                          .document = m->document,
		                                          .topic = m->topic,
		                                          .ended = m->sent ? "sent" : NULL};
	pthread_mutex_lock(&a->lock);
	struct alert_write *writes =
		ARENA_ARRAY(&a->arena, struct alert_write, 2 * (size_t)a->nsubjects);
	int nwrites = collect_writes(a, rows, n, writes);
	pthread_mutex_unlock(&a->lock);
	defib_err err = states_write(a->session.store, writes, nwrites, messages, nmessages, &taken, f);
	if (err || !taken)
		return err;
	alert_loop_forget_memos(a);
	a->away = false;
	return DEFIB_OK;
}

/* ---- with the database ---- */

static defib_err judge_gathered(struct alert_loop *a, int64_t now_us, struct failure *f)
{
	struct store *store = a->session.store;
	struct changes changes = {0};
	bool whole = false, taken = true;
	defib_err err = alert_judge_count_ledger(a, f);
	if (!err)
		err = ask_whole(a, &whole, f);
	if (err)
		return err;
	judge_subjects(a, whole, now_us, &changes);
	if (changes.nwrites)
		err = states_write(store, changes.writes, changes.nwrites, changes.messages,
		                   changes.nmessages, &taken, f);
	if (!err && !taken)
		log_event(LOG_DEBUG, "another daemon has announced the alert",
		          LOG_STR("database", a->database));
	if (!err && taken) {
		show_firing(a, whole);
		show_firing_count(a);
	}
	for (int i = 1; !err && taken && i < a->nnow; i++)
		a->now[i]->over = !a->reports[i].there;
	return err;
}

defib_err alert_loop_judge(struct alert_loop *a, struct failure *f)
{
	struct alert_row *rows = NULL;
	int64_t now_us = 0;
	int n = 0;
	defib_err err = states_read(a->session.store, &a->arena, &rows, &n, &now_us, f);
	if (err)
		return err;
	a->clock_us = now_us - clock_boot_us();
	if (a->away) {
		a->judge_ms = clock_boot_ms() + SOON_MS;
		return alert_loop_write_down(a, rows, n, f);
	}
	alert_loop_gather(a, now_us);
	alert_judge_take_rows(a, rows, n);
	err = judge_gathered(a, now_us, f);
	if (err)
		alert_loop_give_back(a);
	return err;
}

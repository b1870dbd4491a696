/* SPDX-License-Identifier: Apache-2.0
 * alert_loop_away.c: while the database is away, it cannot say who leads, and nothing can
 * be written: the alert that says so is made here, kept and sent from memory, with the
 * same topic as ever. When the database is back, both are written down before any
 * rule is asked again, so that it ends where it is listed.
 */
#include "daemon/alert_loop_inside.h"

#include "base/clock.h"
#include "base/text.h"

#define MEMOS_MAX 200

static void keep(struct alert_loop *a, const struct outgoing *o)
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

static void judge_rule(struct alert_loop *a, struct subject *s, enum alert_id id, int64_t now_us)
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
		keep(a, &messages[i]);
	a->away = true;
}

/* One cause, one message: that scans are overdue is told only where the cause is not. */
void alert_loop_judge_away(struct alert_loop *a)
{
	int64_t now_us = (clock_boot_us() + a->clock_us) / 1000 * 1000;
	alert_loop_gather(a, now_us);
	judge_rule(a, a->now[0], ALERT_DATABASE_AWAY, now_us);
	if (a->now[0]->rules[ALERT_DATABASE_AWAY].enabled)
		return;
	for (int i = 1; i < a->nnow; i++)
		if (a->told[i].leads)
			judge_rule(a, a->now[i], ALERT_SCAN_OVERDUE, now_us);
}

static const struct alert_row *row_of(const struct alert_row *rows, int n, const char *watch,
                                      enum alert_id id)
{
	for (int i = 0; i < n; i++)
		if (text_eq(rows[i].watch, watch) && text_eq(rows[i].rule, alert_names[id]))
			return &rows[i];
	return NULL;
}

/* What fires in memory and, by the database, does not: another daemon may have been first. */
static int collect_writes(struct alert_loop *a, const struct alert_row *rows, int n,
                          struct alert_write *out)
{
	static const enum alert_id ids[] = {ALERT_DATABASE_AWAY, ALERT_SCAN_OVERDUE};
	int writes = 0;
	for (int i = 0; i < a->nsubjects; i++) {
		struct subject *s = a->subjects[i];
		for (int k = 0; k < 2; k++) {
			const struct alert *mine = &s->alerts[ids[k]];
			const struct alert_row *row = row_of(rows, n, s->watch, ids[k]);
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

defib_err alert_loop_write_down(struct alert_loop *a, const struct alert_row *rows, int n,
                                struct failure *f)
{
	int nmessages = 0;
	bool taken = false;
	for (const struct memo *m = a->memos; m; m = m->next) {
		if (m->away)
			return DEFIB_OK; /* what becomes of it is not known yet */
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

/* SPDX-License-Identifier: Apache-2.0
 * alert_loop_send.c: empties the outbox: messages that are due are taken under a lease, one per
 * sink at a time, and their results are recorded.
 */

#include "daemon/alert_loop_send.h"

#include "daemon/alert_loop.h"

#include "base/log.h"

#include <unistd.h>

#define LEASE_MORE_US (10 * US_PER_S) /* beyond the time limit of a try */
#define TURN_MAX 200                  /* messages that one turn sends */

/* ---- messages being sent ---- */

/* Whether a message is being sent to that sink. */
static bool senders_busy(const struct senders *c, const char *sink)
{
	for (const struct sender *one = c->away; one; one = one->next)
		if (text_eq(one->sink->name, sink))
			return true;
	return false;
}

static void *go(void *arg)
{
	struct sender *one = arg;
	struct sink_call call = {
		.sink = one->sink,
		.kind = one->delivery.kind,
		.id = one->delivery.id,
		.document = one->delivery.document,
		.stop = &one->all->stop,
	};
	uint64_t wake = 1;
	int fd = one->all->wake;
	sink_send(&call, &one->answer);
	atomic_store(&one->back, true);
	(void)!write(fd, &wake, sizeof wake);
	return NULL;
}

static void put_on_list(struct senders *c, struct sender *one)
{
	one->next = c->away;
	c->away = one;
}

/* Send it; the texts are copied. `setup` is held until it has finished. */
static void senders_send(struct senders *c, struct live_settings *setup,
                         const struct alert_sink *sink, const struct delivery *d, bool memory)
{
	struct sender *one = mem_alloc(sizeof *one);
	one->all = c;
	one->setup = live_settings_hold_same(c->setups, setup);
	one->sink = sink;
	one->delivery = *d;
	one->delivery.kind = arena_strdup(&one->arena, d->kind);
	one->delivery.id = arena_strdup(&one->arena, d->id);
	one->delivery.document = arena_strdup(&one->arena, d->document);
	one->memory = memory;
	put_on_list(c, one);
	/* A log line is written at once. If no thread can be started, the message is sent here. */
	one->threaded = sink->type != SINK_LOG && pthread_create(&one->thread, NULL, go, one) == 0;
	if (!one->threaded)
		go(one);
}

struct sender *senders_next(struct senders *c, bool memory)
{
	struct sender **at = &c->away;
	while (*at && (!atomic_load(&(*at)->back) || (memory && !(*at)->memory)))
		at = &(*at)->next;
	struct sender *one = *at;
	if (!one)
		return NULL;
	*at = one->next;
	if (one->threaded)
		pthread_join(one->thread, NULL);
	one->threaded = false;
	return one;
}

void sender_free(struct sender *one)
{
	live_settings_drop(one->all->setups, one->setup);
	arena_release(&one->arena);
	free(one);
}

void senders_recall(struct senders *c)
{
	atomic_store(&c->stop, true);
}

/* ---- results ---- */

static void count_result(struct alert_loop *a, const char *sink, const char *result)
{
	metrics_add(a->options->metrics, METRIC_DELIVERIES, 1, LABELS(sink, result));
}

static int64_t wait_after(struct alert_loop *a, const struct sender *r)
{
	int64_t wait_us = outbox_wait_us(r->delivery.tries, chance_draw(&a->chance));
	if (atomic_load(&a->stop))
		return 0; /* it was aborted */
	return r->answer.wait_us > wait_us ? r->answer.wait_us : wait_us;
}

static void tell_trouble(enum log_level level, const char *what, const struct sender *r)
{
	log_event(level, what, LOG_STR("sink", r->sink->name), LOG_STR("id", r->delivery.id),
	          LOG_INT("tries", r->delivery.tries), LOG_STR("answer", r->answer.text));
}

static defib_err alert_send_note(struct alert_loop *a, const struct sender *r, struct failure *f)
{
	const struct delivery *d = &r->delivery;
	bool old = r->answer.how == SINK_AGAIN && d->age_us >= OUTBOX_GIVE_UP_US;
	defib_err err = session_ready(&a->session, f);
	if (err)
		return err;
	if (r->answer.how == SINK_AGAIN && !old) {
		err = outbox_again(a->session.store, d, wait_after(a, r), r->answer.text, f);
		tell_trouble(d->tries == 1 ? LOG_WARN : LOG_DEBUG,
		             "a message could not be sent and will be retried", r);
		count_result(a, r->sink->name, "retry");
		return err;
	}
	bool sent = r->answer.how == SINK_SENT;
	const char *how = sent ? "sent" : old ? "given up" : "refused";
	err = outbox_end(a->session.store, d, how, r->answer.text, f);
	if (!sent)
		tell_trouble(LOG_ERROR, old ? "a message was given up" : "a sink refused a message", r);
	count_result(a, r->sink->name, sent ? "ok" : "given_up");
	return err;
}

static void note_memo(struct alert_loop *a, const struct sender *r)
{
	struct memo *m = a->memos;
	while (m && !(text_eq(m->sink, r->sink->name) && text_eq(m->id, r->delivery.id)))
		m = m->next;
	if (!m)
		return;
	m->away = false;
	m->sent = r->answer.how != SINK_AGAIN;
	m->due_ms = clock_boot_ms() + wait_after(a, r) / 1000;
	if (r->answer.how != SINK_SENT)
		tell_trouble(LOG_WARN,
		             m->sent ? "a sink refused a message"
		                     : "a message could not be sent and will be retried",
		             r);
	count_result(a, r->sink->name,
	             r->answer.how == SINK_SENT    ? "ok"
	             : r->answer.how == SINK_AGAIN ? "retry"
	                                           : "given_up");
}

defib_err alert_loop_collect(struct alert_loop *a, struct failure *f)
{
	struct sender *r;
	while ((r = senders_next(&a->senders, false)) != NULL) {
		defib_err err = DEFIB_OK;
		if (r->memory)
			note_memo(a, r);
		else
			err = alert_send_note(a, r, f);
		if (err) {
			put_on_list(&a->senders, r); /* it will be tried again */
			return err;
		}
		sender_free(r);
	}
	return DEFIB_OK;
}

/* ---- sending ---- */

/* The next message for a sink, if it is due; `*sent` says whether one was sent. */
static defib_err send_next(struct alert_loop *a, const struct alert_sink *sink, bool *sent,
                           struct failure *f)
{
	struct delivery d;
	*sent = false;
	defib_err err = outbox_take(a->session.store, sink->name, sink->timeout_us + LEASE_MORE_US,
	                            &a->arena, &d, sent, f);
	if (!err && *sent)
		senders_send(&a->senders, a->setup, sink, &d, false);
	return err;
}

/* Every idle sink gets its next message; *wait_ms is how long until something is due. */
static defib_err send_round(struct alert_loop *a, int *sent, int64_t *wait_ms, struct failure *f)
{
	struct outbox_line *lines;
	int n = 0;
	double waiting = 0;
	*sent = 0;
	defib_err err = outbox_lines(a->session.store, &a->arena, &lines, &n, f);
	for (int i = 0; !err && i < n; i++) {
		const struct alert_sink *sink =
			alert_sink_named(settings_sinks(&a->setup->settings), lines[i].sink);
		bool went = false;
		waiting += (double)lines[i].waiting;
		if (!sink || senders_busy(&a->senders, lines[i].sink))
			continue;
		if (lines[i].due_us <= 0)
			err = send_next(a, sink, &went, f);
		else if (lines[i].due_us / 1000 + 1 < *wait_ms)
			*wait_ms = lines[i].due_us / 1000 + 1;
		*sent += went;
	}
	if (!err)
		metrics_set(a->options->metrics, METRIC_OUTBOX, waiting, LABELS(a->database));
	return err;
}

defib_err alert_loop_send(struct alert_loop *a, int64_t *wait_ms, struct failure *f)
{
	int sent = 1, total = 0;
	defib_err err = DEFIB_OK;
	/* A message that finished at once (a log line) makes room for the next. */
	while (!err && sent && total < TURN_MAX && !atomic_load(&a->stop)) {
		err = send_round(a, &sent, wait_ms, f);
		total += sent;
		if (!err)
			err = alert_loop_collect(a, f);
	}
	return err;
}

void alert_loop_send_memos(struct alert_loop *a)
{
	struct sender *r;
	/* The rest is recorded when the database is back. */
	while ((r = senders_next(&a->senders, true)) != NULL) {
		note_memo(a, r);
		sender_free(r);
	}
	for (struct memo *m = a->memos; m; m = m->next) {
		const struct alert_sink *sink =
			alert_sink_named(settings_sinks(&a->setup->settings), m->sink);
		if (m->sent || m->away || !sink || clock_boot_ms() < m->due_ms ||
		    senders_busy(&a->senders, m->sink))
			continue;
		struct delivery d = {
			.tries = ++m->tries, .kind = "alert", .id = m->id, .document = m->document};
		m->away = true;
		senders_send(&a->senders, a->setup, sink, &d, true);
	}
}

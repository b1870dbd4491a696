/* SPDX-License-Identifier: Apache-2.0 */
/* sender.c: see sender.h. */
#include "daemon/sender.h"

#include "base/mem.h"
#include "base/text.h"

#include <pthread.h>
#include <unistd.h>

struct sender {
	struct sender *next;
	struct senders *all;
	pthread_t thread;
	bool threaded;
	atomic_bool back;
	struct live_settings *setup;
	const struct alert_sink *sink;
	struct delivery delivery;
	bool memory;
	struct sink_answer answer;
	struct arena arena;
};

bool senders_busy(const struct senders *c, const char *sink)
{
	for (const struct sender *one = c->away; one; one = one->next)
		if (text_eq(one->sink->name, sink))
			return true;
	return false;
}

bool senders_any(const struct senders *c)
{
	return c->away != NULL;
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

void senders_send(struct senders *c, struct live_settings *setup, const struct alert_sink *sink,
                  const struct delivery *d, bool memory)
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
	one->next = c->away;
	c->away = one;
	/* A line in the log is written at once. Without a thread the message takes its time here. */
	one->threaded = sink->type != SINK_LOG && pthread_create(&one->thread, NULL, go, one) == 0;
	if (!one->threaded)
		go(one);
}

bool senders_next(struct senders *c, bool memory, struct sender_result *out)
{
	struct sender **at = &c->away;
	while (*at && (!atomic_load(&(*at)->back) || (memory && !(*at)->memory)))
		at = &(*at)->next;
	struct sender *one = *at;
	if (!one)
		return false;
	*at = one->next;
	if (one->threaded)
		pthread_join(one->thread, NULL);
	one->threaded = false;
	*out = (struct sender_result){one->sink->name, one->delivery, one->memory, one->answer, one};
	return true;
}

void senders_put_back(struct senders *c, struct sender_result *r)
{
	r->sender->next = c->away;
	c->away = r->sender;
}

void senders_free_result(struct senders *c, struct sender_result *r)
{
	live_settings_drop(c->setups, r->sender->setup);
	arena_release(&r->sender->arena);
	free(r->sender);
	r->sender = NULL;
}

void senders_recall(struct senders *c)
{
	atomic_store(&c->stop, true);
}

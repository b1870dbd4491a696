/* courier.c: see courier.h. */
#include "serve/courier.h"

#include "base/mem.h"
#include "base/text.h"

#include <pthread.h>
#include <unistd.h>

struct courier {
	struct courier *next;
	struct couriers *all;
	pthread_t thread;
	bool threaded;
	atomic_bool back;
	struct setup *setup;
	const struct alert_sink *sink;
	struct delivery delivery;
	bool memory;
	struct sink_answer answer;
	struct arena arena;
};

bool couriers_busy(const struct couriers *c, const char *sink)
{
	for (const struct courier *one = c->away; one; one = one->next)
		if (text_eq(one->sink->name, sink))
			return true;
	return false;
}

bool couriers_any(const struct couriers *c)
{
	return c->away != NULL;
}

static void *go(void *arg)
{
	struct courier *one = arg;
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

void couriers_send(struct couriers *c, struct setup *setup, const struct alert_sink *sink,
                   const struct delivery *d, bool memory)
{
	struct courier *one = mem_alloc(sizeof *one);
	one->all = c;
	one->setup = setup_hold_same(c->setups, setup);
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

bool couriers_next(struct couriers *c, bool memory, struct courier_result *out)
{
	struct courier **at = &c->away;
	while (*at && (!atomic_load(&(*at)->back) || (memory && !(*at)->memory)))
		at = &(*at)->next;
	struct courier *one = *at;
	if (!one)
		return false;
	*at = one->next;
	if (one->threaded)
		pthread_join(one->thread, NULL);
	one->threaded = false;
	*out = (struct courier_result){one->sink->name, one->delivery, one->memory, one->answer, one};
	return true;
}

void couriers_put_back(struct couriers *c, struct courier_result *r)
{
	r->courier->next = c->away;
	c->away = r->courier;
}

void couriers_free_result(struct couriers *c, struct courier_result *r)
{
	setup_drop(c->setups, r->courier->setup);
	arena_release(&r->courier->arena);
	free(r->courier);
	r->courier = NULL;
}

void couriers_recall(struct couriers *c)
{
	atomic_store(&c->stop, true);
}

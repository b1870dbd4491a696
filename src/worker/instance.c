/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/instance.h"

#include "worker/claim_limits.h"
#include "worker/life_thread.h"

#include <pthread.h>

struct instance {
	struct life_thread *life;
	pthread_mutex_t lock;
	struct breaker breaker; /* guarded by the lock, as is … */
	struct chance chance;
};

/* ---- what the life thread asks ---- */

static int64_t holds_nothing(void *ctx)
{
	(void)ctx;
	return 0;
}

static void instance_nothing(void *ctx)
{
	(void)ctx;
}

static void instance_info(void *ctx, struct buf *out)
{
	struct instance *i = ctx;
	pthread_mutex_lock(&i->lock);
	struct breaker b = i->breaker;
	pthread_mutex_unlock(&i->lock);
	buf_addf(out, "{\"tries\":%lld,\"failures\":%lld,\"breaker\":\"%s\",\"clock_ms\":%lld}",
	         (long long)b.tries, (long long)b.failed, breaker_names[b.state],
	         (long long)(clock_wall_us() / 1000));
}

/* ---- sessions ---- */

void instance_session(struct instance *i, bool got)
{
	pthread_mutex_lock(&i->lock);
	breaker_report(&i->breaker, got, chance_draw(&i->chance), clock_boot_ms());
	pthread_mutex_unlock(&i->lock);
}

int64_t instance_wait_ms(struct instance *i)
{
	int64_t now_ms = clock_boot_ms();
	pthread_mutex_lock(&i->lock);
	int64_t ms = breaker_allow(&i->breaker, now_ms) ? 0 : breaker_wait_ms(&i->breaker, now_ms);
	pthread_mutex_unlock(&i->lock);
	return ms;
}

/* ---- the instance ---- */

defib_err instance_open(const struct instance_options *o, struct instance **out,
                        struct startup_result *cleaned, struct failure *f)
{
	struct instance *i = mem_alloc(sizeof *i);
	struct life_thread_options life = {
		.store = o->store,
		.name = o->name,
		.watches = o->watches,
		.nwatches = o->nwatches,
		.lease = o->lease,
		.cleaned = cleaned,
		.holding = holds_nothing,
		.taken = instance_nothing,
		.compare = instance_nothing,
		.wake = instance_nothing,
		.info = instance_info,
		.ctx = i,
	};
	*cleaned = (struct startup_result){0};
	pthread_mutex_init(&i->lock, NULL);
	chance_seed(&i->chance);
	breaker_init(&i->breaker, &(struct breaker_rules){5, 1000, 30000});
	defib_err err = life_thread_start(&life, &i->life, f);
	if (err)
		instance_close(i);
	else
		*out = i;
	return err;
}

int64_t instance_worker(struct instance *i)
{
	return life_thread_worker(i->life);
}

void instance_close(struct instance *i)
{
	if (!i)
		return;
	life_thread_stop(i->life, true);
	pthread_mutex_destroy(&i->lock);
	free(i);
}

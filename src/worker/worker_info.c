/* SPDX-License-Identifier: Apache-2.0
 * worker_info.c: what a worker says of itself at each renewal of its lease: a small JSON
 * object in its row of the registry, whose size does not grow with its work. People read
 * it there, and a daemon makes metrics of it: a worker needs no port of its own.
 *
 * Called from the life thread (life_thread.c): only what is shared under a lock is read.
 */
#include "worker/worker.h"

#include "base/clock.h"
#include "worker/worker_inside.h"

#include <assert.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- run times ---- */

const double job_time_bounds[JOB_TIME_BUCKETS - 1] = {JOB_TIME_BOUNDS};
_Static_assert(sizeof((double[]){JOB_TIME_BOUNDS}) == sizeof job_time_bounds, "a bucket a bound");

void job_times_add(struct job_times *t, int64_t ms)
{
	int i = 0;
	assert(ms >= 0);
	while (i < JOB_TIME_BUCKETS - 1 && (double)ms / 1e3 > job_time_bounds[i])
		i++;
	t->counts[i]++;
	t->sum_ms += ms;
}

void job_times_json(const struct job_times *t, struct buf *out)
{
	const char *comma = "";
	buf_addf(out, "{\"sum\":%.3f,\"buckets\":{", (double)t->sum_ms / 1e3);
	for (int i = 0; i < JOB_TIME_BUCKETS; i++) {
		if (!t->counts[i])
			continue;
		buf_addf(out, "%s\"", comma);
		if (i < JOB_TIME_BUCKETS - 1)
			buf_addf(out, "%g", job_time_bounds[i]);
		else
			buf_add(out, "+Inf");
		buf_addf(out, "\":%lld", (long long)t->counts[i]);
		comma = ",";
	}
	buf_add(out, "}}");
}

/* ---- all of it ---- */

static void add_self(const struct worker *w, struct buf *out)
{
	struct utsname host = {0};
	AUTO_BUF started = BUF_INIT;
	(void)uname(&host);
	time_iso(w->started_us, &started);
	buf_add(out, "\"version\":\"" DEFIB_VERSION "\",\"host\":");
	buf_add_json(out, host.nodename);
	buf_addf(out, ",\"pid\":%lld,\"started\":\"%s\"", (long long)getpid(), buf_text(&started));
}

static void add_settled(const struct engine_counts *c, struct buf *out)
{
	bool first = true;
	buf_add(out, ",\"settled\":{");
	for (int i = 0; i < SETTLE_COUNT; i++) {
		int64_t n = c->ends[i];
		if (n || i == SETTLE_DONE || i == SETTLE_FAILED) {
			buf_addf(out, "%s\"%s\":%lld", first ? "" : ",", settle_names[i], (long long)n);
			first = false;
		}
	}
	buf_add(out, "}");
}

/* What waits on our disk, and what the database refused to record. */
static void add_spool(const struct spool_news *s, struct buf *out)
{
	buf_addf(out, ",\"spool\":{\"jobs\":%lld,\"bytes\":%lld,\"set_aside\":%lld",
	         (long long)s->waiting, (long long)s->bytes, (long long)s->set_aside);
	if (s->set_aside) {
		buf_add(out, ",\"why\":");
		buf_add_json(out, s->why);
	}
	if (s->unserved[0]) {
		buf_add(out, ",\"unserved\":");
		buf_add_json(out, s->unserved);
	}
	buf_add(out, "}");
}

void worker_info(void *ctx, struct buf *out)
{
	struct worker *w = ctx;
	pthread_mutex_lock(&w->lock);
	struct engine_counts c = w->counts;
	struct job_times ran = w->ran;
	struct spool_news spooled = w->spooled;
	int64_t jobs = w->engine ? engine_holding(w->engine) : 0;
	pthread_mutex_unlock(&w->lock);
	int64_t tries = c.tries + c.unserved, failures = c.failed + c.unserved;
	buf_add(out, "{");
	add_self(w, out);
	buf_addf(out, ",\"jobs\":%lld,\"ticks\":%lld,\"claims\":%lld", (long long)jobs,
	         (long long)c.turns, (long long)c.claimed);
	add_settled(&c, out);
	buf_add(out, ",\"took\":");
	job_times_json(&ran, out);
	buf_addf(out, ",\"refused\":%lld,\"abandoned\":%lld,\"tries\":%lld,\"failures\":%lld",
	         (long long)c.refused, (long long)c.given_up, (long long)tries, (long long)failures);
	buf_addf(out, ",\"breaker\":\"%s\"", c.paused ? "open" : "closed");
	add_spool(&spooled, out);
	buf_addf(out, ",\"clock_ms\":%lld}", (long long)(clock_wall_us() / 1000));
}

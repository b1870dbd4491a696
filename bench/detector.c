/* SPDX-License-Identifier: Apache-2.0
 * detector.c: defib's own rules over a trace of heartbeats (bench/detection_record.py describes its
 * lines). The trace comes on standard input; each worker that is declared dead is printed as
 * `ID MS STAMP`: when, and by which heartbeat as its last.
 *
 *     detector watch BEAT STUCK_AFTER EVERY [bare|no-doubt|no-look|no-brake|share=PERCENT ...]
 *     detector lease LEASE [no-brake]
 *
 * `watch` is the daemon on a table with heartbeats: absence, judge and guard, as recover/scan.c and
 * daemon/watch_loop.c call them. `lease` is a worker of defib that watches the others: life, where
 * no exit and no lock can be seen. All durations are in milliseconds. `bare` is judge alone.
 *
 * A reading stands for whatever the real program would have read then: it begins at the first
 * recorded one that does, and what failed or hung in the recording fails or hangs. A worker that is
 * declared dead leaves the table, and is back as soon as it writes another heartbeat.
 */
#include "base/mem.h"
#include "base/text.h"
#include "guard/doubt.h"
#include "guard/guard.h"
#include "life/life.h"
#include "recover/decide.h"
#include "recover/judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000)
#define WORKERS_MOST 1000
#define SOON_MS 100                  /* between passes at least, as in daemon/watch_loop.c */
#define CEILING_US (600 * 1000 * MS) /* guard.brake_ceiling, as it is if not given */
#define ANEW 1000                    /* added to the id of a worker that registers again */

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "detector: %s\n", what);
	exit(2);
}

static int64_t ms_of(const char *text)
{
	char *end;
	long long ms = strtoll(text, &end, 10);
	if (*end || end == text || ms <= 0 || ms > 86400000)
		die("a duration is a number of milliseconds, up to a day");
	return ms;
}

/* ---- the trace ---- */

struct beat {
	int worker;
	int64_t stamp_ms;
};

/* One reading, or one write of the reader's own. */
struct call {
	int64_t begin_ms, end_ms;
	bool ok;
	int64_t session, now_ms;
	struct beat *beats;
	int n;
};

struct calls {
	struct call *all;
	int n, cap;
};

struct span {
	int64_t begin_ms, end_ms;
};

struct trace {
	struct calls reads, writes;
	struct span stopped[64]; /* the reader itself */
	int nstopped;
	int64_t stamp_ms[WORKERS_MOST];  /* as of the last reading that was taken; 0: not there */
	int64_t judged_ms[WORKERS_MOST]; /* the stamp for which it was declared dead */
	int workers;
	int at; /* readings that were taken */
};

static struct call *add_call(struct calls *c)
{
	if (c->n == c->cap) {
		c->cap = c->cap ? c->cap * 2 : 1024;
		c->all = mem_grow(c->all, sizeof *c->all * (size_t)c->cap);
	}
	c->all[c->n] = (struct call){0};
	return &c->all[c->n++];
}

static void read_beats(struct trace *t, struct call *c, const char *rows)
{
	int64_t id, age_ms, sent_ms;
	for (int used = 0; *rows; rows += used) {
		if (sscanf(rows, "%" SCNd64 ":%" SCNd64 ":%" SCNd64 " %n", &id, &age_ms, &sent_ms, &used) !=
		        3 ||
		    id < 0 || id >= WORKERS_MOST)
			die("the trace has a row that is none");
		c->beats = mem_grow(c->beats, sizeof *c->beats * (size_t)(c->n + 1));
		c->beats[c->n++] = (struct beat){(int)id, c->now_ms - age_ms};
		t->workers = id >= t->workers ? (int)id + 1 : t->workers;
	}
}

static void read_line(struct trace *t, char *line)
{
	struct call c = {0};
	int at = 0, ok = 0;
	if (line[0] == 'r') {
		if (sscanf(line, "r %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %n", &c.begin_ms,
		           &c.end_ms, &c.session, &c.now_ms, &at) != 4)
			die("the trace has a reading that is none");
		c.ok = true;
		read_beats(t, &c, line + at);
		*add_call(&t->reads) = c;
	} else if (sscanf(line, "f %" SCNd64 " %" SCNd64, &c.begin_ms, &c.end_ms) == 2) {
		*add_call(&t->reads) = c;
	} else if (sscanf(line, "m %" SCNd64 " %" SCNd64 " %d", &c.begin_ms, &c.end_ms, &ok) == 3) {
		c.ok = ok;
		*add_call(&t->writes) = c;
	} else if (strstr(line, " reader-stopped") && t->nstopped < 64) {
		struct span *s = &t->stopped[t->nstopped++];
		(void)!sscanf(line, "e %" SCNd64 " %" SCNd64, &s->begin_ms, &s->end_ms);
	}
}

static void read_trace(struct trace *t)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t n;
	while ((n = getline(&line, &size, stdin)) > 0) {
		line[n - 1] = line[n - 1] == '\n' ? 0 : line[n - 1];
		read_line(t, line);
	}
	free(line);
	if (t->reads.n == 0 || t->writes.n == 0)
		die("the trace has no readings");
}

/* The table as it was at this reading. */
static void take(struct trace *t, int reading)
{
	for (; t->at <= reading; t->at++)
		for (int i = 0; i < t->reads.all[t->at].n; i++) {
			const struct beat *b = &t->reads.all[t->at].beats[i];
			t->stamp_ms[b->worker] = b->stamp_ms;
		}
}

static bool in_table(const struct trace *t, int worker)
{
	return t->stamp_ms[worker] && t->stamp_ms[worker] != t->judged_ms[worker];
}

static void declare(struct trace *t, int worker, int64_t at_ms)
{
	t->judged_ms[worker] = t->stamp_ms[worker];
	printf("%d %" PRId64 " %" PRId64 "\n", worker, at_ms, t->stamp_ms[worker]);
}

/* ---- the daemon ---- */

struct without {
	bool bare, doubt, look, brake;
};

struct daemon {
	struct watch watch;
	struct guard *guard;
	struct absence absence;
	struct without without;
	char names[WORKERS_MOST][16];
	int64_t due_ms;
};

static void pass_over(struct daemon *d, struct trace *t, const struct call *c)
{
	static const struct doubt none;
	struct census_row census[WORKERS_MOST];
	int n = 0;
	for (int i = 0; i < t->workers; i++)
		if (in_table(t, i))
			census[n++] = (struct census_row){d->names[i], t->stamp_ms[i] * MS, false};
	guard_begin(d->guard, d->without.doubt ? &none : &d->absence.doubt, c->now_ms * MS,
	            c->end_ms * MS, census, n, false);
	for (int i = 0; i < t->workers; i++) {
		struct facts f = {.job = d->names[i],
		                  .owner = d->names[i],
		                  .running = true,
		                  .now_us = c->now_ms * MS,
		                  .owner_alive = KNOWN_NOT};
		f.has_sign[SIGN_ALIVE] = true;
		f.sign_us[SIGN_ALIVE] = t->stamp_ms[i] * MS;
		if (!in_table(t, i))
			continue;
		struct judgement j = judge(&d->watch, &f);
		if (j.verdict == VERDICT_NONE)
			continue;
		enum guard_by by = d->without.bare ? GUARD_PASS : guard_ask(d->guard, &f, &j).by;
		if (by == GUARD_PASS || (by == GUARD_LOOK && d->without.look))
			declare(t, i, c->end_ms);
	}
	const struct gone_suspect *gone;
	int ngone;
	guard_end(d->guard, &gone, &ngone);
}

/* As next_pass_ms() of daemon/watch_loop.c. */
static int64_t next_pass_ms(const struct daemon *d, const struct call *c)
{
	struct guard_report r;
	int64_t every = d->watch.every_us / MS;
	guard_report(d->guard, &r);
	int64_t again = r.again_us ? (r.again_us - c->now_ms * MS) / MS + 1 : every;
	int64_t next = again < every ? again : every;
	return next > SOON_MS ? next : SOON_MS;
}

/*
 * A scan counts the running rows before it asks for the clock (first_reading() in recover/scan.c):
 * where the table is locked it waits there. The recorded reading asked first.
 */
static struct call as_scan(const struct call *c)
{
	struct call scan = *c;
	scan.now_ms += c->end_ms - c->begin_ms;
	return scan;
}

static void run_daemon(struct trace *t, struct daemon *d)
{
	for (int i = 0; i < WORKERS_MOST; i++)
		snprintf(d->names[i], sizeof d->names[i], "w%d", i);
	d->guard = guard_new(&d->watch);
	for (int i = 0; i < t->reads.n; i++) {
		const struct call scan = as_scan(&t->reads.all[i]), *c = &scan;
		absence_tick(&d->absence, c->begin_ms * MS);
		if (!c->ok)
			absence_begins(&d->absence, "cannot query the database");
		if (!c->ok || c->begin_ms < d->due_ms)
			continue;
		take(t, i);
		absence_read(&d->absence, c->session, c->now_ms * MS, c->end_ms * MS);
		pass_over(d, t, c);
		int64_t next = c->begin_ms + next_pass_ms(d, c);
		d->due_ms = next > c->end_ms ? next : c->end_ms;
	}
	guard_free(d->guard);
}

static bool given(int argc, char **argv, const char *word)
{
	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], word) == 0)
			return true;
	return false;
}

static void watch_main(struct trace *t, int argc, char **argv)
{
	static struct daemon d;
	if (argc < 3)
		die("watch needs BEAT, STUCK_AFTER and EVERY");
	d.without = (struct without){given(argc, argv, "bare"), given(argc, argv, "no-doubt"),
	                             given(argc, argv, "no-look"), given(argc, argv, "no-brake")};
	struct watch *w = &d.watch;
	w->alive_at.text = "stamp";
	w->owner.text = "worker";
	w->beat_us = ms_of(argv[0]) * MS;
	w->stuck_after = (struct threshold){.given = true, .standard_us = ms_of(argv[1]) * MS};
	w->every_us = ms_of(argv[2]) * MS;
	double percent = 55;
	for (int i = 3; i < argc; i++)
		(void)!sscanf(argv[i], "share=%lf", &percent);
	w->guard = (struct guard_limits){.brake_share = percent / 100,
	                                 .brake_owners = 2,
	                                 .brake_ceiling_us = d.without.brake ? 0 : CEILING_US};
	run_daemon(t, &d);
}

/* ---- a worker that watches the others ---- */

struct watcher {
	struct life life;
	int64_t now_ms, call_ms, session;
	int lives[WORKERS_MOST];
	struct registered rows[WORKERS_MOST];
};

#define SELF ((int64_t)INT32_MAX)

/* The first call that begins at this moment or later; NULL: the trace is over. */
static const struct call *call_at(const struct calls *c, int64_t ms)
{
	int low = 0, high = c->n;
	while (low < high) {
		int at = low + (high - low) / 2;
		if (c->all[at].begin_ms < ms)
			low = at + 1;
		else
			high = at;
	}
	return low < c->n ? &c->all[low] : NULL;
}

/* When a process that wants to go on now does: not while it is stopped. */
static int64_t awake_ms(const struct trace *t, int64_t ms)
{
	for (int i = 0; i < t->nstopped; i++)
		if (ms >= t->stopped[i].begin_ms && ms < t->stopped[i].end_ms)
			return t->stopped[i].end_ms;
	return ms;
}

/* Which row is whose: a worker that was declared dead and writes again is a new one. */
static int list_of(struct watcher *v, struct trace *t, const struct call *c)
{
	int n = 0;
	int64_t lease_us = v->life.rules.lease.lease_ms * MS;
	for (int lives = 0, left = 1; left; lives++) {
		left = 0;
		for (int i = 0; i < t->workers; i++) {
			left += v->lives[i] > lives;
			if (v->lives[i] != lives || !in_table(t, i))
				continue;
			v->rows[n++] =
				(struct registered){.id = i + 1 + (int64_t)lives * ANEW,
			                        .lease_us = lease_us,
			                        .stamp_us = t->stamp_ms[i] * MS,
			                        .now_us = c->now_ms * MS,
			                        .expired = (c->now_ms - t->stamp_ms[i]) * MS > lease_us};
			snprintf(v->rows[n - 1].who.host, sizeof v->rows[n - 1].who.host, "far");
		}
	}
	return n;
}

static bool convict(struct watcher *v, struct trace *t, const struct life_action *a)
{
	int worker = (int)((a->worker - 1) % ANEW);
	if (!in_table(t, worker) || t->stamp_ms[worker] * MS != a->death.stamp_us)
		return false;
	declare(t, worker, v->now_ms);
	v->lives[worker]++;
	return true;
}

/* What comes of an action that needs the database; false: the trace is over. */
static bool answer(struct watcher *v, struct trace *t, const struct life_action *a,
                   struct life_event *e, bool *lost)
{
	bool writes = a->what == LIFE_RENEW || a->what == LIFE_REGISTER;
	const struct call *c = call_at(writes ? &t->writes : &t->reads, v->now_ms);
	if (!c)
		return false;
	bool late = c->end_ms - v->now_ms > v->call_ms;
	/* A session that is another one by now was lost before this call. */
	*lost = late || (!writes && c->ok && v->session && c->session != v->session) ||
	        (!c->ok && a->what != LIFE_OPEN);
	v->now_ms = awake_ms(t, late ? v->now_ms + v->call_ms : c->end_ms);
	if (!c->ok || (*lost && a->what != LIFE_OPEN)) {
		e->what = LIFE_FAILED;
		return true;
	}
	if (a->what == LIFE_LOOK || a->what == LIFE_OPEN) {
		v->session = c->session;
		take(t, (int)(c - t->reads.all));
		*lost = false;
	}
	if (a->what == LIFE_LOOK) {
		e->n = list_of(v, t, c);
		e->rows = v->rows;
	}
	return true;
}

static bool act(struct watcher *v, struct trace *t, const struct life_action *a)
{
	static const struct incarnation self = {.host = "here", .pid = 1};
	struct life_event e = {.what = LIFE_DONE};
	bool lost = false;
	switch (a->what) {
	case LIFE_WAIT:
		v->now_ms = awake_ms(t, v->now_ms + (a->wait_ms > 0 ? a->wait_ms : 1));
		e.what = LIFE_TIME;
		break;
	case LIFE_DECLARE:
		e.yes = convict(v, t, a);
		break;
	case LIFE_REGISTER:
		e.worker = SELF;
		e.who = &self;
		if (!answer(v, t, a, &e, &lost))
			return false;
		break;
	case LIFE_OPEN:
	case LIFE_RENEW:
	case LIFE_LOOK:
		if (!answer(v, t, a, &e, &lost))
			return false;
		break;
	case LIFE_LOCK:
		e.yes = true;
		break;
	default:
		break;
	}
	if (a->what == LIFE_OPEN && e.what == LIFE_DONE)
		life_tell(&v->life, &(struct life_event){.what = LIFE_OPENED}, v->now_ms);
	life_tell(&v->life, &e, v->now_ms);
	if (lost)
		life_tell(&v->life, &(struct life_event){.what = LIFE_ENDED}, v->now_ms);
	return true;
}

static void lease_main(struct trace *t, int argc, char **argv)
{
	static struct watcher v;
	if (argc < 1)
		die("lease needs LEASE");
	struct lease_rules lease = lease_rules_of(ms_of(argv[0]));
	life_init(&v.life, &(struct life_rules){.lease = lease,
	                                        .look_ms = lease.beat_ms,
	                                        .brake_ms = given(argc, argv, "no-brake") ? -1 : 0});
	v.call_ms = lease_call_ms(&lease);
	v.now_ms = t->reads.all[0].begin_ms + 1; /* 0 would be no time */
	life_tell(&v.life, &(struct life_event){.what = LIFE_OPENED}, v.now_ms);
	life_tell(&v.life, &(struct life_event){.what = LIFE_STARTED}, v.now_ms);
	for (;;) {
		struct life_action a = life_next(&v.life, v.now_ms);
		if (!act(&v, t, &a))
			break;
	}
	life_release(&v.life);
}

int main(int argc, char **argv)
{
	static struct trace t;
	if (argc < 2)
		die("watch or lease?");
	read_trace(&t);
	if (strcmp(argv[1], "watch") == 0)
		watch_main(&t, argc - 2, argv + 2);
	else if (strcmp(argv[1], "lease") == 0)
		lease_main(&t, argc - 2, argv + 2);
	else
		die("watch or lease?");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "http/thread_sessions.h"

#include "http/api_values.h"

#include <assert.h>

struct thread_sessions_watch {
	struct api_watch w;
	struct arena arena;
};

static void side_init(struct thread_sessions_side *s, const char *url, const char *name,
                      int64_t timeout_ms, bool read_only)
{
	*s = (struct thread_sessions_side){.session = {.open = store_open}};
	s->session.options = (struct store_options){.url = url,
	                                            .name = name,
	                                            .read_only = read_only,
	                                            .connect_ms = timeout_ms,
	                                            .statement_ms = timeout_ms,
	                                            .call_ms = timeout_ms + timeout_ms / 4,
	                                            .lock_ms = timeout_ms};
}

void thread_sessions_init(struct thread_sessions *s, struct live_settings_box *setups,
                          const char *url, const char *name, int64_t timeout_ms)
{
	*s = (struct thread_sessions){.setups = setups};
	side_init(&s->reads, url, name, timeout_ms, true);
	side_init(&s->writes, url, name, timeout_ms, false);
}

static void watch_free(struct thread_sessions_watch *w)
{
	arena_release(&w->arena);
	free(w);
}

static void side_forget(struct thread_sessions_side *s)
{
	for (int i = 0; i < s->nbound; i++)
		watch_free(s->bound[i]);
	s->nbound = 0;
}

static void thread_sessions_forget(struct thread_sessions *s)
{
	side_forget(&s->reads);
	side_forget(&s->writes);
	if (s->setup)
		live_settings_drop(s->setups, s->setup);
	s->setup = NULL;
}

void thread_sessions_rest(struct thread_sessions *s)
{
	thread_sessions_forget(s);
	session_close(&s->reads.session);
	session_close(&s->writes.session);
}

static struct thread_sessions_side *side_of(struct thread_sessions *s, const struct api_call *c)
{
	return c->route->write ? &s->writes : &s->reads;
}

defib_err thread_sessions_take(struct thread_sessions *s, struct api_call *c, struct failure *f)
{
	struct thread_sessions_side *side = side_of(s, c);
	if (s->setup && s->setup->number != c->setup->number)
		thread_sessions_forget(s);
	if (!s->setup)
		s->setup = live_settings_hold_same(s->setups, c->setup);
	defib_err err = session_ready(&side->session, f);
	if (side->opened != side->session.opened)
		side_forget(side);
	side->opened = side->session.opened;
	c->session = &side->session;
	c->sessions = s;
	return err;
}

/* A ledger that was created later is found here. */
static defib_err look_for_ledger(struct api_call *c, struct api_watch *w, struct failure *f)
{
	if (w->ledger.ready || c->setup->settings.ledger == LEDGER_OFF)
		return DEFIB_OK;
	return ledger_open(c->session->store, c->route->write, &w->ledger, f);
}

static defib_err bind_watch(struct api_call *c, struct thread_sessions_watch *own,
                            struct failure *f)
{
	struct store *store = c->session->store;
	bool builtin = !settings_watch(&c->setup->settings, c->watch->name);
	own->w.watch = builtin ? builtin_watch(store->engine, &own->arena) : c->watch;
	defib_err err = watch_bind(own->w.watch, store, &own->arena, &own->w.binding, f);
	if (!err)
		err = watch_compile(&own->w.binding, &own->arena, &own->w.sql, f);
	if (err == DEFIB_CONFIG && builtin) {
		err =
			fail(f, DEFIB_NOT_FOUND, "the built-in queue is not in database %s", c->database->name);
		fail_next(f, "defib init creates it");
	}
	return err;
}

static struct thread_sessions_watch *bound_watch(const struct thread_sessions_side *s,
                                                 const char *name)
{
	for (int i = 0; i < s->nbound; i++)
		if (text_eq(s->bound[i]->w.watch->name, name))
			return s->bound[i];
	return NULL;
}

bool api_bound(struct api_call *c, struct api_watch **out)
{
	assert(c->watch && c->sessions && c->session && c->session->store);
	struct thread_sessions_side *side = side_of(c->sessions, c);
	struct thread_sessions_watch *own = bound_watch(side, c->watch->name);
	struct failure f = {0};
	if (!own) {
		own = mem_alloc(sizeof *own);
		if (bind_watch(c, own, &f)) {
			watch_free(own);
			return api_failed(c, &f);
		}
		if (side->nbound == BOUND_WATCHES_MAX)
			side_forget(side);
		side->bound[side->nbound++] = own;
	}
	if (look_for_ledger(c, &own->w, &f))
		return api_failed(c, &f);
	*out = &own->w;
	return true;
}

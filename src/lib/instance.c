/* SPDX-License-Identifier: Apache-2.0
 * instance.c: the part of defib.h for a program whose own code works on its tables: it is
 * registered as an instance of their watches.
 */
#include "lib/lib.h"

#include "worker/instance.h"

#include <pthread.h>
#include <unistd.h>

struct defib_instance {
	struct instance *inner;
	struct arena arena;
	defib_watches *watches;
	struct instance_options options;
	pid_t pid; /* a forked child is no instance */
	struct defib_instance *next;
};

/* ---- the instances of this process ---- */

static pthread_mutex_t instances_lock = PTHREAD_MUTEX_INITIALIZER;
static struct defib_instance *instances; /* guarded by it */

static void lib_instance_enter(defib_instance *i)
{
	pthread_mutex_lock(&instances_lock);
	i->pid = getpid();
	i->next = instances;
	instances = i;
	pthread_mutex_unlock(&instances_lock);
}

static void lib_instance_leave(defib_instance *i)
{
	pthread_mutex_lock(&instances_lock);
	struct defib_instance **at = &instances;
	while (*at && *at != i)
		at = &(*at)->next;
	if (*at)
		*at = i->next;
	pthread_mutex_unlock(&instances_lock);
}

static bool works_on(const defib_instance *i, const char *url, const char *watch)
{
	bool works = false;
	for (int k = 1; k < i->options.nwatches; k++)
		works = works || text_eq(i->options.watches[k]->name, watch);
	return works && i->pid == getpid() && text_eq(i->options.store.url, url);
}

int64_t lib_instance_of(const char *url, const char *watch)
{
	int64_t worker = 0;
	pthread_mutex_lock(&instances_lock);
	for (defib_instance *i = instances; i && !worker; i = i->next)
		if (works_on(i, url, watch))
			worker = instance_worker(i->inner);
	pthread_mutex_unlock(&instances_lock);
	return worker;
}

/* ---- options ---- */

static int count_watches(defib_watches *watches)
{
	int n = 0;
	while (defib_watches_name(watches, n))
		n++;
	return n;
}

/* All of its watches are in one database. */
static defib_err lib_instance_add_watch(defib_instance *i, const char *name,
                                        struct instance_options *o, struct failure *f)
{
	struct lib_watch on;
	defib_err err = lib_watch(i->watches, name, false, &on, f);
	if (err)
		return err;
	if (o->store.url && !text_eq(o->store.url, on.session.options.url))
		return fail(f, DEFIB_USAGE, "an instance works in one database, and watch %s is in another",
		            on.watch->name);
	o->store =
		(struct store_options){.url = on.session.options.url, .name = on.session.options.name};
	o->watches[o->nwatches++] = on.watch;
	return DEFIB_OK;
}

/* The named watches, or all. */
static defib_err add_watches(defib_instance *i, const defib_instance_options *given,
                             struct instance_options *o, struct failure *f)
{
	enum store_engine engine;
	int all = count_watches(i->watches), n = given->nnames ? given->nnames : all;
	defib_err err = DEFIB_OK;
	o->watches = ARENA_ARRAY(&i->arena, const struct watch *, n + 1);
	o->nwatches = 1;
	/* Invalid options are reported by the first of them. */
	if (n == 0)
		err = lib_instance_add_watch(i, NULL, o, f);
	for (int k = 0; k < n && !err; k++)
		err = lib_instance_add_watch(
			i, given->nnames ? given->names[k] : defib_watches_name(i->watches, k), o, f);
	if (!err && !store_engine_of(o->store.url, &engine, f))
		err = DEFIB_CONFIG;
	if (!err)
		o->watches[0] = builtin_watch(engine, &i->arena);
	return err;
}

static defib_err lib_instance_read_options(defib_instance *i, const defib_instance_options *given,
                                           struct instance_options *o, struct failure *f)
{
	defib_instance_options read;
	defib_err err = lib_options(&read, sizeof read, given, "defib_instance_options", f);
	if (err)
		return err;
	if (!read.watches || read.nnames < 0 || (read.nnames && !read.names))
		return fail(f, DEFIB_USAGE,
		            "an instance needs watches, and the names of those it works on");
	if (read.lease_ms && (read.lease_ms < LEASE_LEAST_MS || read.lease_ms > LEASE_MOST_MS))
		return fail(f, DEFIB_USAGE, "a lease is from 600 ms to a day");
	i->watches = read.watches;
	*o = (struct instance_options){
		.name = read.name ? arena_strdup(&i->arena, read.name) : lib_default_name(&i->arena),
		.lease = lease_rules_of(read.lease_ms ? read.lease_ms : LEASE_USUAL_MS),
	};
	return add_watches(i, &read, o, f);
}

static void instance_free(defib_instance *i)
{
	arena_release(&i->arena);
	free(i);
}

defib_err defib_instance_start(const defib_instance_options *options, defib_instance **out,
                               defib_result *result, defib_message *message)
{
	struct failure f = {0};
	struct startup_result cleaned = {0};
	*out = NULL;
	if (lib_begin(&f))
		return lib_answer(f.code, &f, message);
	defib_instance *i = mem_alloc(sizeof *i);
	defib_err err = lib_instance_read_options(i, options, &i->options, &f);
	if (!err)
		err = instance_open(&i->options, &i->inner, &cleaned, &f);
	if (!err)
		err = lib_result(result, cleaned.found, cleaned.outcomes, "", &f);
	if (err) {
		instance_close(i->inner);
		instance_free(i);
		return lib_answer(err, &f, message);
	}
	lib_watches_use(i->watches, 1);
	lib_instance_enter(i);
	*out = i;
	return lib_answer(DEFIB_OK, &f, message);
}

void defib_instance_session(defib_instance *instance, int got)
{
	if (!lib_forked(instance->pid))
		instance_session(instance->inner, got != 0);
}

int64_t defib_instance_wait_ms(defib_instance *instance)
{
	return lib_forked(instance->pid) ? 0 : instance_wait_ms(instance->inner);
}

void defib_instance_stop(defib_instance *instance)
{
	if (!instance || lib_forked(instance->pid))
		return;
	lib_instance_leave(instance);
	instance_close(instance->inner);
	lib_watches_use(instance->watches, -1);
	instance_free(instance);
}

/* SPDX-License-Identifier: Apache-2.0
 * watches.c: a configuration in memory. Loading and setting change its tree; the tree is read and
 * checked as a whole by the next call that needs a watch.
 */
#include "lib/lib.h"

struct defib_watches {
	char *url; /* NULL: the configuration names its databases */
	struct arena tree_arena, settings_arena;
	struct cfg_node *root;
	struct settings settings;
	bool read;        /* the settings match the tree */
	atomic_int users; /* workers and others that refer to the settings */
};

defib_err defib_watches_new(const char *url, defib_watches **out, defib_message *message)
{
	struct failure f = {0};
	enum store_engine engine;
	*out = NULL;
	if (lib_begin(&f) || (url && !store_engine_of(url, &engine, &f)))
		return lib_answer(f.code, &f, message);
	defib_watches *w = mem_alloc(sizeof *w);
	w->url = url ? mem_strdup(url) : NULL;
	w->root = cfg_map(&w->tree_arena);
	*out = w;
	return lib_answer(DEFIB_OK, &f, message);
}

void defib_watches_free(defib_watches *watches)
{
	if (!watches)
		return;
	arena_release(&watches->settings_arena);
	arena_release(&watches->tree_arena);
	free(watches->url);
	free(watches);
}

void lib_watches_use(defib_watches *watches, int users)
{
	atomic_fetch_add(&watches->users, users);
}

static defib_err may_change(defib_watches *watches, struct failure *f)
{
	defib_err err = lib_begin(f);
	if (!err && atomic_load(&watches->users) > 0)
		err = fail(f, DEFIB_REFUSED, "a worker uses these watches: they cannot be changed now");
	return err;
}

/* ---- the tree ---- */

static void lib_watches_list_add(struct arena *a, struct cfg_node *list, struct cfg_node *item)
{
	struct cfg_node **items = ARENA_ARRAY(a, struct cfg_node *, list->n + 1);
	for (int i = 0; i < list->n; i++)
		items[i] = list->items[i];
	items[list->n++] = item;
	list->items = items;
}

static struct cfg_node *new_list(struct arena *a)
{
	struct cfg_node *list = cfg_map(a);
	list->kind = CFG_LIST;
	return list;
}

/* The handle's URL replaces the configuration's databases. */
static void put_database(defib_watches *ws)
{
	struct arena *a = &ws->tree_arena;
	struct cfg_node *list = new_list(a), *database = cfg_map(a);
	cfg_put(a, database, "url", cfg_scalar(a, ws->url));
	lib_watches_list_add(a, list, database);
	cfg_put(a, ws->root, "databases", list);
}

static defib_err first_problem(const struct cfg_reader *r, struct failure *f)
{
	AUTO_BUF place = BUF_INIT;
	int i = 0;
	while (i < r->nproblems && r->problems[i].warning)
		i++;
	if (i < r->nproblems && r->problems[i].at.file)
		cfg_mark_text(r->problems[i].at, &place);
	fail(f, DEFIB_CONFIG, "%s%s%s", buf_text(&place), place.len ? ": " : "",
	     i < r->nproblems ? r->problems[i].text : "too many problems");
	return DEFIB_CONFIG;
}

/*
 * Alerts, reports and HTTP belong to the program; a file that describes them can still be loaded.
 */
static const struct section *const no_sections[] = {NULL};

static defib_err read_tree(defib_watches *ws, struct failure *f)
{
	struct cfg_reader r;
	if (ws->read)
		return DEFIB_OK;
	if (ws->url && ws->root->kind == CFG_MAP)
		put_database(ws);
	arena_clear(&ws->settings_arena);
	ws->settings = (struct settings){0};
	cfg_reader_init(&r, &ws->settings_arena);
	settings_read(&r, ws->root, no_sections, &ws->settings);
	defib_err err = r.nerrors ? first_problem(&r, f) : DEFIB_OK;
	cfg_reader_release(&r);
	ws->read = !err;
	return err;
}

/* From a file, or from a text. */
static defib_err lib_watches_load(defib_watches *ws, const char *path, const char *text,
                                  defib_message *message)
{
	struct failure f = {0};
	struct cfg_node *root = NULL;
	defib_err err = may_change(ws, &f);
	if (err)
		return lib_answer(err, &f, message);
	err = path ? cfg_load(path, &ws->tree_arena, &root, &f)
	           : cfg_parse(text, "string", &ws->tree_arena, &root, &f);
	if (!err) {
		ws->root = root && root->kind != CFG_NULL ? root : cfg_map(&ws->tree_arena);
		ws->read = false;
		err = read_tree(ws, &f);
	} else if (err != DEFIB_MEMORY) {
		err = DEFIB_CONFIG;
	}
	return lib_answer(err, &f, message);
}

defib_err defib_watches_load_file(defib_watches *watches, const char *path, defib_message *message)
{
	return lib_watches_load(watches, path, NULL, message);
}

defib_err defib_watches_load_string(defib_watches *watches, const char *yaml,
                                    defib_message *message)
{
	return lib_watches_load(watches, NULL, yaml, message);
}

static struct cfg_node *named_watch(defib_watches *ws, const char *name)
{
	struct arena *a = &ws->tree_arena;
	struct cfg_node *list = cfg_get(ws->root, "watches");
	if (!list || list->kind != CFG_LIST)
		cfg_put(a, ws->root, "watches", list = new_list(a));
	for (int i = 0; i < list->n; i++) {
		struct cfg_node *is =
			list->items[i]->kind == CFG_MAP ? cfg_get(list->items[i], "name") : NULL;
		if (is && is->kind == CFG_SCALAR && text_eq(is->text, name))
			return list->items[i];
	}
	struct cfg_node *fresh = cfg_map(a);
	cfg_put(a, fresh, "name", cfg_scalar(a, arena_strdup(a, name)));
	lib_watches_list_add(a, list, fresh);
	return fresh;
}

defib_err defib_watches_set(defib_watches *watches, const char *watch, const char *key,
                            const char *value, defib_message *message)
{
	struct failure f = {0};
	struct arena *a = &watches->tree_arena;
	defib_err err = may_change(watches, &f);
	if (!err && (!watch || !key || !value))
		err = fail(&f, DEFIB_USAGE, "a watch, a key and a value are needed");
	if (err)
		return lib_answer(err, &f, message);
	struct cfg_node *node = NULL;
	if (*value == '[' || *value == '{')
		err = cfg_parse(arena_strdup(a, value), key, a, &node, &f);
	else
		node = cfg_scalar(a, arena_strdup(a, value));
	if (err && err != DEFIB_MEMORY)
		err = DEFIB_CONFIG;
	if (!err) {
		cfg_put(a, named_watch(watches, watch), arena_strdup(a, key), node);
		watches->read = false;
	}
	return lib_answer(err, &f, message);
}

const char *defib_watches_name(defib_watches *watches, int i)
{
	struct failure f = {0};
	if (read_tree(watches, &f) || i < 0 || i >= watches->settings.nwatches)
		return NULL;
	return watches->settings.watches[i].name;
}

/* ---- one of them ---- */

const struct watch *lib_watch_at(const defib_watches *watches, int i)
{
	return &watches->settings.watches[i];
}

static defib_err find_watch(defib_watches *ws, const char *name, const struct watch **out,
                            struct failure *f)
{
	const struct settings *s = &ws->settings;
	*out = NULL;
	if (!name && s->nwatches != 1)
		return fail(f, DEFIB_USAGE, "there are %d watches: name one of them", s->nwatches);
	*out = name ? settings_watch(s, name) : &s->watches[0];
	if (!*out && text_eq(name, BUILTIN_NAME) && s->ndatabases == 1)
		*out = builtin_watch(s->databases[0].engine, &ws->settings_arena);
	if (!*out)
		return fail(f, DEFIB_NOT_FOUND, "there is no watch \"%s\"", name);
	if (!(*out)->enabled)
		return fail(f, DEFIB_REFUSED, "watch %s is off: %s", (*out)->name, (*out)->off_because);
	return DEFIB_OK;
}

defib_err lib_watch(defib_watches *watches, const char *name, bool read_only, struct lib_watch *out,
                    struct failure *f)
{
	const struct settings *s = &watches->settings;
	*out = (struct lib_watch){0};
	defib_err err = lib_begin(f);
	if (!err)
		err = read_tree(watches, f);
	if (!err)
		err = find_watch(watches, name, &out->watch, f);
	if (err)
		return err;
	const struct database *d =
		settings_watch(s, out->watch->name) ? settings_database(s, out->watch) : s->databases;
	out->ledger_off = s->ledger == LEDGER_OFF;
	out->session = (struct session){
		.options = {.url = d->url,
	                .name = d->name,
	                .read_only = read_only,
	                .statement_ms = out->watch->statement_timeout_us / 1000},
		.open = store_open,
	};
	return DEFIB_OK;
}

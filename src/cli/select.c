/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/select.h"

#include "cli/load.h"
#include "ledger/counts.h"
#include "ledger/jobs.h"
#include "watch/schemas.h"

#include <assert.h>
#include <jansson.h>

/* Arguments, options and the watches they may refer to. */
struct choice {
	struct cli *cli;
	const struct select_rules *rules;
	const struct watch *only; /* --watch, or the only one; NULL: several */
	bool watch_given;         /* --watch */
	const struct watch *queue;
	struct selection *out;
	int *room; /* of each group's jobs */
};

/* ---- watches ---- */

static const struct watch *queue_watch(struct choice *x)
{
	const struct settings *s = &x->cli->settings;
	if (!x->queue && s->ndatabases > 0)
		x->queue = builtin_watch(s->databases[0].engine, &x->cli->arena);
	return x->queue;
}

/* A watch by its name, including the built-in queue. */
static const struct watch *watch_named(struct choice *x, const char *name)
{
	const struct watch *w = settings_watch(&x->cli->settings, name);
	return w || !text_eq(name, BUILTIN_NAME) ? w : queue_watch(x);
}

#define KNOWN_MAX 200 /* bytes of names; more are not helpful */

int cli_no_watch(struct cli *c, const char *name, const char *more)
{
	const char *const *names = settings_watch_names(&c->settings, more, &c->arena);
	struct hint hint = text_hint(name, names);
	AUTO_BUF known = BUF_INIT;
	for (int i = 0; names[i] && !hint.text[0]; i++)
		buf_addf(&known, "%s%s", i ? ", " : "; known: ", names[i]);
	return cli_usage("there is no watch \"%s\"%s%s", name, hint.text,
	                 known.len > KNOWN_MAX ? "; see defib config show" : buf_text(&known));
}

static int find_only(struct choice *x)
{
	const struct settings *s = &x->cli->settings;
	const char *name = cli_value(x->cli, "watch");
	x->watch_given = name != NULL;
	if (name)
		x->only = watch_named(x, name);
	else if (s->nwatches == 1)
		x->only = &s->watches[0];
	else if (s->nwatches == 0)
		x->only = queue_watch(x);
	return name && !x->only ? cli_no_watch(x->cli, name, BUILTIN_NAME) : EXIT_CLEAN;
}

/* ---- groups and sessions ---- */

static const struct database *select_database_of(const struct choice *x, const struct watch *w)
{
	const struct settings *s = &x->cli->settings;
	return w == x->queue ? &s->databases[0] : settings_database(s, w);
}

static struct session *select_session_of(struct choice *x, const struct watch *w)
{
	const struct database *d = select_database_of(x, w);
	struct session *session = &x->out->sessions[d - x->cli->settings.databases];
	int64_t ms = w->statement_timeout_us / 1000;
	if (!session->open)
		*session = cli_session(d, w, !x->rules->changes);
	/* All watches of a database share one session, so it has their longest time-out. */
	if (ms > session->options.statement_ms)
		session->options.statement_ms = ms;
	return session;
}

static struct selected *select_group_of(struct choice *x, const struct watch *w)
{
	struct selection *s = x->out;
	for (int i = 0; i < s->n; i++)
		if (s->groups[i].watch == w)
			return &s->groups[i];
	s->groups[s->n] = (struct selected){
		.watch = w, .database = select_database_of(x, w), .session = select_session_of(x, w)};
	return &s->groups[s->n++];
}

/* ---- names ---- */

/* ["key"] is key: a list writes keys this way that a line cannot hold. */
static const char *unwrapped(const char *text, struct arena *a)
{
	json_auto_t *list = text[0] == '[' ? json_loads(text, 0, NULL) : NULL;
	const char *only =
		json_array_size(list) == 1 ? json_string_value(json_array_get(list, 0)) : NULL;
	return only ? arena_strdup(a, only) : text;
}

static int select_add_job(struct choice *x, const struct watch *w, const char *text)
{
	struct arena *a = &x->cli->arena;
	const char *key[WATCH_KEYS_MAX];
	if (w->key.n == 1)
		text = unwrapped(text, a);
	if (!job_key(text, w->key.n, a, key))
		return cli_usage(
			"\"%s\" is not a key of watch %s, which has %d parts; write %s/[\"a\",\"b\"]", text,
			w->name, w->key.n, w->name);
	struct selected *g = select_group_of(x, w);
	int *room = &x->room[g - x->out->groups];
	g->named = true;
	if (g->njobs == *room) {
		const char **old = g->jobs;
		*room = *room ? 2 * *room : 64;
		g->jobs = ARENA_ARRAY(a, const char *, *room);
		for (int i = 0; i < g->njobs; i++)
			g->jobs[i] = old[i];
	}
	g->jobs[g->njobs++] = job_text(key, w->key.n, a);
	return EXIT_CLEAN;
}

/* The watch whose name comes before a "/" (the longest match), and where the key begins. */
static const struct watch *qualified(struct choice *x, const char *word, const char **key)
{
	const struct watch *found = NULL;
	for (const char *slash = strchr(word, '/'); slash; slash = strchr(slash + 1, '/')) {
		const char *name = arena_strndup(&x->cli->arena, word, (size_t)(slash - word));
		const struct watch *w = watch_named(x, name);
		if (w && (!x->watch_given || w == x->only)) {
			found = w;
			*key = slash + 1;
		}
	}
	return found;
}

static int take_name(struct choice *x, const char *word)
{
	const char *key = word;
	const struct watch *w = qualified(x, word, &key);
	const char *slash = strchr(word, '/');
	if (w || x->only)
		return select_add_job(x, w ? w : x->only, w ? key : word);
	if (slash)
		return cli_no_watch(x->cli, arena_strndup(&x->cli->arena, word, (size_t)(slash - word)),
		                    BUILTIN_NAME);
	return cli_usage("job \"%s\" of which watch? write WATCH/%s, or give --watch NAME", word, word);
}

static int take_stdin(struct choice *x)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t len;
	int code = EXIT_CLEAN;
	while (code == EXIT_CLEAN && (len = getline(&line, &size, stdin)) >= 0) {
		const char *start = line + strspn(line, " \t");
		while (len > 0 && strchr(" \t\r\n", line[len - 1]))
			line[--len] = '\0';
		if (*start)
			code = take_name(x, arena_strdup(&x->cli->arena, start));
	}
	free(line);
	return code;
}

/* A job that was named twice is one job. */
static void drop_doubles(struct choice *x, struct selected *g)
{
	struct job_index index;
	int kept = 0;
	const char **all = g->jobs;
	job_index_init(&index, all, g->njobs, &x->cli->arena);
	g->jobs = ARENA_ARRAY(&x->cli->arena, const char *, g->njobs);
	for (int i = 0; i < g->njobs; i++)
		if (job_index_find(&index, all[i]) == i)
			g->jobs[kept++] = all[i];
	g->njobs = kept;
}

static int select_take_words(struct choice *x)
{
	const struct cli *c = x->cli;
	int code = EXIT_CLEAN;
	for (int i = 0; i < c->nwords && code == EXIT_CLEAN; i++)
		code = text_eq(c->words[i], "-") ? take_stdin(x) : take_name(x, c->words[i]);
	for (int i = 0; i < x->out->n; i++)
		drop_doubles(x, &x->out->groups[i]);
	return code;
}

/* ---- terms ---- */

static int count_terms(const struct cli *c)
{
	int n = 0;
	for (int i = 0; i < c->ngiven; i++)
		n += text_eq(c->given[i].name, "where");
	return n;
}

/* All terms for one watch; *unknown if it does not know one of them. */
static defib_err parse_terms(struct cli *c, struct selected *g, bool *unknown, struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; i < c->ngiven && !err; i++) {
		if (!text_eq(c->given[i].name, "where"))
			continue;
		if (g->nterms == TERMS_MAX)
			return fail(f, DEFIB_USAGE, "at most %d terms with --where", TERMS_MAX);
		err = term_parse(g->watch, c->given[i].value, &c->arena, &g->terms[g->nterms], unknown, f);
		if (err)
			fail_prefix(f, "--where");
		g->nterms++;
	}
	return err;
}

/* A watch that does not know a term has no such jobs, if another one knows it. */
static int take_terms(struct choice *x)
{
	struct selection *s = x->out;
	struct failure first = {0};
	int kept = 0, all = s->n;
	for (int i = 0; i < all; i++) {
		struct failure f = {0};
		bool unknown = false;
		defib_err err = parse_terms(x->cli, &s->groups[i], &unknown, &f);
		if (err && !unknown)
			return cli_fail(&f);
		if (err && !first.code)
			first = f;
		if (!err)
			s->groups[kept++] = s->groups[i];
	}
	s->n = kept;
	return kept == 0 && first.code ? cli_fail(&first) : EXIT_CLEAN;
}

/* ---- the whole ---- */

static void take_watches(struct choice *x)
{
	const struct settings *s = &x->cli->settings;
	assert(s->nwatches == 0 || s->watches != NULL);
	if (x->only) {
		select_group_of(x, x->only);
		if (!x->only->enabled && !cli_value(x->cli, "watch"))
			cli_say_off(x->cli, x->only);
		return;
	}
	for (int i = 0; i < s->nwatches; i++)
		if (s->watches[i].enabled)
			select_group_of(x, &s->watches[i]);
		else
			cli_say_off(x->cli, &s->watches[i]);
}

static int select_choose(struct choice *x)
{
	struct cli *c = x->cli;
	int code = find_only(x);
	if (code != EXIT_CLEAN)
		return code;
	if (c->nwords > 0)
		code = select_take_words(x);
	else if (x->rules->changes && count_terms(c) == 0 && !cli_flag(c, "all"))
		return cli_usage("name the jobs, select them with --where, or give --all");
	else
		take_watches(x);
	return code == EXIT_CLEAN ? take_terms(x) : code;
}

/* The configuration, and room for its watches and databases. */
static int select_begin(struct choice *x)
{
	struct cli *c = x->cli;
	struct selection *out = x->out;
	*out = (struct selection){.limit = x->rules->limit};
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->settings.ndatabases == 0)
		return cli_usage("no database: add one to the configuration, or give --db URL");
	/* Each watch, and the built-in queue of each database. */
	out->groups =
		ARENA_ARRAY(&c->arena, struct selected, c->settings.nwatches + c->settings.ndatabases + 1);
	x->room = ARENA_ARRAY(&c->arena, int, c->settings.nwatches + 1);
	out->nsessions = c->settings.ndatabases;
	out->sessions = ARENA_ARRAY(&c->arena, struct session, out->nsessions);
	return EXIT_CLEAN;
}

int select_read(struct cli *c, const struct select_rules *rules, struct selection *out)
{
	struct choice x = {.cli = c, .rules = rules, .out = out};
	int code = select_begin(&x);
	if (code == EXIT_CLEAN && !cli_int_within(c, "limit", 0, INT32_MAX, &out->limit))
		code = EXIT_USAGE;
	if (code == EXIT_CLEAN)
		code = select_choose(&x);
	for (int i = 0; code == EXIT_CLEAN && i < out->n; i++)
		out->total += out->groups[i].njobs;
	return code;
}

int select_watches(struct cli *c, struct selection *out)
{
	struct choice x = {.cli = c, .rules = &(struct select_rules){0}, .out = out};
	int code = select_begin(&x);
	if (code == EXIT_CLEAN && c->nwords == 0) {
		code = find_only(&x);
		take_watches(&x);
	}
	for (int i = 0; code == EXIT_CLEAN && i < c->nwords; i++) {
		const struct watch *w = watch_named(&x, c->words[i]);
		if (!w)
			return cli_no_watch(c, c->words[i], BUILTIN_NAME);
		select_group_of(&x, w);
	}
	return code;
}

bool select_takes_queues(const struct cli *c)
{
	bool chosen = c->nwords > 0 || cli_value(c, "watch") != NULL;
	return !chosen && c->settings.nwatches > 0 && !settings_watch(&c->settings, BUILTIN_NAME);
}

void select_queues_too(struct cli *c, struct selection *s)
{
	const struct settings *all = &c->settings;
	for (int i = 0; i < all->ndatabases && select_takes_queues(c); i++) {
		const struct database *d = &all->databases[i];
		struct session *session = &s->sessions[i];
		struct failure ignored = {0}; /* reported when a watch of it is used */
		bool used = false;
		if (!session->open)
			*session = cli_session(d, NULL, true);
		if (session_ready(session, &ignored) || queue_in_use(session->store, &used, &ignored))
			continue;
		if (used)
			s->groups[s->n++] = (struct selected){
				.watch = builtin_watch(d->engine, &c->arena), .database = d, .session = session};
	}
}

defib_err selected_bind(struct cli *c, const struct selected *g, struct selected_sql *out,
                        struct failure *f)
{
	*out = (struct selected_sql){0};
	defib_err err = session_ready(g->session, f);
	if (err)
		return err;
	out->store = g->session->store;
	err = watch_bind(g->watch, out->store, &c->arena, &out->binding, f);
	if (err == DEFIB_CONFIG && !settings_watch(&c->settings, g->watch->name)) {
		fail(f, DEFIB_CONFIG, "%s: the built-in queue has no tables here", out->store->name);
		fail_next(f, "create them with defib init, or name a watch");
	}
	if (!err)
		err = watch_compile(&out->binding, &c->arena, &out->sql, f);
	if (!err && c->settings.ledger != LEDGER_OFF)
		err = ledger_open(out->store, false, &out->ledger, f);
	return err;
}

/* The jobs of one group that match its terms, at most `room`. */
static defib_err select_find_jobs(struct cli *c, struct selected *g, int64_t room, bool *more,
                                  struct failure *f)
{
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	struct browsed *found = NULL;
	int n = 0;
	defib_err err = selected_bind(c, g, b, f);
	if (err)
		return err;
	struct browse ask = {.terms = g->terms,
	                     .nterms = g->nterms,
	                     .jobs = g->named ? g->jobs : NULL,
	                     .njobs = g->njobs,
	                     .sort = browse_sort(g->terms, g->nterms),
	                     .limit = room};
	err = browse_jobs(&(struct look){b->store, &b->sql, &b->ledger, &c->arena}, &ask, &found, &n,
	                  more, f);
	g->jobs = ARENA_ARRAY(&c->arena, const char *, n);
	g->njobs = n;
	for (int i = 0; i < n; i++)
		g->jobs[i] = found[i].job;
	return err;
}

int select_jobs(struct cli *c, const struct select_rules *rules, struct selection *out)
{
	int code = select_read(c, rules, out);
	int kept = 0;
	out->total = 0;
	for (int i = 0; code == EXIT_CLEAN && i < out->n; i++) {
		struct selected *g = &out->groups[i];
		struct failure f = {0};
		int64_t room = out->limit ? out->limit - out->total : 0;
		bool more = false;
		if (out->limit && room == 0) {
			out->limited = true;
			break;
		}
		if (g->named && g->nterms == 0) {
			more = room && g->njobs > room;
			g->njobs = more ? (int)room : g->njobs;
		} else if (select_find_jobs(c, g, room, &more, &f)) {
			code = cli_key_fail(c, g->watch, &f);
		}
		out->limited = out->limited || more;
		out->total += g->njobs;
		if (g->njobs > 0)
			out->groups[kept++] = *g;
	}
	out->n = kept;
	if (code != EXIT_CLEAN)
		selection_release(out);
	return code;
}

void selection_release(struct selection *s)
{
	for (int i = 0; i < s->nsessions; i++)
		session_close(&s->sessions[i]);
	s->nsessions = 0;
}

static const struct watch *select_named_watch(struct cli *c, const char *name)
{
	const struct settings *s = &c->settings;
	const struct watch *w = name ? settings_watch(s, name) : NULL;
	if (!w && !name && s->nwatches == 1)
		return &s->watches[0];
	if (w)
		return w;
	if (name)
		cli_no_watch(c, name, NULL);
	else
		cli_usage("name one of the %d watches", s->nwatches);
	return NULL;
}

/* The named watch, its database and an open session for it. */
static int select_open_named(struct cli *c, const char *name, struct picked *out)
{
	struct failure f = {0};
	*out = (struct picked){0};
	out->watch = select_named_watch(c, name);
	if (!out->watch)
		return EXIT_USAGE;
	out->database = settings_database(&c->settings, out->watch);
	struct store_options o = cli_store_options(out->database, out->watch, true);
	return store_open(&o, &out->store, &f) ? cli_fail(&f) : EXIT_CLEAN;
}

int pick_watch(struct cli *c, const char *name, struct picked *out)
{
	struct failure f = {0};
	int code = select_open_named(c, name, out);
	if (code != EXIT_CLEAN)
		return code;
	defib_err err = watch_bind(out->watch, out->store, &c->arena, &out->binding, &f);
	if (!err)
		err = watch_compile(&out->binding, &c->arena, &out->sql, &f);
	if (err) {
		store_close(out->store);
		out->store = NULL;
		return cli_fail(&f);
	}
	return EXIT_CLEAN;
}

static int load_one(struct cli *c)
{
	int code = cli_load(c);
	if (code == EXIT_CLEAN && c->nwords > 1)
		code = cli_usage("defib %s takes one watch", c->called);
	return code;
}

int pick_named(struct cli *c, struct picked *out)
{
	int code = load_one(c);
	return code == EXIT_CLEAN ? pick_watch(c, c->nwords ? c->words[0] : NULL, out) : code;
}

int pick_unread(struct cli *c, struct picked *out)
{
	struct failure f = {0};
	int code = load_one(c);
	if (code == EXIT_CLEAN)
		code = select_open_named(c, c->nwords ? c->words[0] : NULL, out);
	if (code != EXIT_CLEAN)
		return code;
	out->binding.engine = out->store->engine;
	if (watch_home(out->store, out->watch, &c->arena, &out->binding.watch, &f)) {
		store_close(out->store);
		return cli_fail(&f);
	}
	return EXIT_CLEAN;
}

int pick_former(struct cli *c, const struct watch **w, const struct database **d)
{
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->nwords != 1)
		return cli_usage("defib %s takes one watch", c->called);
	*w = settings_watch(&c->settings, c->words[0]);
	if (!*w && c->settings.ndatabases != 1)
		return cli_usage("there is no watch \"%s\"; name its database with --db", c->words[0]);
	*d = *w ? settings_database(&c->settings, *w) : &c->settings.databases[0];
	if (!*w) {
		struct watch *gone = ARENA_NEW(&c->arena, struct watch);
		gone->name = c->words[0];
		*w = gone;
	}
	return EXIT_CLEAN;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/settings.h"

#include "base/address.h"
#include "base/clock.h"
#include "base/hash.h"
#include "daemon/metrics_docs.h"

#include <assert.h>

struct live_settings *live_settings_new(void)
{
	struct live_settings *s = mem_alloc(sizeof *s);
	s->uses = 1;
	return s;
}

void live_settings_box_init(struct live_settings_box *b, struct live_settings *first)
{
	pthread_mutex_init(&b->lock, NULL);
	first->number = 1;
	b->now = first;
}

void live_settings_free(struct live_settings *s)
{
	arena_release(&s->arena);
	arena_release(&s->shown);
	free(s);
}

static void drop_locked(struct live_settings *s)
{
	assert(s->uses > 0);
	if (--s->uses == 0)
		live_settings_free(s);
}

void live_settings_box_put(struct live_settings_box *b, struct live_settings *next)
{
	pthread_mutex_lock(&b->lock);
	next->number = b->now->number + 1;
	drop_locked(b->now);
	b->now = next;
	pthread_mutex_unlock(&b->lock);
}

void live_settings_box_release(struct live_settings_box *b)
{
	drop_locked(b->now);
	b->now = NULL;
	pthread_mutex_destroy(&b->lock);
}

struct live_settings *live_settings_hold(struct live_settings_box *b)
{
	pthread_mutex_lock(&b->lock);
	struct live_settings *s = b->now;
	s->uses++;
	pthread_mutex_unlock(&b->lock);
	return s;
}

struct live_settings *live_settings_hold_same(struct live_settings_box *b, struct live_settings *s)
{
	pthread_mutex_lock(&b->lock);
	assert(s->uses > 0);
	s->uses++;
	pthread_mutex_unlock(&b->lock);
	return s;
}

bool live_settings_in_force(struct live_settings_box *b, const struct live_settings *s)
{
	pthread_mutex_lock(&b->lock);
	bool is = b->now == s;
	pthread_mutex_unlock(&b->lock);
	return is;
}

void live_settings_drop(struct live_settings_box *b, struct live_settings *s)
{
	pthread_mutex_lock(&b->lock);
	drop_locked(s);
	pthread_mutex_unlock(&b->lock);
}

/* ---- what a change means for workers ---- */

/* The end of a text counts, so that "ab","c" differs from "a","bc". */
static void mix(uint64_t *hash, const char *text)
{
	*hash = fnv1a(*hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* The text after a prefix; NULL: the text does not start with it. */
static const char *text_after_prefix(const char *text, const char *prefix)
{
	return text_starts(text, prefix) ? text + strlen(prefix) : NULL;
}

/* Options that a running worker applies on HUP, or that only the scans of a daemon use. */
static bool is_light(const char *key)
{
	static const char *const light[] = {
		"work.concurrency", "work.poll", "work.pools.concurrency", "every", "label", "group"};
	for (size_t i = 0; i < sizeof light / sizeof *light; i++)
		if (text_eq(key, light[i]))
			return true;
	return text_starts(key, "guard.") || text_starts(key, "raise") || text_starts(key, "stats.");
}

/* In full: what is shown of them has no values. */
static void mix_passed(uint64_t *hash, const struct text_list *entries)
{
	for (int i = 0; i < entries->n; i++)
		mix(hash, entries->items[i]);
}

static uint64_t shape_of(const struct cfg_reader *r, const char *prefix, const char *url)
{
	uint64_t hash = FNV_START;
	mix(&hash, url); /* in full: what is shown has no password */
	for (int i = 0; i < r->nshown; i++) {
		const char *key = prefix ? text_after_prefix(r->shown[i].path, prefix) : NULL;
		bool counts =
			key ? !is_light(key) : text_after_prefix(r->shown[i].path, "workflows.") != NULL;
		if (!counts)
			continue;
		mix(&hash, r->shown[i].path);
		mix(&hash, r->shown[i].value);
	}
	return hash;
}

void live_settings_shapes(struct live_settings *s, const struct cfg_reader *r)
{
	const struct settings *all = &s->settings;
	s->shapes = ARENA_ARRAY(&s->arena, uint64_t, all->nwatches + 1);
	for (int i = 0; i < all->nwatches; i++) {
		const struct watch *w = &all->watches[i];
		const char *prefix = arena_printf(&s->arena, "watches.%s.", w->name);
		s->shapes[i] = shape_of(r, prefix, settings_database(all, w)->url);
		mix_passed(&s->shapes[i], &w->work.pass_environment);
	}
	uint64_t *queue = &s->shapes[all->nwatches];
	*queue = shape_of(r, NULL, all->databases[0].url);
	for (int i = 0; i < all->workflows.n; i++)
		mix_passed(queue, &all->workflows.items[i].pass_environment);
}

/*
 * ---- the sections http:, metrics: and environment: ----
 * Their option tables, and the checks beyond them: an address that others can reach needs tokens,
 * and the secret of a token has exactly one source.
 */

#define T(member) offsetof(struct service_token, member)
static const struct opt_row token_rows[] = {
	OPTION(TEXT, "name", T(name), "its owner; the ledger records web:NAME", .required = true),
	OPTION(CHOICE, "role", T(role),
           "a viewer reads, an operator also acts on jobs, an admin also controls the daemon",
           .choices = role_names + ROLE_VIEWER, .standard = "viewer"),
	OPTION(TEXT, "file", T(file), "the file whose first line is the secret"),
	OPTION(TEXT, "env", T(env), "or the environment variable that holds it"),
	{.name = NULL},
};
#undef T

struct token_list {
	int n;
	struct service_token *items;
};
_Static_assert(offsetof(struct service, tokens) - offsetof(struct service, ntokens) ==
                   offsetof(struct token_list, items),
               "ntokens and tokens are read as a struct token_list");

static void check_token(struct cfg_reader *r, const struct token_list *before,
                        const struct service_token *t)
{
	const char *name = t->name ? t->name : "?";
	if (t->name && !*t->name)
		cfg_problem(r, t->at, "a token needs a name: the ledger records it");
	if (!t->file == !t->env)
		cfg_problem(r, t->at, "token \"%s\": give its secret as file: or as env:, %s", name,
		            t->file ? "not both" : "and neither is given");
	for (int i = 0; t->name && i < before->n; i++)
		if (text_eq(before->items[i].name, t->name))
			cfg_problem(r, t->at, "two tokens are named \"%s\"", t->name);
}

static void read_tokens(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct token_list *list = target;
	*list = (struct token_list){0};
	if (!node)
		return;
	if (node->kind != CFG_LIST) {
		cfg_problem(r, node->at,
		            "expects a list of tokens such as {name: anna, role: operator, "
		            "file: /etc/defib/anna.token}");
		return;
	}
	list->items = ARENA_ARRAY(r->arena, struct service_token, node->n);
	for (int i = 0; i < node->n; i++) {
		struct service_token *t = &list->items[list->n];
		const struct cfg_node *name = cfg_get(node->items[i], "name");
		size_t mark = cfg_enter(r, name && name->kind == CFG_SCALAR ? name->text : "?");
		t->at = node->items[i]->at;
		cfg_read(r, token_rows, node->items[i], t);
		t->role += ROLE_VIEWER; /* the choices start there */
		check_token(r, list, t);
		cfg_leave(r, mark);
		list->n++;
	}
}

#define L(member) offsetof(struct service_tls, member)
static const struct opt_row tls_rows[] = {
	OPTION(TEXT, "certificate", L(certificate), "file with the certificate and its chain, PEM"),
	OPTION(TEXT, "key", L(key), "file with its private key, PEM"),
	{.name = NULL},
};
#undef L

#define S(member) offsetof(struct service, member)
static const struct opt_row service_rows[] = {
	OPTION(TEXT, "listen", S(listen),
           "ADDR:PORT or [ADDR]:PORT; without it there is no HTTP. Without tokens only loopback"),
	OPTION(CUSTOM, "tokens", S(ntokens),
           "tokens of clients: a list of these. Without any, every client on this host is admin",
           .read = read_tokens, .rows = token_rows),
	OPTION(MAP, "tls", S(tls), "certificate and key; without them plain HTTP", .rows = tls_rows),
	OPTION(INT, "max_connections", S(max_connections),
           "connections at a time; when all are in use, the slowest are closed", .standard = "1100",
           .min = 4, .max = 100000),
	OPTION(INT, "max_body", S(max_body), "the largest request body in bytes", .standard = "1048576",
           .min = 1024, .max = 64 << 20),
	OPTION(DURATION, "request_timeout", S(request_timeout_us),
           "the time limit for receiving a request, and for an idle connection", .standard = "10s"),
	OPTION(DURATION, "database_timeout", S(database_timeout_us),
           "how long a request may wait for a database, and the time limit of its statements",
           .standard = "2s"),
	OPTION(TEXT_LIST, "hosts", S(hosts),
           "host names that requests may use for this server besides its address and localhost"),
	OPTION(TEXT_LIST, "mask", S(mask),
           "columns and payload members of which viewers see only the last six characters"),
	OPTION(TEXT, "spool", S(spool),
           "directory for jobs that arrive while their database is unavailable; each is answered "
           "202. If not given, they are answered 503"),
	{.name = NULL},
};
#undef S

static const char *const *metric_names(struct arena *a)
{
	const char **names = ARENA_ARRAY(a, const char *, METRIC_COUNT + 1);
	for (int id = 0; id < METRIC_COUNT; id++)
		names[id] = metric_about((enum metric)id)->name;
	return names;
}

static void read_alias(struct cfg_reader *r, const char *key, const struct cfg_node *node,
                       struct metric_aliases *list)
{
	struct metric_alias *one = &list->items[list->n];
	int id = metric_named(key);
	if (id < 0) {
		cfg_problem(r, node->at, "there is no metric \"%s\"%s", key,
		            text_hint(key, metric_names(r->arena)).text);
		return;
	}
	one->id = (enum metric)id;
	if (!cfg_text(r, node, &one->name))
		return;
	const char *problem = metric_alias_problem(list, one->id, one->name);
	if (problem) {
		cfg_problem(r, node->at, "the name \"%s\" for %s %s", one->name, key, problem);
		return;
	}
	cfg_show(r, key, node->at, one->name);
	list->n++;
}

static void read_aliases(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct metric_aliases *list = target;
	*list = (struct metric_aliases){0};
	if (!node)
		return;
	if (node->kind != CFG_MAP || node->n > METRIC_ALIASES_MAX) {
		cfg_problem(r, node->at,
		            "expects a map of at most %d names such as {defib_recovered_total: "
		            "app_zombies_recovered_total}",
		            METRIC_ALIASES_MAX);
		return;
	}
	list->items = ARENA_ARRAY(r->arena, struct metric_alias, node->n + 1);
	for (int i = 0; i < node->n; i++)
		read_alias(r, node->keys[i], node->items[i], list);
}

static const struct opt_row metrics_rows[] = {
	OPTION(CUSTOM, "aliases", offsetof(struct metrics_settings, aliases),
           "additional names, for existing dashboards: a map from defib's name to the other name",
           .read = read_aliases),
	{.name = NULL},
};

#define E(member) offsetof(struct environment, member)
static const struct opt_row environment_rows[] = {
	OPTION(TEXT, "name", E(name), "such as production or staging"),
	OPTION(TEXT, "color", E(color), "the color that marks it: a name or #rrggbb"),
	{.name = NULL},
};
#undef E

static void check_service(struct cfg_reader *r, const struct service *s)
{
	struct address a;
	if (s->listen && !address_parse(s->listen, &a))
		cfg_problem(r, s->at,
		            "listen: \"%s\" is not an address; write 127.0.0.1:8080 or [::1]:8080",
		            s->listen);
	else if (s->listen && !a.loopback && s->ntokens == 0)
		cfg_problem(r, s->at,
		            "listen: %s is reachable from other hosts, and there is no token; add tokens:, "
		            "or listen on 127.0.0.1",
		            s->listen);
	if (!s->tls.certificate != !s->tls.key)
		cfg_problem(r, s->at, "tls needs certificate and key; %s is missing",
		            s->tls.key ? "certificate" : "key");
	if (s->request_timeout_us < US_PER_S)
		cfg_problem(r, s->at, "request_timeout is at least 1s");
	if (s->database_timeout_us < US_PER_S / 20)
		cfg_problem(r, s->at, "database_timeout is at least 50ms");
}

static void read_service(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct service *s = target;
	*s = (struct service){0};
	if (node && node->kind != CFG_MAP) {
		cfg_problem(r, node->at, "expects a map such as {listen: \"127.0.0.1:8080\"}");
		return;
	}
	cfg_read(r, service_rows, node, s);
	if (node) {
		s->at = node->at;
		check_service(r, s);
	}
}

/* Each watch knows what viewers of it do not see. */
static void tell_watches(struct cfg_reader *r, const struct settings *s)
{
	(void)r;
	for (int i = 0; i < s->nwatches; i++)
		s->watches[i].viewer_mask = settings_http(s)->mask;
}

const struct section http_section = {
	.id = SECTION_HTTP,
	.row = OPTION(CUSTOM, "http", 0, "how the daemon serves over HTTP; a map",
                  .size = sizeof(struct service), .read = read_service),
	.title = "HTTP",
	.rows = service_rows,
	.check = tell_watches,
};

const struct section environment_section = {
	.id = SECTION_ENVIRONMENT,
	.row = OPTION(MAP, "environment", 0, "the name of this installation, shown to people",
                  .size = sizeof(struct environment), .rows = environment_rows),
};

const struct section metrics_section = {
	.id = SECTION_METRICS,
	.row = OPTION(MAP, "metrics", 0, "names of the daemon's metrics",
                  .size = sizeof(struct metrics_settings), .rows = metrics_rows),
};

const char *message_source(const struct settings *s)
{
	const char *name = settings_environment(s)->name;
	return name ? name : "defib";
}

struct stored_jobs http_spool_queue(const struct settings *s, const struct database *d,
                                    struct arena *a)
{
	const struct service *http = settings_http(s);
	struct stored_jobs q = {
		.url = d->url, .wait_ms = http->database_timeout_us / 1000, .base = http->spool};
	if (http->spool)
		q.folder = arena_printf(a, "%s/%s/" STORED_JOBS_FOLDER, http->spool, d->name);
	return q;
}

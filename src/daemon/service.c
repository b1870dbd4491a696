/* SPDX-License-Identifier: Apache-2.0
 * service.c: the option tables of `http:` and `environment:`, and what they
 * must fulfil beyond them: an address that others can reach needs tokens, and a token
 * has one place that its secret is read from.
 */
#include "daemon/service.h"

#include "base/address.h"
#include "base/clock.h"
#include "base/text.h"

#define T(member) offsetof(struct service_token, member)
static const struct opt_row token_rows[] = {
	{.name = "name",
     .type = OPT_TEXT,
     .offset = T(name),
     .required = true,
     .help = "its owner; the ledger records web:NAME"},
	{.name = "role",
     .type = OPT_CHOICE,
     .offset = T(role),
     .choices = role_names + ROLE_VIEWER,
     .standard = "viewer",
     .help = "a viewer reads, an operator also acts on jobs, an admin also controls the daemon"},
	{.name = "file",
     .type = OPT_TEXT,
     .offset = T(file),
     .help = "the file whose first line is the secret"},
	{.name = "env",
     .type = OPT_TEXT,
     .offset = T(env),
     .help = "or the environment variable that holds it"},
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
		t->role += ROLE_VIEWER; /* the choices begin there */
		check_token(r, list, t);
		cfg_leave(r, mark);
		list->n++;
	}
}

#define L(member) offsetof(struct service_tls, member)
static const struct opt_row tls_rows[] = {
	{.name = "certificate",
     .type = OPT_TEXT,
     .offset = L(certificate),
     .help = "file with the certificate and its chain, PEM"},
	{.name = "key", .type = OPT_TEXT, .offset = L(key), .help = "file with its private key, PEM"},
	{.name = NULL},
};
#undef L

#define S(member) offsetof(struct service, member)
static const struct opt_row service_rows[] = {
	{.name = "listen",
     .type = OPT_TEXT,
     .offset = S(listen),
     .help = "ADDR:PORT or [ADDR]:PORT; not given: no HTTP. Without tokens only loopback"},
	{.name = "tokens",
     .type = OPT_CUSTOM,
     .offset = S(ntokens),
     .read = read_tokens,
     .rows = token_rows,
     .help = "who may ask: a list of these. Without any, everybody on this host is admin"},
	{.name = "tls",
     .type = OPT_MAP,
     .offset = S(tls),
     .rows = tls_rows,
     .help = "certificate and key; without them plain HTTP"},
	{.name = "max_connections",
     .type = OPT_INT,
     .offset = S(max_connections),
     .standard = "1100",
     .min = 4,
     .max = 100000,
     .help = "connections at a time; when all are in use, the slowest are closed"},
	{.name = "max_body",
     .type = OPT_INT,
     .offset = S(max_body),
     .standard = "1048576",
     .min = 1024,
     .max = 64 << 20,
     .help = "the largest request body in bytes"},
	{.name = "request_timeout",
     .type = OPT_DURATION,
     .offset = S(request_timeout_us),
     .standard = "10s",
     .help = "the time limit for receiving a request, and for an idle connection"},
	{.name = "database_timeout",
     .type = OPT_DURATION,
     .offset = S(database_timeout_us),
     .standard = "2s",
     .help = "how long a request may wait for a database, and the time limit of its statements"},
	{.name = "hosts",
     .type = OPT_TEXT_LIST,
     .offset = S(hosts),
     .help = "host names that requests may use for this server besides its address and localhost"},
	{.name = "mask",
     .type = OPT_TEXT_LIST,
     .offset = S(mask),
     .help = "columns and payload members of which viewers see only the last six characters"},
	{.name = "spool",
     .type = OPT_TEXT,
     .offset = S(spool),
     .help = "directory for jobs that arrive while their database is away; each is answered 202. "
             "If not given, they are answered 503"},
	{.name = NULL},
};
#undef S

#define E(member) offsetof(struct environment, member)
static const struct opt_row environment_rows[] = {
	{.name = "name", .type = OPT_TEXT, .offset = E(name), .help = "such as production or staging"},
	{.name = "color",
     .type = OPT_TEXT,
     .offset = E(color),
     .help = "the color that marks it: a name or #rrggbb"},
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

const struct section http_section = {
	.id = SECTION_HTTP,
	.row = {.name = "http",
            .type = OPT_CUSTOM,
            .size = sizeof(struct service),
            .read = read_service,
            .help = "how the daemon serves over HTTP; a map"},
	.title = "HTTP",
	.rows = service_rows,
};

const struct section environment_section = {
	.id = SECTION_ENVIRONMENT,
	.row = {.name = "environment",
            .type = OPT_MAP,
            .size = sizeof(struct environment),
            .rows = environment_rows,
            .help = "the name of this installation, shown to people"},
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

/* SPDX-License-Identifier: Apache-2.0
 * cmd_deploy.c: `defib deploy systemd|cron|k8s|…`: the files of deploy/, which are part of the
 * program, with the current configuration filled in: to stdout, or into a directory. Queries no
 * database, and works without the secrets.
 */

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/load.h"
#include "config/source.h"
#include "shipped.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILL_NAMES_MAX 64

struct fill_name {
	const char *name;
	bool url; /* of a database */
};

/* What the files need from a configuration. */
struct fill {
	const char *path;    /* absolute; NULL: as shipped */
	const char *program; /* absolute; NULL: as shipped */
	const char *text;    /* the whole configuration; NULL: there is none */
	int nnames;
	struct fill_name names[FILL_NAMES_MAX];
	bool tokens; /* it defines who may call over HTTP */
	bool sqlite; /* a database of it is a file */
	struct buf watches;
	int64_t every_us; /* 0: not known */
};

/* Which names are needed depends on what runs there. */
enum fill_place {
	FILL_SCAN, /* only scans */
	FILL_POD,  /* a daemon that is called from elsewhere: tokens of HTTP, and what sinks pass on */
	FILL_HOST, /* a daemon and workers: what sinks, watches and workflows pass on */
};

#define EVERY_US (INT64_C(60) * US_PER_S) /* of a watch without `every` */
#define ALL_WATCHES "all that the configuration enables"
#define ENVIRONMENT "DATABASE_URL"
#define TOKEN "DEFIB_TOKEN"
#define METRICS_TOKEN "DEFIB_METRICS_TOKEN"
/* For a configuration without tokens, so that callers outside the pod are allowed. */
#define TOKENS_YAML                                                                                \
	"http:\n  tokens:\n    - {name: operator, role: operator, env: " TOKEN "}\n"                   \
	"    - {name: prometheus, role: viewer, env: " METRICS_TOKEN "}\n"

/* ---- what a configuration has ---- */

static void deploy_add_name(struct fill *f, const char *name, bool url)
{
	for (int i = 0; i < f->nnames; i++)
		if (text_eq(f->names[i].name, name)) {
			f->names[i].url = f->names[i].url || url;
			return;
		}
	if (f->nnames < FILL_NAMES_MAX)
		f->names[f->nnames++] = (struct fill_name){name, url};
}

/* ${NAME} in a value; one with a default is optional, except as the URL of a database. */
static void add_names_of(struct fill *f, const char *text, bool url, struct arena *a)
{
	for (const char *at = strstr(text, "${"); at; at = strstr(at + 2, "${")) {
		size_t n = strcspn(at + 2, ":}");
		bool escaped = at > text && at[-1] == '$', standard = at[2 + n] == ':';
		if (n > 0 && !escaped && (url || !standard))
			deploy_add_name(f, arena_strndup(a, at + 2, n), url);
	}
}

static void walk(struct fill *f, const struct cfg_node *node, struct arena *a)
{
	if (node->kind == CFG_SCALAR)
		add_names_of(f, node->text, false, a);
	for (int i = 0; i < node->n; i++)
		walk(f, node->items[i], a);
}

static const char *deploy_environment(const char *name)
{
	return getenv(name);
}

/* A value with its variables replaced; NULL if it is not given or one of them is not set. */
static const char *deploy_value_of(const struct cfg_node *map, const char *key, struct arena *a)
{
	const struct cfg_node *node = cfg_get(map, key);
	AUTO_BUF out = BUF_INIT, origin = BUF_INIT, why = BUF_INIT;
	const char *value = NULL;
	if (node && node->kind == CFG_SCALAR &&
	    env_expand(node->text, deploy_environment, &out, &origin, &why))
		value = arena_strdup(a, buf_text(&out));
	return value;
}

static const struct cfg_node *list_of(const struct cfg_node *map, const char *key)
{
	const struct cfg_node *list = cfg_get(map, key);
	return list && list->kind == CFG_LIST ? list : NULL;
}

static void deploy_read_databases(struct fill *f, const struct cfg_node *root, struct arena *a)
{
	const struct cfg_node *list = list_of(root, "databases");
	for (int i = 0; list && i < list->n; i++) {
		const struct cfg_node *url = cfg_get(list->items[i], "url");
		if (!url || url->kind != CFG_SCALAR)
			continue;
		add_names_of(f, url->text, true, a);
		const char *value = deploy_value_of(list->items[i], "url", a);
		f->sqlite = f->sqlite || (value && text_starts(value, "sqlite:"));
	}
}

/* A variable that is passed to a program by name must exist where the program is started. */
static void add_passed(struct fill *f, const struct cfg_node *map, struct arena *a)
{
	const struct cfg_node *node = cfg_get(map, "pass_environment");
	if (!node || node->kind == CFG_MAP)
		return;
	for (int i = 0; i < (node->kind == CFG_LIST ? node->n : 1); i++) {
		const struct cfg_node *entry = node->kind == CFG_LIST ? node->items[i] : node;
		if (entry->kind == CFG_SCALAR && !strpbrk(entry->text, "=${"))
			deploy_add_name(f, arena_strdup(a, entry->text), false);
	}
}

/* For commands of alerts if a daemon sends them, for jobs if workers are started too. */
static void read_passed(struct fill *f, const struct cfg_node *root, enum fill_place place,
                        struct arena *a)
{
	const struct cfg_node *sinks = list_of(root, "sinks"), *watches = list_of(root, "watches");
	const struct cfg_node *workflows = list_of(root, "workflows");
	for (int i = 0; sinks && place != FILL_SCAN && i < sinks->n; i++)
		add_passed(f, sinks->items[i], a);
	for (int i = 0; watches && place == FILL_HOST && i < watches->n; i++)
		add_passed(f, cfg_get(watches->items[i], "work"), a);
	for (int i = 0; workflows && place == FILL_HOST && i < workflows->n; i++)
		add_passed(f, workflows->items[i], a);
}

static void read_watches(struct fill *f, const struct cfg_node *root, struct arena *a)
{
	const struct cfg_node *list = list_of(root, "watches");
	for (int i = 0; list && i < list->n; i++) {
		const char *name = deploy_value_of(list->items[i], "name", a);
		const char *every = deploy_value_of(list->items[i], "every", a);
		const char *enabled = deploy_value_of(list->items[i], "enabled", a);
		int64_t us = EVERY_US;
		bool on = true;
		if (!name || (enabled && bool_parse(enabled, &on) && !on))
			continue;
		if (every)
			(void)!duration_parse(every, &us);
		if (f->every_us == 0 || us < f->every_us)
			f->every_us = us;
		buf_add(&f->watches, f->watches.len ? ", " : "");
		for (; *name; name++) /* it is in a comment, on one line */
			buf_addch(&f->watches, (unsigned char)*name < 0x20 ? '?' : *name);
	}
}

static void deploy_read_tokens(struct fill *f, const struct cfg_node *root, bool names,
                               struct arena *a)
{
	const struct cfg_node *list = list_of(cfg_get(root, "http"), "tokens");
	f->tokens = list && list->n > 0;
	for (int i = 0; names && list && i < list->n; i++) {
		const char *env = deploy_value_of(list->items[i], "env", a);
		if (env)
			deploy_add_name(f, env, false);
	}
}

/* From a parsed file. An unset variable is only a missing value, so that no secrets are needed. */
static void fill_read(struct fill *f, const struct cfg_node *root, enum fill_place place,
                      struct arena *a)
{
	deploy_read_databases(f, root, a);
	walk(f, root, a);
	read_passed(f, root, place, a);
	read_watches(f, root, a);
	deploy_read_tokens(f, root, place == FILL_POD, a);
}

/* ---- lines ---- */

/* "* / 15 * * * *" without the blanks: the longest interval of cron that is not longer. */
static void fill_cron(int64_t every_us, struct buf *out)
{
	int64_t minutes = every_us / (60 * US_PER_S), hours = minutes / 60;
	if (hours >= 24) {
		buf_add(out, "0 0 * * *");
	} else if (hours >= 1) {
		while (24 % hours)
			hours--;
		buf_addf(out, hours == 1 ? "0 * * * *" : "0 */%lld * * *", (long long)hours);
	} else {
		while (minutes > 1 && 60 % minutes)
			minutes--;
		buf_addf(out, minutes <= 1 ? "* * * * *" : "*/%lld * * * *", (long long)minutes);
	}
}

/* `line` with every `from` replaced by `to`; NULL: unchanged. */
static const char *replaced(const char *line, const char *from, const char *to, struct arena *a)
{
	AUTO_BUF out = BUF_INIT;
	if (!to || !strstr(line, from))
		return line;
	for (const char *at; (at = strstr(line, from)) != NULL; line = at + strlen(from)) {
		buf_addn(&out, line, (size_t)(at - line));
		buf_add(&out, to);
	}
	buf_add(&out, line);
	return arena_strdup(a, buf_text(&out));
}

/* The configuration, as the text of a block scalar. */
static void add_configuration(const struct fill *f, struct buf *out)
{
	AUTO_BUF all = BUF_INIT;
	buf_add(&all, f->text);
	if (all.len && all.data[all.len - 1] != '\n')
		buf_add(&all, "\n");
	if (!f->tokens)
		buf_add(&all, TOKENS_YAML);
	for (const char *line = buf_text(&all); *line;) {
		size_t n = strcspn(line, "\n");
		buf_addf(out, n ? "    %.*s\n" : "\n", (int)n, line);
		line += n + (line[n] == '\n');
	}
}

static void add_for_each_name(const struct fill *f, const char *line, struct arena *a,
                              struct buf *out)
{
	for (int i = 0; i < f->nnames; i++) {
		const char *own = replaced(line, ENVIRONMENT, f->names[i].name, a);
		buf_add(out, f->names[i].url ? own : replaced(own, "postgres://…", "…", a));
		buf_add(out, "\n");
	}
}

static void deploy_add_line(const struct fill *f, const char *line, struct arena *a,
                            struct buf *out)
{
	AUTO_BUF seconds = BUF_INIT, cron = BUF_INIT;
	bool timed = f->every_us > 0;
	if (f->tokens && (strstr(line, TOKEN) || strstr(line, METRICS_TOKEN)))
		return;
	if (timed) {
		buf_addf(&seconds, "%llds", (long long)(f->every_us / US_PER_S));
		fill_cron(f->every_us, &cron);
	}
	line = replaced(line, "/etc/defib/defib.yaml", f->path, a);
	line = replaced(line, "/usr/local/bin/defib", f->program, a);
	line = replaced(line, ALL_WATCHES, f->watches.len ? buf_text(&f->watches) : NULL, a);
	line = replaced(line, "900s", timed ? buf_text(&seconds) : NULL, a);
	line = replaced(line, "*/15 * * * *", timed ? buf_text(&cron) : NULL, a);
	if (strstr(line, ENVIRONMENT))
		add_for_each_name(f, line, a, out);
	else
		buf_addf(out, "%s\n", line);
}

/* One file. */
static void fill_file(const struct fill *f, const char *text, struct buf *out)
{
	AUTO_ARENA a = ARENA_INIT;
	bool inside = false; /* the shipped configuration */
	if (!f->text) {
		buf_add(out, text);
		return;
	}
	while (*text) {
		size_t n = strcspn(text, "\n");
		const char *line = arena_strndup(&a, text, n);
		text += n + (text[n] == '\n');
		inside = inside && text_starts(line, "    ");
		if (!inside)
			deploy_add_line(f, line, &a, out);
		if (text_eq(line, "  defib.yaml: |")) {
			add_configuration(f, out);
			inside = true;
		}
	}
}

static const struct cli_option deploy_options[] = {
	{"output", "DIR", "write the files into this directory instead of stdout"},
	{NULL, NULL, NULL},
};

#define FILES_MAX 4
static const struct place {
	const char *name;
	bool here; /* runs on this host: with the paths of this program and configuration */
	enum fill_place runs;
	const char *between; /* separates two files on one stdout */
	const char *next;
	const char *files[FILES_MAX];
} places[] = {
	{"systemd",
     true,
     FILL_HOST,
     "",
     "copy them to /etc/systemd/system, then: systemctl daemon-reload && systemctl enable --now "
     "defib",
     {"systemd/defib.service", "systemd/defib-work@.service"}},
	{"systemd-timer",
     true,
     FILL_SCAN,
     "",
     "copy them to /etc/systemd/system, then: systemctl daemon-reload && systemctl enable --now "
     "defib-scan.timer",
     {"systemd/defib-scan.service", "systemd/defib-scan.timer"}},
	{"cron", true, FILL_SCAN, "", "copy it to /etc/cron.d", {"cron/defib"}},
	{"k8s",
     false,
     FILL_POD,
     "---\n",
     "create the secret, then: kubectl apply -f",
     {"kubernetes/configmap.yaml", "kubernetes/deployment.yaml", "kubernetes/service.yaml"}},
	{"k8s-cron",
     false,
     FILL_SCAN,
     "---\n",
     "create the secret, then: kubectl apply -f",
     {"kubernetes/configmap.yaml", "kubernetes/cronjob.yaml"}},
	{"container",
     false,
     FILL_SCAN,
     "",
     "from the root of the source: podman build -f Containerfile -t defib:" DEFIB_VERSION " .",
     {"container/Containerfile"}},
};
#define PLACES (sizeof places / sizeof *places)

static const struct place *place_named(const char *name)
{
	const char *names[PLACES + 1] = {NULL};
	for (size_t i = 0; i < PLACES; i++) {
		names[i] = places[i].name;
		if (text_eq(name, places[i].name))
			return &places[i];
	}
	cli_usage("defib deploy has no target \"%s\"%s (systemd, systemd-timer, cron, k8s, k8s-cron or "
	          "container)",
	          name, text_hint(name, names).text);
	return NULL;
}

/* ---- what is filled in ---- */

/* Units and crontabs have special characters; such a path would need quoting in each. */
static bool is_simple(const char *path)
{
	for (; *path; path++)
		if (!strchr("/._+-@", *path) && !isalnum((unsigned char)*path))
			return false;
	return true;
}

static bool absolute(const char *path, struct arena *a, const char **out)
{
	char real[PATH_MAX];
	if (!realpath(path, real)) {
		cli_usage("cannot find %s: %s", path, strerror(errno));
		return false;
	}
	if (!is_simple(real)) {
		cli_usage("%s: units and crontabs take paths of letters, digits and /._+-@ only", real);
		return false;
	}
	*out = arena_strdup(a, real);
	return true;
}

/* Paths that are hidden from a hardened unit. */
static void warn_hidden(const struct cli *c, const char *path)
{
	static const char *const hidden[] = {"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"};
	for (size_t i = 0; i < sizeof hidden / sizeof *hidden && path && !c->quiet; i++)
		if (text_starts(path, hidden[i]))
			fprintf(stderr, "defib: the unit cannot see %s; copy it to /etc/defib\n", path);
}

static int read_configuration(struct cli *c, const struct place *p, struct fill *f)
{
	const char *path = cli_config_path(c);
	struct failure failure = {0};
	struct cfg_node *root = NULL;
	AUTO_BUF text = BUF_INIT;
	if (!path)
		return EXIT_CLEAN;
	if (source_load(path, &text, &failure) || cfg_load(path, &c->arena, &root, &failure)) {
		failure.code = DEFIB_CONFIG;
		return cli_fail(&failure);
	}
	f->text = arena_strdup(&c->arena, buf_text(&text));
	fill_read(f, root, p->runs, &c->arena);
	/* Tokens only matter if callers come from elsewhere. */
	f->tokens = f->tokens || p->runs != FILL_POD;
	if (!p->here)
		return EXIT_CLEAN;
	bool found =
		absolute(path, &c->arena, &f->path) && absolute("/proc/self/exe", &c->arena, &f->program);
	return found ? EXIT_CLEAN : EXIT_USAGE;
}

/* ---- output ---- */

static int put_file(const struct cli *c, const struct place *p, int i, const struct fill *f)
{
	const char *dir = cli_value(c, "output"), *file = p->files[i];
	AUTO_BUF path = BUF_INIT, text = BUF_INIT;
	buf_addf(&path, "deploy/%s", file);
	fill_file(f, shipped_text(buf_text(&path)), &text);
	if (!dir) {
		if (i > 0)
			fputs(*p->between ? p->between : "\n", stdout);
		fwrite(text.data, 1, text.len, stdout);
		return EXIT_CLEAN;
	}
	buf_clear(&path);
	buf_addf(&path, "%s/%s", dir, strrchr(file, '/') + 1);
	int code = cli_write_file(buf_text(&path), &text);
	if (code == EXIT_CLEAN)
		printf("%s\n", buf_text(&path));
	return code;
}

static void print_next(const struct cli *c, const struct place *p, const struct fill *f)
{
	if (c->quiet)
		return;
	if (!f->text)
		fprintf(stderr, "defib: no configuration: printed as shipped; name one with -c FILE\n");
	if (f->text && f->nnames == 0 && !f->sqlite)
		fprintf(stderr, "defib: no database takes its url from the environment: a password in the "
		                "configuration is readable by all; write url: ${DATABASE_URL}\n");
	if (f->sqlite && !p->here)
		fprintf(stderr, "defib: a database is an SQLite file, which a container cannot see\n");
	fprintf(stderr, "defib: next: %s\n", p->next);
}

static int cmd_deploy(struct cli *c)
{
	const char *dir = cli_value(c, "output");
	struct fill fill = {0};
	if (c->nwords != 1)
		return cli_usage("defib deploy takes systemd, systemd-timer, cron, k8s, k8s-cron or "
		                 "container");
	const struct place *p = place_named(c->words[0]);
	if (!p)
		return EXIT_USAGE;
	if (dir && mkdir(dir, 0777) != 0 && errno != EEXIST)
		return cli_usage("--output: cannot create %s: %s", dir, strerror(errno));
	int code = read_configuration(c, p, &fill);
	for (int i = 0; i < FILES_MAX && p->files[i] && code == EXIT_CLEAN; i++)
		code = put_file(c, p, i, &fill);
	if (code == EXIT_CLEAN) {
		warn_hidden(c, fill.path);
		print_next(c, p, &fill);
	}
	buf_release(&fill.watches);
	return code;
}

COMMAND(deploy, cmd_deploy, "systemd|systemd-timer|cron|k8s|k8s-cron|container",
        "print files for systemd, cron, Kubernetes or a container", .options = deploy_options,
        .examples = {{"defib deploy systemd", "hardened units, to stdout"},
                     {"defib deploy k8s --output manifests", "files, into a directory"}});

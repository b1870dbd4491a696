/*
 * cmd_deploy.c: `defib deploy systemd|cron|k8s|…`: the files of deploy/, which ship
 * inside the program, with the current configuration filled in: on stdout, or into a
 * directory. Asks no database, and works where the secrets are not.
 */
#include "cli/cli.h"

#include "base/text.h"
#include "cli/deploy_fill.h"
#include "config/source.h"
#include "shipped.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

const struct cli_option deploy_options[] = {
	{"output", "DIR", "write the files into this directory instead of stdout"},
	{NULL, NULL, NULL},
};

#define FILES_MAX 4
static const struct place {
	const char *name;
	bool here; /* run on this host: its paths are those of this program and configuration */
	enum fill_place runs;
	const char *between; /* two files on one stdout */
	const char *next;
	const char *files[FILES_MAX];
} places[] = {
	{"systemd",
     true,
     FILL_HOST,
     "",
     "put them into /etc/systemd/system, then: systemctl daemon-reload && systemctl enable --now "
     "defib",
     {"systemd/defib.service", "systemd/defib-work@.service"}},
	{"systemd-timer",
     true,
     FILL_SCAN,
     "",
     "put them into /etc/systemd/system, then: systemctl daemon-reload && systemctl enable --now "
     "defib-scan.timer",
     {"systemd/defib-scan.service", "systemd/defib-scan.timer"}},
	{"cron", true, FILL_SCAN, "", "put it into /etc/cron.d", {"cron/defib"}},
	{"k8s",
     false,
     FILL_POD,
     "---\n",
     "make the secret, then: kubectl apply -f",
     {"kubernetes/configmap.yaml", "kubernetes/deployment.yaml", "kubernetes/service.yaml"}},
	{"k8s-cron",
     false,
     FILL_SCAN,
     "---\n",
     "make the secret, then: kubectl apply -f",
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
	const char *near = text_nearest(name, names);
	cli_usage("defib deploy knows no \"%s\"%s%s%s; systemd, systemd-timer, cron, k8s, k8s-cron or "
	          "container",
	          name, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
	return NULL;
}

/* ---- what is filled in ---- */

/* Units and crontabs have characters of their own; such a path would need care in each. */
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

/* What is hidden from a unit that is hardened. */
static void warn_hidden(const struct cli *c, const char *path)
{
	static const char *const hidden[] = {"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"};
	for (size_t i = 0; i < sizeof hidden / sizeof *hidden && path && !c->quiet; i++)
		if (text_starts(path, hidden[i]))
			fprintf(stderr, "defib: the unit cannot see %s; put it into /etc/defib\n", path);
}

static int read_configuration(struct cli *c, const struct place *p, struct fill *f)
{
	const char *path = cli_config_path(c);
	struct failure failure = {0};
	struct cfg_node *root = NULL;
	struct buf text = BUF_INIT;
	if (!path)
		return EXIT_CLEAN;
	if (source_load(path, &text, &failure) || cfg_load(path, &c->arena, &root, &failure)) {
		failure.code = DEFIB_CONFIG;
		buf_release(&text);
		return cli_fail(&failure);
	}
	f->text = arena_strdup(&c->arena, buf_text(&text));
	buf_release(&text);
	fill_read(f, root, p->runs, &c->arena);
	/* Tokens are a matter of who is asked from elsewhere. */
	f->tokens = f->tokens || p->runs != FILL_POD;
	if (!p->here)
		return EXIT_CLEAN;
	bool found =
		absolute(path, &c->arena, &f->path) && absolute("/proc/self/exe", &c->arena, &f->program);
	return found ? EXIT_CLEAN : EXIT_USAGE;
}

/* ---- where it goes ---- */

static int write_file(const char *dir, const char *name, const struct buf *text)
{
	struct buf path = BUF_INIT;
	buf_addf(&path, "%s/%s", dir, name);
	FILE *file = fopen(buf_text(&path), "w");
	bool written = file && fwrite(text->data, 1, text->len, file) == text->len;
	int why = errno;
	if (file && fclose(file) != 0)
		written = false;
	int code = EXIT_CLEAN;
	if (written)
		printf("%s\n", buf_text(&path));
	else
		code = cli_usage("--output: cannot write %s: %s", buf_text(&path), strerror(why));
	buf_release(&path);
	return code;
}

static int put_file(const struct cli *c, const struct place *p, int i, const struct fill *f)
{
	const char *dir = cli_value(c, "output"), *file = p->files[i];
	struct buf source = BUF_INIT, text = BUF_INIT;
	int code = EXIT_CLEAN;
	buf_addf(&source, "deploy/%s", file);
	fill_file(f, shipped_text(buf_text(&source)), &text);
	if (dir) {
		code = write_file(dir, strrchr(file, '/') + 1, &text);
	} else {
		if (i > 0)
			fputs(*p->between ? p->between : "\n", stdout);
		fwrite(text.data, 1, text.len, stdout);
	}
	buf_release(&source);
	buf_release(&text);
	return code;
}

static void say_next(const struct cli *c, const struct place *p, const struct fill *f)
{
	if (c->quiet)
		return;
	if (!f->text)
		fprintf(stderr, "defib: no configuration: as it ships; name one with -c FILE\n");
	if (f->text && f->nnames == 0 && !f->sqlite)
		fprintf(stderr, "defib: no database takes its url from the environment: a password in the "
		                "configuration is readable by all; write url: ${DATABASE_URL}\n");
	if (f->sqlite && !p->here)
		fprintf(stderr, "defib: a database is an SQLite file: a container does not see it\n");
	fprintf(stderr, "defib: next: %s\n", p->next);
}

int cmd_deploy(struct cli *c)
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
		return cli_usage("--output: cannot make %s: %s", dir, strerror(errno));
	int code = read_configuration(c, p, &fill);
	for (int i = 0; i < FILES_MAX && p->files[i] && code == EXIT_CLEAN; i++)
		code = put_file(c, p, i, &fill);
	if (code == EXIT_CLEAN) {
		warn_hidden(c, fill.path);
		say_next(c, p, &fill);
	}
	fill_release(&fill);
	return code;
}

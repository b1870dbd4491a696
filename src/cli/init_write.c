/* init_write.c: see init_write.h. */
#include "cli/init_write.h"

#include "base/text.h"
#include "setup/propose.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define CONFIG_MOST (16 << 20)

/* A password has no place in a file that is shown to people: then the environment has the URL. */
static void database_entry(const struct database *d, struct buf *out)
{
	struct buf shown = BUF_INIT;
	url_redact(d->url, &shown);
	bool secret = !text_eq(buf_text(&shown), d->url);
	buf_add(out, "databases:\n  - name: ");
	yaml_scalar(d->name, out);
	buf_add(out, "\n");
	if (secret)
		buf_add(out, "    # it has a password: say export DATABASE_URL=…\n"
		             "    url: ${DATABASE_URL}\n");
	else
		buf_add(out, "    url: ");
	if (!secret) {
		yaml_scalar(d->url, out);
		buf_add(out, "\n");
	}
	buf_release(&shown);
}

static void whole(const struct cli *c, const char *entries, const char *about, struct buf *out)
{
	buf_addf(out,
	         "# %s\n# Lines marked CHECK are guesses: look at them before anything is changed by "
	         "this.\n# Next: defib config check; defib doctor; defib scan, which only looks.\n",
	         about);
	database_entry(&c->settings.databases[0], out);
	buf_addf(out, "\nwatches:\n%s", entries);
}

static int refuse(const char *path, const char *why)
{
	struct failure f = {0};
	fail(&f, DEFIB_REFUSED, "%s: nothing was written: %s", path, why);
	fail_next(&f, "leave --write out, and paste what is printed under watches:");
	return cli_fail(&f);
}

static int write_all(int fd, const char *path, const char *text)
{
	size_t left = strlen(text);
	while (fd >= 0 && left > 0) {
		ssize_t n = write(fd, text, left);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		text += n;
		left -= (size_t)n;
	}
	int error = errno;
	if (fd >= 0 && close(fd) == 0 && left == 0)
		return EXIT_CLEAN;
	struct failure f = {0};
	fail(&f, DEFIB_REFUSED, "%s cannot be written: %s", path, strerror(error));
	return cli_fail(&f);
}

static bool read_all(const char *path, struct buf *out)
{
	char chunk[4096];
	size_t n;
	FILE *in = fopen(path, "re");
	if (!in)
		return false;
	while ((n = fread(chunk, 1, sizeof chunk, in)) > 0 && out->len < CONFIG_MOST)
		buf_addn(out, chunk, n);
	return fclose(in) == 0 && out->len < CONFIG_MOST;
}

/* How many watches a configuration has; -1: it cannot be read, or its last key is another one. */
static int watches_at_end(const char *text, struct arena *a, bool *none)
{
	struct cfg_node *root = NULL;
	struct failure f = {0};
	if (cfg_parse(text, "configuration", a, &root, &f))
		return -1;
	const struct cfg_node *list = root->kind == CFG_MAP ? cfg_get(root, "watches") : NULL;
	*none = list == NULL;
	if (root->kind == CFG_NULL || !list)
		return root->kind == CFG_MAP || root->kind == CFG_NULL ? 0 : -1;
	if (list->kind != CFG_LIST || !text_eq(root->keys[root->n - 1], "watches"))
		return -1;
	return list->n;
}

/* The old text with the entries behind it, if that is a good configuration; else why not. */
static const char *added(struct cli *c, const char *path, const char *old, const char *entries,
                         struct buf *out)
{
	struct cfg_node *root = NULL;
	struct cfg_reader reader;
	struct settings settings = {0};
	struct failure f = {0};
	bool none = false;
	int before = watches_at_end(old, &c->arena, &none);
	if (before < 0)
		return "watches: is not the last key of the file";
	buf_addf(out, "%s%s%s", *old && old[strlen(old) - 1] != '\n' ? "\n" : "",
	         none ? "\nwatches:\n" : "", entries);
	const char *text = arena_printf(&c->arena, "%s%s", old, buf_text(out));
	if (cfg_parse(text, path, &c->arena, &root, &f) ||
	    watches_at_end(text, &c->arena, &none) <= before)
		return "its watches are indented in another way";
	cfg_reader_init(&reader, &c->arena);
	settings_read(&reader, root, &settings);
	const char *why = NULL;
	for (int i = 0; i < reader.nproblems && !why; i++)
		if (!reader.problems[i].warning)
			why = arena_strdup(&c->arena, reader.problems[i].text);
	cfg_reader_release(&reader);
	return why;
}

static int append(struct cli *c, const char *path, const char *entries)
{
	struct buf old = BUF_INIT, more = BUF_INIT;
	if (!read_all(path, &old)) {
		buf_release(&old);
		return refuse(path, "it cannot be read");
	}
	const char *why = added(c, path, buf_text(&old), entries, &more);
	if (!why && !cli_flag(c, "yes") && !isatty(STDIN_FILENO))
		why = "it is there already, and nobody can be asked: --yes adds to it";
	int code =
		why ? refuse(path, why) : cli_confirm(c, arena_printf(&c->arena, "add to %s", path), false);
	if (code == EXIT_CLEAN)
		code = write_all(open(path, O_WRONLY | O_APPEND | O_CLOEXEC), path, buf_text(&more));
	buf_release(&old);
	buf_release(&more);
	return code;
}

int init_write(struct cli *c, const char *entries, const char *about)
{
	const char *path = cli_value(c, "write");
	struct buf text = BUF_INIT;
	int code = EXIT_CLEAN;
	whole(c, entries, about, &text);
	if (!path) {
		fputs(buf_text(&text), stdout);
	} else {
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		code = fd < 0 && errno == EEXIST ? append(c, path, entries)
		                                 : write_all(fd, path, buf_text(&text));
		if (code == EXIT_CLEAN && !c->quiet)
			printf("written to %s; next: defib -c %s config check\n", path, path);
	}
	buf_release(&text);
	return code;
}

/* SPDX-License-Identifier: Apache-2.0
 * source.c: a configuration file as bytes.
 *
 * The YAML parser stops silently at a byte that is not UTF-8, as if the file ended there. So the
 * text is checked before it is parsed: half a configuration must never look like a whole one.
 */
#include "config/source.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static defib_err cfg_source_read_all(int fd, const char *path, struct buf *out, struct failure *f)
{
	char chunk[16384];
	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(f, DEFIB_CONFIG, "%s: cannot read it: %s", path, strerror(errno));
		if (n == 0)
			return DEFIB_OK;
		buf_addn(out, chunk, (size_t)n);
		if (out->len > SOURCE_MAX) {
			fail(f, DEFIB_CONFIG, "%s:1:1: larger than %d KiB", path, SOURCE_MAX / 1024);
			fail_next(f, "split the file, or check that it is the right one");
			return DEFIB_CONFIG;
		}
	}
}

static defib_err refuse_nul(const char *path, const struct buf *text, struct failure *f)
{
	const char *nul = text->len ? memchr(text->data, 0, text->len) : NULL;
	if (!nul)
		return DEFIB_OK;
	int line, col;
	source_position(text->data, (size_t)(nul - text->data), &line, &col);
	fail(f, DEFIB_CONFIG, "%s:%d:%d: a NUL byte: this is not text", path, line, col);
	fail_next(f, "save the file as UTF-8 text");
	return DEFIB_CONFIG;
}

static defib_err refuse_open(const char *path, int error, struct failure *f)
{
	if (error == ENOENT || error == ENOTDIR) {
		fail(f, DEFIB_CONFIG, "%s: no such file", path);
		fail_next(f, "name the configuration with -c FILE");
	} else if (error == EACCES || error == EPERM) {
		fail(f, DEFIB_CONFIG, "%s: no permission to read it", path);
		fail_next(f, "let the user that runs defib read the file");
	} else {
		fail(f, DEFIB_CONFIG, "%s: cannot open it: %s", path, strerror(error));
	}
	return DEFIB_CONFIG;
}

defib_err source_load(const char *path, struct buf *out, struct failure *f)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return refuse_open(path, errno, f);
	struct stat st;
	defib_err err = DEFIB_OK;
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		err = fail(f, DEFIB_CONFIG, "%s: is a directory", path);
		fail_next(f, "name the file inside it");
	}
	if (!err)
		err = cfg_source_read_all(fd, path, out, f);
	close(fd);
	return err ? err : refuse_nul(path, out, f);
}

static bool is_continuation(unsigned char c)
{
	return (c & 0xC0) == 0x80;
}

static bool is_control(unsigned char c)
{
	return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
}

size_t source_bad_byte(const char *text, const char **why)
{
	size_t i = 0, length;
	for (; text[i]; i += length) {
		length = utf8_len(text + i);
		*why = length == 0 ? "this byte is not UTF-8" : "a control character";
		if (length == 0 || is_control((unsigned char)text[i]))
			return i;
	}
	return i;
}

void source_position(const char *text, size_t offset, int *line, int *col)
{
	size_t bom = strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
	*line = *col = 1;
	for (size_t i = bom; i < offset; i++) {
		if (text[i] == '\n') {
			(*line)++;
			*col = 1;
		} else if (!is_continuation((unsigned char)text[i])) {
			(*col)++;
		}
	}
}

bool source_comment_follows(const char *text, size_t n, size_t end)
{
	size_t i = end;
	while (i < n && (text[i] == ' ' || text[i] == '\t'))
		i++;
	return i > end && i < n && text[i] == '#';
}

/* "|", ">-", "|2+", followed on its line by at most a comment? */
static bool is_block_header(const char *p)
{
	if (*p != '|' && *p != '>')
		return false;
	size_t i = 1 + strspn(p + 1, "0123456789+-");
	size_t blanks = strspn(p + i, " \t");
	char after = p[i + blanks];
	return after == '\n' || after == '\r' || after == '\0' || (blanks > 0 && after == '#');
}

void source_block_start(const char *text, size_t content, int *line, int *col)
{
	size_t end = content;
	int up = 0;
	while (end > 0 && strchr(" \r\n", text[end - 1]))
		up += text[--end] == '\n';
	size_t begin = end;
	while (begin > 0 && text[begin - 1] != '\n')
		begin--;
	int column = 1;
	for (size_t i = begin; i < end; i++) {
		if (is_block_header(text + i)) {
			*line -= up;
			*col = column;
			return;
		}
		column += !is_continuation((unsigned char)text[i]);
	}
}

/* ---- variables ---- */

/*
 * Environment values in configuration text.
 *
 * Deliberately small: no nesting, no other operators. Unknown syntax is rejected rather than passed
 * on, because a literal ${…} in a URL or a duration is never intended.
 */

struct variable {
	const char *name;
	int name_len;
	const char *standard; /* NULL: no default */
	int standard_len;
	const char *end; /* after the closing brace */
};

static bool is_name_start(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool cfg_source_is_name(char c)
{
	return is_name_start(c) || (c >= '0' && c <= '9');
}

/* `at` is after "${". */
static bool parse_variable(const char *at, struct variable *v, struct buf *why)
{
	const char *p = at;
	const char *close = strchr(at, '}');
	if (!close) {
		buf_add(why, "${ has no closing }; write ${NAME}, or $${ for a literal ${");
		return false;
	}
	*v = (struct variable){.name = at, .end = close + 1};
	while (cfg_source_is_name(*p))
		p++;
	v->name_len = (int)(p - at);
	bool named = is_name_start(*at);
	if (named && *p == '}')
		return true;
	if (!named || strncmp(p, ":-", 2) != 0) {
		/* Only the name: a password may follow it. */
		buf_addf(why, "${%.*s… is not valid; write ${NAME} or ${NAME:-default}", v->name_len, at);
		return false;
	}
	v->standard = p + 2;
	v->standard_len = (int)(close - v->standard);
	if (memmem(v->standard, (size_t)v->standard_len, "${", 2)) {
		buf_addf(why, "${%.*s has a ${ inside its default; variables cannot be nested", v->name_len,
		         at);
		return false;
	}
	return true;
}

static bool add_variable(const struct variable *v, env_fn env, struct buf *out, struct buf *origin,
                         struct buf *why)
{
	AUTO_BUF name = BUF_INIT;
	buf_addn(&name, v->name, (size_t)v->name_len);
	const char *value = env(buf_text(&name));
	bool use_standard = v->standard && (!value || !*value);
	if (use_standard) {
		buf_addn(out, v->standard, (size_t)v->standard_len);
		buf_addf(origin, " (default of %s)", buf_text(&name));
	} else if (value) {
		buf_add(out, value);
		buf_addf(origin, " (from %s)", buf_text(&name));
	} else {
		buf_addf(why, "the environment variable %s is not set; set it, or write ${%s:-default}",
		         buf_text(&name), buf_text(&name));
	}
	return use_standard || value;
}

bool env_expand(const char *text, env_fn env, struct buf *out, struct buf *origin, struct buf *why)
{
	assert(text && env);
	const char *p = text;
	while (*p) {
		struct variable v;
		if (strncmp(p, "$${", 3) == 0) {
			buf_add(out, "${");
			p += 3;
		} else if (strncmp(p, "${", 2) != 0) {
			buf_addch(out, *p++);
		} else if (parse_variable(p + 2, &v, why) && add_variable(&v, env, out, origin, why)) {
			p = v.end;
		} else {
			return false;
		}
	}
	return true;
}

bool env_in_sql(const char *sql)
{
	/* $${ opens a dollar-quoted text that begins with a brace: that is SQL. */
	for (const char *p = strstr(sql, "${"); p; p = strstr(p + 2, "${"))
		if (p == sql || p[-1] != '$')
			return true;
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* url.c: converts database URLs of other tools; see store.h. */

#include "store/url.h"

#include "store/store.h"

#include <ctype.h>
#include <libpq-fe.h>
#include <unistd.h>

static void url_note(struct buf *notes, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void url_note(struct buf *notes, const char *fmt, ...)
{
	char text[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	buf_addf(notes, "%s%s", notes->len ? "; " : "", text);
}

/* The text after SCHEME or SCHEME+DRIVER and "://"; NULL: another scheme. */
static const char *behind_scheme(const char *url, const char *scheme, struct buf *notes)
{
	size_t n = strlen(scheme);
	if (strncasecmp(url, scheme, n) != 0)
		return NULL;
	const char *driver = url + n, *at = driver;
	if (*driver == '+')
		at += 1 + strspn(at + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
	if (!text_starts(at, "://"))
		return NULL;
	if (at > driver) {
		url_note(notes, "the driver %.*s in the URL is ignored: defib has its own",
		         (int)(at - driver), driver);
	}
	return at + 3;
}

/* ---- PostgreSQL: parameters of libpq are kept ---- */

static bool libpq_knows(const char *name, size_t len)
{
	PQconninfoOption *options = PQconndefaults();
	bool known = false;
	for (const PQconninfoOption *o = options; o && o->keyword && !known; o++)
		known = strlen(o->keyword) == len && !strncmp(o->keyword, name, len);
	PQconninfoFree(options);
	return known;
}

/* The libpq parameter that an unknown name probably means, or NULL. */
static const char *libpq_slip(const char *name, char *out, size_t size)
{
	/* Parameters of other drivers that are close to one of libpq's and mean something else. */
	static const char *const others[] = {"ssl", "schema", "connectTimeout", "socketTimeout", NULL};
	PQconninfoOption *options = PQconndefaults();
	const char *names[64] = {NULL};
	int n = 0;
	for (const PQconninfoOption *o = options; o && o->keyword && n < 63; o++)
		names[n++] = o->keyword;
	for (int i = 0; others[i]; i++)
		n = strcmp(name, others[i]) == 0 ? 0 : n;
	names[n] = NULL;
	const char *near = text_nearest(name, names);
	snprintf(out, size, "%s", near ? near : "");
	PQconninfoFree(options);
	return near ? out : NULL;
}

static bool is(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && !strncasecmp(text, word, len);
}

/* ssl=… of other drivers: yes, no, or a value of sslmode. */
static const char *sslmode_of(const char *value, size_t len)
{
	static const char *const modes[] = {"disable",   "allow",       "prefer", "require",
	                                    "verify-ca", "verify-full", NULL};
	for (int i = 0; modes[i]; i++)
		if (is(value, len, modes[i]))
			return modes[i];
	if (is(value, len, "true") || is(value, len, "1") || is(value, len, "on"))
		return "require";
	return is(value, len, "false") || is(value, len, "0") || is(value, len, "off") ? "disable"
	                                                                               : NULL;
}

static bool is_plain(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_')
			return false;
	return len > 0;
}

/* One parameter; false: it has no meaning here. */
static bool take_param(const char *name, size_t nname, const char *value, size_t nvalue,
                       bool has_options, struct buf *out)
{
	bool schema = is(name, nname, "schema") || is(name, nname, "currentSchema");
	const char *mode = is(name, nname, "ssl") ? sslmode_of(value, nvalue) : NULL;
	if (libpq_knows(name, nname)) {
		buf_addn(out, name, nname);
		buf_addch(out, '=');
		buf_addn(out, value, nvalue);
	} else if (schema && is_plain(value, nvalue) && !has_options) {
		buf_addf(out, "options=-csearch_path%%3D%.*s", (int)nvalue, value);
	} else if (mode) {
		buf_addf(out, "sslmode=%s", mode);
	} else {
		return false;
	}
	return true;
}

/* A typo is rejected: without `sslmode`, for example, the session would not be as requested. */
static bool is_slip(const char *name, size_t nname, struct failure *f)
{
	char asked[40], meant[40];
	snprintf(asked, sizeof asked, "%.*s", (int)nname, name);
	if (!libpq_slip(asked, meant, sizeof meant))
		return false;
	fail(f, DEFIB_CONFIG, "a PostgreSQL URL has no parameter \"%s\"", asked);
	fail_next(f, "did you mean %s?", meant);
	return true;
}

static bool take_query(const char *query, struct buf *out, struct buf *notes, struct failure *f)
{
	bool good = true;
	AUTO_BUF left = BUF_INIT;
	bool has_options = strstr(query, "options=") != NULL;
	int n = 0;
	while (*query && good) {
		size_t len = strcspn(query, "&");
		const char *equals = memchr(query, '=', len);
		size_t nname = equals ? (size_t)(equals - query) : len;
		const char *value = equals ? equals + 1 : query + len;
		AUTO_BUF one = BUF_INIT;
		if (take_param(query, nname, value, (size_t)(query + len - value), has_options, &one))
			buf_addf(out, "%c%s", n++ ? '&' : '?', buf_text(&one));
		else if (nname && is_slip(query, nname, f))
			good = false;
		else if (nname)
			buf_addf(&left, "%s%.*s", left.len ? ", " : "", (int)(nname < 40 ? nname : 40), query);
		query += len + (query[len] == '&');
	}
	if (left.len)
		url_note(notes, "ignoring URL parameters that have no meaning here: %s", buf_text(&left));
	return good;
}

static bool postgres_url(const char *rest, struct buf *out, struct buf *notes, struct failure *f)
{
	size_t n = strcspn(rest, "?");
	buf_add(out, "postgresql://");
	buf_addn(out, rest, n);
	return rest[n] != '?' || take_query(rest + n + 1, out, notes, f);
}

/*
 * ---- SQLite: SQLAlchemy writes three slashes before a relative path, four before an absolute one
 * ----
 */

static void sqlite_file(const char *path, struct buf *out, struct buf *notes)
{
	size_t n = strcspn(path, "?");
	AUTO_BUF file = BUF_INIT;
	buf_addn(&file, path, n);
	if (path[n])
		url_note(notes, "ignoring everything after the ? in the URL");
	buf_addf(out, "sqlite:%s", buf_text(&file));
}

static bool sqlite_url(const char *rest, struct buf *out, struct buf *notes, struct failure *f)
{
	if (*rest != '/' || !rest[1]) {
		fail(f, DEFIB_CONFIG,
		     *rest && *rest != '/' ? "sqlite:// is followed by a host" : "the URL names no file");
		fail_next(f, "write sqlite:PATH, as in sqlite:jobs.db or sqlite:/srv/jobs.db");
		return false;
	}
	if (rest[1] == '/') { /* sqlite:////srv/jobs.db */
		sqlite_file(rest + 1, out, notes);
		return true;
	}
	AUTO_BUF absolute = BUF_INIT;
	buf_addn(&absolute, rest, strcspn(rest, "?"));
	bool away = access(buf_text(&absolute) + 1, F_OK) != 0;
	bool root = away && access(buf_text(&absolute), F_OK) == 0;
	sqlite_file(root ? rest : rest + 1, out, notes);
	url_note(notes,
	         root ? "sqlite:/// names a relative path that does not exist; using %s instead; write "
	                "sqlite:%s"
	              : "sqlite:/// names the relative path %s; an absolute path is written sqlite:%s",
	         buf_text(&absolute) + !root, buf_text(&absolute));
	return true;
}

bool store_url_read(const char *url, struct buf *out, struct buf *notes, struct failure *f)
{
	const char *rest = behind_scheme(url, "postgresql", notes);
	enum store_engine engine;
	if (!rest)
		rest = behind_scheme(url, "postgres", notes);
	if (rest)
		return postgres_url(rest, out, notes, f);
	rest = behind_scheme(url, "sqlite", notes);
	if (rest)
		return sqlite_url(rest, out, notes, f);
	if (text_starts(url, "file:")) {
		rest = url + strlen("file:");
		sqlite_file(text_starts(rest, "///") ? rest + 2 : rest, out, notes);
		url_note(notes, "file: is read as sqlite:, relative to the working directory");
		return true;
	}
	if (!strncasecmp(url, "jdbc:", 5)) {
		fail(f, DEFIB_CONFIG, "defib cannot read a JDBC URL");
		fail_next(f, "write it as postgresql://USER@HOST/DATABASE, or sqlite:PATH");
		return false;
	}
	if (!store_engine_of(url, &engine, f))
		return false;
	buf_add(out, url);
	return true;
}

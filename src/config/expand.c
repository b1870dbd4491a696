/* SPDX-License-Identifier: Apache-2.0
 * expand.c: environment values in configuration text.
 *
 * Deliberately small: no nesting, no other operators. What is not understood
 * is refused rather than passed on, because a literal ${…} in a URL or a
 * duration is never what was meant.
 */
#include "config/expand.h"

#include <assert.h>
#include <string.h>

struct variable {
	const char *name;
	int name_len;
	const char *standard; /* NULL: no default */
	int standard_len;
	const char *end; /* behind the closing brace */
};

static bool is_name_start(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_name(char c)
{
	return is_name_start(c) || (c >= '0' && c <= '9');
}

/* `at` is behind "${". */
static bool parse_variable(const char *at, struct variable *v, struct buf *why)
{
	const char *p = at;
	const char *close = strchr(at, '}');
	if (!close) {
		buf_add(why, "${ has no closing }; write ${NAME}, or $${ for a literal ${");
		return false;
	}
	*v = (struct variable){.name = at, .end = close + 1};
	while (is_name(*p))
		p++;
	v->name_len = (int)(p - at);
	bool named = is_name_start(*at);
	if (named && *p == '}')
		return true;
	if (!named || strncmp(p, ":-", 2) != 0) {
		/* Not more than the name: behind it may stand a password. */
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
	struct buf name = BUF_INIT;
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
	buf_release(&name);
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

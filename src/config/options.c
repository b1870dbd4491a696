/* SPDX-License-Identifier: Apache-2.0
 * options.c: reads maps of the tree into structs, by tables of option rows.
 *
 * A default is converted by the same function as a user's value, so the two cannot differ in
 * meaning.
 */
#include "config/options.h"

#include "base/clock.h"
#include "config/report.h"
#include "config/source.h"

#include <assert.h>
#include <math.h>

#define DURATION_EXAMPLE "a duration such as 90s, 15m or 1h30m"

int text_list_find(const struct text_list *list, const char *text)
{
	for (int i = 0; i < list->n; i++)
		if (strcasecmp(list->items[i], text) == 0)
			return i;
	return -1;
}

static const char *libc_getenv(const char *name)
{
	return getenv(name);
}

void cfg_reader_init(struct cfg_reader *r, struct arena *a)
{
	assert(a);
	*r = (struct cfg_reader){.arena = a, .getenv = libc_getenv};
}

void cfg_reader_release(struct cfg_reader *r)
{
	buf_release(&r->path);
	arena_release(&r->shown_arena);
	*r = (struct cfg_reader){0};
}

size_t cfg_enter(struct cfg_reader *r, const char *name)
{
	size_t mark = r->path.len;
	if (mark > 0)
		buf_addch(&r->path, '.');
	buf_add(&r->path, name);
	return mark;
}

void cfg_leave(struct cfg_reader *r, size_t mark)
{
	assert(mark <= r->path.len);
	if (r->path.data)
		r->path.data[mark] = '\0';
	r->path.len = mark;
}

/* The scalar's text with the environment's values in it. */
static bool scalar_text(struct cfg_reader *r, const struct cfg_node *node, const char *expected,
                        const char **out)
{
	if (!node || node->kind != CFG_SCALAR)
		return report_expected(r, node, NULL, expected);
	*out = node->text;
	if (!node->at.file || !strstr(node->text, "${"))
		return true;
	AUTO_BUF text = BUF_INIT, origin = BUF_INIT, why = BUF_INIT;
	bool ok = env_expand(node->text, r->getenv, &text, &origin, &why);
	if (ok) {
		*out = arena_strdup(r->arena, buf_text(&text));
		report_expanded(r, node->at, buf_text(&origin));
	} else {
		cfg_problem(r, node->at, "%s: %s", report_path(r), buf_text(&why));
	}
	return ok;
}

bool cfg_sql(struct cfg_reader *r, const struct cfg_node *node, struct sql_text *out)
{
	if (!node || node->kind != CFG_SCALAR || !node->text[strspn(node->text, " \t\r\n")])
		return report_expected(r, node, NULL, "SQL");
	if (node->plain && node->cut) {
		cfg_problem(r, node->at, "%s: YAML takes the text after ' #' as a comment; quote the value",
		            report_path(r));
		return false;
	}
	if (env_in_sql(node->text)) {
		cfg_problem(r, node->at, "%s: environment values are not put into SQL", report_path(r));
		return false;
	}
	*out = (struct sql_text){node->text, node->at};
	return true;
}

bool cfg_text_items(struct cfg_reader *r, const struct cfg_node *node, struct text_list *out)
{
	static const char expected[] = "text or a list of texts such as [one, two]";
	bool list = node && node->kind == CFG_LIST;
	int n = list ? node->n : 1;
	const char **items = ARENA_ARRAY(r->arena, const char *, n + 1);
	for (int i = 0; i < n; i++)
		if (!scalar_text(r, list ? node->items[i] : node, expected, &items[i]))
			return false;
	*out = (struct text_list){n, items};
	return true;
}

/* ---- values that are one scalar ---- */

static void add_expected(const struct opt_row *row, struct buf *out)
{
	static const char *const fixed[] = {
		[OPT_TEXT] = "text",
		[OPT_BOOL] = "true or false",
		[OPT_NUMBER] = "a number of at least 0, such as 2 or 1.5",
		[OPT_DURATION] = DURATION_EXAMPLE,
	};
	if (row->type == OPT_CHOICE) {
		buf_add(out, "one of ");
		words_list(row->choices, out);
	} else if (row->type == OPT_INT && (row->min || row->max)) {
		buf_addf(out, "a whole number from %lld to %lld", (long long)row->min, (long long)row->max);
	} else if (row->type == OPT_DURATION && row->min) {
		buf_add(out, DURATION_EXAMPLE ", at least ");
		duration_text(row->min, out);
	} else {
		buf_add(out, row->type == OPT_INT ? "a whole number of at least 0" : fixed[row->type]);
	}
}

/* A decimal number; strtod alone would also accept hex, inf and nan. */
static bool number_parse(const char *text, double *out)
{
	char *end;
	if (!*text || text[strspn(text, "0123456789.eE+-")])
		return false;
	double value = strtod(text, &end);
	if (*end || !isfinite(value) || value < 0)
		return false;
	*out = value;
	return true;
}

/* What OPT_INT allows; *field keeps its value if the text is not that. */
static bool whole_parse(const struct opt_row *row, const char *text, int64_t *field)
{
	int64_t value;
	bool any = row->min == 0 && row->max == 0;
	if (!int_parse(text, &value) || value < row->min || (!any && value > row->max))
		return false;
	*field = value;
	return true;
}

/* What OPT_DURATION allows. */
static bool length_parse(const struct opt_row *row, const char *text, int64_t *field)
{
	int64_t us;
	if (!duration_parse(text, &us) || us < row->min)
		return false;
	*field = us;
	return true;
}

static bool choice_parse(const struct opt_row *row, const char *text, int *field)
{
	int found = word_index(row->choices, text);
	if (found >= 0)
		*field = found;
	return found >= 0;
}

static bool scalar_parse(const struct opt_row *row, const char *text, void *field)
{
	switch (row->type) {
	case OPT_BOOL:
		return bool_parse(text, field);
	case OPT_INT:
		return whole_parse(row, text, field);
	case OPT_NUMBER:
		return number_parse(text, field);
	case OPT_DURATION:
		return length_parse(row, text, field);
	case OPT_CHOICE:
		return choice_parse(row, text, field);
	default:
		*(const char **)field = text;
		return true;
	}
}

static bool read_scalar(struct cfg_reader *r, const struct opt_row *row,
                        const struct cfg_node *node, void *field, struct buf *shown)
{
	AUTO_BUF expected = BUF_INIT;
	const char *text = NULL;
	int64_t bare;
	add_expected(row, &expected);
	if (!scalar_text(r, node, buf_text(&expected), &text))
		return false;
	if (!scalar_parse(row, text, field)) {
		if (row->type == OPT_DURATION && int_parse(text, &bare) && bare >= 0)
			buf_add(&expected, " (a number and its unit)");
		return report_expected(r, node, text, buf_text(&expected));
	}
	if (row->type == OPT_INT)
		buf_addint(shown, *(int64_t *)field);
	else
		buf_add(shown, row->type != OPT_BOOL ? text : *(bool *)field ? "true" : "false");
	return true;
}

bool cfg_text(struct cfg_reader *r, const struct cfg_node *node, const char **out)
{
	static const struct opt_row row = {.type = OPT_TEXT};
	AUTO_BUF shown = BUF_INIT;
	return read_scalar(r, &row, node, out, &shown);
}

bool cfg_duration(struct cfg_reader *r, const struct cfg_node *node, int64_t *us)
{
	static const struct opt_row row = {.type = OPT_DURATION};
	AUTO_BUF shown = BUF_INIT;
	return read_scalar(r, &row, node, us, &shown);
}

/* ---- other values ---- */

static bool opt_read_sql(struct cfg_reader *r, const struct opt_row *row,
                         const struct cfg_node *node, void *field, struct buf *shown)
{
	(void)row;
	struct sql_text *sql = field;
	if (!cfg_sql(r, node, sql))
		return false;
	buf_add(shown, sql->text);
	return true;
}

static bool opt_read_list(struct cfg_reader *r, const struct opt_row *row,
                          const struct cfg_node *node, void *field, struct buf *shown)
{
	(void)row;
	struct text_list *list = field;
	if (!cfg_text_items(r, node, list))
		return false;
	for (int i = 0; i < list->n; i++)
		buf_addf(shown, "%s%s", i ? ", " : "", list->items[i]);
	return true;
}

typedef bool (*value_reader)(struct cfg_reader *r, const struct opt_row *row,
                             const struct cfg_node *node, void *field, struct buf *shown);

/* Maps and custom rows are not single values: opt_read_row() handles them. */
static const value_reader value_readers[] = {
	[OPT_TEXT] = read_scalar,     [OPT_SQL] = opt_read_sql,
	[OPT_SET] = opt_read_sql,     [OPT_BOOL] = read_scalar,
	[OPT_INT] = read_scalar,      [OPT_NUMBER] = read_scalar,
	[OPT_DURATION] = read_scalar, [OPT_TEXT_LIST] = opt_read_list,
	[OPT_CHOICE] = read_scalar,   [OPT_MAP] = NULL,
	[OPT_CUSTOM] = NULL,
};

static void opt_read_value(struct cfg_reader *r, const struct opt_row *row,
                           const struct cfg_node *node, void *field)
{
	AUTO_BUF shown = BUF_INIT;
	if (value_readers[row->type](r, row, node, field, &shown))
		cfg_show(r, NULL, node->at, buf_text(&shown));
}

/* We write the defaults: one that does not convert is a mistake in the table. */
static void read_standard(struct cfg_reader *r, const struct opt_row *row, void *field)
{
	struct cfg_node scalar = {.kind = CFG_SCALAR, .text = row->standard};
	struct cfg_node *node = &scalar;
	struct failure f;
	if (row->type == OPT_TEXT_LIST && cfg_parse(row->standard, NULL, r->arena, &node, &f))
		assert(!"the default of a list must be YAML");
	AUTO_BUF shown = BUF_INIT;
	bool ok = value_readers[row->type](r, row, node, field, &shown);
	assert(ok);
	if (ok)
		report_standard(r, buf_text(&shown));
}

/* A reader that showed nothing itself is shown as it was written. */
static void read_custom(struct cfg_reader *r, const struct opt_row *row,
                        const struct cfg_node *node, void *field)
{
	int shown = r->nshown, errors = r->nerrors;
	if (!row->read)
		return;
	row->read(r, node, field);
	if (r->nshown != shown || r->nerrors != errors)
		return;
	if (node)
		report_written(r, node);
	else if (row->standard)
		report_standard(r, row->standard);
}

static void opt_read_row(struct cfg_reader *r, const struct opt_row *row,
                         const struct cfg_node *node, void *target)
{
	void *field = (char *)target + row->offset;
	if (row->size)
		field = *(void **)field = arena_alloc(r->arena, row->size);
	if (row->type == OPT_MAP)
		cfg_read(r, row->rows, node, field);
	else if (row->type == OPT_CUSTOM)
		read_custom(r, row, node, field);
	else if (node)
		opt_read_value(r, row, node, field);
	else if (row->standard)
		read_standard(r, row, field);
}

static const struct opt_row *find_row(const struct opt_row *rows, const char *name)
{
	for (; rows->name; rows++)
		if (strcmp(rows->name, name) == 0)
			return rows;
	return NULL;
}

/* A wrong type is reported once; then the map counts as absent and gets defaults. */
static const struct cfg_node *expect_map(struct cfg_reader *r, const struct cfg_node *node)
{
	if (!node || node->kind == CFG_MAP || node->kind == CFG_NULL)
		return node;
	report_expected(r, node, node->text, "a map of keys and values");
	return NULL;
}

void cfg_read(struct cfg_reader *r, const struct opt_row *rows, const struct cfg_node *map,
              void *target)
{
	map = expect_map(r, map);
	for (int i = 0; map && i < map->n; i++)
		if (!find_row(rows, map->keys[i]))
			report_unknown(r, rows, map->keys[i], map->key_at[i]);
	for (const struct opt_row *row = rows; row->name; row++) {
		const struct cfg_node *node = cfg_get(map, row->name);
		if (node && node->kind == CFG_NULL)
			node = NULL;
		if (map && !node && row->required)
			report_missing(r, row->name, map->at);
		size_t mark = cfg_enter(r, row->name);
		int before = report_secrecy(r, row->name);
		opt_read_row(r, row, node, target);
		r->secrecy = before;
		cfg_leave(r, mark);
	}
}

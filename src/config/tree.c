/* SPDX-License-Identifier: Apache-2.0
 * tree.c: turns YAML events into a tree with positions.
 *
 * libfyaml's event parser is used and not its document tree: events carry the tokens' marks, we see
 * the depth before anything is built, and we can bound aliases and merge keys. Each event is copied
 * into a small `step` and released at once, so nothing below next_step() holds libfyaml's memory.
 *
 * An alias shares the node it names. An anchor becomes known when its node is complete, so a tree
 * can never contain itself.
 */
#include "config/tree.h"

#include "config/source.h"

#include <assert.h>
#include <libfyaml.h>
#include <stdarg.h>

#define DEPTH_MAX 32
#define NODES_MAX 100000 /* counted as if aliases were copies */
#define KEYS_MAX 10000   /* in one map: the search for duplicates is quadratic */

struct anchor {
	const char *name;
	struct cfg_node *node;
	int nodes;
	struct anchor *next;
};

/* One event in our own form. */
struct step {
	enum fy_event_type type;
	struct cfg_mark at;
	const char *text;   /* scalar: its value; alias: the anchor's name; NULL: no token */
	const char *anchor; /* NULL: none */
	bool plain, cut;
};

struct builder {
	struct fy_parser *parser;
	struct fy_diag *diag;
	const char *source;
	size_t len;
	struct arena *arena;
	struct failure *failure;
	struct cfg_mark last; /* of the newest token: used as the position of an empty value */
	struct anchor *anchors;
	int depth, nodes;
};

static defib_err build(struct builder *b, const struct step *s, struct cfg_node **out);

/* libfyaml's messages, and advice. The first word that occurs wins. */
static const struct {
	const char *word, *next;
} hints[] = {
	{"tab", "indent with spaces, not tabs"},
	{"closing quote", "close the quote"},
	{"closing bracket", "close the [ or { that was opened"},
	{"closing brace", "close the [ or { that was opened"},
	{"missing comma", "put a comma between entries and close the [ or {"},
	{"nested block mapping", "put the value in quotes if it contains \": \""},
	{"multiline plain key", "check the indentation, and quote a value that contains \": \""},
	{"cannot start with", "put the value in quotes"},
	{"", "check the quotes and the indentation here"},
};

static const char *file_name(struct cfg_mark at)
{
	return at.file ? at.file : "text";
}

PRINTF_LIKE(4, 5)
static defib_err bad(const struct builder *b, struct cfg_mark at, const char *next, const char *fmt,
                     ...)
{
	char what[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	fail(b->failure, DEFIB_CONFIG, "%s:%d:%d: %s", file_name(at), at.line, at.col, what);
	fail_next(b->failure, "%s", next);
	return DEFIB_CONFIG;
}

/* The first error that libfyaml collected; it sometimes stops without one. */
static defib_err bad_yaml(const struct builder *b)
{
	void *at_error = NULL;
	struct fy_diag_error *e = fy_diag_errors_iterate(b->diag, &at_error);
	while (e && e->type != FYET_ERROR)
		e = fy_diag_errors_iterate(b->diag, &at_error);
	if (!e)
		return bad(b, b->last, "check this line and the one before", "this is not valid YAML");
	struct cfg_mark at = {b->last.file, e->line > 0 ? e->line : 1, e->column > 0 ? e->column : 1};
	size_t i = 0;
	while (!strstr(e->msg, hints[i].word))
		i++;
	return bad(b, at, hints[i].next, "%s", e->msg);
}

/*
 * Marks of quoted text are after the quote, and of block text on the line below: report where it
 * begins.
 */
static void cfg_mark_of(struct builder *b, struct fy_token *token, enum fy_scalar_style style)
{
	const struct fy_mark *m = token ? fy_token_start_mark(token) : NULL;
	if (!m)
		return;
	b->last.line = m->line + 1;
	b->last.col = m->column + 1;
	if ((style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED) && m->column > 0)
		b->last.col--;
	if (style == FYSS_LITERAL || style == FYSS_FOLDED)
		source_block_start(b->source, m->input_pos, &b->last.line, &b->last.col);
}

static const char *anchor_of(struct builder *b, struct fy_event *e, bool *tagged)
{
	struct fy_token *anchor = NULL, *tag = NULL;
	if (e->type == FYET_SCALAR) {
		anchor = e->scalar.anchor;
		tag = e->scalar.tag;
	} else if (e->type == FYET_MAPPING_START) {
		anchor = e->mapping_start.anchor;
		tag = e->mapping_start.tag;
	} else if (e->type == FYET_SEQUENCE_START) {
		anchor = e->sequence_start.anchor;
		tag = e->sequence_start.tag;
	}
	*tagged = tag != NULL;
	size_t n = 0;
	const char *name = anchor ? fy_token_get_text(anchor, &n) : NULL;
	return name ? arena_strndup(b->arena, name, n) : NULL;
}

static defib_err copy_text(struct builder *b, struct fy_token *token, struct step *s)
{
	size_t n = 0;
	const char *text = fy_token_get_text(token, &n);
	if (!text)
		return bad_yaml(b);
	if (memchr(text, 0, n))
		return bad(b, s->at, "remove the \\0", "a value contains a NUL character");
	s->text = arena_strndup(b->arena, text, n);
	const char *why;
	if (source_bad_byte(s->text, &why) < n)
		return bad(b, s->at, "remove the escape that makes it", "in this value: %s", why);
	return DEFIB_OK;
}

static defib_err read_event(struct builder *b, struct fy_event *e, struct step *s)
{
	struct fy_token *token = fy_event_get_token(e);
	enum fy_scalar_style style = FYSS_PLAIN;
	if (e->type == FYET_SCALAR)
		style = fy_token_scalar_style(token);
	cfg_mark_of(b, token, style);
	bool tagged;
	*s = (struct step){.type = e->type, .at = b->last, .anchor = anchor_of(b, e, &tagged)};
	if (tagged)
		return bad(b, s->at, "remove the tag: the key decides the type of its value",
		           "tags (!name) are not supported");
	if (!token || (e->type != FYET_SCALAR && e->type != FYET_ALIAS))
		return DEFIB_OK;
	s->plain = style == FYSS_PLAIN;
	const struct fy_mark *end = fy_token_end_mark(token);
	s->cut = s->plain && end && source_comment_follows(b->source, b->len, end->input_pos);
	return copy_text(b, token, s);
}

static defib_err next_step(struct builder *b, struct step *s)
{
	*s = (struct step){.type = FYET_NONE};
	struct fy_event *e = fy_parser_parse(b->parser);
	if (!e)
		return bad_yaml(b);
	defib_err err = read_event(b, e, s);
	fy_parser_event_free(b->parser, e);
	return err;
}

/* Room for one more. Arrays grow when their count is a power of two, so no capacity is stored. */
static void *grown(struct arena *a, void *old, int n, size_t each)
{
	if (n > 0 && (n & (n - 1)) != 0)
		return old;
	void *bigger = arena_alloc(a, each * (size_t)(n ? 2 * n : 1));
	if (n > 0)
		memcpy(bigger, old, each * (size_t)n);
	return bigger;
}

static void cfg_list_add(struct arena *a, struct cfg_node *list, struct cfg_node *value)
{
	list->items = grown(a, list->items, list->n, sizeof(void *));
	list->items[list->n++] = value;
}

static void map_add(struct arena *a, struct cfg_node *map, const char *key, struct cfg_mark key_at,
                    struct cfg_node *value)
{
	map->keys = grown(a, map->keys, map->n, sizeof(map->keys[0]));
	map->key_at = grown(a, map->key_at, map->n, sizeof(map->key_at[0]));
	map->keys[map->n] = key;
	map->key_at[map->n] = key_at;
	cfg_list_add(a, map, value);
}

static int cfg_key_index(const struct cfg_node *map, const char *key)
{
	for (int i = 0; i < map->n; i++)
		if (strcmp(map->keys[i], key) == 0)
			return i;
	return -1;
}

static bool is_null_word(const struct step *s)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL", NULL};
	for (int i = 0; s->plain && words[i]; i++)
		if (strcmp(s->text, words[i]) == 0)
			return true;
	return !s->text;
}

static void build_scalar(const struct step *s, struct cfg_node *node)
{
	node->kind = is_null_word(s) ? CFG_NULL : CFG_SCALAR;
	if (node->kind == CFG_NULL)
		return;
	node->text = s->text;
	node->plain = s->plain;
	node->cut = s->cut;
}

static defib_err build_list(struct builder *b, struct cfg_node *list)
{
	list->kind = CFG_LIST;
	for (;;) {
		struct step s;
		struct cfg_node *item = NULL;
		defib_err err = next_step(b, &s);
		if (err || s.type == FYET_SEQUENCE_END)
			return err;
		if ((err = build(b, &s, &item)))
			return err;
		cfg_list_add(b->arena, list, item);
	}
}

/* Keys of `<<` are added if the map has none of that name; of several maps the first wins. */
static defib_err merge_in(struct builder *b, struct cfg_node *map, const struct cfg_node *merge)
{
	static const char what_to_do[] = "write <<: *name or <<: [*one, *two]";
	bool one = merge->kind == CFG_MAP;
	if (!one && merge->kind != CFG_LIST)
		return bad(b, merge->at, what_to_do, "\"<<\" needs a map to merge");
	for (int i = 0; i < (one ? 1 : merge->n); i++) {
		const struct cfg_node *from = one ? merge : merge->items[i];
		if (from->kind != CFG_MAP)
			return bad(b, from->at, what_to_do, "\"<<\" needs maps to merge");
		for (int k = 0; k < from->n; k++)
			if (cfg_key_index(map, from->keys[k]) < 0)
				map_add(b->arena, map, from->keys[k], from->key_at[k], from->items[k]);
	}
	return DEFIB_OK;
}

static defib_err cfg_check_key(struct builder *b, const struct cfg_node *map, const struct step *s)
{
	if (s->type != FYET_SCALAR || !s->text)
		return bad(b, s->at, "write the key as one word, in quotes if it needs them",
		           "a key must be plain text");
	int twin = cfg_key_index(map, s->text);
	if (twin >= 0)
		return bad(b, s->at, "remove one of the two", "key \"%s\" is already given at %d:%d",
		           s->text, map->key_at[twin].line, map->key_at[twin].col);
	if (map->n >= KEYS_MAX)
		return bad(b, s->at, "split the map", "more than %d keys in one map", KEYS_MAX);
	return DEFIB_OK;
}

static defib_err build_map(struct builder *b, struct cfg_node *map)
{
	struct cfg_node *merge = NULL;
	map->kind = CFG_MAP;
	for (;;) {
		struct step key, value;
		struct cfg_node *node = NULL;
		defib_err err = next_step(b, &key);
		if (err)
			return err;
		if (key.type == FYET_MAPPING_END)
			return merge ? merge_in(b, map, merge) : DEFIB_OK;
		if ((err = cfg_check_key(b, map, &key)) || (err = next_step(b, &value)) ||
		    (err = build(b, &value, &node)))
			return err;
		if (!key.plain || strcmp(key.text, "<<") != 0)
			map_add(b->arena, map, key.text, key.at, node);
		else if (!merge)
			merge = node;
		else
			return bad(b, key.at, "write <<: [*one, *two]", "a second \"<<\" in one map");
	}
}

static const struct anchor *find_anchor(const struct builder *b, const char *name)
{
	const struct anchor *a = b->anchors;
	while (a && strcmp(a->name, name) != 0)
		a = a->next;
	return a;
}

static defib_err build_alias(struct builder *b, const struct step *s, struct cfg_node **out)
{
	if (!s->text)
		return bad_yaml(b);
	const struct anchor *a = find_anchor(b, s->text);
	if (!a)
		return bad(b, s->at, "define it before it is used, or put the value in quotes",
		           "*%s names no anchor (&%s) above", s->text, s->text);
	b->nodes += a->nodes;
	*out = a->node;
	return DEFIB_OK;
}

static void remember_anchor(struct builder *b, const char *name, struct cfg_node *node, int nodes)
{
	struct anchor *a = ARENA_NEW(b->arena, struct anchor);
	*a = (struct anchor){name, node, nodes, b->anchors};
	b->anchors = a;
}

static defib_err build_fresh(struct builder *b, const struct step *s, struct cfg_node **out)
{
	struct cfg_node *node = ARENA_NEW(b->arena, struct cfg_node);
	int nodes_before = b->nodes++;
	defib_err err = DEFIB_OK;
	node->at = s->at;
	if (s->type == FYET_SCALAR)
		build_scalar(s, node);
	else if (s->type == FYET_SEQUENCE_START)
		err = build_list(b, node);
	else if (s->type == FYET_MAPPING_START)
		err = build_map(b, node);
	else
		err = bad_yaml(b);
	if (!err && s->anchor)
		remember_anchor(b, s->anchor, node, b->nodes - nodes_before);
	*out = node;
	return err;
}

static defib_err build(struct builder *b, const struct step *s, struct cfg_node **out)
{
	if (b->depth >= DEPTH_MAX)
		return bad(b, s->at, "flatten it", "nested deeper than %d levels", DEPTH_MAX);
	b->depth++;
	defib_err err = s->type == FYET_ALIAS ? build_alias(b, s, out) : build_fresh(b, s, out);
	b->depth--;
	if (!err && b->nodes > NODES_MAX)
		err = bad(b, s->at, "split the file", "more than %d values in one file", NODES_MAX);
	return err;
}

static defib_err expect_end(struct builder *b)
{
	struct step s;
	defib_err err = next_step(b, &s);
	if (!err && s.type == FYET_DOCUMENT_END)
		err = next_step(b, &s);
	if (!err && s.type == FYET_DOCUMENT_START)
		err = bad(b, s.at, "keep one document in a file", "a second document begins here");
	return err;
}

static defib_err build_document(struct builder *b, struct cfg_node **out)
{
	struct step s;
	defib_err err;
	do {
		if ((err = next_step(b, &s)))
			return err;
	} while (s.type == FYET_STREAM_START || s.type == FYET_DOCUMENT_START);
	if (s.type == FYET_STREAM_END) {
		*out = ARENA_NEW(b->arena, struct cfg_node);
		(*out)->at = (struct cfg_mark){b->last.file, 1, 1};
		return DEFIB_OK;
	}
	if ((err = build(b, &s, out)))
		return err;
	return expect_end(b);
}

/* A diagnostics object that collects and prints nothing. */
static struct fy_diag *silent_diag(void)
{
	struct fy_diag_cfg cfg;
	fy_diag_cfg_default(&cfg);
	cfg.fp = NULL;
	cfg.colorize = false;
	struct fy_diag *diag = fy_diag_create(&cfg);
	if (diag)
		fy_diag_set_collect_errors(diag, true);
	return diag;
}

static defib_err check_source(const struct builder *b)
{
	const char *why = NULL;
	if (b->len > SOURCE_MAX)
		return bad(b, b->last, "split the file", "larger than %d KiB", SOURCE_MAX / 1024);
	size_t at = source_bad_byte(b->source, &why);
	if (at == b->len)
		return DEFIB_OK;
	struct cfg_mark mark = b->last;
	source_position(b->source, at, &mark.line, &mark.col);
	return bad(b, mark, "save the file as UTF-8 text", "%s", why);
}

/*
 * libfyaml does not handle refused memory: it crashes, or drops a value. So it is started only if
 * there is more memory than it can need (measured: 150 KB for a file of 27 KB).
 */
#define ROOM_LEAST (1 << 20)
#define ROOM_PER_BYTE 8

static defib_err check_room(const struct builder *b)
{
	void *room = malloc(ROOM_LEAST + b->len * ROOM_PER_BYTE);
	free(room);
	return room ? DEFIB_OK
	            : fail(b->failure, DEFIB_MEMORY, "%s: out of memory; nothing was read",
	                   file_name(b->last));
}

defib_err cfg_parse(const char *text, const char *file, struct arena *a, struct cfg_node **out,
                    struct failure *f)
{
	assert(text && a && out);
	const char *name = file ? arena_strdup(a, file) : NULL;
	struct builder b = {.source = text, .len = strlen(text), .arena = a, .failure = f};
	b.last = (struct cfg_mark){name, 1, 1};
	defib_err err = check_source(&b);
	if (!err)
		err = check_room(&b);
	if (err)
		return err;
	b.diag = silent_diag();
	struct fy_parse_cfg cfg = {.flags = FYPCF_QUIET | FYPCF_JSON_NONE, .diag = b.diag};
	b.parser = b.diag ? fy_parser_create(&cfg) : NULL;
	if (!b.parser || fy_parser_set_string(b.parser, text, b.len))
		err = fail(f, DEFIB_CONFIG, "%s: the YAML parser could not be started", file_name(b.last));
	else
		err = build_document(&b, out);
	if (b.parser)
		fy_parser_destroy(b.parser);
	if (b.diag)
		fy_diag_destroy(b.diag);
	return err;
}

defib_err cfg_load(const char *path, struct arena *a, struct cfg_node **out, struct failure *f)
{
	AUTO_BUF text = BUF_INIT;
	defib_err err = source_load(path, &text, f);
	if (!err)
		err = cfg_parse(buf_text(&text), path, a, out, f);
	return err;
}

struct cfg_node *cfg_get(const struct cfg_node *map, const char *key)
{
	int i = map && map->kind == CFG_MAP ? cfg_key_index(map, key) : -1;
	return i >= 0 ? map->items[i] : NULL;
}

struct cfg_node *cfg_scalar(struct arena *a, const char *text)
{
	struct cfg_node *node = ARENA_NEW(a, struct cfg_node);
	node->kind = CFG_SCALAR;
	node->text = arena_strdup(a, text);
	return node;
}

struct cfg_node *cfg_map(struct arena *a)
{
	struct cfg_node *node = ARENA_NEW(a, struct cfg_node);
	node->kind = CFG_MAP;
	return node;
}

void cfg_put(struct arena *a, struct cfg_node *map, const char *key, struct cfg_node *value)
{
	assert(map->kind == CFG_MAP && value);
	int i = cfg_key_index(map, key);
	if (i < 0) {
		map_add(a, map, arena_strdup(a, key), value->at, value);
		return;
	}
	map->items[i] = value;
	map->key_at[i] = value->at;
}

/* SPDX-License-Identifier: Apache-2.0
 * tree_test.c: the tree of a document, the positions of its parts, and what is rejected with which
 * line.
 */
#include "config/tree.h"

#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct arena arena;
static struct failure failure;

static int fresh(void **state)
{
	(void)state;
	arena_clear(&arena);
	fail_clear(&failure);
	return 0;
}

static int release(void **state)
{
	(void)state;
	arena_release(&arena);
	return 0;
}

static struct cfg_node *parsed(const char *text)
{
	struct cfg_node *node = NULL;
	if (cfg_parse(text, "f.yaml", &arena, &node, &failure))
		fail_msg("%s; %s", failure.what, failure.next);
	return node;
}

static void assert_at(struct cfg_mark at, int line, int col)
{
	assert_string_equal(at.file, "f.yaml");
	assert_int_equal(at.line, line);
	assert_int_equal(at.col, col);
}

static void assert_scalar(const struct cfg_node *node, const char *text)
{
	assert_non_null(node);
	assert_int_equal(node->kind, CFG_SCALAR);
	assert_string_equal(node->text, text);
}

static void assert_refused(const char *text, const char *what, const char *next)
{
	struct cfg_node *node = NULL;
	assert_int_equal(cfg_parse(text, "f.yaml", &arena, &node, &failure), DEFIB_CONFIG);
	assert_string_equal(failure.what, what);
	assert_string_equal(failure.next, next);
}

static void a_map_keeps_order_text_and_places(void **state)
{
	(void)state;
	struct cfg_node *map = parsed("name: pages\n  # note\nlist:\n  - one\n  - {k: v}\n");
	assert_int_equal(map->kind, CFG_MAP);
	assert_int_equal(map->n, 2);
	assert_string_equal(map->keys[1], "list");
	assert_at(map->key_at[1], 3, 1);
	assert_scalar(cfg_get(map, "name"), "pages");
	assert_at(cfg_get(map, "name")->at, 1, 7);
	struct cfg_node *list = cfg_get(map, "list");
	assert_int_equal(list->kind, CFG_LIST);
	assert_int_equal(list->n, 2);
	assert_at(list->at, 4, 3);
	assert_at(list->items[0]->at, 4, 5);
	assert_at(list->items[1]->at, 5, 5);
	assert_at(cfg_get(list->items[1], "k")->at, 5, 9);
}

static void a_quoted_value_is_placed_at_its_quote(void **state)
{
	(void)state;
	struct cfg_node *map = parsed("a: \"x\"\nbc: 'y'\n");
	assert_at(cfg_get(map, "a")->at, 1, 4);
	assert_at(cfg_get(map, "bc")->at, 2, 5);
	assert_false(cfg_get(map, "a")->plain);
}

static void a_block_value_is_placed_at_its_indicator(void **state)
{
	(void)state;
	struct cfg_node *map =
		parsed("a:\n  bé: |  # > note\n\n    SELECT 1 # x\n  c: >-\n    d\n    e\n");
	struct cfg_node *a = cfg_get(map, "a");
	assert_scalar(cfg_get(a, "bé"), "\nSELECT 1 # x\n");
	assert_at(cfg_get(a, "bé")->at, 2, 7);
	assert_false(cfg_get(a, "bé")->cut);
	assert_scalar(cfg_get(a, "c"), "d e");
	assert_at(cfg_get(a, "c")->at, 5, 6);
}

static void a_comment_behind_a_plain_value_is_noticed(void **state)
{
	(void)state;
	struct cfg_node *map = parsed("a: x = '#1' #2\nb: x#y\nc: \"x\" # note\nd: one\n  two # cut\n"
	                              "e: [p # cut\n  , q]\nf: x\n# line\n");
	assert_scalar(cfg_get(map, "a"), "x = '#1'");
	assert_true(cfg_get(map, "a")->plain && cfg_get(map, "a")->cut);
	assert_false(cfg_get(map, "b")->cut);
	assert_false(cfg_get(map, "c")->cut);
	assert_true(cfg_get(map, "d")->cut);
	assert_true(cfg_get(map, "e")->items[0]->cut);
	assert_false(cfg_get(map, "e")->items[1]->cut);
	assert_false(cfg_get(map, "f")->cut);
}

static void nothing_tilde_and_null_are_null(void **state)
{
	(void)state;
	struct cfg_node *map = parsed("a:\nb: ~\nc: null\nd: NULL\ne: \"\"\nf: 'null'\ng: # note\n");
	for (const char *key = "abcdg"; *key; key++)
		assert_int_equal(cfg_get(map, (char[]){*key, 0})->kind, CFG_NULL);
	assert_scalar(cfg_get(map, "e"), "");
	assert_scalar(cfg_get(map, "f"), "null");
	assert_at(cfg_get(map, "g")->at, 7, 1);
}

static void an_empty_document_is_null(void **state)
{
	(void)state;
	assert_int_equal(parsed("")->kind, CFG_NULL);
	assert_int_equal(parsed("# only a comment\n")->kind, CFG_NULL);
	assert_at(parsed("---\n...\n")->at, 1, 1);
}

static void unicode_crlf_and_bom_are_text(void **state)
{
	(void)state;
	struct cfg_node *map = parsed("\xEF\xBB\xBF"
	                              "käse: brötchen 🥐 x\r\n日本: \"\\u00e9\"\r\n");
	assert_scalar(cfg_get(map, "käse"), "brötchen 🥐 x");
	assert_at(cfg_get(map, "käse")->at, 1, 7);
	assert_scalar(cfg_get(map, "日本"), "é");
	assert_at(cfg_get(map, "日本")->at, 2, 5);
}

static void duplicate_keys_are_refused_with_both_places(void **state)
{
	(void)state;
	assert_refused("a: 1\nb:\n  c: 2\n  \"c\": 3\n",
	               "f.yaml:4:3: key \"c\" is already given at 3:3", "remove one of the two");
}

static void an_alias_is_the_value_it_names(void **state)
{
	(void)state;
	struct cfg_node *map = parsed("a: &x [1, 2]\nb: *x\n");
	assert_ptr_equal(cfg_get(map, "a"), cfg_get(map, "b"));
}

static void a_merge_key_fills_in_what_is_absent(void **state)
{
	(void)state;
	struct cfg_node *map = parsed("a: &a {k: 1, l: 2}\nb: &b {l: 3, m: 4}\n"
	                              "c:\n  <<: [*a, *b]\n  k: own\n");
	struct cfg_node *c = cfg_get(map, "c");
	assert_int_equal(c->n, 3);
	assert_scalar(cfg_get(c, "k"), "own");
	assert_scalar(cfg_get(c, "l"), "2");
	assert_scalar(cfg_get(c, "m"), "4");
	assert_at(cfg_get(c, "m")->at, 2, 17);
}

static void an_alias_cannot_contain_itself(void **state)
{
	(void)state;
	assert_refused("a: &x [*x]\n", "f.yaml:1:9: *x names no anchor (&x) above",
	               "define it before it is used, or put the value in quotes");
}

static void aliases_cannot_multiply_without_end(void **state)
{
	(void)state;
	struct buf text = BUF_INIT;
	buf_add(&text, "a: &a [x, x, x, x, x, x, x, x, x, x]\n");
	for (int c = 'b'; c < 'k'; c++) {
		buf_addf(&text, "%c: &%c [", c, c);
		for (int i = 0; i < 10; i++)
			buf_addf(&text, "*%c, ", c - 1);
		buf_add(&text, "]\n");
	}
	struct cfg_node *node;
	assert_int_equal(cfg_parse(buf_text(&text), "f.yaml", &arena, &node, &failure), DEFIB_CONFIG);
	assert_non_null(strstr(failure.what, "more than 100000 values"));
	buf_release(&text);
}

static void depth_is_limited(void **state)
{
	(void)state;
	char text[200];
	memset(text, '[', 31);
	memset(text + 31, ']', 31);
	text[62] = '\0';
	assert_int_equal(parsed(text)->kind, CFG_LIST);
	memset(text, '[', 199);
	text[199] = '\0';
	assert_refused(text, "f.yaml:1:33: nested deeper than 32 levels", "flatten it");
}

static void size_is_limited(void **state)
{
	(void)state;
	size_t n = 1024 * 1024 + 1;
	char *text = mem_alloc(n + 1);
	memset(text, 'a', n);
	assert_refused(text, "f.yaml:1:1: larger than 1024 KiB", "split the file");
	free(text);
}

static void keys_of_one_map_are_limited(void **state)
{
	(void)state;
	struct buf text = BUF_INIT;
	for (int i = 0; i <= 10000; i++)
		buf_addf(&text, "k%d: 1\n", i);
	assert_refused(buf_text(&text), "f.yaml:10001:1: more than 10000 keys in one map",
	               "split the map");
	buf_release(&text);
}

/* {document, what, what to do} */
static const char *const refusals[][3] = {
	{"a: [1, 2\n", "f.yaml:2:1: flow sequence without a closing bracket",
     "close the [ or { that was opened"},
	{"a: x = 'y: z'\n", "f.yaml:1:10: invalid nested block mapping on the same line",
     "put the value in quotes if it contains \": \""},
	{"a:\n\t- b\n", "f.yaml:2:1: tab character may not be used as indentation",
     "indent with spaces, not tabs"},
	{"a: \"open\n", "f.yaml:1:5: double-quoted scalar without closing quote", "close the quote"},
	{"a: @x\n", "f.yaml:1:4: plain scalar cannot start with '@'", "put the value in quotes"},
	{"a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document begins here",
     "keep one document in a file"},
	{"? [a]\n: b\n", "f.yaml:1:3: a key must be plain text",
     "write the key as one word, in quotes if it needs them"},
	{"a: !!binary abc\n", "f.yaml:1:13: tags (!name) are not supported",
     "remove the tag: the key decides the type of its value"},
	{"a: \xFF\n", "f.yaml:1:4: this byte is not UTF-8", "save the file as UTF-8 text"},
	{"é: \xC0\xAF\n", "f.yaml:1:4: this byte is not UTF-8", "save the file as UTF-8 text"},
	{"a: 1\nb: \x01\n", "f.yaml:2:4: a control character", "save the file as UTF-8 text"},
	{"a: \"\\0\"\n", "f.yaml:1:4: a value contains a NUL character", "remove the \\0"},
	{"a: \"\\x07\"\n", "f.yaml:1:4: in this value: a control character",
     "remove the escape that makes it"},
	{"<<: 5\n", "f.yaml:1:5: \"<<\" needs a map to merge", "write <<: *name or <<: [*one, *two]"},
	{"a: &a {}\n<<: *a\n<<: *a\n", "f.yaml:3:1: a second \"<<\" in one map",
     "write <<: [*one, *two]"},
	{"%YAML 9.9\n---\na\n", "f.yaml:1:1: this is not valid YAML",
     "check this line and the one before"},
};

static void what_cannot_be_read_gives_one_line_with_its_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		assert_refused(refusals[i][0], refusals[i][1], refusals[i][2]);
}

/* libfyaml prints by itself unless configured otherwise. */
static void a_refusal_prints_nothing(void **state)
{
	(void)state;
	FILE *caught = tmpfile();
	assert_non_null(caught);
	fflush(stderr);
	fflush(stdout);
	int err = dup(2), out = dup(1);
	dup2(fileno(caught), 2);
	dup2(fileno(caught), 1);
	struct cfg_node *node;
	defib_err result = cfg_parse("a: [", "f.yaml", &arena, &node, &failure);
	fflush(stderr);
	fflush(stdout);
	dup2(err, 2);
	dup2(out, 1);
	close(err);
	close(out);
	assert_int_equal(result, DEFIB_CONFIG);
	assert_int_equal(lseek(fileno(caught), 0, SEEK_END), 0);
	fclose(caught);
}

static void write_file(const char *path, const char *bytes, size_t n)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

static void a_file_is_loaded_under_its_name(void **state)
{
	(void)state;
	char path[] = "/tmp/tree_test.XXXXXX";
	close(mkstemp(path));
	write_file(path, "a: 1\n", 5);
	struct cfg_node *map = NULL;
	assert_int_equal(cfg_load(path, &arena, &map, &failure), DEFIB_OK);
	assert_scalar(cfg_get(map, "a"), "1");
	assert_string_equal(map->at.file, path);
	unlink(path);
}

static void a_nul_byte_in_a_file_is_refused_where_it_is(void **state)
{
	(void)state;
	char path[] = "/tmp/tree_test.XXXXXX";
	close(mkstemp(path));
	write_file(path, "a: 1\nb: \0x\n", 11);
	struct cfg_node *map = NULL;
	assert_int_equal(cfg_load(path, &arena, &map, &failure), DEFIB_CONFIG);
	assert_non_null(strstr(failure.what, ":2:4: a NUL byte"));
	unlink(path);
}

static void a_file_that_cannot_be_read_says_why(void **state)
{
	(void)state;
	struct cfg_node *map = NULL;
	assert_int_equal(cfg_load("/nonexistent/defib.yaml", &arena, &map, &failure), DEFIB_CONFIG);
	assert_string_equal(failure.what, "/nonexistent/defib.yaml: no such file");
	assert_int_equal(cfg_load("/tmp", &arena, &map, &failure), DEFIB_CONFIG);
	assert_string_equal(failure.what, "/tmp: is a directory");
}

static void a_file_without_permission_says_so(void **state)
{
	(void)state;
	char path[] = "/tmp/tree_test.XXXXXX";
	close(mkstemp(path));
	assert_int_equal(chmod(path, 0), 0);
	uid_t before = geteuid();
	if (before == 0) /* root reads everything */
		assert_int_equal(seteuid(65534), 0);
	struct cfg_node *map = NULL;
	defib_err err = cfg_load(path, &arena, &map, &failure);
	if (before == 0)
		assert_int_equal(seteuid(before), 0);
	unlink(path);
	assert_int_equal(err, DEFIB_CONFIG);
	assert_non_null(strstr(failure.what, ": no permission to read it"));
}

static void a_tree_made_by_hand_reads_like_a_parsed_one(void **state)
{
	(void)state;
	struct cfg_node *map = cfg_map(&arena);
	char key[] = "a";
	for (; *key <= 'k'; (*key)++)
		cfg_put(&arena, map, key, cfg_scalar(&arena, key));
	cfg_put(&arena, map, "c", cfg_scalar(&arena, "new"));
	assert_int_equal(map->n, 11);
	assert_scalar(cfg_get(map, "c"), "new");
	assert_scalar(cfg_get(map, "k"), "k");
	assert_null(cfg_get(map, "k")->at.file);
	assert_null(cfg_get(map, "z"));
	assert_null(cfg_get(NULL, "z"));
}

static void a_key_put_into_a_parsed_map_is_added(void **state)
{
	(void)state;
	struct cfg_node *map = parsed("{a: 1, b: 2, c: 3}");
	cfg_put(&arena, map, "d", cfg_scalar(&arena, "4"));
	cfg_put(&arena, map, "e", cfg_scalar(&arena, "5"));
	assert_scalar(cfg_get(map, "c"), "3");
	assert_scalar(cfg_get(map, "e"), "5");
}

/* Walks everything, so that a bad pointer shows under a sanitizer. */
static size_t weigh(const struct cfg_node *node)
{
	size_t sum = node->kind == CFG_SCALAR ? strlen(node->text) : 1;
	assert_true(node->at.line >= 1 && node->at.col >= 1);
	for (int i = 0; i < node->n; i++)
		sum += weigh(node->items[i]) + (node->keys ? strlen(node->keys[i]) : 0);
	return sum;
}

static void ten_thousand_broken_documents_always_return(void **state)
{
	(void)state;
	static const char valid[] =
		"databases:\n- name: main\n  url: ${DATABASE_URL} # note\n"
		"watches:\n- &w\n  name: 'pages'\n  key: [id, \"x\\u00e9\"]\n"
		"  also: |\n    SELECT 1\n- <<: *w\n  work: {batch: 3, p: >-\n  y}\n";
	static const char spice[] = "\n\t :-?[]{},&*#|>'\"%@`!<=~\\x0\xC3\xA9\xFF\x01\r";
	char text[sizeof(valid)];
	unsigned seed = 20260102;
	int accepted = 0;
	for (int round = 0; round < 10000; round++) {
		memcpy(text, valid, sizeof(valid));
		for (int changes = 1 + rand_r(&seed) % 6; changes > 0; changes--) {
			size_t at = (size_t)rand_r(&seed) % (sizeof(valid) - 1);
			text[at] = spice[(size_t)rand_r(&seed) % (sizeof(spice) - 1)];
		}
		struct cfg_node *node = NULL;
		arena_clear(&arena);
		fail_clear(&failure);
		if (cfg_parse(text, "f.yaml", &arena, &node, &failure)) {
			assert_memory_equal(failure.what, "f.yaml:", 7);
			assert_null(strchr(failure.what, '\n'));
		} else {
			accepted += weigh(node) > 0;
		}
	}
	assert_in_range(accepted, 1, 9999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_map_keeps_order_text_and_places, fresh),
		cmocka_unit_test_setup(a_quoted_value_is_placed_at_its_quote, fresh),
		cmocka_unit_test_setup(a_block_value_is_placed_at_its_indicator, fresh),
		cmocka_unit_test_setup(a_comment_behind_a_plain_value_is_noticed, fresh),
		cmocka_unit_test_setup(nothing_tilde_and_null_are_null, fresh),
		cmocka_unit_test_setup(an_empty_document_is_null, fresh),
		cmocka_unit_test_setup(unicode_crlf_and_bom_are_text, fresh),
		cmocka_unit_test_setup(duplicate_keys_are_refused_with_both_places, fresh),
		cmocka_unit_test_setup(an_alias_is_the_value_it_names, fresh),
		cmocka_unit_test_setup(a_merge_key_fills_in_what_is_absent, fresh),
		cmocka_unit_test_setup(an_alias_cannot_contain_itself, fresh),
		cmocka_unit_test_setup(aliases_cannot_multiply_without_end, fresh),
		cmocka_unit_test_setup(depth_is_limited, fresh),
		cmocka_unit_test_setup(size_is_limited, fresh),
		cmocka_unit_test_setup(keys_of_one_map_are_limited, fresh),
		cmocka_unit_test_setup(what_cannot_be_read_gives_one_line_with_its_place, fresh),
		cmocka_unit_test_setup(a_refusal_prints_nothing, fresh),
		cmocka_unit_test_setup(a_file_is_loaded_under_its_name, fresh),
		cmocka_unit_test_setup(a_nul_byte_in_a_file_is_refused_where_it_is, fresh),
		cmocka_unit_test_setup(a_file_that_cannot_be_read_says_why, fresh),
		cmocka_unit_test_setup(a_file_without_permission_says_so, fresh),
		cmocka_unit_test_setup(a_tree_made_by_hand_reads_like_a_parsed_one, fresh),
		cmocka_unit_test_setup(a_key_put_into_a_parsed_map_is_added, fresh),
		cmocka_unit_test_setup(ten_thousand_broken_documents_always_return, fresh),
	};
	return cmocka_run_group_tests(tests, NULL, release);
}

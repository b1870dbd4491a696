/* SPDX-License-Identifier: Apache-2.0
 * text.h: a growing string, and tests on strings that several rooms need.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/mem.h"

#include <stdarg.h>

/*
 * A growing string, always NUL-terminated.
 *
 * Running out of memory ends the process with one line (see mem.h), so no call here can fail. A
 * zeroed struct is a valid empty buffer, as is BUF_INIT.
 */

struct buf {
	char *data; /* NULL until something is added: read with buf_text() */
	size_t len, cap;
};
/* clang-format off */
#define BUF_INIT {NULL, 0, 0}
/* clang-format on */

void buf_add(struct buf *b, const char *text);
void buf_addn(struct buf *b, const char *bytes, size_t n);
void buf_addch(struct buf *b, char c);
/* A whole number, several times faster than printf. */
void buf_addint(struct buf *b, int64_t value);
/* For people: "12,345". */
void buf_add_count(struct buf *b, int64_t n);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_vaddf(struct buf *b, const char *fmt, va_list args) PRINTF_LIKE(2, 0);
/* As a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. */
void buf_add_json(struct buf *b, const char *text);
/*
 * A JSON document that another program or a database wrote; what would control a terminal is
 * escaped, which does not change its meaning.
 */
void buf_add_document(struct buf *b, const char *json);
/* The text, "" when empty; valid until the next change. */
const char *buf_text(const struct buf *b);
/* Keep the memory and drop the text, or drop what follows its first `len` bytes. */
void buf_clear(struct buf *b);
void buf_cut(struct buf *b, size_t len);
void buf_release(struct buf *b);
/* AUTO_BUF text = BUF_INIT; releases itself. */
#define AUTO_BUF AUTO(buf_release) struct buf
/* Move the text to an arena, and release the buffer. */
char *buf_to_arena(struct buf *b, struct arena *a);
/* Hand the text to the caller, who frees it with free(). */
char *buf_detach(struct buf *b);

/* ---- tests on strings ---- */

bool text_eq(const char *a, const char *b); /* NULL equals only NULL */
bool text_starts(const char *text, const char *prefix);
/* Length in bytes of the UTF-8 character at `text`; 0 at the end or if it is not well-formed. */
size_t utf8_len(const char *text);
/* Whether all of it is well-formed. */
bool utf8_valid(const char *text);
/*
 * Whether `text` starts with a control character: one of ASCII or C1 (C2 80…9F in UTF-8), a mark
 * that changes the writing direction, or a separator of lines or paragraphs.
 */
bool utf8_is_control(const char *text);
/*
 * Copy as much as fits into `size` bytes with the NUL: whole characters only, and '?' for each byte
 * that is not UTF-8, so that a text column accepts it.
 */
void utf8_copy(char *to, size_t size, const char *text);
/*
 * The candidate nearest to `word` by edit distance, or NULL if none is near enough to be a likely
 * typo. `candidates` ends with NULL.
 */
const char *text_nearest(const char *word, const char *const *candidates);
/* "; did you mean \"stuck_after\"?", to end a sentence with; "" if no candidate is near enough. */
struct hint {
	char text[96];
};
struct hint text_hint(const char *word, const char *const *candidates);
/* The same for a word that was already found, with text before and after it. */
struct hint hint_of(const char *near, const char *before, const char *after);
/* The index of a word in a list that ends with NULL, or -1. */
int word_index(const char *const *words, const char *word);
/* "a, b or c" of words that end with NULL. */
void words_list(const char *const *words, struct buf *out);
/* A database URL with any password replaced by "***"; other text unchanged. */
void url_redact(const char *url, struct buf *out);
/* Overwrite the password part of a URL in place with '*' (for argv). */
void url_wipe_password(char *url);
/* A whole decimal integer, with an optional sign. */
bool int_parse(const char *text, int64_t *out);
/* true, yes, on, 1 / false, no, off, 0 in any case. */
bool bool_parse(const char *text, bool *out);

/* ---- JSON ---- */

/*
 * Reads JSON so that refused memory is never mistaken for an error in the text: a spooled result
 * would be set aside as damaged, or a valid payload rejected. Refused memory is waited for as in
 * mem.h. Callers include jansson.h.
 */
struct json_t;
/* NULL: the text is not JSON. `flags` are jansson's. */
struct json_t *json_read(const char *text, size_t flags);
struct json_t *json_read_bytes(const char *bytes, size_t n, size_t flags);
/* For people to read, as buf_add_document(). False: it cannot be written, and nothing was added. */
bool json_write(struct buf *b, const struct json_t *value, size_t flags);
/*
 * For a whole program: jansson allocates as in mem.h. A library must not do this: its host may use
 * jansson too.
 */
void json_use_our_memory(void);

#endif

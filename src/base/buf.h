/* SPDX-License-Identifier: Apache-2.0
 * buf.h: a growing string, always NUL-terminated.
 *
 * Running out of memory ends the process with one line (see mem.h), so no
 * call here can fail. `buf_init` a zeroed struct is not needed: BUF_INIT or
 * memset 0 is a valid empty buffer.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/fail.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data; /* NULL while nothing was ever added: use buf_text() to read */
	size_t len, cap;
};
/* clang-format off */
#define BUF_INIT {NULL, 0, 0}
/* clang-format on */

void buf_add(struct buf *b, const char *text);
void buf_addn(struct buf *b, const char *bytes, size_t n);
void buf_addch(struct buf *b, char c);
/* A whole number: printf costs several times that. */
void buf_addint(struct buf *b, int64_t value);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_vaddf(struct buf *b, const char *fmt, va_list args) PRINTF_LIKE(2, 0);
/* As a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. */
void buf_add_json(struct buf *b, const char *text);
/* The text, "" when empty; valid until the next change. */
const char *buf_text(const struct buf *b);
/* Keep the memory, drop the text. */
void buf_clear(struct buf *b);
void buf_release(struct buf *b);
/* AUTO_BUF text = BUF_INIT; releases itself. */
#define AUTO_BUF AUTO(buf_release) struct buf
/* Hand the text to the caller, who frees it with free(). */
char *buf_detach(struct buf *b);

#endif

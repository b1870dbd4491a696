/* SPDX-License-Identifier: Apache-2.0
 * fuzz.h: what the targets share. A target is one function over untrusted bytes. `make fuzz` links
 * it with libFuzzer; `make check` links it with replay.c and runs the files in corpus/TARGET:
 * seeds, and inputs that once failed. A target must not crash, read beyond its input, leak, or
 * contradict itself: MUST() states what holds.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define MUST(what)                                                                                 \
	do {                                                                                           \
		if (!(what)) {                                                                             \
			fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #what);                  \
			abort();                                                                               \
		}                                                                                          \
	} while (0)

/* The bytes as a separate C string, so that reading beyond its end is detected. */
static inline char *fuzz_text(const uint8_t *bytes, size_t n)
{
	char *text = malloc(n + 1);
	MUST(text);
	memcpy(text, bytes, n);
	text[n] = '\0';
	return text;
}

#endif

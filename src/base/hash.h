/* SPDX-License-Identifier: Apache-2.0
 * hash.h: SHA-256 (FIPS 180-4) of a whole text, for values that are stored only as a hash; and a
 * quick hash for tables in memory and to notice changes.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_HEX 65 /* including the terminating 0 */

/* In lower-case hexadecimal. */
void sha256_hex(const void *bytes, size_t n, char out[SHA256_HEX]);

/*
 * FNV-1a, for tables in memory and to notice changes, as by a disk: one changed byte always changes
 * it, but anyone can make two texts collide. Start with FNV_START. Pass the result to the next call
 * to continue over more bytes.
 */
#define FNV_START UINT64_C(14695981039346656037)
uint64_t fnv1a(uint64_t hash, const void *bytes, size_t n);
/* The same by eight bytes at a time, so much faster; another value. Pass whole texts. */
uint64_t fnv1a_words(uint64_t hash, const void *bytes, size_t n);

#endif

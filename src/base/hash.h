/* SPDX-License-Identifier: Apache-2.0
 * hash.h: SHA-256 (FIPS 180-4) of a whole text, for values that are stored only as a hash; a
 * checksum for what disks keep; and a quick hash for tables in memory.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_HEX 65 /* including the terminating 0 */

/* In lower-case hexadecimal. */
void sha256_hex(const void *bytes, size_t n, char out[SHA256_HEX]);

/*
 * The Castagnoli checksum, to detect bytes that a disk or a crash changed. It does not protect
 * against intent.
 */

/* Start with 0. Pass the result to the next call to continue over more bytes. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

/*
 * FNV-1a, for tables in memory and to notice changes: anyone can make two texts collide. Start with
 * FNV_START. Pass the result to the next call to continue over more bytes.
 */
#define FNV_START UINT64_C(14695981039346656037)
uint64_t fnv1a(uint64_t hash, const void *bytes, size_t n);

#endif

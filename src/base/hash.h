/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h: SHA-256 (FIPS 180-4) of a whole text, for what is kept as a hash only. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_HEX 65 /* with the 0 at its end */

/* In lower-case hexadecimal. */
void sha256_hex(const void *bytes, size_t n, char out[SHA256_HEX]);

/*
 * The Castagnoli checksum, to notice bytes that a disk or a crash
 * changed. Not against malice.
 */

/* Start with 0; a result continued over more bytes is the checksum of all of them. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

#endif

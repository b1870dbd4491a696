/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h: SHA-256 (FIPS 180-4) of a whole text, for what is kept as a hash only. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>

#define SHA256_HEX 65 /* with the 0 at its end */

/* In lower-case hexadecimal. */
void sha256_hex(const void *bytes, size_t n, char out[SHA256_HEX]);

#endif

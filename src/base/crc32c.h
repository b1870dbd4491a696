/* SPDX-License-Identifier: Apache-2.0
 * crc32c.h: the Castagnoli checksum, to notice bytes that a disk or a crash
 * changed. Not against malice.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Start with 0; a result continued over more bytes is the checksum of all of them. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

#endif

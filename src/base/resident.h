/* SPDX-License-Identifier: Apache-2.0
 * resident.h: memory that a process which runs for months needed only at its start.
 */
#ifndef BASE_RESIDENT_H
#define BASE_RESIDENT_H

/*
 * Gives back what is free, and code that was run once (reading a configuration, setting
 * up TLS): it stays in the page cache and is mapped again where it is run again.
 */
void resident_trim(void);

#endif

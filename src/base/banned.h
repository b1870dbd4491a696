/* SPDX-License-Identifier: Apache-2.0
 * banned.h: libc functions that are too easy to misuse become compile errors.
 * Force-included into every translation unit of ours by the build.
 */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok gets
#pragma GCC poison atoi atol atoll atof gmtime localtime ctime asctime tmpnam mktemp system popen

#endif

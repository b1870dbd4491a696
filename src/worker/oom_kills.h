/* SPDX-License-Identifier: Apache-2.0
 * oom_kills.h: how often the kernel's out-of-memory killer struck where our children run: in our
 * control group, or on the whole machine if that cannot be read. A rise during a child's life
 * explains a SIGKILL.
 */
#ifndef WORKER_OOM_KILLS_H
#define WORKER_OOM_KILLS_H

#include <stdint.h>

/* -1: not known. */
int64_t oom_kills(void);
/* The same, at most one second old: reading it costs as much as starting a child. */
int64_t oom_kills_lately(int64_t now_ms);
/* The number on the line "oom_kill N" of such a file (memory.events, vmstat); -1: none. */
int64_t oom_kills_in(const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * instances.h: which workers of a watch are alive when another one starts: may a running job belong
 * to a live worker?
 *
 * A worker of this host is judged by its process, whatever its lease says: if the process is gone,
 * the worker is declared dead here; if it exists, the worker is alive even if it could not renew. A
 * worker of another host, or whose process cannot be told (life/process.h), is judged by its lease,
 * unless the database itself has not been up long enough for the worker to renew.
 */
#ifndef LIFE_INSTANCES_H
#define LIFE_INSTANCES_H

#include "life/registry.h"

struct instances {
	int live;
	int silent; /* not heard from, but not declared dead either */
	bool ever;  /* a worker has worked on this watch, now or before */
};

/*
 * `self` is the caller's own id, 0 if it is not a worker. Workers that registered later do not
 * count: of two that start together, only the first considers itself the only one, and jobs that
 * the second claims meanwhile have a fresh lease.
 */
MUST_CHECK defib_err instances_of(struct store *s, const char *watch, int64_t self,
                                  struct instances *out, struct failure *f);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * instances.h: which workers of a watch live, for one that starts: may what runs
 * belong to anybody but the dead?
 *
 * A worker of this host counts by its process, whatever its lease says: one that
 * is gone is declared dead here and now, one that is there is alive although it
 * could not renew. Elsewhere the lease counts; not where the database itself has
 * not been up for long enough to be told.
 */
#ifndef LIFE_INSTANCES_H
#define LIFE_INSTANCES_H

#include "life/registry.h"

struct instances {
	int live;
	int silent; /* not heard of, and not declared dead either */
	bool ever;  /* some worker has worked on this watch, now or before */
};

/*
 * `self` is the caller's own id, 0 when it is no worker. Who registered after it does not
 * count: of two that start together the first alone takes itself for the only one, and what
 * the second claims meanwhile has a fresh lease.
 */
MUST_CHECK defib_err instances_of(struct store *s, const char *watch, int64_t self,
                                  struct instances *out, struct failure *f);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * uri.h: what a request asks for, taken apart: the parts of its path and the pairs of its
 * query, each decoded once, after they were told apart: so a key may hold "/" as %2F.
 *
 * Refused, rather than guessed at: bad percent-escapes, control characters such as %00,
 * bytes that are not UTF-8, "." and "..", and more than fits the bounds below.
 */
#ifndef HTTP_URI_H
#define HTTP_URI_H

#include "base/mem.h"

#define URI_MAX 8192 /* bytes of the whole, as sent */
#define URI_PARTS_MAX 12
#define URI_PAIRS_MAX 64

struct uri {
	const char *parts[URI_PARTS_MAX];
	int nparts;
	struct {
		const char *name, *value;
	} pairs[URI_PAIRS_MAX];
	int npairs;
};

/* Everything lives in the arena. NULL, or why it is refused. */
const char *uri_parse(const char *target, struct arena *a, struct uri *out);

/* What may be logged of a target: its path. A query can hold a token or a secret of somebody's. */
const char *uri_loggable(const char *target, struct arena *a);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * session.h: a session that can be opened again when it is lost.
 */
#ifndef STORE_SESSION_H
#define STORE_SESSION_H

#include "store/store.h"

struct session {
	struct store *store; /* NULL: not open */
	struct store_options options;
	/* Opens `options`; tests put a wrapper around what it returns. */
	defib_err (*open)(const struct store_options *options, struct store **out, struct failure *f);
	int64_t opened;    /* how often it was opened: a change means that it was lost in between */
	int64_t opened_ms; /* when it was opened last */
};

/*
 * Open it if it is not open, was lost, or is with a server that another session has found to be an
 * old primary (timeline.h); also, once a second at most, where it was opened for
 * writing and turned out to be read-only.
 */
MUST_CHECK defib_err session_ready(struct session *s, struct failure *f);
void session_close(struct session *s);
/* Close one that is not needed for a while: that it is opened again is no loss. */
void session_rest(struct session *s);

#endif

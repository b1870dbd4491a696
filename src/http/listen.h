/*
 * listen.h: a socket that listens, or one clear line why there is none.
 */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include "base/address.h"
#include "base/fail.h"

/* Sets at->port to the real one where it was 0. */
MUST_CHECK defib_err listen_open(struct address *at, int *fd, struct failure *f);

#endif

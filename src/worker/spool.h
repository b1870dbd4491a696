/* SPDX-License-Identifier: Apache-2.0
 * spool.h: a durable file for what the database could not accept (results of a worker, new jobs of
 * stored_jobs.h). Records are checksummed and synced before an append returns, and drain in order.
 * A record that was half written when the process died is dropped at the next open; everything
 * before it is kept.
 *
 * A lock protects the directory, so that two workers of one name cannot share it.
 */
#ifndef WORKER_SPOOL_H
#define WORKER_SPOOL_H

#include "base/text.h"

struct spool;

struct spool_options {
	const char *folder; /* created if missing, mode 0700 */
	int64_t max_bytes;  /* 0: 64 MiB */
	bool owned;         /* through a lock on a directory above it: it needs no lock of its own */
};

/* DEFIB_REFUSED if another process owns the directory. */
MUST_CHECK defib_err spool_open(const struct spool_options *o, struct spool **out,
                                struct failure *f);
void spool_close(struct spool *s); /* NULL is allowed */
/* Append one record (any bytes) and sync. DEFIB_FULL when it would exceed the bound. */
MUST_CHECK defib_err spool_append(struct spool *s, const char *bytes, size_t n, struct failure *f);
/* The oldest record that was not taken yet; false if empty. Bytes are valid until the next call. */
bool spool_peek(struct spool *s, const char **bytes, size_t *n);
/* The record of the last peek is done: durably removed. */
MUST_CHECK defib_err spool_take(struct spool *s, struct failure *f);

/* The same for several at once, which cost one transaction and one sync. */
struct spool_record {
	const char *bytes;
	size_t n;
	uint64_t number;
	int64_t end; /* where the next one begins, counted from the first since the open */
};
/*
 * The oldest records, in the arena: at most `most`, and at most `bytes` in total unless the first
 * is larger.
 */
int spool_peek_many(struct spool *s, struct spool_record *out, int most, size_t bytes,
                    struct arena *a);
/* The first `n` of the last spool_peek_many() that were not taken yet are done. */
MUST_CHECK defib_err spool_take_many(struct spool *s, const struct spool_record *all, int n,
                                     struct failure *f);
/* All or none, with one write and one sync; only bytes and n are read. */
MUST_CHECK defib_err spool_append_many(struct spool *s, const struct spool_record *all, int n,
                                       struct failure *f);
/* Every record that was not taken, oldest first; for a caller that has just opened it. */
MUST_CHECK defib_err spool_walk(struct spool *s,
                                void (*each)(void *ctx, const char *bytes, size_t n), void *ctx,
                                struct failure *f);
int64_t spool_count(const struct spool *s);
int64_t spool_bytes(const struct spool *s);

#endif

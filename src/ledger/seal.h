/* SPDX-License-Identifier: Apache-2.0
 * seal.h: the chain over the ledger's entries.
 *
 * Each statement that adds entries is sealed: SHA-256 over the previous seal, the database role
 * that added them, and their texts, one per line. On PostgreSQL a trigger does it with the
 * privileges of the ledger's owner, so that a role that may add entries can change neither entries
 * nor seals. SQLite has no such trigger and no hash: there, code that adds entries calls
 * seal_added() in the same transaction.
 *
 * Verification detects an entry or a seal that was changed, removed or inserted, a start that was
 * removed without its PRUNED entry, and an end that was cut off without repairing the seal before
 * it. It cannot detect a chain that the owner of the tables, or anyone who can write the file,
 * rebuilt from some point on. For that, keep a seal elsewhere and pass it to a later verification.
 */
#ifndef LEDGER_SEAL_H
#define LEDGER_SEAL_H

#include "base/hash.h"
#include "store/store.h"

/* Seal what this transaction added (SQLite; PostgreSQL has sealed it already). */
MUST_CHECK defib_err seal_added(struct store *s, struct arena *a, struct failure *f);

struct seal_report {
	int64_t entries, seals;    /* that were checked */
	int64_t first_id, last_id; /* of what was checked; 0: nothing */
	char seal[SHA256_HEX];     /* the last one */
	bool has_expected;         /* the expected seal is in the chain, or was its start */
	const char *broken;        /* what is wrong, in words; NULL: nothing */
	int64_t broken_at;         /* the first entry affected */
};
/*
 * Read the whole chain and recompute it. `expected` is a seal that was kept elsewhere; NULL: none.
 * A broken chain is a result, not a failure. `on_count` receives the number of checked entries.
 */
MUST_CHECK defib_err seal_verify(struct store *s, const char *expected, struct on_count on_count,
                                 struct arena *a, struct seal_report *out, struct failure *f);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * seal.h: the chain over the ledger's entries.
 *
 * Each statement that adds entries is sealed: SHA-256 over the seal before, the
 * database role that added them, and their texts, one a line. On PostgreSQL a
 * trigger does it with the rights of the ledger's owner, so that whoever may
 * add entries can neither change them nor their seals. SQLite has no such
 * trigger and no hash: there whoever adds entries calls seal_added() in the same
 * transaction.
 *
 * What verify finds: an entry that was changed, removed or slipped in, a seal
 * that was, a start that went without its PRUNED entry, and an end that was cut
 * off by somebody who did not also mend the seal before it. What it cannot find
 * is a chain that the owner of the tables, or whoever can write the file, made
 * anew from some place on: for that a seal must be kept elsewhere, and shown to
 * verify again.
 */
#ifndef LEDGER_SEAL_H
#define LEDGER_SEAL_H

#include "base/hash.h"
#include "store/store.h"

/* Seal what this transaction added (SQLite; on PostgreSQL it is sealed already). */
MUST_CHECK defib_err seal_added(struct store *s, struct arena *a, struct failure *f);

struct seal_report {
	bool sealed;               /* the ledger has seals; else nothing is known */
	int64_t entries, seals;    /* that were checked */
	int64_t unsealed;          /* from before there were seals: not covered */
	int64_t first_id, last_id; /* of what was checked; 0: nothing */
	char seal[SHA256_HEX];     /* the last one */
	bool has_expected;         /* the one that was asked for is in the chain, or was its start */
	const char *broken;        /* what is wrong, in words; NULL: nothing */
	int64_t broken_at;         /* the first entry that is concerned */
};
/*
 * Read the whole chain and hash it again here. `expected` is a seal that was kept elsewhere; NULL:
 * none. A broken chain is an answer, not a failure.
 */
MUST_CHECK defib_err seal_verify(struct store *s, const char *expected, struct arena *a,
                                 struct seal_report *out, struct failure *f);

#endif

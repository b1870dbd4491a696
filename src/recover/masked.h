/* SPDX-License-Identifier: Apache-2.0
 * masked.h: what a viewer or a log receives: columns, JSON and free text, with everything masked
 * that the watch masks.
 *
 * Columns and members of JSON are masked by name. Free text (a sentence, a reason, an error) has no
 * names: in it, values that are masked elsewhere, JSON, and whatever follows a masked name and `=`
 * or `:` are masked. JSON that cannot be parsed is masked as a whole, because its content is
 * unknown.
 */
#ifndef RECOVER_MASKED_H
#define RECOVER_MASKED_H

#include "watch/facts.h"

#include <jansson.h>

#define SECRET_LEAST 4 /* shorter values would match in any text */

/* Values that must not appear in free text either: those of masked columns, as far as known. */
struct secrets {
	struct arena arena;
	const char **items;
	int n, room;
};
/* A column's value, if the watch masks that column. */
void secrets_add(struct secrets *s, const struct watch *w, const char *column, const char *value);
/* An owner, if the watch masks its owners. */
void secrets_owner(struct secrets *s, const struct watch *w, const char *owner);
/* Every masked member of a JSON document. */
void secrets_document(struct secrets *s, const struct watch *w, const char *text);
/* What a reader sees of an entry of the ledger; each may be NULL. */
struct entry_texts {
	const char *reason, *evidence, *before, *after; /* the last three are JSON */
};
/* Everything in an entry of the ledger; see masked_repeats(). */
void secrets_entry(struct secrets *s, const struct watch *w, const struct entry_texts *e);
/* Everything that is known about a job, with its masked columns. */
void secrets_facts(struct secrets *s, const struct watch *w, const struct facts *f);
void secrets_release(struct secrets *s);
/* AUTO_SECRETS s = {0}; releases itself. */
#define AUTO_SECRETS AUTO(secrets_release) struct secrets
/* Below, `s` may be NULL: no values are known. */

/* A copy with masked columns masked at any depth. */
json_t *masked_json(const struct watch *w, const struct secrets *s, const json_t *value);
/*
 * A column's text: masked if the watch masks the column, and masked inside if it holds JSON with a
 * member of that name. Unchanged if nothing is to be masked.
 */
void masked_text(const struct watch *w, const struct secrets *s, const char *name, const char *text,
                 struct buf *out);
/* JSON that a column or a payload holds, byte for byte if nothing is masked. */
void masked_exactly(const struct watch *w, const struct secrets *s, const char *name,
                    const char *text, struct buf *out);
/* Free text for people. `w` NULL: nothing is masked. */
void masked_free_text(const struct watch *w, const struct secrets *s, const char *text,
                      struct buf *out);
/* A document on one line; NULL and invalid JSON become null. `w` NULL: nothing is masked. */
void masked_document(const struct watch *w, const struct secrets *s, const char *text,
                     struct buf *out);

/*
 * ,"masked":["error"]: the members of an entry's documents, and "reason", whose text repeats a
 * value of a masked column. They are stored as they were, so that they can be restored, and masked
 * when shown. Sorted; nothing is added if there are none.
 */
void masked_repeats(const struct facts *f, const struct entry_texts *e, struct buf *out);
/*
 * The database's words about a row may quote a value ("invalid input syntax for type integer:
 * \"anna\""): without that, if the watch masks anything.
 */
void masked_failure(const struct watch *w, struct failure *f);

#endif

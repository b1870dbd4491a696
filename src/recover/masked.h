/* SPDX-License-Identifier: Apache-2.0
 * masked.h: what leaves for a viewer or a log: columns, JSON and words, with what the watch masks
 * masked in all of them.
 *
 * Columns and members of JSON are masked by their name. Words (a sentence, a reason, an error) have
 * no names: in them the values that are masked elsewhere are masked, JSON that stands in them, and
 * whatever follows a masked name and `=` or `:`. JSON that cannot be read is masked whole: nobody
 * can tell what is in it.
 */
#ifndef RECOVER_MASKED_H
#define RECOVER_MASKED_H

#include "watch/facts.h"

#include <jansson.h>

/* Values that must not stand in words either: those of masked columns, as far as they are known. */
#define SECRETS_MAX 64
struct secrets {
	struct arena arena;
	const char *items[SECRETS_MAX];
	int n;
};
/* A column's value, if the watch masks that column. */
void secrets_add(struct secrets *s, const struct watch *w, const char *column, const char *value);
/* An owner, if the watch masks its owners. */
void secrets_owner(struct secrets *s, const struct watch *w, const char *owner);
/* Every masked member of a document. */
void secrets_document(struct secrets *s, const struct watch *w, const char *text);
/* Whatever is known of a job. */
void secrets_facts(struct secrets *s, const struct watch *w, const struct facts *f);
void secrets_release(struct secrets *s);
/* AUTO_SECRETS s = {0}; releases itself. */
#define AUTO_SECRETS AUTO(secrets_release) struct secrets
/* In what follows `s` may be NULL: no values are known. */

/* A copy with masked columns masked, however deep they stand. */
json_t *masked_json(const struct watch *w, const struct secrets *s, const json_t *value);
/*
 * A column's text: masked where the watch masks the column, and masked inside where it
 * holds JSON with a member of that name. As it is where nothing is to be masked.
 */
void masked_text(const struct watch *w, const struct secrets *s, const char *name, const char *text,
                 struct buf *out);
/* JSON that a column or a payload holds, exactly as it stands there where nothing is masked. */
void masked_exactly(const struct watch *w, const struct secrets *s, const char *name,
                    const char *text, struct buf *out);
/* Words for a person. `w` NULL: nothing is masked. */
void masked_free_text(const struct watch *w, const struct secrets *s, const char *text,
                      struct buf *out);
/* ,"name": the words, or null. */
void masked_member(const struct watch *w, const struct secrets *s, const char *name,
                   const char *text, struct buf *out);
/* A document in one line; NULL and what is not JSON become null. `w` NULL: nothing is masked. */
void masked_document(const struct watch *w, const struct secrets *s, const char *text,
                     struct buf *out);

#endif

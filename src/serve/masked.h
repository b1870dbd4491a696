/*
 * masked.h: JSON of a job's columns, with those masked that the watch masks.
 */
#ifndef SERVE_MASKED_H
#define SERVE_MASKED_H

#include "watch/watch.h"

#include <jansson.h>

/* A copy with masked columns masked, however deep they stand. */
json_t *masked_json(const struct watch *w, const json_t *value);
/*
 * A column's text: masked where the watch masks the column, and masked inside where it
 * holds JSON with a member of that name. As it is where nothing is to be masked.
 */
void masked_text(const struct watch *w, const char *name, const char *text, struct buf *out);
/* JSON that a column or a payload holds, exactly as it stands there where nothing is masked. */
void masked_exactly(const struct watch *w, const char *name, const char *text, struct buf *out);
/* A document in one line; NULL and what is not JSON become null. `w` NULL: nothing is masked. */
void masked_document(const struct watch *w, const char *text, struct buf *out);

#endif

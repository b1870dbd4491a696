/* SPDX-License-Identifier: Apache-2.0
 * record_docs.h: what records consist of, as the documentation shows them: schemas of
 * docs/openapi.yaml and the tables of docs/records.md. Tests compare both files with what is
 * printed here.
 */
#ifndef VIEW_RECORD_DOCS_H
#define VIEW_RECORD_DOCS_H

#include "view/record.h"

/* The records of this room; ends with NULL. */
extern const struct record *const view_records[];
/* Component schemas of docs/openapi.yaml, and chapters of docs/records.md. */
/* A schema that is one of these words. */
void words_schema(const char *name, const char *const *words, struct buf *out);
void records_schemas(const struct record *const *records, struct buf *out);
void records_docs(const struct record *const *records, struct buf *out);

#endif

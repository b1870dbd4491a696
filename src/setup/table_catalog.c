/* SPDX-License-Identifier: Apache-2.0 */
/* table_catalog.c: a table's name as the catalogs take it; what is asked of them: store/dialect.h.
 */
#include "setup/table_facts.h"

#include "store/dialect.h"

const char *catalog_name(enum store_engine engine, const char *table, struct arena *a)
{
	struct buf out = BUF_INIT;
	dialect_of(engine)->catalog_name(&out, table);
	const char *name = arena_strdup(a, buf_text(&out));
	buf_release(&out);
	return name;
}

/* SPDX-License-Identifier: Apache-2.0
 * sqlite.h: a session on an SQLite file.
 */
#ifndef STORE_SQLITE_H
#define STORE_SQLITE_H

#include "store/store.h"

defib_err sqlite_open(const struct store_options *opt, struct store **out, struct failure *f);
void sqlite_target(const char *url, struct buf *out);
/* The class of an extended result code of SQLite. */
defib_err sqlite_class(int extended);

MUST_CHECK defib_err sqlite_borrow(struct sqlite3 *db, struct store **out, struct failure *f);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * sqlstate.h: what the SQLSTATEs of PostgreSQL mean here.
 *
 * The only file that knows them. Everything else asks a failure for its class (defib_err), and
 * where that is not enough for its reason (base/fail.h), which SQLite's session sets as well.
 */
#ifndef STORE_SQLSTATE_H
#define STORE_SQLSTATE_H

#include "base/fail.h"

/* DEFIB_DATABASE for NULL and for codes that are not listed. */
defib_err sqlstate_class(const char *sqlstate);
enum failure_reason sqlstate_reason(const char *sqlstate);

#endif

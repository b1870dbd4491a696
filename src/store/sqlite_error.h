/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_error.h: from SQLite's result codes to our error classes. */
#ifndef STORE_SQLITE_ERROR_H
#define STORE_SQLITE_ERROR_H

#include "base/fail.h"

/* The class of an extended result code. */
defib_err sqlite_class(int extended);

#endif

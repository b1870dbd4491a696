/* SPDX-License-Identifier: Apache-2.0
 * sqlite_error.c: SQLite's result codes, classified once.
 *
 * Extended codes that differ from their family come first; the family (the low
 * byte) decides the rest. An I/O error while a commit is under way is not
 * decided here: only the caller knows that one was (sqlite.c).
 */
#include "store/sqlite_error.h"

#include <sqlite3.h>
#include <stddef.h>

static const struct {
	int code;
	defib_err class;
} classes[] = {
	{SQLITE_IOERR_NOMEM, DEFIB_FULL},
	{SQLITE_READONLY_DBMOVED, DEFIB_CONNECTION}, /* the file was replaced: open the new one */
	{SQLITE_BUSY, DEFIB_LOCKED},
	{SQLITE_LOCKED, DEFIB_LOCKED},
	{SQLITE_PROTOCOL, DEFIB_LOCKED}, /* a race for the WAL's locks */
	{SQLITE_FULL, DEFIB_FULL},
	{SQLITE_NOMEM, DEFIB_FULL},
	{SQLITE_READONLY, DEFIB_READ_ONLY},
	{SQLITE_CANTOPEN, DEFIB_CONNECTION},
	{SQLITE_IOERR, DEFIB_IO},
	{SQLITE_CONSTRAINT, DEFIB_CONSTRAINT},
	{SQLITE_PERM, DEFIB_PERMISSION},
	{SQLITE_AUTH, DEFIB_PERMISSION},
	{SQLITE_INTERRUPT, DEFIB_TIMEOUT}, /* only our own deadline interrupts */
	{SQLITE_ERROR, DEFIB_BAD_SQL},
	{SQLITE_MISMATCH, DEFIB_BAD_SQL},
	{SQLITE_TOOBIG, DEFIB_BAD_SQL},
	{SQLITE_RANGE, DEFIB_BAD_SQL},
	{SQLITE_CORRUPT, DEFIB_DATABASE},
	{SQLITE_NOTADB, DEFIB_DATABASE},
};

static const defib_err *class_of(int code)
{
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (classes[i].code == code) {
			return &classes[i].class;
		}
	}
	return NULL;
}

defib_err sqlite_class(int extended)
{
	const defib_err *class = class_of(extended);

	if (!class) {
		class = class_of(extended & 0xff);
	}
	return class ? *class : DEFIB_DATABASE;
}

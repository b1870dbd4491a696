/* SPDX-License-Identifier: Apache-2.0
 * defib.c: what the public header promises about errors and the version.
 * Names and texts come from the one list in defib.h.
 */
#include "defib.h"

struct err_row {
	const char *name, *text;
};

static const struct err_row err_rows[] = {
#define ERR_ROW(name, number, text) [number] = {#name, text},
	DEFIB_ERR_LIST(ERR_ROW)
#undef ERR_ROW
};

static const struct err_row *err_row(defib_err err)
{
	static const struct err_row stranger = {"?", "an error that this version does not know"};
	size_t at = (size_t)err;
	return at < sizeof(err_rows) / sizeof(err_rows[0]) ? &err_rows[at] : &stranger;
}

const char *defib_err_name(defib_err err)
{
	return err_row(err)->name;
}

const char *defib_err_text(defib_err err)
{
	return err_row(err)->text;
}

const char *defib_version(void)
{
	return DEFIB_VERSION;
}

int defib_version_number(void)
{
	return DEFIB_VERSION_NUMBER;
}

/* SPDX-License-Identifier: Apache-2.0
 * postgres_rows.c: values on their way to libpq and rows on their way back,
 * for sessions of ours and for those that a caller lends us.
 */
#include "store/postgres.h"

#include <inttypes.h>

struct pg_values pg_values_of(const struct store_param *params, int n)
{
	struct pg_values v = {mem_alloc(sizeof(*v.texts) * (size_t)n),
	                      mem_alloc(sizeof(*v.digits) * (size_t)n)};

	for (int i = 0; i < n; i++) {
		if (params[i].type == PARAM_TEXT) {
			v.texts[i] = params[i].text;
		} else if (params[i].type == PARAM_INT) {
			snprintf(v.digits[i], sizeof(v.digits[i]), "%" PRId64, params[i].number);
			v.texts[i] = v.digits[i];
		}
	}
	return v;
}

void pg_values_release(struct pg_values *v)
{
	free(v->texts);
	free(v->digits);
}

void pg_copy_rows(const PGresult *res, struct arena *a, struct store_rows *rows)
{
	rows->nrows = PQntuples(res);
	rows->ncols = PQnfields(res);
	rows->names = ARENA_ARRAY(a, const char *, rows->ncols);
	rows->cells = ARENA_ARRAY(a, const char *, (size_t)rows->nrows *(size_t)rows->ncols);
	for (int c = 0; c < rows->ncols; c++) {
		rows->names[c] = arena_strdup(a, PQfname(res, c));
	}
	const char **cell = rows->cells;
	for (int r = 0; r < rows->nrows; r++) {
		for (int c = 0; c < rows->ncols; c++, cell++) {
			if (!PQgetisnull(res, r, c)) {
				*cell = arena_strndup(a, PQgetvalue(res, r, c), (size_t)PQgetlength(res, r, c));
			}
		}
	}
}

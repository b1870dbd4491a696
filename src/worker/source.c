/* source.c: what all sources share; see source.h. */
#include "worker/source.h"

const char *const settle_names[] = {
#define X(id, name) name,
	SETTLE_LIST(X)
#undef X
		NULL,
};

defib_err source_keys(struct store *s, const char *sql, int64_t worker, struct arena *a,
                      struct settlement **out, int *n, struct failure *f)
{
	struct store_param param = P_INT(worker);
	struct store_rows rows;
	defib_err err = store_exec(s, sql, &param, 1, a, &rows, f);
	if (err)
		return err;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct settlement, rows.nrows);
	for (int i = 0; i < rows.nrows; i++)
		(*out)[i] =
			(struct settlement){.key = row_text(&rows, i, 0), .epoch = row_int(&rows, i, 1, 0)};
	return DEFIB_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* steps_done.c: see steps_done.h. */
#include "watch/steps_done.h"

#include "base/text.h"
#include "store/dialect.h"

#include <jansson.h>

void sql_steps_done(const struct binding *b, struct buf *out)
{
	const char *sql = b->watch->steps_done.text;
	const char *const *around = dialect_of(b->engine)->list_json;
	if (sql)
		buf_addf(out, "%s%s%s", around[0], sql, around[1]);
	else
		buf_add(out, "NULL");
}

void sql_steps_fact(const struct binding *b, bool reread, struct buf *out)
{
	buf_add(out, ",\n  ");
	if (b->watch->work.workflows.n && reread)
		sql_steps_done(b, out);
	else
		buf_add(out, "NULL");
	buf_add(out, " AS defib_steps_done,\n  ");
}

int workflow_position(const struct workflow *w, const char *step)
{
	for (int i = 0; step && i < w->nsteps; i++)
		if (text_eq(w->steps[i].name, step))
			return i;
	return -1;
}

const struct workflow *work_workflow(const struct work *work, const char *kind)
{
	const struct workflow *own = workflow_named(&work->workflows, kind);
	return own ? own : workflow_named(&work->workflows, work->workflow);
}

static bool from_list(const struct workflow *w, const json_t *list, struct arena *a,
                      struct finished_step *out, int *n)
{
	size_t i;
	json_t *one;
	json_array_foreach((json_t *)list, i, one)
	{
		const char *name = json_string_value(one);
		if (!name)
			return false;
		int at = workflow_position(w, name);
		out[(*n)++] =
			(struct finished_step){arena_strdup(a, name), at < 0 ? w->nsteps + (int)i : at};
	}
	return true;
}

bool steps_done_parse(const struct workflow *w, const char *text, struct arena *a,
                      struct finished_step **out, int *n)
{
	json_t *json = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
	/* A text column has its list, or name, inside a JSON string; on SQLite a name stands bare. */
	const char *inner = json_is_string(json) ? json_string_value(json) : json ? NULL : text;
	json_t *list = inner ? json_loads(inner, 0, NULL) : json_incref(json);
	bool known = json_is_array(list);
	*n = 0;
	*out = ARENA_ARRAY(a, struct finished_step, w->nsteps + (int)json_array_size(list) + 1);
	if (known) {
		known = from_list(w, list, a, *out, n);
	} else if (inner) {
		int at = workflow_position(w, inner);
		known = at >= 0;
		for (; *n < at; (*n)++)
			(*out)[*n] = (struct finished_step){w->steps[*n].name, *n};
	}
	json_decref(list);
	json_decref(json);
	return known;
}

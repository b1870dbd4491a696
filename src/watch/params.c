/* SPDX-License-Identifier: Apache-2.0 */
/* params.c: the parameters of watch.h. */
#include "watch/watch.h"

#include "base/text.h"

const char *const recovery_params[] = {"owner",   "kind",   "attempt",  "alive_at",
                                       "verdict", "reason", "retry_at", "evidence",
                                       "now",     "step",   NULL};
static const char *const work_params[] = {"owner", "kind",     "attempt", "reason", "retry_at",
                                          "now",   "worker",   "error",   "result", "epoch",
                                          "step",  "metadata", NULL};

/* The meaning of each name, and where it can be used. */
static const struct {
	const char *name, *meaning;
	bool recovers, works;
} meanings[] = {
	{"owner", "the worker that has, or had, the job", true, true},
	{"kind", "the job's kind", true, true},
	{"attempt", "its attempts so far; when claiming, this one included", true, true},
	{"alive_at", "its last sign of life, else its deadline or its start", true, false},
	{"verdict", "dead, silent, overdue or orphan", true, false},
	{"reason", "the watch's reason, filled in, or the operator's", true, true},
	{"retry_at", "when the backoff is over", true, true},
	{"evidence", "the evidence for the verdict, as JSON", true, false},
	{"now", "the database's clock, in the form of the watch's times", true, true},
	{"step", "the step of a workflow: the current one, or the one the operator chose", true, true},
	{"worker", "the id of the worker", false, true},
	{"error", "why it failed", false, true},
	{"result", "the program's result, JSON; `:result.text` is one field of it", false, true},
	{"epoch", "the number of the claim, which rises with every one", false, true},
	{"metadata", "what a heartbeat of your own code gives, JSON; else null", false, true},
};

void params_reference(struct buf *out)
{
	buf_add(out,
	        "| parameter | remedies, acts and `stuck` | `work` | meaning |\n"
	        "|---|---|---|---|\n| each key column | yes | yes | the job's own, by its name |\n");
	for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
		buf_addf(out, "| `%s` | %s | %s | %s |\n", meanings[i].name,
		         meanings[i].recovers ? "yes" : "", meanings[i].works ? "yes" : "",
		         meanings[i].meaning);
}

static const char *const *scope_names(enum param_scope scope)
{
	static const char *const none[] = {NULL};
	return scope == PARAMS_RECOVERY ? recovery_params : scope == PARAMS_WORK ? work_params : none;
}

bool param_known(const struct watch *w, enum param_scope scope, const char *name)
{
	if (scope == PARAMS_NONE)
		return false;
	for (int i = 0; i < w->key.n; i++)
		if (text_eq(w->key.items[i], name))
			return true;
	/* The result of a job is a document: :result.text is one field of it. */
	if (scope == PARAMS_WORK && text_starts(name, "result."))
		return true;
	const char *const *names = scope_names(scope);
	for (int i = 0; names[i]; i++)
		if (text_eq(names[i], name))
			return true;
	return false;
}

const char *param_nearest(const struct watch *w, enum param_scope scope, const char *name)
{
	const char *all[WATCH_KEYS_MAX + 16];
	const char *const *names = scope_names(scope);
	int n = 0;
	if (scope == PARAMS_NONE)
		return NULL;
	for (int i = 0; i < w->key.n && i < WATCH_KEYS_MAX; i++)
		all[n++] = w->key.items[i];
	for (int i = 0; names[i]; i++)
		all[n++] = names[i];
	all[n] = NULL;
	return text_nearest(name, all);
}

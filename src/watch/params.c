/* params.c: see params.h. */
#include "watch/params.h"

#include "base/text.h"

const char *const recovery_params[] = {"owner",   "kind",   "attempt",  "alive_at",
                                       "verdict", "reason", "retry_at", "evidence",
                                       "now",     "step",   NULL};
static const char *const work_params[] = {"owner",  "kind",  "attempt", "reason", "retry_at", "now",
                                          "worker", "error", "result",  "epoch",  "step",     NULL};

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

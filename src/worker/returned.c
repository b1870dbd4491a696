/* SPDX-License-Identifier: Apache-2.0 */
/* returned.c: see returned.h. */
#include "worker/returned.h"

#include "base/log.h"
#include "base/text.h"
#include "ledger/events.h"
#include "ledger/ledger.h"
#include "worker/source.h"

/* The watch of its first source; a queue's source has a name of its own. */
static const char *served(const struct watchman_options *o)
{
	for (int i = 1; i < o->nwatches && o->nsources > 0; i++)
		if (text_eq(o->watches[i]->name, o->sources[0]->name))
			return o->watches[i]->name;
	return o->watches[0]->name;
}

void note_returned(struct store *s, const struct watchman_options *o, int64_t worker)
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct ledger_entry entry = {.job = "*", .event = ENTRY_WORKER_RETURNED, .rule = "lease-lost"};
	struct ledger_context ctx = {served(o), "returned",
	                             arena_printf(&a, "worker:%lld", (long long)worker)};
	defib_err err = store_begin(s, TX_WRITE, &f);
	if (!err)
		err = ledger_append(s, &ctx, &entry, 1, &a, &f);
	if (!err)
		err = store_commit(s, &f);
	else
		store_rollback(s);
	if (err)
		log_event(LOG_WARN, f.what);
	arena_release(&a);
}

/*
 * counts.h: how much there is in the ledger's tables, for those who only show numbers.
 * Each is one statement whose cost does not grow with the ledger.
 */
#ifndef LEDGER_COUNTS_H
#define LEDGER_COUNTS_H

#include "store/store.h"

/* Jobs of a watch that are on hold, and retries that wait for their time. */
MUST_CHECK defib_err ledger_waiting(struct store *s, const char *watch, int64_t *held,
                                    int64_t *retries, struct failure *f);

struct event_count {
	const char *watch, *event;
	int64_t n;
};
/* Ids that one call looks at: who is far behind comes again. */
#define LEDGER_COUNT_IDS 50000

/*
 * Entries behind `after`, added up by watch and event. *last is the id up to which they were
 * looked at, from where the next call goes on; ids are committed in their order (ledger_top()).
 */
MUST_CHECK defib_err ledger_events_since(struct store *s, int64_t after, struct arena *a,
                                         struct event_count **out, int *n, int64_t *last,
                                         struct failure *f);

#endif

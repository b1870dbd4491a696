/* SPDX-License-Identifier: Apache-2.0
 * counts.h: how much there is in the ledger's tables, for those who only show numbers.
 * Each is one statement whose cost does not grow with the ledger.
 */
#ifndef LEDGER_COUNTS_H
#define LEDGER_COUNTS_H

#include "store/store.h"

/* Holds of a watch, of which some may be over (watch/hold.h), and retries that wait. */
MUST_CHECK defib_err ledger_kept(struct store *s, const char *watch, int64_t *holds,
                                 int64_t *retries, struct failure *f);
struct retries_of {
	const char *watch;
	int64_t retries;
};
/* Retries of all watches that have any, in one look. */
MUST_CHECK defib_err ledger_retries_all(struct store *s, struct arena *a, struct retries_of **out,
                                        int *n, struct failure *f);

/* So many entries of one kind. */
struct event_count {
	const char *watch, *event;
	const char *verdict; /* NULL: the job was not judged stuck */
	bool by_person;
	unsigned counts; /* what each of them counts as (events.h) */
	int64_t n;
};
/* Ids that one call looks at: who is far behind comes again. */
#define LEDGER_COUNT_IDS 50000

/* The last entry that is older than this; 0: none is. */
MUST_CHECK defib_err ledger_id_before(struct store *s, int64_t ago_us, int64_t *id,
                                      struct failure *f);

/* Entries behind `after` up to `to`, added up. */
MUST_CHECK defib_err ledger_events_between(struct store *s, int64_t after, int64_t to,
                                           struct arena *a, struct event_count **out, int *n,
                                           struct failure *f);

/*
 * Entries behind `after`, added up. *last is the id up to which they were
 * looked at, from where the next call goes on; ids are committed in their order (ledger_top()).
 */
MUST_CHECK defib_err ledger_events_since(struct store *s, int64_t after, struct arena *a,
                                         struct event_count **out, int *n, int64_t *last,
                                         struct failure *f);

/* Whether there is a ledger with an entry of the watch. */
MUST_CHECK defib_err ledger_tells_of(struct store *s, const char *watch, bool *tells,
                                     struct failure *f);
/* Whether the built-in queue has jobs, or had some that the ledger tells of. */
MUST_CHECK defib_err queue_in_use(struct store *s, bool *used, struct failure *f);

#endif

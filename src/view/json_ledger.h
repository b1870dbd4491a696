/*
 * json_ledger.h: an entry of the ledger, and how a person names the job of one.
 */
#ifndef VIEW_JSON_LEDGER_H
#define VIEW_JSON_LEDGER_H

#include "ledger/ledger.h"
#include "recover/masked.h"
#include "watch/settings.h"

/* What its documents mask. */
void entry_secrets(const struct watch *w, const struct ledger_row *r, struct secrets *out);
/* Its reason, in which what its documents mask is masked; `w` NULL: nothing is. */
void entry_reason(const struct watch *w, const struct ledger_row *r, struct buf *out);
/* An object, whole. `w` NULL: nothing is masked. */
void entry_json(const struct watch *w, const char *database, const struct ledger_row *r,
                struct buf *out);
/*
 * A filter's job may be WATCH/KEY, as other commands print jobs, where the watch is one of
 * the configuration or the built-in queue.
 */
void ledger_split_job(const struct settings *s, struct arena *a, struct ledger_filter *filter);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * ledger.h: an entry of the ledger, as JSON and as text, and how users name its job; and an
 * incident, which is made of entries.
 */
#ifndef VIEW_LEDGER_H
#define VIEW_LEDGER_H

#include "insight/incidents.h"
#include "ledger/ledger.h"
#include "recover/masked.h"
#include "view/output.h"
#include "view/viewer.h"
#include "watch/settings.h"

/* The values that are masked in its documents. */
void entry_secrets(const struct watch *w, const struct ledger_row *r, struct secrets *out);
/* Its reason, with values masked that its documents mask; `w` NULL: nothing is masked. */
void entry_reason(const struct watch *w, const struct ledger_row *r, struct buf *out);
/* A complete object. `w` NULL: nothing is masked. */
void entry_json(const struct watch *w, const char *database, const struct ledger_row *r,
                struct buf *out);
/* "was requeued (silent): worker w4 exited (SIGKILL)" */
void entry_words(const struct watch *w, const struct ledger_row *r, struct buf *out);
/*
 * "status: running -> queued": the differences between two rows, as JSON; without `all` only the
 * columns that show whether a row is running.
 */
void changes_text(const struct watch *w, const char *was_row, const char *is_row, bool all,
                  struct buf *out);

/*
 * A filter's job may be WATCH/KEY, as other commands print jobs, if the watch is configured or is
 * the built-in queue.
 */
void ledger_split_job(const struct settings *s, struct arena *a, struct ledger_filter *filter);

/* An entry and its database. */
struct ledger_line {
	const struct ledger_row *row;
	const struct database *database;
};

#define LEDGER_COLUMNS 7

/* Columns grow as entries arrive, and never shrink. */
struct ledger_lines {
	const struct settings *settings;
	bool json; /* one object per line */
	int widths[LEDGER_COLUMNS];
	bool begun; /* the titles were written */
};

/* In this order. */
/* Make the columns as wide as these need; for lines that are printed in several parts. */
void ledger_lines_measure(struct ledger_lines *l, const struct ledger_line *lines, int n);
void ledger_lines_text(struct ledger_lines *l, const struct ledger_line *lines, int n,
                       struct buf *out);

/* ---- incidents ---- */

/* A complete object; hosts and workers are masked for viewers. */
void incident_json(const struct incident *i, const char *database, enum role role, struct arena *a,
                   struct buf *out);

#endif

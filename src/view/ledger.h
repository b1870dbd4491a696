/* SPDX-License-Identifier: Apache-2.0
 * ledger.h: an entry of the ledger, as JSON and as text, and how users name its job; and an
 * incident, which is made of entries.
 */
#ifndef VIEW_LEDGER_H
#define VIEW_LEDGER_H

#include "insight/incidents.h"
#include "ledger/ledger.h"
#include "view/record.h"
#include "watch/settings.h"

/* The values that are masked in its documents. */
void entry_secrets(const struct watch *w, const struct ledger_row *r, struct secrets *out);
/* A struct ledger_row; and the same within the history of its job, without the names of the job. */
extern const struct record entry_record, history_entry_record;
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

#define LEDGER_COLUMNS_MAX 12

/* Columns grow as entries arrive, and never shrink. */
struct ledger_lines {
	const struct settings *settings;
	bool json; /* one object per line */
	int widths[LEDGER_COLUMNS_MAX];
	bool begun; /* the titles were written */
};

/* In this order. */
/* Make the columns as wide as these need; for lines that are printed in several parts. */
void ledger_lines_measure(struct ledger_lines *l, const struct ledger_line *lines, int n);
void ledger_lines_text(struct ledger_lines *l, const struct ledger_line *lines, int n,
                       struct buf *out);

/* ---- incidents ---- */

/* A struct incident; hosts and workers are masked for viewers. */
extern const struct record incident_record;

#endif

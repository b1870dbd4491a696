/* SPDX-License-Identifier: Apache-2.0
 * settings.h: a whole configuration: databases, watches and workflows, read and
 * checked.
 */
#ifndef WATCH_SETTINGS_H
#define WATCH_SETTINGS_H

#include "store/store.h"
#include "watch/watch.h"

struct database {
	const char *name, *url;
	struct cfg_mark at;
	enum store_engine engine;
};

/*
 * How long defib keeps its data, as the user configured it. Plain data; ledger/retention.h removes
 * what is older.
 */

struct retention {
	bool enabled;
	int64_t every_us;
	/* 0: no limit */
	int64_t done_us, failed_us, workers_us, leases_us, tokens_us, messages_us, learned_us,
		ledger_us;
};

extern const struct opt_row retention_rows[];
/*
 * Reports times that are too short to be safe; `budget_us` is the time of the longest crash budget.
 */
void retention_check(struct cfg_reader *r, const struct retention *p, int64_t budget_us,
                     struct cfg_mark at);

enum ledger_mode { LEDGER_AUTO, LEDGER_OFF };

/*
 * Parts of the file that rooms above this one describe and read. The caller passes the sections of
 * the rooms it is linked with; other sections are accepted by name and skipped.
 */
enum section_id {
	SECTION_HTTP,
	SECTION_ENVIRONMENT,
	SECTION_METRICS,
	SECTION_SINKS,
	SECTION_ALERTS,
	SECTION_REPORTS,
	SECTION_COUNT
};

struct settings {
	int ndatabases;
	struct database *databases;
	int nwatches;
	struct watch *watches;
	struct workflow_list workflows;
	int ledger; /* enum ledger_mode */
	struct retention retention;
	void *sections[SECTION_COUNT]; /* each room has an accessor for its own */
	/* Every effective value and its origin; secrets are masked. */
	struct cfg_shown *shown;
	int nshown;
};

struct section {
	enum section_id id;
	struct opt_row row;         /* its key in the file; `size` is that of the section's struct */
	const char *title;          /* of its chapter in the reference; NULL: none */
	const struct opt_row *rows; /* of that chapter */
	/* Checks that involve the rest of the file, which has no errors at this point. */
	void (*check)(struct cfg_reader *r, const struct settings *s);
};

/* The option table of the whole file; `sections` ends with NULL. */
const struct opt_row *settings_rows(const struct section *const *sections, struct arena *a);
extern const struct opt_row database_rows[];

/*
 * Read and check a whole document. Problems are recorded in the reader; settings are usable only if
 * the reader has no errors. `sections` ends with NULL.
 */
void settings_read(struct cfg_reader *r, const struct cfg_node *root,
                   const struct section *const *sections, struct settings *out);
/* The database of a watch; never NULL after a read without errors. */
const struct database *settings_database(const struct settings *s, const struct watch *w);
struct watch *settings_watch(const struct settings *s, const char *name);
/* The names of all watches and, unless it is NULL, one more; ends with NULL. */
const char *const *settings_watch_names(const struct settings *s, const char *more,
                                        struct arena *a);

/* ---- the built-in watch: defib's own queue ---- */

/* The name of the built-in queue in the ledger and on the command line. */
#define BUILTIN_NAME "queue"

/* The built-in queue as a watch, for an engine; everything lives in the arena. */
struct watch *builtin_watch(enum store_engine engine, struct arena *a);

#endif

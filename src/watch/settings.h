/* SPDX-License-Identifier: Apache-2.0
 * settings.h: a whole configuration: databases, watches and workflows, read and
 * checked.
 */
#ifndef WATCH_SETTINGS_H
#define WATCH_SETTINGS_H

#include "store/store.h"
#include "watch/alerts.h"
#include "watch/reports.h"
#include "watch/retention.h"
#include "watch/service.h"
#include "watch/watch.h"
#include "watch/workflow.h"

struct database {
	const char *name, *url;
	struct cfg_mark at;
	enum store_engine engine;
};

enum ledger_mode { LEDGER_AUTO, LEDGER_OFF };

struct settings {
	int ndatabases;
	struct database *databases;
	int nwatches;
	struct watch *watches;
	struct workflow_list workflows;
	int ledger; /* enum ledger_mode */
	struct retention retention;
	struct service http;
	struct environment environment;
	struct sink_list sinks;
	struct alert_settings alerts;
	struct mailing_list reports; /* that are sent by themselves */
	/* Every effective value and where it came from; secrets are masked. */
	struct cfg_shown *shown;
	int nshown;
};

/* The option tables of the top level and of a database, for the reference. */
extern const struct opt_row settings_rows[];
extern const struct opt_row database_rows[];

/*
 * Read and check a whole document. Problems land in the reader; settings are
 * usable only if the reader has no errors.
 */
void settings_read(struct cfg_reader *r, const struct cfg_node *root, struct settings *out);
/* The database of a watch; never NULL after a read without errors. */
const struct database *settings_database(const struct settings *s, const struct watch *w);
struct watch *settings_watch(const struct settings *s, const char *name);

/* What one watch must fulfil beyond its option table (check.c). */
void watch_check(struct cfg_reader *r, const struct watch *w, enum store_engine engine);

#endif

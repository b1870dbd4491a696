/* SPDX-License-Identifier: Apache-2.0
 * doctor.h: the room of what comes before running: doctor finds what will go wrong, init proposes
 * watches for tables (table_facts.c reads the catalog, propose.c makes lines from it, detect.c
 * knows the shipped presets), install writes recovery as a function of the database (install_sql.c,
 * judge_sql.c). Begin with doctor.c or propose.c.
 *
 * Each check examines one aspect of a database or a watch and reports ok, warn or FAIL, in one
 * sentence, with the SQL or action that fixes it. Findings are data: the command line prints them,
 * the page shows them. Every statement runs in a read-only transaction of a read-only session. The
 * exceptions must be requested, and are rolled back: remedies and the lists of `work:` are tried on
 * a row, and only those that do nothing that outlasts the transaction (doctor_trial.c); an index
 * that is to be proposed is tried on an empty temporary copy (doctor_plan.c).
 */
#ifndef SETUP_DOCTOR_H
#define SETUP_DOCTOR_H

#include "watch/settings.h"

enum finding_level { FINDING_OK, FINDING_WARN, FINDING_FAIL };
#define FINDING_LEVELS (FINDING_FAIL + 1)

struct finding {
	const char *check; /* id of the check: "index" */
	enum finding_level level;
	const char *database;
	const char *watch; /* NULL: about the database itself */
	const char *text;
	const char *fix; /* SQL that ends with ';', or an action in words; NULL: nothing to do */
};

/* Which remedies are tried on a row, in a transaction that is rolled back. */
enum trial {
	TRIAL_NONE,
	TRIAL_CONTAINED, /* those that do nothing that outlasts the transaction, as far as can be seen
	                  */
	TRIAL_ALL,       /* also the user's own statements: a person asked for it */
};

struct doctor {
	const struct database *database;
	struct store_options store; /* read_only must be set */
	/* Opens `store`; tests put a wrapper around what it returns. */
	defib_err (*open)(const struct store_options *options, struct store **out, struct failure *f);
	const struct watch *const *watches; /* of this database, including those that are off */
	int nwatches;
	int configured;  /* watches of all databases */
	bool ledger_off; /* by configuration */
	enum trial trial;
	int64_t idle_us; /* how long a transaction may be idle without a warning */
	void (*found)(void *ctx, const struct finding *f);
	void *ctx;
};

/* Run every check on one database and its watches. What cannot be checked is a finding too. */
void doctor_examine(const struct doctor *d);

#endif

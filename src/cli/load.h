/* SPDX-License-Identifier: Apache-2.0
 * load.h: reads the configuration, overlaid with --db and the options of a watch; what commands
 * open and write, and how they report a failure.
 */
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include "cli/cli.h"

/* Print to stderr that a watch is left out because it is off, and why. */
void cli_say_off(const struct cli *c, const struct watch *w);
/*
 * Read the configuration: -c FILE, else $DEFIB_CONFIG, else ./defib.yaml, overlaid with --db and
 * watch options (load.c). Prints problems.
 */
int cli_load(struct cli *c);
/* The same, once and without output: the first problem, with its position, is in `f`. */
MUST_CHECK defib_err cli_read(struct cli *c, struct failure *f);
/*
 * --threshold: instead of stuck_after and overdue_after. The limits of the configuration apply:
 * below twice the beat it is refused, exactly twice is warned about.
 */
MUST_CHECK defib_err cli_override_threshold(struct watch *w, int64_t us, struct failure *f);
/* --db, else $DEFIB_DB; NULL: neither. */
const char *cli_db(const struct cli *c);
/* The sections of the rooms that the program is linked with; ends with NULL. */
extern const struct section *const program_sections[];
/* The path of that file; NULL: there is none. */
const char *cli_config_path(const struct cli *c);
/* Store options for a database; `statement_us` is the longest time-out of its watches. */
struct store_options cli_store_options(const struct database *d, const struct watch *w,
                                       bool read_only);
/* A session that is opened when it is first used. */
struct session cli_session(const struct database *d, const struct watch *w, bool read_only);
/* For --output: writes a temporary file first, so that a reader finds the old or the new one. */
int cli_write_file(const char *path, const struct buf *text);
/* The actor for the ledger: "cli:USER". */
const char *cli_actor(struct cli *c);

/* One line on stderr: "defib: what; next". Returns the exit code of its class. */
int cli_fail(struct failure *f);
/* The same for the built-in queue: if its tables are missing, says how to create them. */
int cli_queue_fail(struct failure *f);
/* Only add to the failure how to create them. */
void cli_queue_hint(struct failure *f);
/*
 * The same if a statement got a key from the user: a key that its type does not accept is a usage
 * error.
 */
int cli_key_fail(const struct cli *c, const struct watch *w, struct failure *f);
int exit_code_of(defib_err err);

#endif

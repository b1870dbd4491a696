/* SPDX-License-Identifier: Apache-2.0
 * cli.h: the contract of the command line, for all commands.
 *
 * The room `cli` has one file per command or group of commands (cmd_NAME.c), each with its options
 * and its row (struct command); begin with COMMAND_LIST below. main.c reads argv and prints
 * messages, load.c reads the configuration, select.c finds watches and jobs, and every command that
 * changes jobs goes through cmd_act.c. top/ and demo/ are directories of their own.
 *
 * Global options may come before or after the command. Data goes to stdout, everything else to
 * stderr.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/log.h"
#include "recover/scan.h"
#include "view/output.h"

#include <signal.h>

enum exit_code {
	EXIT_CLEAN = 0, /* clean, or done */
	EXIT_STUCK = 1, /* stuck jobs were found and not recovered */
	EXIT_USAGE = 2,
	EXIT_CONFIG = 3,
	EXIT_DATABASE = 4,
	EXIT_REFUSED = 5,
	EXIT_PARTLY = 6, /* done in part */
};

/* An option of a command; `argument` NULL: a flag. */
struct cli_option {
	const char *name, *argument, *help;
};

/* The groups of `defib help`, in order. */
enum command_group { GROUP_LOOK, GROUP_ACT, GROUP_RUN, GROUP_SET_UP, GROUP_COUNT };

/*
 * A shell line that works as written, and its purpose; a test runs each. A long one is broken by "
 * \\\n". They use the watch pages and the built-in queue.
 */
struct cli_example {
	const char *line, *why;
};
#define CLI_EXAMPLES_MAX 4

struct cli;
struct command {
	const char *name, *arguments, *summary;
	const struct cli_option *options; /* ends with name NULL; may be NULL */
	bool watch_options;               /* takes --table, --running, …: a watch without a file */
	int (*run)(struct cli *c);
	struct cli_example examples[CLI_EXAMPLES_MAX]; /* two to four; the rest is NULL */
};

/* Every command, in the order of `defib help`; its row is beside its function (cmd_*.c). */
/* clang-format off */
#define COMMAND(id, function, takes, does, ...) \
	const struct command id##_command = { \
		.name = #id, .run = function, .arguments = takes, .summary = does, ##__VA_ARGS__}
#define COMMAND_LIST(X) \
	X(LOOK, scan) X(LOOK, explain) X(LOOK, list) X(LOOK, show) X(LOOK, stats) X(LOOK, top) \
	X(LOOK, status) X(LOOK, ledger) X(LOOK, report) X(LOOK, alert) X(LOOK, learn) X(LOOK, whatif) \
	X(ACT, requeue) X(ACT, retry) X(ACT, fail) X(ACT, hold) X(ACT, release) X(ACT, rollback) \
	X(ACT, cancel) X(ACT, force) X(ACT, undo) X(ACT, act) X(ACT, prune) X(ACT, pause) \
	X(ACT, resume) X(ACT, raise) \
	X(RUN, daemon) X(RUN, work) X(RUN, beat) X(RUN, run) X(RUN, enqueue) X(RUN, demo) \
	X(SET_UP, init) X(SET_UP, config) X(SET_UP, doctor) X(SET_UP, sql) X(SET_UP, deploy) \
	X(SET_UP, attach) X(SET_UP, detach) X(SET_UP, install) X(SET_UP, uninstall) \
	X(SET_UP, completion) X(SET_UP, help)
#define X(group, name) extern const struct command name##_command;
COMMAND_LIST(X)
#undef X
/* clang-format on */

struct listed_command {
	enum command_group group;
	const struct command *command;
};
extern const struct listed_command commands[];   /* ends with command NULL */
extern const struct cli_option global_options[]; /* that every command takes */

#define CLI_GIVEN_MAX 64
struct cli_given {
	const char *name, *value;
};

struct cli {
	const struct command *command;
	/* global options */
	const char *config, *db;
	bool json, quiet, verbose, help, version;
	int color; /* enum color_mode */
	/* options given to the command */
	struct cli_given given[CLI_GIVEN_MAX];
	int ngiven;
	const char *words[CLI_GIVEN_MAX];
	int nwords;
	int dashes; /* number of words before "--"; nwords if there is none */
	/* derived from them */
	bool color_out, color_err, tty_out, tty_err;
	struct arena arena;
	struct cfg_reader reader;
	struct settings settings;
};

/* Parse argv. Returns EXIT_CLEAN or prints one line and returns EXIT_USAGE. */
int cli_parse(struct cli *c, int argc, char **argv);
/* Print to stderr that a watch is left out because it is off, and why. */
void cli_say_off(const struct cli *c, const struct watch *w);
/* Value of an option of the command; NULL: not given. Flags have "". */
const char *cli_value(const struct cli *c, const char *name);
bool cli_flag(const struct cli *c, const char *name);
/* A duration or whole number option; prints one line and returns false if it is invalid. */
bool cli_duration(const struct cli *c, const char *name, int64_t *us);
bool cli_int(const struct cli *c, const char *name, int64_t *n);
/* Help for a command; NULL: for all of them (cmd_help.c). */
void cli_help(const struct command *command);
/* By name; NULL: there is none. */
const struct command *cli_command(const char *name);
/*
 * One line about a word that is not in `names` (ends with NULL): suggests the nearest, else lists
 * all. `what` is the kind of name. Returns EXIT_USAGE.
 */
int cli_unknown(const char *what, const char *word, const char *const *names);
int cli_unknown_command(const char *word);
/* stuck_after is --stuck-after. */
const char *cli_option_of_key(struct arena *a, const char *key);

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
/*
 * There is no such watch: a usage error that names the nearest; `more` as in
 * settings_watch_names().
 */
int cli_no_watch(struct cli *c, const char *name, const char *more);
/* --db, else $DEFIB_DB; NULL: neither. */
const char *cli_db(const struct cli *c);
/* The sections of the rooms that the program is linked with; ends with NULL. */
extern const struct section *const program_sections[];
/* The path of that file; NULL: there is none. */
const char *cli_config_path(const struct cli *c);
/* Prints problems of the reader to stderr, errors and warnings. */
void cli_problems(const struct cli *c);
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
int cli_fail(const struct failure *f);
/* The same for the built-in queue: if its tables are missing, says how to create them. */
int cli_queue_fail(struct failure *f);
/* Only add to the failure how to create them. */
void cli_queue_hint(struct failure *f);
/*
 * The same if a statement got a key from the user: a key that its type does not accept is a usage
 * error.
 */
int cli_key_fail(const struct cli *c, const struct watch *w, struct failure *f);
/* Print what is refused, and what to do instead (`next`; NULL: nothing). */
int cli_refuse(const char *next, const char *fmt, ...) PRINTF_LIKE(2, 3);
int cli_usage(const char *fmt, ...) PRINTF_LIKE(1, 2);
/*
 * The log of a long-running command, by --log: logfmt, json or plain. If it was given, errors are
 * log events too. False after printing one line.
 */
bool cli_set_up_log(const struct cli *c, enum log_format standard);
/* A line on stdout, unless --quiet. */
void cli_print(const struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "defib: text" on stderr, or an event. */
void cli_message(const char *text, const char *next);
int exit_code_of(defib_err err);

/*
 * Ask before something is changed, unless --yes or --dry-run was given. EXIT_CLEAN: continue; else
 * one line was printed. `stdin_used`: data was read from stdin, so only the terminal itself can
 * answer.
 */
int cli_confirm(const struct cli *c, const char *question, bool stdin_used);

/* Block TERM, INT, HUP and one more, before threads start; *set is the set to wait for. */
void cli_block_signals(sigset_t *set, int also);
/*
 * Run an open worker until it ends (cmd_work.c). Its signals are blocked before it is opened, and
 * one thread receives them. False after printing one line: it is closed.
 */
#define WORKER_ENDED SIGUSR2 /* internal: to that thread */
struct worker;
bool cli_run_worker(struct worker *w, void (*on_signal)(void *ctx, int signal), void *ctx);
/* `defib ledger prune` (cmd_prune.c). */
int ledger_prune(struct cli *c);

/* Values of some options; each list ends with NULL. */
extern const char *const color_names[], *const force_actions[];

#endif

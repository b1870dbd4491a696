/* SPDX-License-Identifier: Apache-2.0
 * cli.h: the contract of the command line, for all commands.
 *
 * The room `cli` has a file per command or group of commands (cmd_NAME.c), each with its options
 * and its row (struct command); begin with COMMAND_LIST below. main.c reads argv and prints
 * messages, load.c reads the configuration, select.c finds watches and jobs, and cmd_act.c is the
 * way of every command that changes jobs. top/ and demo/ are folders of their own.
 *
 * Global options may stand before or after the command. Data goes to stdout, everything else
 * to stderr.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/log.h"
#include "recover/scan.h"
#include "store/store.h"
#include "view/output.h"
#include "watch/settings.h"

#include <signal.h>

enum exit_code {
	EXIT_CLEAN = 0, /* clean, or done */
	EXIT_STUCK = 1, /* stuck jobs found and not recovered */
	EXIT_USAGE = 2,
	EXIT_CONFIG = 3,
	EXIT_DATABASE = 4,
	EXIT_REFUSED = 5,
	EXIT_PARTLY = 6, /* some of it was done */
};

/* An option of a command; `argument` NULL: a flag. */
struct cli_option {
	const char *name, *argument, *help;
};

/* What a person comes for: the groups of `defib help`, in their order. */
enum command_group { GROUP_LOOK, GROUP_ACT, GROUP_RUN, GROUP_SET_UP, GROUP_COUNT };

/*
 * A line for the shell that works as it stands, and what it is good for; a test runs each. A
 * long one is broken by " \\\n". They speak of the watch pages and of the built-in queue.
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
	X(ACT, cancel) X(ACT, force) X(ACT, undo) X(ACT, prune) X(ACT, pause) X(ACT, resume) \
	X(ACT, raise) \
	X(RUN, daemon) X(RUN, work) X(RUN, run) X(RUN, enqueue) X(RUN, demo) \
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
	/* what was given to the command */
	struct cli_given given[CLI_GIVEN_MAX];
	int ngiven;
	const char *words[CLI_GIVEN_MAX];
	int nwords;
	int dashes; /* how many words stand before "--"; nwords when there is none */
	/* what follows from them */
	bool color_out, color_err, tty_out, tty_err;
	struct arena arena;
	struct cfg_reader reader;
	struct settings settings;
};

/* Parse argv. Returns EXIT_CLEAN or prints one line and returns EXIT_USAGE. */
int cli_parse(struct cli *c, int argc, char **argv);
/* Say on stderr that a watch is left out because it is off, and why it is. */
void cli_say_off(const struct cli *c, const struct watch *w);
/* Value of an option of the command; NULL: not given. Flags have "". */
const char *cli_value(const struct cli *c, const char *name);
bool cli_flag(const struct cli *c, const char *name);
/* A duration or whole number option; prints one line and returns false when it is wrong. */
bool cli_duration(const struct cli *c, const char *name, int64_t *us);
bool cli_int(const struct cli *c, const char *name, int64_t *n);
/* Help about a command; NULL: about all of them (cmd_help.c). */
void cli_help(const struct command *command);
/* By name; NULL: there is none. */
const struct command *cli_command(const char *name);
/*
 * One line about a word that is none of `names`, which end with NULL: the nearest of them,
 * else all. `what` is what they are names of. Returns EXIT_USAGE.
 */
int cli_unknown(const char *what, const char *word, const char *const *names);
int cli_unknown_command(const char *word);
/* stuck_after is --stuck-after. */
const char *cli_option_of_key(struct arena *a, const char *key);

/*
 * Read the configuration: -c FILE, else $DEFIB_CONFIG, else ./defib.yaml, with
 * --db and watch options laid over it (load.c). Prints problems.
 */
int cli_load(struct cli *c);
/* The same, once and without a word: the first problem, with its place, is in `f`. */
MUST_CHECK defib_err cli_read(struct cli *c, struct failure *f);
/* There is no such watch: a usage error that names the nearest; `more` as settings_watch_names().
 */
int cli_no_watch(struct cli *c, const char *name, const char *more);
/* --db, else $DEFIB_DB; NULL: neither. */
const char *cli_db(const struct cli *c);
/* The sections of the rooms that the program is linked with; ends with NULL. */
extern const struct section *const program_sections[];
/* Which file that is; NULL: there is none. */
const char *cli_config_path(const struct cli *c);
/* Prints problems of the reader to stderr, errors and warnings. */
void cli_problems(const struct cli *c);
/* Store options for a database; `statement_us` is the longest time-out of its watches. */
struct store_options cli_store_options(const struct database *d, const struct watch *w,
                                       bool read_only);
/* A session that is opened when it is first used. */
struct session cli_session(const struct database *d, const struct watch *w, bool read_only);
/* For --output: beside the file first, so that a reader finds the old one or the new one. */
int cli_write_file(const char *path, const struct buf *text);
/* Who acts, for the ledger: "cli:USER". */
const char *cli_actor(struct cli *c);

/* One line on stderr: "defib: what; next". Returns the exit code of its class. */
int cli_fail(const struct failure *f);
/* The same for a command of the built-in queue: where its tables are missing, how to make them. */
int cli_queue_fail(struct failure *f);
/* The same where a statement was given a person's key: one that its type cannot take is a slip. */
int cli_key_fail(struct failure *f);
/* What is refused, and what to do instead; NULL: nothing. */
int cli_refuse(const char *next, const char *fmt, ...) PRINTF_LIKE(2, 3);
int cli_usage(const char *fmt, ...) PRINTF_LIKE(1, 2);
/*
 * The log of a command that runs long, by --log: logfmt, json or plain. Where it
 * was given, errors are events of the log too. False after one line.
 */
bool cli_set_up_log(const struct cli *c, enum log_format standard);
/* A line on stdout that --quiet leaves out. */
void cli_print(const struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "defib: text" on stderr, or an event. */
void cli_message(const char *text, const char *next);
int exit_code_of(defib_err err);

/*
 * Ask before something is changed, unless --yes or --dry-run was given
 * EXIT_CLEAN: go on; else one line was printed. `stdin_used`: data
 * was read from stdin, so that only the terminal itself can answer.
 */
int cli_confirm(const struct cli *c, const char *question, bool stdin_used);

/* Block TERM, INT, HUP and one more, before there are threads; *set is to wait for them. */
void cli_block_signals(sigset_t *set, int also);
/*
 * A worker that is already open, until it ends (cmd_work.c). Its signals are blocked before it is
 * opened, and taken by one thread. False after one line: it is closed.
 */
#define WORKER_ENDED SIGUSR2 /* ours: to that thread */
struct worker;
bool cli_run_worker(struct worker *w, void (*on_signal)(void *ctx, int signal), void *ctx);
/* `defib ledger prune` (cmd_prune.c). */
int ledger_prune(struct cli *c);

/* Words that some options take; each ends with NULL. */
extern const char *const color_names[], *const force_actions[];

#endif

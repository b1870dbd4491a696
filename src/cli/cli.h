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

/*
 * The groups of `defib help --all`, in order. X(enum, word, title). A group that has a word is a
 * command of commands, as in `defib tune learn`; the word may be left out.
 */
/* clang-format off */
#define COMMAND_GROUP_LIST(X) \
	X(LOOK, NULL, "Look") \
	X(ACT, NULL, "Act") \
	X(RUN, NULL, "Run and set up") \
	X(QUEUE, "queue", "enqueue jobs, work on them, cancel them, run them now") \
	X(TUNE, "tune", "find thresholds that fit, and raise them for a while") \
	X(DB, "db", "print, add or remove what defib puts into a database")
/* clang-format on */
enum {
#define X(id, word, title) GROUP_##id,
	COMMAND_GROUP_LIST(X)
#undef X
		GROUP_COUNT
};

struct command_group {
	const char *word; /* NULL: only a title */
	const char *title;
};
extern const struct command_group command_groups[GROUP_COUNT];

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

/*
 * Every command, in the order of `defib help --all`; its row is beside its function (cmd_*.c).
 * FIRST: on the first screen, which fits a small terminal. PART: all that it shows is part of
 * another command by now; it keeps its own form.
 */
enum command_place { PLACE_FIRST, PLACE_REST, PLACE_PART };
/* clang-format off */
#define COMMAND(id, function, takes, does, ...) \
	const struct command id##_command = { \
		.name = #id, .run = function, .arguments = takes, .summary = does, ##__VA_ARGS__}
#define COMMAND_LIST(X) \
	X(LOOK, FIRST, status) X(LOOK, FIRST, scan) X(LOOK, FIRST, list) X(LOOK, FIRST, show) \
	X(LOOK, FIRST, top) X(LOOK, REST, ledger) X(LOOK, REST, report) X(LOOK, REST, alert) \
	X(LOOK, PART, explain) X(LOOK, PART, stats) \
	X(ACT, FIRST, requeue) X(ACT, FIRST, release) X(ACT, FIRST, undo) X(ACT, FIRST, pause) \
	X(ACT, REST, resume) X(ACT, REST, retry) X(ACT, REST, fail) X(ACT, REST, hold) \
	X(ACT, REST, excuse) X(ACT, REST, rollback) X(ACT, REST, act) \
	X(RUN, FIRST, daemon) X(RUN, FIRST, init) X(RUN, FIRST, doctor) X(RUN, REST, config) \
	X(RUN, REST, deploy) X(RUN, REST, run) X(RUN, REST, beat) X(RUN, REST, demo) \
	X(RUN, REST, completion) X(RUN, REST, help) \
	X(QUEUE, REST, enqueue) X(QUEUE, REST, work) X(QUEUE, REST, cancel) X(QUEUE, REST, force) \
	X(TUNE, REST, learn) X(TUNE, REST, whatif) X(TUNE, REST, raise) \
	X(DB, REST, attach) X(DB, REST, detach) X(DB, REST, install) X(DB, REST, uninstall) \
	X(DB, REST, sql) X(DB, REST, prune)
#define X(group, place, name) extern const struct command name##_command;
COMMAND_LIST(X)
#undef X
/* clang-format on */

struct listed_command {
	const struct command_group *group;
	enum command_place place;
	const struct command *command;
};
extern const struct listed_command commands[];   /* ends with command NULL */
extern const struct cli_option global_options[]; /* that every command takes */

#define CLI_GIVEN_MAX 64
struct cli_given {
	const char *name, *value;
};

struct cli {
	const struct command_group *group; /* whose word was given; NULL: none was */
	const struct command *command;
	const char *called; /* as it was given: "tune raise", or "raise" */
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
/* Value of an option of the command; NULL: not given. Flags have "". */
const char *cli_value(const struct cli *c, const char *name);
bool cli_flag(const struct cli *c, const char *name);
/* A duration or whole number option; prints one line and returns false if it is invalid. */
bool cli_duration(const struct cli *c, const char *name, int64_t *us);
bool cli_int(const struct cli *c, const char *name, int64_t *n);
/* The same within limits, both included. */
bool cli_duration_within(const struct cli *c, const char *name, int64_t least_us, int64_t most_us,
                         int64_t *us);
bool cli_int_within(const struct cli *c, const char *name, int64_t least, int64_t most, int64_t *n);
/*
 * Help for a command; NULL: for a group; both NULL: the first screen, or `all` commands
 * (cmd_help.c).
 */
void cli_help(const struct command_group *group, const struct command *command, bool all);
/* The group that has this word; NULL: none has. */
const struct command_group *cli_group(const char *word);
/* By name, in a group (NULL: in any); NULL: there is none. */
const struct command *cli_command(const struct command_group *group, const char *name);
/* "tune learn": the command with the word of its group, if that has one. */
void cli_command_words(const struct listed_command *l, struct buf *out);
/*
 * One line about a word that is not in `names` (ends with NULL): suggests the nearest, else lists
 * all. `what` is the kind of name. Returns EXIT_USAGE.
 */
int cli_unknown(const char *what, const char *word, const char *const *names);
int cli_unknown_command(const struct command_group *group, const char *word);
/* stuck_after is --stuck-after. */
const char *cli_option_of_key(struct arena *a, const char *key);

/*
 * There is no such watch: a usage error that names the nearest; `more` as in
 * settings_watch_names().
 */
int cli_no_watch(struct cli *c, const char *name, const char *more);
/* Prints problems of the reader to stderr, errors and warnings. */
void cli_problems(const struct cli *c);
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

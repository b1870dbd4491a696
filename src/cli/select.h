/* SPDX-License-Identifier: Apache-2.0
 * select.h: which jobs a command applies to: one grammar for all commands on jobs.
 *
 *   WATCH/KEY            a job; a key of several parts is WATCH/["a","b"], and one with signs
 *                        that no line can hold, or that begins with [, is WATCH/["a\nb"]
 *   KEY                  the same with --watch NAME, or if there is only one watch
 *   -                    ids from stdin, one per line, as `defib list --ids` prints them
 *   --where TERM         all jobs that match it (watch/terms.h); repeated: all must match
 *   --all                everything; required if a command changes jobs and none of these is given
 *
 * The built-in queue is the watch "queue". It is selected if it is named, or if the configuration
 * has no watches. Without names and --watch, terms apply to every enabled watch; a watch that does
 * not know a term has no matching jobs.
 */
#ifndef CLI_SELECT_H
#define CLI_SELECT_H

#include "cli/cli.h"
#include "view/job.h"
#include "view/scan.h"

/* Rows for the option table of a command that selects jobs. */
/* clang-format off */
#define SELECTOR_OPTIONS \
	{"watch", "WATCH", "jobs of this watch; the built-in queue is \"queue\""}, \
	{"where", "TERM", "only jobs with state=NAME, verdict=silent, stuck, age>10m, …"}, \
	{"limit", "N", "at most N jobs"}
#define SELECTOR_ALL {"all", NULL, "all jobs; required if neither names nor --where are given"}
/* clang-format on */

/* The jobs of one watch. */
struct selected {
	const struct watch *watch;
	const struct database *database;
	struct session *session; /* of its database, shared by the groups of that database */
	bool named;              /* by arguments or on stdin; else by terms alone */
	const char **jobs;       /* in the form of facts.h, which by_hand() takes */
	int njobs;
	struct term terms[TERMS_MAX];
	int nterms;
};

struct selection {
	struct selected *groups; /* in the order of the configuration, without duplicates */
	int n;
	int64_t total; /* of jobs */
	int64_t limit; /* 0: none */
	bool limited;  /* --limit left jobs out */
	struct session *sessions;
	int nsessions;
};

struct select_rules {
	bool changes;  /* its sessions write; selecting everything requires --all */
	int64_t limit; /* if --limit is not given; 0: none */
};

/*
 * Reads the configuration (cli_load) and resolves arguments and options; queries no database except
 * for the queue's tables. Named jobs are in `jobs`. If that fails, prints one line and returns an
 * exit code.
 */
int select_read(struct cli *c, const struct select_rules *rules, struct selection *out);
/*
 * The same, and finds the jobs that terms select. Named jobs without terms are not looked up: the
 * code that acts on them reports the missing ones.
 */
int select_jobs(struct cli *c, const struct select_rules *rules, struct selection *out);
/* For a command whose arguments are names of watches; without any: all enabled ones. No jobs. */
int select_watches(struct cli *c, struct selection *out);
/*
 * For commands that show everything: if no watch was named, add the built-in queue of each database
 * in which it is used.
 */
void select_queues_too(struct cli *c, struct selection *s);
bool select_takes_queues(const struct cli *c);
void selection_release(struct selection *s);

/* A group's watch with its statements, in its open session. Must not be moved. */
struct selected_sql {
	struct store *store; /* the session's */
	struct binding binding;
	struct watch_sql sql;
	struct ledger ledger; /* not ready: it does not exist, or is off */
};
/* Prints nothing; a failure says what to do next. */
MUST_CHECK defib_err selected_bind(struct cli *c, const struct selected *g,
                                   struct selected_sql *out, struct failure *f);

struct picked {
	const struct watch *watch;
	const struct database *database;
	struct store *store; /* read-only; close with store_close */
	struct binding binding;
	struct watch_sql sql;
};

/*
 * The named watch (NULL: the only one), opened and compiled. If that fails, prints one line and
 * returns an exit code.
 */
int pick_watch(struct cli *c, const char *name, struct picked *out);
/* The same for a command that takes one watch; reads the configuration. */
int pick_named(struct cli *c, struct picked *out);
/*
 * The same without a question about the watch's table, whose owner's code could run with the rights
 * of this session: the binding has `watch` and `engine` only, and there is no `sql`.
 */
int pick_unread(struct cli *c, struct picked *out);
/*
 * For a command that removes what another one added for a watch: the watch may no longer be
 * configured, and then has only a name. Reads the configuration; if there is no such watch, prints
 * one line and returns an exit code.
 */
int pick_former(struct cli *c, const struct watch **w, const struct database **d);

/*
 * ---- acts (cmd_act.c) ----
 *
 * One act on selected jobs: checked against the configuration, confirmed, applied watch by watch
 * through by_hand(), and reported. Nothing is changed without confirmation: on a terminal the user
 * is asked, with the number of jobs and the database's name; otherwise --yes is required, or the
 * command fails at once.
 */

/* Rows for the option tables. */
/* clang-format off */
#define ACT_OPTIONS \
	{"dry-run", NULL, "show what would be done; change nothing"}, \
	{"yes", NULL, "do not ask; required without a terminal"}, \
	{"reason", "TEXT", "the reason, for the row and the ledger"}
#define ACT_OVERRIDE \
	{"override-guard", NULL, "also jobs whose worker is alive; recorded in the ledger"}, \
	{"running-only", NULL, "leave out jobs that wait or have ended, for a result that may be late"}
#define ACT_BACKGROUND \
	{"background", NULL, "let the daemon do it, at its pace; follow it with defib act status"}
/* clang-format on */

/* --background: order the act for all jobs that match (cmd_background.c). */
int act_in_background(struct cli *c, const struct act_kind *kind);

/* Check, ask, and do it. */
int act_selected(struct cli *c, const struct act_kind *kind, const struct selection *s);

/* The same without asking. */
int act_carry_out(struct cli *c, const struct act_kind *kind, const struct selection *s);

/* Whether ids come from stdin: the word "-". */
bool act_reads_stdin(const struct cli *c);

#endif

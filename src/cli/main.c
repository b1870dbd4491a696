/*
 * main.c: the table of commands, and the way from argv to one of them.
 */
#include "cli/cli.h"

#include "base/log.h"
#include "base/text.h"

#include <locale.h>
#include <signal.h>
#include <unistd.h>

const struct command commands[] = {
	{"scan", "[WATCH…]", "find stuck jobs; recover them with --fix", scan_options, true, cmd_scan},
	{"explain", "WATCH KEY…", "say everything that is known about one job, and what would be done",
     explain_options, true, cmd_explain},
	{"list", "[JOB…]", "list jobs: by state, verdict, age, text and more", list_options, true,
     cmd_list},
	{"show", "JOB", "tell the story of one job", show_options, true, cmd_show},
	{"stats", "[WATCH…]", "count jobs by state, what is stuck and what was recovered", NULL, true,
     cmd_stats},
	{"report", "[WATCH…]", "what happened: recoveries by day, trend, causes, mistakes, advice",
     report_options, false, cmd_report},
	{"learn", "[WATCH…]", "say how long runs take, and what that suggests for the thresholds", NULL,
     true, cmd_learn},
	{"whatif", "WATCH --stuck-after DURATION", "what another threshold would have done",
     whatif_options, false, cmd_whatif},
	{"daemon", "[WATCH…]", "scan every watch at its interval, one leader a watch, under guards",
     daemon_options, true, cmd_daemon},
	{"alert", "list|test", "how the rules of alerts stand; a test message to the sinks",
     alert_options, false, cmd_alert},
	{"status", "[WATCH…]", "how the daemons are: who leads, what a guard holds and why", NULL,
     false, cmd_status},
	{"top", "[WATCH…]", "watch it live on a full screen, and act on stuck jobs", top_options, false,
     cmd_top},
	{"pause", "WATCH…|--all", "the daemons stop recovering, until resumed", pause_options, false,
     cmd_pause},
	{"resume", "WATCH…|--all", "they go on", resume_options, false, cmd_pause},
	{"raise", "WATCH…|--all --by FACTOR", "longer thresholds for the daemons, while load is high",
     raise_options, false, cmd_raise},
	{"doctor", "[WATCH…]", "say what will go wrong, with the fix", doctor_options, true,
     cmd_doctor},
	{"config", "check|show|docs|metrics",
     "check the configuration, show effective values, print the references", NULL, true,
     cmd_config},
	{"deploy", "systemd|systemd-timer|cron|k8s|k8s-cron|container",
     "print the files that run it there, with this configuration filled in", deploy_options, false,
     cmd_deploy},
	{"sql", "WATCH", "print the statements of a watch, ready for psql or sqlite3", NULL, true,
     cmd_sql},
	{"init", "", "make defib's own tables, or bring them up to date", init_options, false,
     cmd_init},
	{"install", "WATCH", "let PostgreSQL itself recover a watch, by pg_cron or a timer",
     install_options, false, cmd_install},
	{"uninstall", "WATCH", "take that out of the database again", uninstall_options, false,
     cmd_uninstall},
	{"enqueue", "QUEUE KIND [JSON|@FILE|-]", "put a job into the built-in queue", enqueue_options,
     false, cmd_enqueue},
	{"work", "[WATCH…] -- PROGRAM [ARG…]", "run a program for every job of a queue, or of watches",
     work_options, false, cmd_work},
	{"retry", "JOB…", "let jobs run again at once, from where they failed", retry_options, false,
     cmd_act},
	{"requeue", "JOB…", "give jobs back, to be taken by any worker", act_options, false, cmd_act},
	{"fail", "JOB…", "end jobs as failed", act_options, false, cmd_act},
	{"hold", "JOB…", "keep automation away from jobs until a person releases them", act_options,
     false, cmd_act},
	{"release", "JOB…", "let held jobs go", act_options, false, cmd_act},
	{"rollback", "JOB…", "undo what jobs have done so far", act_options, false, cmd_act},
	{"cancel", "JOB…", "cancel waiting jobs, ask running ones to stop", cancel_options, false,
     cmd_cancel},
	{"force", "[WATCH] --action force|fail", "emergency: run, or fail, the oldest jobs now",
     force_options, false, cmd_force},
	{"undo", "BATCH|JOB…", "take back what a scan or a person did", undo_options, false, cmd_undo},
	{"ledger", "[prune]", "read, filter and follow the record of what was decided and done",
     ledger_options, false, cmd_ledger},
	{"demo", "", "real workers, killed and frozen while you watch; then what became of the work",
     demo_options, false, cmd_demo},
	{NULL, NULL, NULL, NULL, false, NULL},
};

static void set_up_output(struct cli *c)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool may = !(no_color && *no_color) && term && !text_eq(term, "dumb");
	c->tty_out = isatty(STDOUT_FILENO);
	c->tty_err = isatty(STDERR_FILENO);
	c->color_out = c->color == 1 || (c->color == 0 && may && c->tty_out);
	c->color_err = c->color == 1 || (c->color == 0 && may && c->tty_err);
	log_setup(c->verbose ? LOG_DEBUG : (c->quiet ? LOG_ERROR : LOG_INFO), LOG_PLAIN);
}

int main(int argc, char **argv)
{
	struct cli c = {0};
	setlocale(LC_CTYPE, "");
	/* A reader that goes away is an error of writing, not a reason to die in a transaction. */
	signal(SIGPIPE, SIG_IGN);
	int code = cli_parse(&c, argc, argv);
	set_up_output(&c);
	if (code == EXIT_CLEAN) {
		if (c.version)
			printf("defib %s\n", defib_version());
		else if (c.help || !c.command)
			cli_help(&c, c.command);
		else
			code = c.command->run(&c);
	}
	if (fflush(stdout) != 0 && code == EXIT_CLEAN)
		code = EXIT_PARTLY;
	cfg_reader_release(&c.reader);
	arena_release(&c.arena);
	return code;
}

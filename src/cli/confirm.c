/* SPDX-License-Identifier: Apache-2.0
 * confirm.c: nothing is changed unseen. On a terminal a person is asked;
 * anywhere else --yes must stand on the command line, or the command ends at
 * once.
 */
#include "cli/cli.h"

#include <unistd.h>

/* Somebody sits at stdin or, where data came from there, at the terminal that stderr shows. */
static FILE *somebody(const struct cli *c, bool stdin_used)
{
	if (!stdin_used)
		return isatty(STDIN_FILENO) ? stdin : NULL;
	return c->tty_err ? fopen("/dev/tty", "re") : NULL;
}

static bool answer_is_yes(FILE *in)
{
	char line[16] = "";
	if (!fgets(line, sizeof line, in))
		return false;
	line[strcspn(line, "\r\n")] = '\0';
	return strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0;
}

int cli_confirm(const struct cli *c, const char *question, bool stdin_used)
{
	struct failure f = {0};
	if (cli_flag(c, "yes") || cli_flag(c, "dry-run"))
		return EXIT_CLEAN;
	FILE *in = somebody(c, stdin_used);
	if (!in) {
		fail(&f, DEFIB_REFUSED, "nothing was done: not a terminal");
		fail_next(&f, "pass --yes to %s, or --dry-run to see what would be done", question);
		return cli_fail(&f);
	}
	fflush(stdout);
	fprintf(stderr, "%s? [y/N] ", question);
	bool yes = answer_is_yes(in);
	if (in != stdin)
		(void)fclose(in);
	if (yes)
		return EXIT_CLEAN;
	fail(&f, DEFIB_REFUSED, "nothing was changed");
	return cli_fail(&f);
}

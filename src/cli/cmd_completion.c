/*
 * cmd_completion.c: `defib completion SHELL`: the script that teaches a shell to complete our
 * words. The scripts (completions/) are small and know nothing: at each TAB they ask
 * `defib completion words -- WORD… CURRENT` (complete.c), so that they never grow old.
 */
#include "cli/complete.h"

#include "base/text.h"
#include "shipped.h"

static const struct {
	const char *shell, *file;
} scripts[] = {
	{"bash", "completions/defib.bash"},
	{"zsh", "completions/_defib"},
	{"fish", "completions/defib.fish"},
};
#define NSHELLS ((int)(sizeof scripts / sizeof *scripts))

int cmd_completion(struct cli *c)
{
	const char *names[NSHELLS + 1] = {NULL};
	if (c->nwords > 0 && text_eq(c->words[0], "words"))
		return complete_words(c);
	if (c->nwords != 1)
		return cli_usage("completion of which shell? bash, zsh or fish");
	for (int i = 0; i < NSHELLS; i++) {
		names[i] = scripts[i].shell;
		if (text_eq(c->words[0], names[i])) {
			fputs(shipped_text(scripts[i].file), stdout);
			return EXIT_CLEAN;
		}
	}
	return cli_unknown("shell", c->words[0], names);
}

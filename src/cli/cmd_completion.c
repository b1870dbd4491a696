/* SPDX-License-Identifier: Apache-2.0
 * cmd_completion.c: `defib completion SHELL`: prints the completion script for a shell. The scripts
 * (completions/) are small and contain no words: at each TAB they call `defib completion words --
 * WORD… CURRENT`, so that they never become outdated.
 */

#include "cli/cli.h"
#include "cli/load.h"
#include "embedded.h"
#include "ledger/events.h"
#include "setup/detect.h"
#include "setup/propose.h"
#include "shipped.h"
#include "view/report.h"
#include "watch/list_sql.h"
#include "watch/options.h"
#include "watch/terms.h"

#include <ctype.h>

/* A command line, parsed up to the current word. */
struct completion {
	struct cli *cli;
	const struct command_group *group; /* whose word was given, to complete or to get help for */
	const struct command *command;
	const char *current; /* what is already typed of the word */
	const char *before;  /* "--option=" in the same word; "" */
	int place;           /* how many words the command has */
	bool only_words;     /* after "--" */
	/* The option that needs a value; `argument` NULL: none. */
	const char *argument;
	const char *const *choices;
};

/* ---- printing ---- */

static bool is_printable(const char *word)
{
	for (; *word; word++)
		if ((unsigned char)*word < 0x20 || *word == 0x7f)
			return false;
	return true;
}

/* One word, if it begins like the current one. */
static void print_word(const struct completion *q, const char *word, const char *about)
{
	if (text_starts(word, q->current) && is_printable(word))
		printf("%s%s\t%s\n", q->before, word, about ? about : "");
}

static void completion_print_all(const struct completion *q, const char *const *words)
{
	for (; *words; words++)
		print_word(q, *words, NULL);
}

/* ---- names from the configuration: from its tree, so that one with problems serves too ---- */

static const struct cfg_node *completion_configured(const struct completion *q, const char *list)
{
	struct failure f = {0};
	struct cfg_node *root = NULL;
	const char *path = cli_config_path(q->cli);
	if (!path || cfg_load(path, &q->cli->arena, &root, &f) || root->kind != CFG_MAP)
		return NULL;
	const struct cfg_node *found = cfg_get(root, list);
	return found && found->kind == CFG_LIST ? found : NULL;
}

static const char *completion_member(const struct cfg_node *map, const char *key)
{
	const struct cfg_node *value = cfg_get(map, key);
	return value && value->kind == CFG_SCALAR ? value->text : NULL;
}

/* The names in a list of the configuration, with the value of another member of each. */
static void print_names(const struct completion *q, const struct cfg_node *list, const char *about,
                        const char *tail)
{
	for (int i = 0; list && i < list->n; i++) {
		const char *name = completion_member(list->items[i], "name");
		if (name)
			print_word(q, arena_printf(&q->cli->arena, "%s%s", name, tail),
			           about ? completion_member(list->items[i], about) : NULL);
	}
}

static void print_steps(const struct completion *q)
{
	const struct cfg_node *flows = completion_configured(q, "workflows");
	for (int i = 0; flows && i < flows->n; i++) {
		const struct cfg_node *steps = cfg_get(flows->items[i], "steps");
		if (steps && steps->kind == CFG_LIST)
			print_names(q, steps, NULL, "");
	}
}

/* ---- names from our own tables ---- */

/*
 * The commands of the group whose word was given. If none was: commands without a group, and the
 * groups' words; the others too as soon as one is begun, because their groups may be left out.
 */
static void print_commands(const struct completion *q)
{
	for (const struct listed_command *l = commands; l->command; l++) {
		bool short_form = l->group->word || l->place == PLACE_PART;
		if (q->group ? l->group == q->group : !short_form || q->current[0])
			print_word(q, l->command->name, l->command->summary);
	}
	for (int i = 0; i < GROUP_COUNT && !q->group; i++)
		if (command_groups[i].word)
			print_word(q, command_groups[i].word, command_groups[i].title);
}

static void completion_print_events(const struct completion *q)
{
	for (const struct event_name *e = event_names; e->name; e++)
		print_word(q, e->name, e->meaning);
}

static void print_presets(const struct completion *q)
{
	for (const struct embedded_file *file = embedded_files; file->name; file++) {
		const char *name = preset_name(file, &q->cli->arena);
		if (name)
			print_word(q, name, NULL);
	}
}

static void print_terms(const struct completion *q)
{
	struct arena *a = &q->cli->arena;
	const char *usage, *word;
	for (int i = 0; (word = term_word(i, &usage)) != NULL; i++)
		print_word(q, word, usage);
	for (int v = VERDICT_NONE + 1; v < VERDICT_COUNT; v++)
		print_word(q, arena_printf(a, "verdict=%s", verdict_names[v]), verdict_kinds[v].why);
	const struct watch *queue = builtin_watch(STORE_POSTGRES, a);
	for (const char **s = queue->states.names; *s; s++)
		print_word(q, arena_printf(a, "state=%s", *s), "of the built-in queue");
}

#define QUEUE "the built-in queue"

/* The possible values of an argument, by its name. */
static const struct word_source {
	const char *argument;
	const char *list, *about, *tail; /* names in a list of the configuration */
	const char *more[2][2];          /* more words, each with a description */
	void (*print)(const struct completion *q);
	const char *const *words;
	const char *shell; /* what the shell completes itself */
} sources[] = {
	{"WATCH", .list = "watches", .about = "table", .more = {{BUILTIN_NAME, QUEUE}}},
	{"JOB", .list = "watches", .about = "table", .tail = "/", .more = {{BUILTIN_NAME "/", QUEUE}}},
	{"SINK", .list = "sinks", .about = "type"},
	{"URL", .list = "databases", .more = {{"postgres://", "a server"}, {"sqlite:", "a file"}}},
	{"PRESET", .print = print_presets},
	{"STEP", .print = print_steps},
	{"COMMAND", .print = print_commands},
	{"EVENT", .print = completion_print_events},
	{"TERM", .print = print_terms},
	{"FILE", .shell = ":files"},
	{"PROGRAM", .shell = ":files"},
	{"DIR", .shell = ":directories"},
	{"REMEDY", .words = remedy_names},
	{"FORMAT", .words = report_form_names},
	{"FORM", .words = log_format_names},
	{"ORDER", .words = list_sort_names},
	{"WHEN", .words = color_names},
	{"ACTION", .words = force_actions},
	/* Keys of a watch, as options. */
	{"preset", .print = print_presets},
	{"database", .list = "databases"},
	{"workflow", .list = "workflows"},
};

static void print_source(const struct completion *q, const char *argument)
{
	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
		const struct word_source *s = &sources[i];
		if (!text_eq(s->argument, argument))
			continue;
		if (s->list)
			print_names(q, completion_configured(q, s->list), s->about, s->tail ? s->tail : "");
		for (int k = 0; k < 2 && s->more[k][0]; k++)
			print_word(q, s->more[k][0], s->more[k][1]);
		if (s->print)
			s->print(q);
		if (s->words)
			completion_print_all(q, s->words);
		if (s->shell)
			puts(s->shell);
	}
}

/* ---- options ---- */

static const struct cli_option *option_of(const struct completion *q, const char *name)
{
	const struct cli_option *tables[] = {global_options, q->command ? q->command->options : NULL};
	for (int i = 0; i < 2; i++)
		for (const struct cli_option *o = tables[i]; o && o->name; o++)
			if (text_eq(o->name, name))
				return o;
	return NULL;
}

/* Note the value that the option needs; false: it takes none. */
static bool expect(struct completion *q, const char *name)
{
	const struct cli_option *o = option_of(q, name);
	q->argument = o ? o->argument : NULL;
	q->choices = NULL;
	for (const struct opt_row *row = watch_rows;
	     !o && q->command && q->command->watch_options && row->name; row++)
		if (text_eq(cli_option_of_key(&q->cli->arena, row->name), name)) {
			q->argument = row->name;
			q->choices = row->choices;
		}
	return q->argument != NULL;
}

static void completion_print_options(const struct completion *q)
{
	struct arena *a = &q->cli->arena;
	const struct cli_option *tables[] = {q->command ? q->command->options : NULL, global_options};
	for (int i = 0; i < 2; i++)
		for (const struct cli_option *o = tables[i]; o && o->name; o++)
			print_word(q, arena_printf(a, "--%s", o->name), o->help);
	for (const struct opt_row *row = watch_rows;
	     q->command && q->command->watch_options && row->name; row++)
		print_word(q, arena_printf(a, "--%s", cli_option_of_key(a, row->name)), row->help);
}

/* ---- the words of a command ---- */

/* One alternative of an argument: a name of `sources`, or the word itself. */
static void print_alternative(const struct completion *q, const char *text)
{
	if (isupper((unsigned char)text[0]))
		print_source(q, text);
	else if (islower((unsigned char)text[0]) || text[0] == '-')
		print_word(q, text, NULL);
}

/* "[WATCH…]" is WATCH: parts in brackets are optional, … repeats. */
static char *bare(struct arena *a, const char *token, size_t n)
{
	static const char more[] = "…";
	if (n && token[0] == '[') {
		token++;
		n--;
	}
	while (n && (token[n - 1] == ']' || token[n - 1] == '['))
		n--;
	if (n >= strlen(more) && memcmp(token + n - strlen(more), more, strlen(more)) == 0)
		n -= strlen(more);
	return arena_strndup(a, token, n);
}

/* The argument at position `q->place`; the last argument repeats. */
static void print_arguments(const struct completion *q)
{
	struct arena *a = &q->cli->arena;
	const char *at = q->command->arguments, *found = NULL;
	bool behind_option = false;
	for (int place = 0; *at && place <= q->place;) {
		size_t n = strcspn(at, " ");
		const char *token = bare(a, at, n);
		at += n + strspn(at + n, " ");
		if (text_eq(token, "--") || text_starts(token, "--") || behind_option) {
			behind_option = !behind_option && !text_eq(token, "--");
			continue;
		}
		found = token;
		place++;
	}
	while (found && *found) {
		size_t n = strcspn(found, "|");
		print_alternative(q, bare(a, found, n));
		found += n + (found[n] == '|');
	}
}

/* ---- parsing ---- */

/* An option before the current word. True: that word is its value. */
static bool completion_take_option(struct completion *q, const char *const *words, int n, int *i)
{
	const char *word = words[*i], *equals = strchr(word, '=');
	const char *name = text_starts(word, "--") ? word + 2 : "";
	if (text_eq(word, "-c"))
		name = "config";
	else if (equals && *name)
		name = arena_strndup(&q->cli->arena, name, (size_t)(equals - name));
	bool takes = expect(q, name), in_next = takes && !equals;
	if (in_next && *i + 1 == n - 1)
		return true;
	if (in_next)
		++*i;
	if (takes && text_eq(name, "config"))
		q->cli->config = equals ? equals + 1 : words[*i];
	q->argument = NULL;
	return false;
}

/* False: nothing can be completed after this. */
static bool take_apart(struct completion *q, const char *const *words, int n)
{
	for (int i = 0; i < n - 1; i++) {
		const char *word = words[i];
		if (!q->only_words && text_eq(word, "--")) {
			q->only_words = true;
		} else if (!q->only_words && word[0] == '-' && word[1]) {
			if (completion_take_option(q, words, n, &i))
				return true;
		} else if (q->command) {
			q->group = q->place == 0 ? cli_group(word) : NULL; /* defib help GROUP … */
			q->place++;
		} else if (!q->group && cli_group(word)) {
			q->group = cli_group(word);
		} else if ((q->command = cli_command(q->group, word)) == NULL) {
			return false;
		}
	}
	return true;
}

/* --option=value in the current word. */
static bool value_in_word(struct completion *q)
{
	const char *equals = text_starts(q->current, "--") ? strchr(q->current, '=') : NULL;
	if (!equals || q->only_words)
		return false;
	struct arena *a = &q->cli->arena;
	expect(q, arena_strndup(a, q->current + 2, (size_t)(equals - q->current) - 2));
	q->before = arena_strndup(a, q->current, (size_t)(equals - q->current) + 1);
	q->current = equals + 1;
	return true;
}

/*
 * The words of `c` after the first are a command line without its "defib"; the last one is the
 * current word. Prints each possible word as "word<TAB>about", or ":files" or ":directories" if the
 * shell completes it itself. A word that ends with = or / continues. Reads the configuration for
 * names, prints nothing if there is none, and queries no database.
 */
static int complete_words(struct cli *c)
{
	int n = c->nwords - 1; /* the first one is our own */
	struct completion q = {.cli = c, .before = "", .current = n > 0 ? c->words[n] : ""};
	if (!take_apart(&q, c->words + 1, n))
		return EXIT_CLEAN;
	if (q.argument || value_in_word(&q)) {
		if (q.choices)
			completion_print_all(&q, q.choices);
		else
			print_source(&q, q.argument);
	} else if (q.only_words) {
		/* A program of the user, if the command runs one. */
		if (q.command && strstr(q.command->arguments, "-- "))
			puts(":files");
	} else if (q.current[0] == '-') {
		completion_print_options(&q);
	} else if (q.command) {
		print_arguments(&q);
	} else {
		print_commands(&q);
	}
	return EXIT_CLEAN;
}

static const struct {
	const char *shell, *file;
} scripts[] = {
	{"bash", "completions/defib.bash"},
	{"zsh", "completions/_defib"},
	{"fish", "completions/defib.fish"},
};
#define NSHELLS ((int)(sizeof scripts / sizeof *scripts))

static int cmd_completion(struct cli *c)
{
	const char *names[NSHELLS + 1] = {NULL};
	if (c->nwords > 0 && text_eq(c->words[0], "words"))
		return complete_words(c);
	if (c->nwords != 1)
		return cli_usage("name a shell: bash, zsh or fish");
	for (int i = 0; i < NSHELLS; i++) {
		names[i] = scripts[i].shell;
		if (text_eq(c->words[0], names[i])) {
			fputs(shipped_text(scripts[i].file), stdout);
			return EXIT_CLEAN;
		}
	}
	return cli_unknown("shell", c->words[0], names);
}

COMMAND(completion, cmd_completion, "bash|zsh|fish",
        "print the script that completes commands, options and names",
        .examples = {
			{"eval \"$(defib completion bash)\"", "for this shell; put it into ~/.bashrc for all"},
			{"defib completion fish > ~/.config/fish/completions/defib.fish",
             "for fish, which reads that directory"}});

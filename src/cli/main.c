/* SPDX-License-Identifier: Apache-2.0
 * main.c: from argv to a command, and messages on stderr.
 *
 * A password in a URL is read and then wiped from argv, so that the process title does not show it.
 * A message is a line for people, or a log event for programs.
 */
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/load.h"
#include "watch/options.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

const struct command_group command_groups[GROUP_COUNT] = {
#define X(id, word, title) [GROUP_##id] = {word, title},
	COMMAND_GROUP_LIST(X)
#undef X
};

const struct listed_command commands[] = {
#define X(group, place, name) {&command_groups[GROUP_##group], PLACE_##place, &name##_command},
	COMMAND_LIST(X)
#undef X
		{.command = NULL},
};

const struct cli_option global_options[] = {
	{"config", "FILE", "the configuration (also -c); default: $DEFIB_CONFIG, then ./defib.yaml"},
	{"db", "URL",
     "a database: postgres://…, sqlite:PATH, or the name of a configured one; default: $DEFIB_DB"},
	{"json", NULL, "JSON on stdout"},
	{"quiet", NULL, "only errors on stderr (also -q)"},
	{"verbose", NULL, "more on stderr (also -v)"},
	{"color", "WHEN", "auto, always or never"},
	{"help", NULL, "help (also -h)"},
	{"version", NULL, "the version"},
	{NULL, NULL, NULL},
};

static const struct {
	char letter;
	const char *name;
} letters[] = {{'c', "config"}, {'q', "quiet"}, {'v', "verbose"}, {'h', "help"}, {'V', "version"}};

const char *const color_names[] = {"auto", "always", "never", NULL};

int cli_usage(const char *fmt, ...)
{
	char text[2048];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	cli_message(text, NULL);
	return EXIT_USAGE;
}

int cli_refuse(const char *next, const char *fmt, ...)
{
	char text[2048];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	cli_message(text, next);
	return EXIT_REFUSED;
}

static const struct cli_option *find_option(const struct cli_option *options, const char *name)
{
	for (; options && options->name; options++)
		if (text_eq(options->name, name))
			return options;
	return NULL;
}

/* --stuck-after is the watch's key stuck_after. */
static void key_of_option(const char *option, struct buf *out)
{
	for (; *option; option++)
		buf_addch(out, *option == '-' ? '_' : *option);
}

const char *cli_option_of_key(struct arena *a, const char *key)
{
	char *name = arena_strdup(a, key);
	for (char *p = name; *p; p++)
		*p = *p == '_' ? '-' : *p;
	return name;
}

static bool is_watch_option(const char *name)
{
	AUTO_BUF key = BUF_INIT;
	bool found = false;
	key_of_option(name, &key);
	for (const struct opt_row *row = watch_rows; row->name; row++)
		found = found || text_eq(row->name, buf_text(&key));
	return found;
}

const struct command_group *cli_group(const char *word)
{
	for (int i = 0; i < GROUP_COUNT; i++)
		if (text_eq(command_groups[i].word, word))
			return &command_groups[i];
	return NULL;
}

const struct command *cli_command(const struct command_group *group, const char *name)
{
	for (const struct listed_command *l = commands; l->command; l++)
		if (text_eq(l->command->name, name) && (!group || l->group == group))
			return l->command;
	return NULL;
}

void cli_command_words(const struct listed_command *l, struct buf *out)
{
	if (l->group->word)
		buf_addf(out, "%s ", l->group->word);
	buf_add(out, l->command->name);
}

int cli_unknown(const char *what, const char *word, const char *const *names)
{
	AUTO_BUF hint = BUF_INIT;
	const char *near = text_nearest(word, names);
	if (near)
		buf_addf(&hint, "did you mean \"%s\"?", near);
	for (int i = 0; !near && names[i]; i++)
		buf_addf(&hint, "%s%s", i == 0 ? "there are " : (names[i + 1] ? ", " : " and "), names[i]);
	cli_usage("there is no %s \"%s\"%s%s", what, word, hint.len ? "; " : "", buf_text(&hint));
	return EXIT_USAGE;
}

/* Suggests a group, or a command with the word of its group, even if that was left out. */
int cli_unknown_command(const struct command_group *group, const char *word)
{
	AUTO_BUF words = BUF_INIT;
	const char *names[128];
	int n = 0;
	for (int i = 0; i < GROUP_COUNT && !group; i++)
		if (command_groups[i].word)
			names[n++] = command_groups[i].word;
	for (const struct listed_command *l = commands; l->command; l++)
		if (!group || l->group == group)
			names[n++] = l->command->name;
	names[n] = NULL;
	const char *near = text_nearest(word, names);
	for (const struct listed_command *l = commands; near && l->command; l++)
		if (l->command->name == near)
			cli_command_words(l, &words);
	if (words.len)
		near = buf_text(&words);
	return cli_usage("unknown command \"%s%s%s\"%s (see defib %s%s--help)",
	                 group ? group->word : "", group ? " " : "", word,
	                 hint_of(near, "\"", "\"").text, group ? group->word : "", group ? " " : "");
}

static int unknown_option(struct cli *c, const char *name)
{
	const char *names[128];
	int n = 0;
	for (const struct cli_option *o = global_options; o->name; o++)
		names[n++] = o->name;
	for (const struct cli_option *o = c->command ? c->command->options : NULL; o && o->name; o++)
		names[n++] = o->name;
	for (const struct opt_row *row = watch_rows;
	     c->command && c->command->watch_options && row->name; row++)
		names[n++] = cli_option_of_key(&c->arena, row->name);
	names[n] = NULL;
	const char *near = text_nearest(name, names);
	return cli_usage("unknown option --%s%s (see defib %s%s--help)", name,
	                 hint_of(near, "--", "").text, c->called, *c->called ? " " : "");
}

static int set_global(struct cli *c, const char *name, const char *value)
{
	if (text_eq(name, "config"))
		c->config = value;
	else if (text_eq(name, "db"))
		c->db = value;
	else if (text_eq(name, "json"))
		c->json = true;
	else if (text_eq(name, "quiet"))
		c->quiet = true;
	else if (text_eq(name, "verbose"))
		c->verbose = true;
	else if (text_eq(name, "help"))
		c->help = true;
	else if (text_eq(name, "version"))
		c->version = true;
	else if ((c->color = word_index(color_names, value)) < 0)
		return cli_unknown("--color", value, color_names);
	return EXIT_CLEAN;
}

/* One option, with its value in the same word or the next one. */
static int main_take_option(struct cli *c, int argc, char **argv, int *i, const char *name,
                            const char *value)
{
	const struct cli_option *global = find_option(global_options, name);
	const struct cli_option *own = c->command ? find_option(c->command->options, name) : NULL;
	bool watch =
		!global && !own && c->command && c->command->watch_options && is_watch_option(name);
	if (!global && !own && !watch)
		return unknown_option(c, name);
	bool wants = watch || (global ? global->argument : own->argument);
	if (value && !wants)
		return cli_usage("--%s takes no value", name);
	if (wants && !value) {
		if (*i + 1 >= argc)
			return cli_usage("--%s needs a value", name);
		value = argv[++*i];
	}
	if (global)
		return set_global(c, global->name, value);
	if (c->ngiven == CLI_GIVEN_MAX)
		return cli_usage("too many options");
	c->given[c->ngiven++] = (struct cli_given){name, value ? value : ""};
	return EXIT_CLEAN;
}

static int main_take_word(struct cli *c, const char *word)
{
	if (!c->command)
		return cli_unknown_command(c->group, word);
	if (c->nwords == CLI_GIVEN_MAX)
		return cli_usage("too many arguments");
	c->words[c->nwords++] = word;
	return EXIT_CLEAN;
}

/* The command may come after options that only it knows, so it is found first. */
static void find_command_words(struct cli *c, int argc, char **argv)
{
	c->called = "";
	for (int i = 1; i < argc; i++) {
		if (argv[i][0] != '-') {
			if (!c->group && (c->group = cli_group(argv[i])) != NULL) {
				c->called = c->group->word;
				continue;
			}
			c->command = cli_command(c->group, argv[i]);
			if (c->command)
				c->called = c->group ? arena_printf(&c->arena, "%s %s", c->called, argv[i])
				                     : c->command->name;
			return;
		}
		const struct cli_option *o =
			text_eq(argv[i], "-c") ? &global_options[0] : find_option(global_options, argv[i] + 2);
		if (o && o->argument)
			i++;
	}
}

static int parse_words(struct cli *c, int argc, char **argv)
{
	bool only_words = false, group_seen = false, command_seen = false;
	int code = EXIT_CLEAN;
	for (int i = 1; i < argc && code == EXIT_CLEAN; i++) {
		char *arg = argv[i], *equals = strchr(arg, '=');
		if (!only_words && text_eq(arg, "--")) {
			only_words = true;
			c->dashes = c->nwords;
		} else if (!only_words && text_starts(arg, "--")) {
			const char *name =
				equals ? arena_strndup(&c->arena, arg + 2, (size_t)(equals - arg) - 2) : arg + 2;
			code = main_take_option(c, argc, argv, &i, name, equals ? equals + 1 : NULL);
		} else if (!only_words && arg[0] == '-' && arg[1] && !arg[2]) {
			size_t l = 0;
			while (l < sizeof letters / sizeof *letters && letters[l].letter != arg[1])
				l++;
			if (l == sizeof letters / sizeof *letters)
				return cli_usage("unknown option %s (see defib --help)", arg);
			code = main_take_option(c, argc, argv, &i, letters[l].name, NULL);
		} else if (c->group && !group_seen && text_eq(arg, c->group->word)) {
			group_seen = true;
		} else if (c->command && !command_seen && text_eq(arg, c->command->name)) {
			command_seen = true;
		} else {
			code = main_take_word(c, arg);
		}
	}
	if (!only_words)
		c->dashes = c->nwords;
	return code;
}

int cli_parse(struct cli *c, int argc, char **argv)
{
	/* Work on a copy, so that the original in the process list can be wiped. */
	char **copy = ARENA_ARRAY(&c->arena, char *, argc + 1);
	for (int i = 0; i < argc; i++) {
		copy[i] = arena_strdup(&c->arena, argv[i]);
		/* The URL is the word itself, or follows the = of --db=URL. */
		char *equals = text_starts(argv[i], "--") ? strchr(argv[i], '=') : NULL;
		if (i > 0)
			url_wipe_password(equals ? equals + 1 : argv[i]);
	}
	find_command_words(c, argc, copy);
	return parse_words(c, argc, copy);
}

const char *cli_value(const struct cli *c, const char *name)
{
	const char *value = NULL;
	for (int i = 0; i < c->ngiven; i++)
		if (text_eq(c->given[i].name, name))
			value = c->given[i].value; /* the last one counts */
	return value;
}

bool cli_flag(const struct cli *c, const char *name)
{
	return cli_value(c, name) != NULL;
}

bool cli_duration(const struct cli *c, const char *name, int64_t *us)
{
	const char *text = cli_value(c, name);
	int64_t seconds;
	if (!text || duration_parse(text, us))
		return true;
	/* "--threshold 180": on the command line a number without a unit is seconds. */
	if (int_parse(text, &seconds) && seconds >= 0 && seconds <= DURATION_MOST_US / US_PER_S) {
		*us = seconds * US_PER_S;
		return true;
	}
	cli_usage("--%s expects a duration such as 90s, 15m or 1h30m, at most %lldd, not \"%s\"", name,
	          (long long)(DURATION_MOST_US / DAY_US), text);
	return false;
}

bool cli_duration_within(const struct cli *c, const char *name, int64_t least_us, int64_t most_us,
                         int64_t *us)
{
	AUTO_BUF least = BUF_INIT, most = BUF_INIT;
	if (!cli_duration(c, name, us))
		return false;
	if (!cli_value(c, name) || (*us >= least_us && *us <= most_us))
		return true;
	duration_text(least_us, &least);
	duration_text(most_us, &most);
	cli_usage("--%s must be from %s to %s, not \"%s\"", name, buf_text(&least), buf_text(&most),
	          cli_value(c, name));
	return false;
}

bool cli_int(const struct cli *c, const char *name, int64_t *n)
{
	const char *text = cli_value(c, name);
	if (!text || (int_parse(text, n) && *n >= 0))
		return true;
	cli_usage("--%s expects a whole number up to %lld, not \"%s\"", name, (long long)INT64_MAX,
	          text);
	return false;
}

bool cli_int_within(const struct cli *c, const char *name, int64_t least, int64_t most, int64_t *n)
{
	const char *text = cli_value(c, name);
	if (!text || (int_parse(text, n) && *n >= least && *n <= most))
		return true;
	cli_usage("--%s must be a whole number from %lld to %lld, not \"%s\"", name, (long long)least,
	          (long long)most, text);
	return false;
}

/* Set once, before threads start. */
static bool as_events;

bool cli_set_up_log(const struct cli *c, enum log_format standard)
{
	enum log_format format = standard;
	const char *form = cli_value(c, "log");
	if (form && !log_format_parse(form, &format)) {
		cli_unknown("log format", form, log_format_names);
		return false;
	}
	as_events = form && format != LOG_PLAIN;
	log_setup(c->verbose ? LOG_DEBUG : (c->quiet ? LOG_ERROR : LOG_INFO), format);
	return true;
}

void cli_print(const struct cli *c, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	if (!c->quiet)
		vprintf(fmt, args);
	va_end(args);
}

/* A message may quote a row, or a server's answer. */
static void main_print_line(const char *text, const char *next)
{
	AUTO_BUF line = BUF_INIT;
	buf_add(&line, "defib: ");
	out_visible(&line, text);
	buf_add(&line, next ? "; " : "");
	out_visible(&line, next ? next : "");
	fprintf(stderr, "%s\n", buf_text(&line));
}

void cli_message(const char *text, const char *next)
{
	bool more = next && *next;
	if (!as_events)
		main_print_line(text, more ? next : NULL);
	else if (more)
		log_event(LOG_ERROR, text, LOG_STR("next", next));
	else
		log_event(LOG_ERROR, text);
}

static void problem_event(const struct cfg_problem *p, const char *place)
{
	log_event(p->warning ? LOG_WARN : LOG_ERROR,
	          p->warning ? "questionable setting" : "invalid configuration", LOG_STR("at", place),
	          LOG_STR("because", p->text));
}

void cli_problems(const struct cli *c)
{
	AUTO_BUF place = BUF_INIT;
	for (int i = 0; i < c->reader.nproblems; i++) {
		const struct cfg_problem *p = &c->reader.problems[i];
		if (p->warning && c->quiet)
			continue;
		buf_clear(&place);
		cfg_mark_text(p->at, &place);
		if (as_events)
			problem_event(p, buf_text(&place));
		else
			fprintf(stderr, "%s: %s%s\n", buf_text(&place), p->warning ? "warning: " : "", p->text);
	}
}

/* ---- questions ---- */

/* Someone who can answer: at stdin or, if data came from there, at the terminal of stderr. */
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
	if (cli_flag(c, "yes") || cli_flag(c, "dry-run"))
		return EXIT_CLEAN;
	FILE *in = somebody(c, stdin_used);
	if (!in) {
		AUTO_BUF next = BUF_INIT;
		buf_addf(&next, "pass --yes to %s, or --dry-run to see what would be done", question);
		return cli_refuse(buf_text(&next), "nothing was done: not a terminal");
	}
	fflush(stdout);
	fprintf(stderr, "%s? [y/N] ", question);
	bool yes = answer_is_yes(in);
	if (in != stdin)
		(void)fclose(in);
	return yes ? EXIT_CLEAN : cli_refuse(NULL, "nothing was changed");
}

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

/* A full disk is reported; a reader that closed the pipe (| head) is not. */
static bool output_arrived(void)
{
	struct pollfd reader = {.fd = STDOUT_FILENO};
	struct failure f = {0};
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	fail(&f, DEFIB_IO, "the output is not complete: %s",
	     errno ? strerror(errno) : "it could not be written");
	if (poll(&reader, 1, 0) != 1 || !(reader.revents & POLLERR))
		(void)cli_fail(&f);
	return false;
}

/*
 * Passwords are in our environment and memory, and libpq keeps its own copies. No core dump may
 * hold them, and the program of a job, which runs as our user, must not read them from /proc. A
 * program that we start gets its own flag from the kernel.
 */
static void hide_memory(void)
{
	const char *debugged = getenv("DEFIB_DUMPABLE");
	if (!debugged || !*debugged)
		(void)prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L);
}

int main(int argc, char **argv)
{
	struct cli c = {0};
	hide_memory();
	json_use_our_memory();
	setlocale(LC_CTYPE, "");
	/* A closed pipe is a write error, not a reason to die in a transaction. */
	signal(SIGPIPE, SIG_IGN);
	int code = cli_parse(&c, argc, argv);
	set_up_output(&c);
	if (code == EXIT_CLEAN) {
		if (c.version)
			printf("defib %s\n", defib_version());
		else if (c.help || !c.command)
			cli_help(c.group, c.command, false);
		else
			code = c.command->run(&c);
	}
	if (!output_arrived() && code == EXIT_CLEAN)
		code = EXIT_PARTLY;
	cfg_reader_release(&c.reader);
	arena_release(&c.arena);
	return code;
}

/* SPDX-License-Identifier: Apache-2.0
 * cmd_config.c: `defib config check|show|docs`, all from the option tables,
 * `defib config metrics`, from the table of metrics, and `defib config presets`,
 * from the presets that are shipped inside the program.
 */
#include "cli/cli.h"

#include "base/text.h"
#include "daemon/metrics.h"
#include "embedded.h"
#include "view/setup.h"
#include "view/terminal.h"
#include "watch/builtin.h"
#include "watch/params.h"

static int config_check(struct cli *c)
{
	int code = cli_load(c);
	if (code == EXIT_CLEAN && !c->quiet)
		printf("ok: %d database%s, %d watch%s\n", c->settings.ndatabases,
		       c->settings.ndatabases == 1 ? "" : "s", c->settings.nwatches,
		       c->settings.nwatches == 1 ? "" : "es");
	return code;
}

static void show_json(const struct cfg_reader *r)
{
	struct buf out = BUF_INIT;
	config_json(r->shown, r->nshown, &out);
	puts(buf_text(&out));
	buf_release(&out);
}

static void show_text(const struct cfg_reader *r)
{
	struct buf out = BUF_INIT;
	int path = 0, value = 0;
	for (int i = 0; i < r->nshown; i++) {
		int width = out_width(r->shown[i].path);
		path = width > path ? width : path;
		width = out_width(r->shown[i].value);
		value = width > value && width <= 40 ? width : value;
	}
	for (int i = 0; i < r->nshown; i++) {
		out_padded(&out, r->shown[i].path, path);
		buf_add(&out, "  ");
		out_padded(&out, r->shown[i].value, value);
		buf_addf(&out, "  %s\n", r->shown[i].origin);
	}
	out_print(&out);
}

static int config_show(struct cli *c)
{
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->json)
		show_json(&c->reader);
	else
		show_text(&c->reader);
	return EXIT_CLEAN;
}

/* What tables of options cannot say of a watch: how its rules and its SET lists are written. */
static const char watch_more[] =
	"\n### Rules: `remedies`\n\n"
	"Each rule is a map: `do` names the remedy, everything else is a condition, and all of them "
	"must hold. The first rule that matches is taken; where none does, the job is only reported. "
	"Each remedy but `hold` and `report` needs its own words in the watch (`requeue`, `retry`, "
	"`fail`, `rollback`).\n\n"
	"```yaml\n"
	"# As many tries as the table allows, then for a person. This is the default.\n"
	"remedies: [{attempts: left, do: requeue}, {attempts: exhausted, do: hold}]\n"
	"```\n\n"
	"```yaml\n"
	"# What was being cancelled is not started again, a killed mail is never sent twice, and\n"
	"# whatever has been stuck three times is kept apart.\n"
	"remedies:\n"
	"  - {when: \"status = 'cancelling'\", do: fail}\n"
	"  - {kind: mail, verdict: dead, do: hold}\n"
	"  - {crashes: 3, do: hold}\n"
	"  - {do: requeue}\n"
	"```\n\n"
	"```yaml\n"
	"# Look, and change nothing.\n"
	"remedies: [{do: report}]\n"
	"```\n\n"
	"### Parameters\n\n"
	"In SET lists and in `call:` a parameter is written `:name`; statements (`sql:`, `also`) read "
	"the same as columns of the relation `stuck`, those of `work` (`beat`, `after`) as columns of "
	"the relation `work`.\n\n";

static void add_chapter(struct buf *out, const char *title, const struct opt_row *rows)
{
	buf_addf(out, "\n## %s\n\n", title);
	cfg_reference(rows, out);
}

static int config_docs(struct cli *c)
{
	struct buf out = BUF_INIT;
	buf_add(&out,
	        "# Configuration reference\n\nMade by `defib config docs` from the tables that read "
	        "the configuration.\n");
	add_chapter(&out, "The file", settings_rows(program_sections, &c->arena));
	add_chapter(&out, "A database", database_rows);
	add_chapter(&out, "A watch", watch_rows);
	buf_add(&out, watch_more);
	params_reference(&out);
	add_chapter(&out, "A workflow", workflow_rows);
	for (const struct section *const *s = program_sections; *s; s++)
		if ((*s)->title)
			add_chapter(&out, (*s)->title, (*s)->rows);
	out_print(&out);
	return EXIT_CLEAN;
}

static int config_metrics(struct cli *c)
{
	struct buf out = BUF_INIT;
	(void)c;
	metrics_docs(&out);
	out_print(&out);
	return EXIT_CLEAN;
}

static const char preset_folder[] = "presets/", preset_ending[] = ".yaml";

/* The name of a preset that can be chosen; NULL for other files and the built-in queue. */
static const char *preset_name(const struct embedded_file *file, struct arena *a)
{
	size_t folder = strlen(preset_folder), ending = strlen(preset_ending);
	if (!text_starts(file->name, preset_folder))
		return NULL;
	const char *name = arena_strndup(a, file->name + folder, strlen(file->name) - folder - ending);
	return text_eq(name, BUILTIN_NAME) ? NULL : name;
}

static const char *preset_value(const struct cfg_node *map, const char *key)
{
	const struct cfg_node *value = cfg_get(map, key);
	return value && value->kind == CFG_SCALAR ? value->text : NULL;
}

/* The queue and its language, which a preset begins with: "# River (Go, PostgreSQL), …". */
static const char *preset_title(const char *text, struct arena *a)
{
	text += strspn(text, "# ");
	size_t n = strcspn(text, ")\n");
	return arena_strndup(a, text, n + (text[n] == ')'));
}

/* What the list says of a preset, in this order. */
enum { PRESET_NAME, PRESET_FOR, PRESET_TABLE, PRESET_JUDGED_BY, PRESET_STUCK_AFTER, PRESET_FACTS };

static void preset_facts(struct arena *a, const char *name, const char *text,
                         const char *facts[PRESET_FACTS])
{
	struct cfg_node *map = cfg_map(a);
	struct failure f = {0};
	/* What is shipped is parsed by tests; the list goes on without what it could not read. */
	if (cfg_parse(text, name, a, &map, &f))
		map = cfg_map(a);
	const char *beat = preset_value(map, "beat");
	const char *judged_by = preset_value(map, "expires_at") ? "its deadline" : "its age";
	facts[PRESET_NAME] = name;
	facts[PRESET_FOR] = preset_title(text, a);
	facts[PRESET_TABLE] = preset_value(map, "table");
	facts[PRESET_JUDGED_BY] = beat ? arena_printf(a, "a beat every %s", beat) : judged_by;
	facts[PRESET_STUCK_AFTER] = preset_value(map, "stuck_after");
}

static void preset_json(const char *const keys[], const char *const facts[], struct buf *out)
{
	for (int i = 0; i < PRESET_FACTS; i++) {
		buf_add(out, i ? "," : "{");
		buf_add_json(out, keys[i]);
		buf_add(out, ":");
		buf_add_json(out, facts[i]);
	}
	buf_add(out, "}\n");
}

static int presets_list(struct cli *c)
{
	static const char *const keys[] = {"preset", "for", "table", "judged_by", "stuck_after"};
	static const char *const titles[] = {"PRESET", "FOR", "TABLE", "JUDGED BY", "STUCK AFTER"};
	const char *facts[PRESET_FACTS];
	struct table t;
	struct buf out = BUF_INIT;
	table_init(&t);
	for (int i = 0; i < PRESET_FACTS; i++)
		table_column(&t, titles[i]);
	for (const struct embedded_file *file = embedded_files; file->name; file++) {
		const char *name = preset_name(file, &c->arena);
		if (!name)
			continue;
		preset_facts(&c->arena, name, file->text, facts);
		for (int i = 0; i < PRESET_FACTS && !c->json; i++)
			table_cell(&t, COLOR_NONE, facts[i]);
		if (c->json)
			preset_json(keys, facts, &out);
	}
	if (!c->json)
		table_print(&t, c->color_out, &out);
	out_print(&out);
	table_release(&t);
	return EXIT_CLEAN;
}

static int no_such_preset(struct cli *c)
{
	int n = 0;
	while (embedded_files[n].name)
		n++;
	const char **names = ARENA_ARRAY(&c->arena, const char *, n + 1);
	n = 0;
	for (const struct embedded_file *file = embedded_files; file->name; file++) {
		const char *name = preset_name(file, &c->arena);
		if (name)
			names[n++] = name;
	}
	return cli_unknown("preset", c->words[1], names);
}

/* Without a name the list, with one the preset itself, for reading and copying. */
static int config_presets(struct cli *c)
{
	if (c->nwords < 2)
		return presets_list(c);
	const char *text =
		embedded_text(arena_printf(&c->arena, "%s%s%s", preset_folder, c->words[1], preset_ending));
	if (!text)
		return no_such_preset(c);
	fputs(text, stdout);
	return EXIT_CLEAN;
}

int cmd_config(struct cli *c)
{
	static const struct {
		const char *name;
		int (*run)(struct cli *c);
		int words;
	} parts[] = {{"check", config_check, 1},
	             {"show", config_show, 1},
	             {"docs", config_docs, 1},
	             {"metrics", config_metrics, 1},
	             {"presets", config_presets, 2}};
	const char *names[sizeof parts / sizeof *parts + 1] = {NULL};
	bool known = false;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		names[i] = parts[i].name;
		if (c->nwords == 0 || !text_eq(c->words[0], names[i]))
			continue;
		if (c->nwords <= parts[i].words)
			return parts[i].run(c);
		known = true;
	}
	if (c->nwords > 0 && !known)
		return cli_unknown("config command", c->words[0], names);
	return cli_usage("defib config takes check, show, docs, metrics or presets [PRESET]");
}

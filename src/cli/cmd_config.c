/*
 * cmd_config.c: `defib config check|show|docs`, all from the option tables, and
 * `defib config metrics`, from the table of metrics.
 */
#include "cli/cli.h"

#include "base/text.h"
#include "serve/metrics.h"
#include "serve/say_config.h"

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
	fputs(buf_text(&out), stdout);
	buf_release(&out);
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

static int config_docs(struct cli *c)
{
	static const struct {
		const char *title;
		const struct opt_row *rows;
	} parts[] = {{"The file", settings_rows}, {"A database", database_rows},
	             {"A watch", watch_rows},     {"A workflow", workflow_rows},
	             {"HTTP", service_rows},      {"A sink", sink_rows},
	             {"Alerts", alert_rows},      {"A report", mailing_rows}};
	struct buf out = BUF_INIT;
	(void)c;
	buf_add(&out,
	        "# Configuration reference\n\nMade by `defib config docs` from the tables that read "
	        "the configuration.\n");
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		buf_addf(&out, "\n## %s\n\n", parts[i].title);
		cfg_reference(parts[i].rows, &out);
	}
	fputs(buf_text(&out), stdout);
	buf_release(&out);
	return EXIT_CLEAN;
}

static int config_metrics(struct cli *c)
{
	struct buf out = BUF_INIT;
	(void)c;
	metrics_docs(&out);
	fputs(buf_text(&out), stdout);
	buf_release(&out);
	return EXIT_CLEAN;
}

int cmd_config(struct cli *c)
{
	static const struct {
		const char *name;
		int (*run)(struct cli *c);
	} parts[] = {{"check", config_check},
	             {"show", config_show},
	             {"docs", config_docs},
	             {"metrics", config_metrics}};
	for (size_t i = 0; c->nwords == 1 && i < sizeof parts / sizeof *parts; i++)
		if (text_eq(c->words[0], parts[i].name))
			return parts[i].run(c);
	return cli_usage("defib config takes check, show, docs or metrics");
}

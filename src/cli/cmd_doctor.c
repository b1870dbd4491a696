/* SPDX-License-Identifier: Apache-2.0
 * cmd_doctor.c: `defib doctor`: what will go wrong, one line per finding, each
 * with its fix.
 *
 * Exit code: 4 when a database itself fails, 3 when only a watch does, 0 when
 * there is nothing worse than a warning.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/text.h"
#include "setup/doctor.h"
#include "view/installation.h"

#define IDLE_US (60 * US_PER_S)

const struct cli_option doctor_options[] = {
	{"idle-after", "DURATION", "warn about transactions that are idle for longer (60s)"},
	{NULL, NULL, NULL},
};

struct clinic {
	struct cli *cli;
	int64_t idle_us;
	int count[FINDING_LEVELS];
	bool database_failed;
	const char *database, *watch; /* under whose heading we are */
};

static void print_json(const struct clinic *c, const struct finding *f)
{
	struct buf out = BUF_INIT;
	int before = c->count[FINDING_OK] + c->count[FINDING_WARN] + c->count[FINDING_FAIL];
	buf_add(&out, before ? ",\n" : "\n");
	finding_json(f, &out);
	out_print(&out);
}

static void add_heading(struct clinic *c, const struct finding *f, struct buf *out)
{
	struct buf title = BUF_INIT;
	if (text_eq(c->database, f->database) && text_eq(c->watch, f->watch))
		return;
	if (c->database)
		buf_add(out, "\n");
	buf_add(&title, f->watch ? "watch " : "database ");
	out_padded(&title, f->watch ? f->watch : f->database, 0);
	out_color(out, c->cli->color_out, COLOR_BOLD, buf_text(&title));
	buf_add(out, "\n");
	buf_release(&title);
	/* Names live as long as the settings. */
	c->database = f->database;
	c->watch = f->watch;
}

static void print_text(struct clinic *c, const struct finding *f)
{
	struct buf out = BUF_INIT;
	if (f->level == FINDING_OK && c->cli->quiet)
		return;
	add_heading(c, f, &out);
	finding_text(f, c->cli->color_out, &out);
	out_print(&out);
}

static void take_finding(void *ctx, const struct finding *f)
{
	struct clinic *c = ctx;
	if (c->cli->json)
		print_json(c, f);
	else
		print_text(c, f);
	c->count[f->level]++;
	if (f->level == FINDING_FAIL && !f->watch)
		c->database_failed = true;
	/* A database that hangs must not hide what was found before it. */
	fflush(stdout);
}

/* The watches named on the command line, or all. */
static bool is_wanted(const struct cli *c, const struct watch *w)
{
	for (int i = 0; i < c->nwords; i++)
		if (text_eq(c->words[i], w->name))
			return true;
	return c->nwords == 0;
}

static int check_words(struct cli *c)
{
	const struct settings *s = &c->settings;
	for (int i = 0; i < c->nwords; i++)
		if (!settings_watch(s, c->words[i]))
			return cli_no_watch(c, c->words[i], NULL);
	return EXIT_CLEAN;
}

static void examine(struct clinic *clinic, const struct database *d)
{
	struct cli *c = clinic->cli;
	const struct settings *s = &c->settings;
	const struct watch **watches = ARENA_ARRAY(&c->arena, const struct watch *, s->nwatches + 1);
	struct doctor doctor = {
		.database = d,
		.store = cli_store_options(d, NULL, true),
		.open = store_open,
		.watches = watches,
		.ledger_off = s->ledger == LEDGER_OFF,
		.try_remedies = true,
		.idle_us = clinic->idle_us,
		.found = take_finding,
		.ctx = clinic,
	};
	for (int i = 0; i < s->nwatches; i++) {
		const struct watch *w = &s->watches[i];
		if (settings_database(s, w) != d || !is_wanted(c, w))
			continue;
		watches[doctor.nwatches++] = w;
		if (w->statement_timeout_us / 1000 > doctor.store.statement_ms)
			doctor.store.statement_ms = w->statement_timeout_us / 1000;
	}
	if (doctor.nwatches || c->nwords == 0)
		doctor_examine(&doctor);
}

static void print_sum(const struct clinic *c)
{
	const int *n = c->count;
	if (c->cli->json)
		printf("\n],\"ok\":%d,\"warn\":%d,\"fail\":%d}\n", n[FINDING_OK], n[FINDING_WARN],
		       n[FINDING_FAIL]);
	else if (!c->cli->quiet)
		printf("\n%d ok, %d warn, %d FAIL\n", n[FINDING_OK], n[FINDING_WARN], n[FINDING_FAIL]);
}

int cmd_doctor(struct cli *c)
{
	struct clinic clinic = {.cli = c, .idle_us = IDLE_US};
	int code = cli_load(c);
	if (code == EXIT_CLEAN)
		code = check_words(c);
	if (code == EXIT_CLEAN && !cli_duration(c, "idle-after", &clinic.idle_us))
		code = EXIT_USAGE;
	if (code != EXIT_CLEAN)
		return code;
	if (c->json)
		fputs("{\"findings\":[", stdout);
	for (int i = 0; i < c->settings.ndatabases; i++)
		examine(&clinic, &c->settings.databases[i]);
	print_sum(&clinic);
	if (clinic.database_failed)
		return EXIT_DATABASE;
	return clinic.count[FINDING_FAIL] ? EXIT_CONFIG : EXIT_CLEAN;
}

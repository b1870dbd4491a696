/*
 * cmd_init.c: `defib init`: make or bring up to date defib's own tables.
 */
#include "cli/cli.h"

#include "ledger/schema.h"

const struct cli_option init_options[] = {
	{"print", NULL, "print the SQL instead of running it"},
	{NULL, NULL, NULL},
};

int cmd_init(struct cli *c)
{
	struct failure f = {0};
	struct store *s = NULL;
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	const struct database *d = &c->settings.databases[0];
	if (cli_flag(c, "print")) {
		for (int part = 0; part < SCHEMA_PARTS; part++)
			printf("%s\n", schema_script((enum schema_part)part, d->engine));
		return EXIT_CLEAN;
	}
	struct store_options o = cli_store_options(d, NULL, false);
	o.create = true;
	defib_err err = store_open(&o, &s, &f);
	if (!err)
		err = schema_install(s, SCHEMA_QUEUE, &f);
	store_close(s);
	if (err)
		return cli_fail(&f);
	if (!c->quiet)
		printf("defib's tables are ready in %s\n", d->name);
	return EXIT_CLEAN;
}

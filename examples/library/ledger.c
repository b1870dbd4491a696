/* SPDX-License-Identifier: Apache-2.0 */
/* ledger URL: prints what was done, and why. */
#include <defib.h>
#include <stdio.h>

static void show(void *ctx, const defib_ledger_entry *e)
{
	(void)ctx;
	printf("%s %s/%s by %s: %s\n", e->event, e->watch, e->job, e->actor,
	       e->reason ? e->reason : "");
}

int main(int argc, char **argv)
{
	defib_message m;
	defib_db *db = NULL;
	defib_err err = defib_open(argc > 1 ? argv[1] : "", 0, &db, &m);
	if (!err)
		err = defib_ledger_read(db, NULL, show, NULL, &m);
	if (err)
		fprintf(stderr, "%s: %s\n", defib_err_name(err), m.what);
	defib_close(db);
	return err != DEFIB_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 * cmd_attach.c: `defib db attach WATCH` and `defib db detach WATCH`: make the table record which
 * session claims a row, so that `defib run` can recover a program's jobs at once; and remove all of
 * it again.
 */
#include "cli/load.h"
#include "cli/select.h"
#include "watch/lexer.h"

#include <unistd.h>

#define LOCK_MS 500 /* the longest time that others wait behind us */
#define TRIES 3
#define PAUSE_MS 700

static const struct cli_option attach_options[] = {
	{"dry-run", NULL, "print the SQL, for psql, and change nothing"},
	{"yes", NULL, "do not ask"},
	{NULL, NULL, NULL},
};

/* Lock waits are short, and repeated. `was` NULL: attach; else: remove, and report what was. */
static defib_err change(const struct database *d, const struct watch *w, const struct binding *b,
                        struct detached *was, struct failure *f)
{
	AUTO_STORE s = NULL;
	struct store_options o = cli_store_options(d, w->table ? w : NULL, false);
	o.lock_ms = LOCK_MS;
	defib_err err = store_open(&o, &s, f);
	for (int try = 0; s && try < TRIES; try++) {
		fail_clear(f);
		err = was ? attach_remove(s, w, was, f) : attach_make(s, b, f);
		if (err != DEFIB_LOCKED)
			break;
		usleep(PAUSE_MS * 1000);
	}
	return err;
}

/* ---- attach ---- */

static int do_attach(struct cli *c, const struct picked *p)
{
	enum attached was;
	struct claim_table table;
	struct failure f = {0};
	struct buf out = BUF_INIT;
	const struct watch *w = p->watch;
	if (attach_refusal(w, p->binding.engine, &f) ||
	    attach_table(p->store, &p->binding, &c->arena, &table, &f) ||
	    attach_state(p->store, &p->binding, &was, &f))
		return cli_fail(&f);
	if (cli_flag(c, "dry-run")) {
		attach_print(&p->binding, &table, &out);
		out_print(&out);
		return EXIT_CLEAN;
	}
	if (was == ATTACHED_FRESH) {
		cli_print(c, "watch %s is already attached\n", w->name);
		return EXIT_CLEAN;
	}
	const char *question = arena_printf(
		&c->arena,
		"add a trigger to table %s of database %s, which records which session takes a row",
		w->table, p->database->name);
	int code = cli_confirm(c, question, false);
	if (code != EXIT_CLEAN)
		return code;
	struct store_options o = cli_store_options(p->database, w, false);
	if (attach_try(&o, &p->binding, &f) || change(p->database, w, &p->binding, NULL, &f))
		return cli_fail(&f);
	cli_print(c,
	          "attached: from now on table %s records which session takes a row\n"
	          "next: defib run --watch %s -- PROGRAM, for each program that works on it\n",
	          w->table, w->name);
	if (sql_names(w->running.text, p->binding.engine, "select"))
		cli_print(c,
		          "note: running reads other tables. A claim that writes no row of %s is not "
		          "recorded; while jobs run, defib doctor %s tells whether claims are\n",
		          w->table, w->name);
	return EXIT_CLEAN;
}

static int cmd_attach(struct cli *c)
{
	struct picked picked;
	int code = pick_unread(c, &picked);
	if (code != EXIT_CLEAN)
		return code;
	code = do_attach(c, &picked);
	store_close(picked.store);
	return code;
}

COMMAND(attach, cmd_attach, "WATCH", "record which session takes a table's rows, for defib run",
        .options = attach_options,
        .examples = {{"defib db attach pages --dry-run", "the SQL, for psql"},
                     {"defib db attach pages --yes", "a trigger on its table, and nothing else"}});
/* ---- detach ---- */

static void print_detached(const struct cli *c, const struct watch *w, const struct detached *was)
{
	if (!was->trigger && !was->function)
		cli_print(c, "nothing to remove: watch %s is not attached\n", w->name);
	else
		cli_print(c, "detached watch %s: removed %sits function and %lld claims\n", w->name,
		          was->trigger ? "its trigger, " : "", (long long)was->claims);
	if (was->tables)
		cli_print(c,
		          "no watch is attached any more: removed defib.claimed_by and defib.program%s\n",
		          was->schema ? ", and the empty schema defib" : "");
}

static int do_detach(struct cli *c, const struct database *d, const struct watch *w)
{
	struct failure f = {0};
	struct detached was = {0};
	const char *question = arena_printf(
		&c->arena, "remove the trigger of watch %s from database %s", w->name, d->name);
	int code = cli_confirm(c, question, false);
	if (code != EXIT_CLEAN)
		return code;
	if (change(d, w, NULL, &was, &f))
		return cli_fail(&f);
	print_detached(c, w, &was);
	return EXIT_CLEAN;
}

static int cmd_detach(struct cli *c)
{
	const struct watch *w;
	const struct database *d;
	int code = pick_former(c, &w, &d);
	if (code != EXIT_CLEAN)
		return code;
	if (!dialect_of(d->engine)->can_attach) {
		cli_print(c, "nothing to remove: an SQLite database has no triggers of defib\n");
		return EXIT_CLEAN;
	}
	if (!cli_flag(c, "dry-run"))
		return do_detach(c, d, w);
	if (!w->table)
		return cli_usage("--dry-run needs the watch in the configuration, which names its table");
	struct buf out = BUF_INIT;
	detach_print(w, &out);
	out_print(&out);
	return EXIT_CLEAN;
}

COMMAND(detach, cmd_detach, "WATCH", "remove from the database what attach added",
        .options = attach_options,
        .examples = {{"defib db detach pages --dry-run", "the SQL, for psql"},
                     {"defib db detach pages --yes", "trigger, function and what they recorded"}});

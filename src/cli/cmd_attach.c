/* SPDX-License-Identifier: Apache-2.0
 * cmd_attach.c: `defib attach WATCH` and `defib detach WATCH`: the table tells
 * which session takes its rows, so that `defib run` can free at once what a
 * program had; and all of it out of the database again.
 */
#include "cli/select.h"

#include "recover/attach.h"
#include "store/dialect.h"

#include <unistd.h>

#define LOCK_MS 500 /* others wait behind us for so long, at most */
#define TRIES 3
#define PAUSE_MS 700

const struct cli_option attach_options[] = {
	{"dry-run", NULL, "print the SQL, for psql, and change nothing"},
	{"yes", NULL, "do not ask"},
	{NULL, NULL, NULL},
};

static void print_line(const struct cli *c, const char *text)
{
	if (!c->quiet)
		fputs(text, stdout);
}

/* A session that may write; locks are waited for briefly, and asked for again. */
static defib_err open_writer(const struct database *d, const struct watch *w, struct store **out,
                             struct failure *f)
{
	struct store_options o = cli_store_options(d, w, false);
	o.lock_ms = LOCK_MS;
	return store_open(&o, out, f);
}

static bool busy_again(defib_err err, int try)
{
	if (err != DEFIB_LOCKED || try + 1 >= TRIES)
		return false;
	usleep(PAUSE_MS * 1000);
	return true;
}

/* ---- attach ---- */

static defib_err make(const struct picked *p, struct failure *f)
{
	struct store *s = NULL;
	defib_err err = open_writer(p->database, p->watch, &s, f);
	for (int try = 0; !err; try++) {
		fail_clear(f);
		err = attach_make(s, &p->binding, f);
		if (!busy_again(err, try))
			break;
		err = DEFIB_OK;
	}
	store_close(s);
	return err;
}

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
		fputs(buf_text(&out), stdout);
		buf_release(&out);
		return EXIT_CLEAN;
	}
	if (was == ATTACHED_FRESH) {
		print_line(c, arena_printf(&c->arena, "watch %s is already attached\n", w->name));
		return EXIT_CLEAN;
	}
	int code = cli_confirm(
		c,
		arena_printf(
			&c->arena,
			"add a trigger to table %s of database %s, which records which session takes a row",
			w->table, p->database->name),
		false);
	if (code != EXIT_CLEAN)
		return code;
	if (make(p, &f))
		return cli_fail(&f);
	print_line(c, arena_printf(
					  &c->arena,
					  "attached: from now on table %s records which session takes a row\n"
					  "next: defib run --watch %s -- PROGRAM, for each program that works on it\n",
					  w->table, w->name));
	return EXIT_CLEAN;
}

int cmd_attach(struct cli *c)
{
	struct picked picked;
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->nwords > 1)
		return cli_usage("defib attach takes one watch");
	code = pick_watch(c, c->nwords ? c->words[0] : NULL, &picked);
	if (code != EXIT_CLEAN)
		return code;
	code = do_attach(c, &picked);
	store_close(picked.store);
	return code;
}

/* ---- detach ---- */

/* A watch that is no longer configured can still be attached: then its name is enough. */
static const struct watch *named(struct cli *c, const struct database **d)
{
	if (c->nwords != 1) {
		cli_usage("defib detach takes one watch");
		return NULL;
	}
	const struct watch *w = settings_watch(&c->settings, c->words[0]);
	if (w) {
		*d = settings_database(&c->settings, w);
		return w;
	}
	if (c->settings.ndatabases != 1) {
		cli_usage("there is no watch \"%s\"; name its database with --db", c->words[0]);
		return NULL;
	}
	struct watch *gone = ARENA_NEW(&c->arena, struct watch);
	gone->name = c->words[0];
	*d = &c->settings.databases[0];
	return gone;
}

static void print_detached(struct cli *c, const struct watch *w, const struct detached *was)
{
	struct buf out = BUF_INIT;
	if (!was->trigger && !was->function)
		buf_addf(&out, "nothing to remove: watch %s is not attached\n", w->name);
	else
		buf_addf(&out, "detached watch %s: removed %sits function and %lld claims\n", w->name,
		         was->trigger ? "its trigger, " : "", (long long)was->claims);
	if (was->tables)
		buf_addf(&out,
		         "no watch is attached any more: removed defib.claimed_by and defib.program%s\n",
		         was->schema ? ", and the empty schema defib" : "");
	print_line(c, buf_text(&out));
	buf_release(&out);
}

static int do_detach(struct cli *c, const struct database *d, const struct watch *w)
{
	struct failure f = {0};
	struct detached was;
	struct store *s = NULL;
	int code =
		cli_confirm(c,
	                arena_printf(&c->arena, "remove the trigger of watch %s from database %s",
	                             w->name, d->name),
	                false);
	if (code != EXIT_CLEAN)
		return code;
	defib_err err = open_writer(d, w->table ? w : NULL, &s, &f);
	for (int try = 0; !err; try++) {
		fail_clear(&f);
		err = attach_remove(s, w, &was, &f);
		if (!busy_again(err, try))
			break;
		err = DEFIB_OK;
	}
	store_close(s);
	if (err)
		return cli_fail(&f);
	print_detached(c, w, &was);
	return EXIT_CLEAN;
}

int cmd_detach(struct cli *c)
{
	const struct database *d = NULL;
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	const struct watch *w = named(c, &d);
	if (!w)
		return EXIT_USAGE;
	if (!dialect_of(d->engine)->can_attach) {
		print_line(c, "nothing to remove: an SQLite database has no triggers of defib\n");
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

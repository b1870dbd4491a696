/* SPDX-License-Identifier: Apache-2.0
 * cmd_status.c: `defib status`: how the daemons are, by what they leave in the
 * databases: asked from any host, it needs no way to their processes, and a
 * daemon that is gone shows as well as one that lives.
 *
 * Exit code 1: a watch has no leader, its scans do not finish, a guard holds
 * stuck jobs back, or a worker keeps results that the database refuses to record.
 */
#include "cli/select.h"
#include "view/installation.h"
#include "view/status.h"

#include "base/clock.h"
#include "base/text.h"
#include "ledger/retention.h"
#include "ledger/schema.h"
#include "life/attendance.h"
#include "watch/builtin.h"

struct asking {
	struct cli *cli;
	struct selection selection;
	struct buf out, kept, workers;
	int printed, failed;
	bool trouble;
	int code; /* of the first failure */
};

static void print_watch(struct asking *x, const struct database *d, const char *watch,
                        const struct stored_status *stored)
{
	struct watch_status st;
	watch_status_init(&st, d, watch, stored);
	if (x->cli->json) {
		buf_add(&x->out, x->printed ? ",\n" : "\n");
		watch_status_json(&st, &x->out);
	} else {
		buf_add(&x->out, x->printed ? "\n" : "");
		watch_status_text(&st, x->cli->color_out, &x->out);
	}
	x->trouble = x->trouble || watch_status_trouble(&st);
	x->printed++;
	watch_status_release(&st);
}

/* The built-in queue is nobody's watch in the file: it is printed of where a daemon has it. */
static bool shows_queue(const struct asking *x, const struct database *d,
                        const struct stored_status *stored)
{
	for (int i = 0; i < x->selection.n; i++)
		if (x->selection.groups[i].database == d &&
		    text_eq(x->selection.groups[i].watch->name, BUILTIN_NAME))
			return false;
	return x->cli->nwords == 0 && leader_known(&stored->led, BUILTIN_NAME);
}

static struct session *session_of(struct asking *x, const struct database *d)
{
	struct session *session = &x->selection.sessions[d - x->cli->settings.databases];
	if (!session->open)
		*session =
			(struct session){.options = cli_store_options(d, NULL, true), .open = store_open};
	return session;
}

static bool is_named(const struct asking *x, const struct database *d)
{
	bool named = x->cli->nwords == 0;
	for (int i = 0; i < x->selection.n; i++)
		named = named || x->selection.groups[i].database == d;
	return named;
}

/* Where this role could not have made the tables, a daemon of it may work without them. */
static void print_unseen(const struct asking *x, const struct database *d, struct store *s)
{
	struct failure ignored = {0};
	bool may = true;
	if (!x->cli->quiet && !schema_may_install(s, &may, &ignored) && !may)
		fprintf(stderr,
		        "database %s: defib's own tables do not exist: a daemon that runs without them is "
		        "not visible here\n",
		        d->name);
}

static defib_err print_kept(struct asking *x, const struct database *d, struct store *s,
                            struct failure *f)
{
	struct retention_state st;
	defib_err err = retention_read(s, &st, f);
	if (err == DEFIB_PERMISSION) {
		fail_clear(f); /* not for this role to see */
		return DEFIB_OK;
	}
	if (err || !st.known)
		return err;
	if (x->cli->json) {
		buf_add(&x->kept, x->kept.len ? ",\n" : "\n");
		retention_json(d, &st, &x->kept);
	} else {
		retention_text(d, &st, &x->kept);
	}
	return DEFIB_OK;
}

/* ---- workers that keep results which nobody takes from them ---- */

#define WORKERS_MAX 1000

static void print_worker(struct asking *x, const struct database *d, const struct attendant *w)
{
	json_t *info = w->alive && w->info ? json_loads(w->info, 0, NULL) : NULL;
	const json_t *spool = json_object_get(info, "spool");
	bool trouble = json_integer_value(json_object_get(spool, "set_aside")) > 0 ||
	               json_object_get(spool, "unserved");
	if (trouble && x->cli->json) {
		buf_add(&x->workers, x->workers.len ? ",\n" : "\n");
		worker_spool_json(d, w->name, spool, &x->workers);
	} else if (trouble) {
		worker_spool_text(d, w->name, spool, &x->workers);
	}
	x->trouble = x->trouble || trouble;
	json_decref(info);
}

static defib_err print_workers(struct asking *x, const struct database *d, struct store *s,
                               struct failure *f)
{
	struct attendant *rows;
	int n = 0;
	defib_err err = attendance_read(s, 0, WORKERS_MAX, &x->cli->arena, &rows, &n, f);
	if (err == DEFIB_PERMISSION) {
		fail_clear(f); /* not for this role to see */
		return DEFIB_OK;
	}
	for (int i = 0; !err && i < n; i++)
		print_worker(x, d, &rows[i]);
	return err;
}

static void ask_database(struct asking *x, const struct database *d)
{
	struct session *session = session_of(x, d);
	struct failure f = {0};
	struct stored_status stored;
	defib_err err = session_ready(session, &f);
	if (!err)
		err = stored_status_read(session->store, &x->cli->arena, &stored, &f);
	if (!err)
		err = stored_status_attachments(session->store, &x->cli->arena, &stored, &f);
	if (!err && x->cli->nwords == 0)
		err = print_kept(x, d, session->store, &f);
	if (!err && x->cli->nwords == 0)
		err = print_workers(x, d, session->store, &f);
	if (err) {
		int code = cli_fail(&f);
		x->code = x->failed++ ? x->code : code;
		return;
	}
	if (!stored.there)
		print_unseen(x, d, session->store);
	for (int i = 0; i < x->selection.n; i++)
		if (x->selection.groups[i].database == d)
			print_watch(x, d, x->selection.groups[i].watch->name, &stored);
	if (shows_queue(x, d, &stored))
		print_watch(x, d, BUILTIN_NAME, &stored);
}

int cmd_status(struct cli *c)
{
	struct asking x = {.cli = c};
	int code = select_watches(c, &x.selection);
	if (code != EXIT_CLEAN)
		return code;
	for (int i = 0; i < c->settings.ndatabases; i++)
		if (is_named(&x, &c->settings.databases[i]))
			ask_database(&x, &c->settings.databases[i]);
	if (c->json)
		printf("{\"watches\":[%s\n],\"retention\":[%s\n],\"results_kept\":[%s\n]}\n",
		       buf_text(&x.out), buf_text(&x.kept), buf_text(&x.workers));
	else
		printf("%s%s%s", buf_text(&x.out), buf_text(&x.kept), buf_text(&x.workers));
	buf_release(&x.out);
	buf_release(&x.kept);
	buf_release(&x.workers);
	selection_release(&x.selection);
	if (x.failed)
		return x.printed ? EXIT_PARTLY : x.code;
	return x.trouble ? EXIT_STUCK : EXIT_CLEAN;
}

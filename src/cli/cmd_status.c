/*
 * cmd_status.c: `defib status`: how the daemons are, by what they leave in the
 * databases: asked from any host, it needs no way to their processes, and a
 * daemon that is gone shows as well as one that lives.
 *
 * Exit code 1: a watch has no leader, its scans do not finish, or a guard holds
 * stuck jobs back.
 */
#include "cli/select.h"
#include "cli/status_text.h"

#include "base/text.h"
#include "ledger/schema.h"
#include "serve/say_standing.h"
#include "serve/standing.h"
#include "watch/builtin.h"

struct asking {
	struct cli *cli;
	struct selection selection;
	struct buf out;
	int told, failed;
	bool trouble;
	int code; /* of the first failure */
};

static void tell(struct asking *x, const struct database *d, const char *watch,
                 const struct left *left)
{
	struct standing st;
	standing_init(&st, d, watch, left);
	if (x->cli->json) {
		buf_add(&x->out, x->told ? ",\n" : "\n");
		standing_json(&st, &x->out);
	} else {
		buf_add(&x->out, x->told ? "\n" : "");
		standing_text(&st, x->cli->color_out, &x->out);
	}
	x->trouble = x->trouble || standing_trouble(&st);
	x->told++;
	standing_release(&st);
}

/* The built-in queue is nobody's watch in the file: it is told of where a daemon has it. */
static bool tells_queue(const struct asking *x, const struct database *d, const struct left *left)
{
	for (int i = 0; i < x->selection.n; i++)
		if (x->selection.groups[i].database == d &&
		    text_eq(x->selection.groups[i].watch->name, BUILTIN_NAME))
			return false;
	return x->cli->nwords == 0 && left_knows(left, BUILTIN_NAME);
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
static void tell_unseen(const struct asking *x, const struct database *d, struct store *s)
{
	struct failure ignored = {0};
	bool may = true;
	if (!x->cli->quiet && !schema_may_install(s, &may, &ignored) && !may)
		fprintf(stderr,
		        "database %s: defib's own tables are not there: a daemon that works without them "
		        "cannot be seen from here\n",
		        d->name);
}

static void ask_database(struct asking *x, const struct database *d)
{
	struct session *session = session_of(x, d);
	struct failure f = {0};
	struct left left;
	defib_err err = session_ready(session, &f);
	if (!err)
		err = left_read(session->store, &x->cli->arena, &left, &f);
	if (!err)
		err = left_attachments(session->store, &x->cli->arena, &left, &f);
	if (err) {
		int code = cli_fail(&f);
		x->code = x->failed++ ? x->code : code;
		return;
	}
	if (!left.there)
		tell_unseen(x, d, session->store);
	for (int i = 0; i < x->selection.n; i++)
		if (x->selection.groups[i].database == d)
			tell(x, d, x->selection.groups[i].watch->name, &left);
	if (tells_queue(x, d, &left))
		tell(x, d, BUILTIN_NAME, &left);
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
		printf("{\"watches\":[%s\n]}\n", buf_text(&x.out));
	else
		fputs(buf_text(&x.out), stdout);
	buf_release(&x.out);
	selection_release(&x.selection);
	if (x.failed)
		return x.told ? EXIT_PARTLY : x.code;
	return x.trouble ? EXIT_STUCK : EXIT_CLEAN;
}

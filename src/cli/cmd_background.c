/* SPDX-License-Identifier: Apache-2.0
 * cmd_background.c: acts on all jobs that match, which a daemon carries out: ordering one
 * (--background of an act), and `defib act status|cancel`.
 */
#include "base/clock.h"
#include "cli/load.h"
#include "cli/progress.h"
#include "cli/select.h"
#include "daemon/background_acts.h"
#include "recover/leader_status.h"

#include <assert.h>
#include <unistd.h>

#define LISTED 20
#define LISTED_MAX 1000
#define LOOK_MS 500 /* between looks of --wait */

/* ---- ordering one ---- */

/* Without a daemon nothing would carry it out. */
static defib_err background_daemon_leads(struct store *s, const struct watch *w, struct arena *a,
                                         struct failure *f)
{
	struct leader_rows rows = {0};
	bool there = false;
	defib_err err = daemon_table_open(s, "leader", false, &there, f);
	if (!err && there)
		err = leader_rows_read(s, a, &rows, f);
	if (err)
		return err;
	struct leader_status status = leader_status_of(&rows, w->name);
	json_decref(status.info);
	if (status.leads)
		return DEFIB_OK;
	fail(f, DEFIB_REFUSED, "no daemon leads watch %s, so nothing would carry this out", w->name);
	fail_next(f, "start defib daemon, or run the command without --background");
	return DEFIB_REFUSED;
}

static defib_err plan_group(struct cli *c, const struct act_kind *kind, const struct selected *g,
                            struct bound *bound, struct background_act *out, struct failure *f)
{
	const char *texts[TERMS_MAX];
	int n = 0;
	for (int i = 0; i < c->ngiven && n < TERMS_MAX; i++)
		if (text_eq(c->given[i].name, "where"))
			texts[n++] = c->given[i].value;
	const struct background_order o = {.kind = kind,
	                                   .texts = texts,
	                                   .terms = g->terms,
	                                   .nterms = g->nterms,
	                                   .step = cli_value(c, "from-step"),
	                                   .reason = cli_value(c, "reason"),
	                                   .actor = cli_actor(c),
	                                   .overrides = cli_flag(c, "override-guard")};
	enum bound_ledger ledger = c->settings.ledger == LEDGER_OFF ? LEDGER_NONE : LEDGER_CREATE;
	defib_err err = act_configured(kind, g->watch, f);
	if (!err)
		err = bound_open(bound, g->session, g->watch, ledger, f);
	if (!err)
		err = background_daemon_leads(g->session->store, g->watch, &c->arena, f);
	if (!err)
		err = background_plan(g->session, bound, g->watch, &o, &c->arena, out, f);
	return err;
}

static void print_order(const struct cli *c, const struct background_act *act,
                        const struct database *d)
{
	const struct viewer v = viewer_local(NULL, d->name);
	struct buf out = BUF_INIT;
	if (c->json) {
		record_json(&background_record, act, &v, &out);
		buf_add(&out, "\n");
	} else {
		buf_addf(&out, "%s\n", act->id);
	}
	out_print(&out);
	if (!c->json && !c->quiet)
		fprintf(stderr,
		        "The daemon does it in the background, at its pace. To follow it: "
		        "defib act status %s --wait\nIt can be undone with: defib undo %s\n",
		        act->id, act->id);
}

static int order_group(struct cli *c, const struct act_kind *kind, const struct selected *g)
{
	AUTO_BUF question = BUF_INIT;
	struct background_act act = {0};
	struct bound bound = {0};
	struct failure f = {0};
	int code = EXIT_CLEAN;
	defib_err err = plan_group(c, kind, g, &bound, &act, &f);
	if (!err && act.total == 0) {
		printf("no jobs match: nothing to %s\n", kind->verb);
	} else if (!err) {
		act_question(&question, kind->verb, act.total < 0 ? BACKGROUND_COUNTED_MOST : act.total,
		             g->watch, g->database);
		code = cli_confirm(c, buf_text(&question), false);
		if (code == EXIT_CLEAN && !cli_flag(c, "dry-run"))
			err = background_add(g->session->store, &act, &c->arena, &f);
		if (code == EXIT_CLEAN && !err && !cli_flag(c, "dry-run"))
			print_order(c, &act, g->database);
		else if (code == EXIT_CLEAN && !err)
			printf("would %s\n", buf_text(&question));
	}
	bound_release(&bound);
	return err ? cli_fail(&f) : code;
}

int act_in_background(struct cli *c, const struct act_kind *kind)
{
	const struct select_rules rules = {.changes = true};
	AUTO(selection_release) struct selection s = {0};
	if (c->nwords > 0 || cli_value(c, "limit"))
		return cli_usage("--background is for all jobs that match --where or --all, not for names "
		                 "or --limit");
	if (cli_flag(c, "running-only"))
		return cli_usage("--running-only cannot be combined with --background");
	int code = select_read(c, &rules, &s);
	for (int i = 0; code == EXIT_CLEAN && i < s.n; i++)
		code = order_group(c, kind, &s.groups[i]);
	return code;
}

/* ---- defib act ---- */

static const struct cli_option act_options[] = {
	{"limit", "N", "status: at most N acts of each database (default 20)"},
	{"wait", NULL, "status ID: wait until it has ended"},
	{NULL, NULL, NULL},
};

struct found_act {
	const struct database *database;
	struct session session;
	struct background_act *act;
};

static defib_err look_in(struct cli *c, const struct database *d, const char *id, bool changes,
                         struct found_act *out, struct failure *f)
{
	bool there = false;
	int n = 0;
	*out = (struct found_act){.database = d, .session = cli_session(d, NULL, !changes)};
	defib_err err = session_ready(&out->session, f);
	if (!err)
		err = background_open(out->session.store, false, &there, f);
	if (!err && there)
		err = background_read(out->session.store, id, 1, &c->arena, &out->act, &n, f);
	if (err || n == 0)
		out->act = NULL;
	return err;
}

/* In whichever database it is. Prints one line if there is none. */
static int background_find_act(struct cli *c, const char *id, bool changes, struct found_act *out)
{
	struct failure f = {0};
	*out = (struct found_act){0};
	for (int i = 0; i < c->settings.ndatabases; i++) {
		struct failure own = {0};
		if (look_in(c, &c->settings.databases[i], id, changes, out, &own))
			f = own;
		if (out->act)
			return EXIT_CLEAN;
		session_close(&out->session);
	}
	if (!f.code) {
		fail(&f, DEFIB_NOT_FOUND, "there is no background act %s", id);
		fail_next(&f, "defib act status lists them");
	}
	return cli_fail(&f);
}

static void print_act(const struct cli *c, const struct found_act *found)
{
	const struct viewer v = viewer_local(NULL, found->database->name);
	struct buf out = BUF_INIT;
	if (c->json) {
		record_json(&background_record, found->act, &v, &out);
		buf_add(&out, "\n");
	} else {
		const struct act_kind *kind = act_kind_named(found->act->act);
		const struct watch *w = settings_watch(&c->settings, found->act->watch);
		bool undoable = !kind || !w || watch_can_undo(w, kind->act);
		background_text(found->act, found->database, clock_wall_us(), undoable, c->color_out, &out);
	}
	out_print(&out);
}

/* As of a command that did it itself. */
static int act_code(const struct background_act *act)
{
	bool all = text_eq(act->state, BACKGROUND_DONE) && act->done == background_handled(act);
	if (!act->ended_us || all)
		return EXIT_CLEAN;
	return act->done ? EXIT_PARTLY : EXIT_REFUSED;
}

static int wait_for_end(struct cli *c, struct found_act *found)
{
	const struct act_kind *kind = act_kind_named(found->act->act);
	struct progress bar = progress_begin(c, found->act->watch, kind ? kind->done : found->act->act,
	                                     found->act->total > 0 ? found->act->total : 0);
	struct failure f = {0};
	defib_err err = DEFIB_OK;
	int n = 1;
	while (!err && n && !found->act->ended_us) {
		progress_at(&bar, background_handled(found->act));
		usleep(LOOK_MS * 1000);
		err = background_read(found->session.store, found->act->id, 1, &c->arena, &found->act, &n,
		                      &f);
	}
	progress_clear(&bar);
	return err ? cli_fail(&f) : EXIT_CLEAN;
}

static int background_show_act(struct cli *c, const char *id)
{
	struct found_act found;
	int code = background_find_act(c, id, false, &found);
	if (code != EXIT_CLEAN)
		return code;
	assert(found.act);
	if (cli_flag(c, "wait"))
		code = wait_for_end(c, &found);
	if (code == EXIT_CLEAN) {
		print_act(c, &found);
		code = act_code(found.act);
	}
	session_close(&found.session);
	return code;
}

static defib_err background_list_database(struct cli *c, const struct database *d, int64_t limit,
                                          struct table *t, struct buf *json, int *n,
                                          struct failure *f)
{
	const struct viewer v = {.database = d->name, .role = ROLE_ADMIN, .now_us = clock_wall_us()};
	AUTO_SESSION session = cli_session(d, NULL, true);
	struct background_act *acts = NULL;
	bool there = false;
	int found = 0;
	defib_err err = session_ready(&session, f);
	if (!err)
		err = background_open(session.store, false, &there, f);
	if (!err && there)
		err = background_read(session.store, NULL, limit, &c->arena, &acts, &found, f);
	for (int i = 0; !err && i < found; i++) {
		if (c->json) {
			buf_add(json, *n ? ",\n" : "\n");
			record_json(&background_record, &acts[i], &v, json);
		} else {
			record_row(&background_record, &acts[i], &v, t);
		}
		(*n)++;
	}
	return err;
}

static int background_list_acts(struct cli *c)
{
	const struct viewer nobody = viewer_local(NULL, NULL);
	AUTO_BUF json = BUF_INIT, out = BUF_INIT;
	struct table t;
	int64_t limit = LISTED;
	int n = 0, code = EXIT_CLEAN;
	if (!cli_int(c, "limit", &limit))
		return EXIT_USAGE;
	if (limit < 1 || limit > LISTED_MAX)
		return cli_usage("--limit must be from 1 to %d", LISTED_MAX);
	table_init(&t);
	record_columns(&background_record, &nobody, &t);
	for (int i = 0; i < c->settings.ndatabases; i++) {
		struct failure f = {0};
		if (background_list_database(c, &c->settings.databases[i], limit, &t, &json, &n, &f))
			code = cli_fail(&f);
	}
	if (c->json)
		buf_addf(&out, "{\"acts\":[%s\n]}\n", buf_text(&json));
	else if (n)
		table_print(&t, c->color_out, &out);
	else if (code == EXIT_CLEAN)
		buf_add(&out, "no background acts; start one with: defib requeue --where TERM "
		              "--background\n");
	fputs(buf_text(&out), stdout);
	table_release(&t);
	return code;
}

static int background_cancel_act(struct cli *c, const char *id)
{
	struct found_act found;
	struct failure f = {0};
	bool was = false;
	int n = 0, code = background_find_act(c, id, true, &found);
	if (code != EXIT_CLEAN)
		return code;
	assert(found.act);
	defib_err err = background_cancel(found.session.store, id, &was, &f);
	if (!err && !was) {
		fail(&f, DEFIB_REFUSED, "background act %s has ended: %s", id, found.act->state);
		fail_next(&f, "defib undo %s undoes it", id);
		err = DEFIB_REFUSED;
	}
	if (!err)
		err = background_read(found.session.store, id, 1, &c->arena, &found.act, &n, &f);
	if (!err)
		print_act(c, &found);
	session_close(&found.session);
	return err ? cli_fail(&f) : EXIT_CLEAN;
}

static int cmd_act_background(struct cli *c)
{
	static const char *const words[] = {"status", "cancel", NULL};
	bool status = c->nwords > 0 && text_eq(c->words[0], words[0]);
	bool cancel = c->nwords > 0 && text_eq(c->words[0], words[1]);
	if (c->nwords > 0 && !status && !cancel)
		return cli_unknown("act command", c->words[0], words);
	if (c->nwords > 2 || (cancel && c->nwords != 2) || c->nwords == 0)
		return cli_usage("defib act takes status, status ID or cancel ID");
	if (c->nwords == 1 && cli_flag(c, "wait"))
		return cli_usage("--wait needs the id of an act");
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (cancel)
		return background_cancel_act(c, c->words[1]);
	return c->nwords == 2 ? background_show_act(c, c->words[1]) : background_list_acts(c);
}

COMMAND(act, cmd_act_background, "status [ID] | cancel ID",
        "show or cancel background acts, which the daemon carries out", .options = act_options,
        .examples = {{"defib act status", "all of them, with their progress"},
                     {"defib act status --json", "the same for programs"}});

/* SPDX-License-Identifier: Apache-2.0
 * cmd_alert.c: `defib alert list|test`: the state of the alert rules and the results of their
 * messages, from what the daemons stored in the databases; and a test message to the sinks, sent
 * from this process.
 */
#include "alert/options.h"
#include "alert/sinks.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/load.h"
#include "daemon/settings.h"
#include "view/alert.h"

static const struct cli_option alert_options[] = {
	{"sink", "SINK", "test: only this sink"},
	{"all", NULL, "list: also rules that are not firing"},
	{"limit", "N", "list: at most N messages (default 20)"},
	{NULL, NULL, NULL},
};

#define MESSAGES 20
#define MESSAGES_MAX 1000

/* ---- test ---- */

static void alert_print_answer(const struct cli *c, const struct alert_sink *s,
                               const struct sink_answer *answer, int n, struct buf *out)
{
	bool sent = answer->how == SINK_SENT;
	if (!c->json) {
		out_color(out, c->color_out, sent ? COLOR_GREEN : COLOR_RED, s->name);
		buf_addf(out, " (%s): %s, %s\n", sink_types[s->type], sink_ends[answer->how], answer->text);
		return;
	}
	const struct viewer v = viewer_local(NULL, NULL);
	buf_add(out, n ? ",\n" : "\n");
	record_json(&sink_record, &(struct sink_view){s, answer}, &v, out);
}

static int no_such_sink(const struct cli *c, const char *name)
{
	const struct sink_list *all = settings_sinks(&c->settings);
	const char *names[64] = {NULL};
	for (int i = 0; i < all->n && i < 63; i++)
		names[i] = all->items[i].name;
	return cli_usage("there is no sink \"%s\"%s", name, text_hint(name, names).text);
}

static int alert_test_sinks(struct cli *c)
{
	const char *only = cli_value(c, "sink");
	const struct sink_list *all = settings_sinks(&c->settings);
	AUTO_BUF out = BUF_INIT;
	int n = 0, failed = 0;
	if (only && !alert_sink_named(all, only))
		return no_such_sink(c, only);
	for (int i = 0; i < all->n; i++) {
		struct sink_answer answer = {0};
		if (only && !text_eq(all->items[i].name, only))
			continue;
		sink_test(&all->items[i], message_source(&c->settings), clock_wall_us(), &answer);
		alert_print_answer(c, &all->items[i], &answer, n++, &out);
		failed += answer.how != SINK_SENT;
	}
	printf(c->json ? "{\"sinks\":[%s\n]}\n" : "%s", buf_text(&out));
	if (!failed)
		return EXIT_CLEAN;
	return failed < n ? EXIT_PARTLY : EXIT_DATABASE;
}

/* ---- list ---- */

struct listing {
	struct cli *cli;
	struct table alerts, messages;
	struct buf alerts_json, messages_json;
	int nalerts, nmessages, firing;
	int64_t limit;
};

static defib_err alert_list_database(struct listing *x, const struct database *d, struct failure *f)
{
	struct cli *c = x->cli;
	AUTO_SESSION session = cli_session(d, NULL, true);
	struct viewer v = viewer_local(NULL, d->name);
	struct alert_status *list = NULL;
	struct delivery_row *rows = NULL;
	int n = 0, nrows = 0;
	defib_err err = session_ready(&session, f);
	if (!err)
		err = alerts_read(session.store, &c->settings, d, &c->arena, &list, &n, f);
	if (!err)
		err = deliveries_of(session.store, (int)x->limit, &c->arena, &rows, &nrows, f);
	for (int i = 0; !err && i < n; i++) {
		x->firing += list[i].row && list[i].row->alert.state == STATE_FIRING;
		if (c->json) {
			buf_add(&x->alerts_json, x->nalerts++ ? ",\n" : "\n");
			record_json(&alert_record, &list[i], &v, &x->alerts_json);
		} else if (cli_flag(c, "all") ||
		           (list[i].row && list[i].row->alert.state != STATE_RESOLVED)) {
			record_row(&alert_record, &list[i], &v, &x->alerts);
			x->nalerts++;
		}
	}
	for (int i = 0; !err && i < nrows; i++) {
		if (c->json) {
			buf_add(&x->messages_json, x->nmessages++ ? ",\n" : "\n");
			record_json(&delivery_record, &rows[i], &v, &x->messages_json);
		} else {
			record_row(&delivery_record, &rows[i], &v, &x->messages);
			x->nmessages++;
		}
	}
	return err;
}

static void print_list(struct listing *x)
{
	struct buf out = BUF_INIT;
	if (x->cli->json) {
		buf_addf(&out, "{\"alerts\":[%s\n],\n\"deliveries\":[%s\n]}\n", buf_text(&x->alerts_json),
		         buf_text(&x->messages_json));
	} else {
		if (x->nalerts)
			table_print(&x->alerts, x->cli->color_out, &out);
		else
			buf_add(&out, "no alert is firing or pending; all rules: defib alert list --all\n");
		buf_add(&out, x->nmessages ? "\n" : "");
		if (x->nmessages)
			table_print(&x->messages, x->cli->color_out, &out);
	}
	out_print(&out);
}

/* Exit code 1: an alert fires. */
static int list_alerts(struct cli *c)
{
	const struct viewer nobody = viewer_local(NULL, NULL);
	struct listing x = {.cli = c, .limit = MESSAGES};
	int failed = 0, code = EXIT_CLEAN;
	if (!cli_int(c, "limit", &x.limit))
		return EXIT_USAGE;
	if (x.limit < 1 || x.limit > MESSAGES_MAX)
		return cli_usage("--limit must be from 1 to %d", MESSAGES_MAX);
	table_init(&x.alerts);
	table_init(&x.messages);
	record_columns(&alert_record, &nobody, &x.alerts);
	record_columns(&delivery_record, &nobody, &x.messages);
	for (int i = 0; i < c->settings.ndatabases; i++) {
		struct failure f = {0};
		if (alert_list_database(&x, &c->settings.databases[i], &f)) {
			code = cli_fail(&f);
			failed++;
		}
	}
	if (failed < c->settings.ndatabases)
		print_list(&x);
	table_release(&x.alerts);
	table_release(&x.messages);
	buf_release(&x.alerts_json);
	buf_release(&x.messages_json);
	if (failed)
		return failed < c->settings.ndatabases ? EXIT_PARTLY : code;
	return x.firing ? EXIT_STUCK : EXIT_CLEAN;
}

static int cmd_alert(struct cli *c)
{
	static const struct {
		const char *name;
		int (*run)(struct cli *c);
	} parts[] = {{"list", list_alerts}, {"test", alert_test_sinks}};
	for (size_t i = 0; c->nwords == 1 && i < sizeof parts / sizeof *parts; i++)
		if (text_eq(c->words[0], parts[i].name)) {
			int code = cli_load(c);
			return code == EXIT_CLEAN ? parts[i].run(c) : code;
		}
	const char *const names[] = {parts[0].name, parts[1].name, NULL};
	return c->nwords == 1 ? cli_unknown("alert command", c->words[0], names)
	                      : cli_usage("defib alert takes list or test");
}

COMMAND(alert, cmd_alert, "list|test", "show the state of alert rules; send a test message",
        .options = alert_options,
        .examples = {{"defib alert list --all", "every rule, also those that are not firing"},
                     {"defib alert test --sink ops", "check that a message arrives"}});

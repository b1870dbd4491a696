/* SPDX-License-Identifier: Apache-2.0
 * cmd_sql.c: `defib sql WATCH`: the statements of a watch as a script.
 *
 * Look runs as it is. The statements of apply take the jobs as parameters;
 * they are printed with empty ones, so that the whole script runs as it
 * stands in psql or sqlite3 and touches nothing until somebody fills them in.
 */
#include "cli/select.h"

#include "base/clock.h"
#include "store/dialect.h"
#include "watch/lexer.h"

#include <ctype.h>

/* psql reads :'p1' as a quoted variable; sqlite3 binds ?1 by itself. */
static void print_statement(const struct picked *p, const char *sql)
{
	struct buf out = BUF_INIT;
	const char *variable = dialect_of(p->binding.engine)->shell.variable;
	if (!variable) {
		printf("%s;\n", sql);
		return;
	}
	struct sql_lexer lx;
	struct sql_token t;
	sql_lexer_init(&lx, sql, p->binding.engine);
	while ((t = sql_next(&lx)).type != SQL_END) {
		if (t.type == SQL_PUNCT && *t.text == '$' && isdigit((unsigned char)t.text[1])) {
			t = sql_next(&lx);
			buf_addf(&out, variable, (int)t.len, t.text);
		} else {
			buf_addn(&out, t.text, t.len);
		}
	}
	printf("%s;\n", buf_text(&out));
	buf_release(&out);
}

static void print_params(const struct picked *p, int n, const char *value)
{
	for (int i = 1; i <= n; i++)
		printf(dialect_of(p->binding.engine)->shell.set, i, value);
}

static int relation_size(const struct picked *p, const struct write_sql *w)
{
	struct relation r;
	if (w)
		write_relation(&p->binding, w, &r);
	else
		keys_relation(&p->binding, &r);
	int n = relation_nparams(&r);
	relation_release(&r);
	return n;
}

static void print_over_jobs(const struct picked *p, const char *title, const char *sql,
                            const struct write_sql *w)
{
	if (!sql)
		return;
	printf("\n-- %s\n", title);
	print_params(p, relation_size(p, w), dialect_of(p->binding.engine)->list);
	print_statement(p, sql);
}

static void print_script(const struct picked *p)
{
	const struct watch *w = p->watch;
	const struct dialect *d = dialect_of(p->binding.engine);
	printf("-- Watch %s on table %s: what defib runs. As printed it changes nothing: the\n"
	       "-- statements of apply take the jobs as parameters, which are empty here.\n\n"
	       "-- look: the oldest stuck jobs (here at most 1000)\n",
	       w->name, w->table);
	fputs(d->shell.start, stdout);
	print_params(p, 1, "1000");
	print_statement(p, p->sql.look_first);
	printf("\n-- apply: one transaction per batch\n%s;\n",
	       d->one_writer ? "BEGIN IMMEDIATE" : "BEGIN");
	print_over_jobs(p, "lock the rows, skip what others hold",
	                p->sql.lock_signs ? p->sql.lock_signs : p->sql.lock, NULL);
	print_over_jobs(p, "read the judged facts again; only what is unchanged is written",
	                p->sql.reread, NULL);
	for (int act = 0; act < ACT_COUNT; act++)
		for (int i = 0; i < p->sql.nwrites[act]; i++)
			print_over_jobs(p, act_name(act), p->sql.writes[act][i].sql, &p->sql.writes[act][i]);
	print_over_jobs(p, "end the leases that defib's own workers had on them", p->sql.free_leases,
	                NULL);
	printf("\nCOMMIT;\n");
}

int cmd_sql(struct cli *c)
{
	struct picked p;
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->nwords > 1)
		return cli_usage("defib sql takes one watch");
	code = pick_watch(c, c->nwords ? c->words[0] : NULL, &p);
	if (code != EXIT_CLEAN)
		return code;
	print_script(&p);
	store_close(p.store);
	return EXIT_CLEAN;
}

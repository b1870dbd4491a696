/* SPDX-License-Identifier: Apache-2.0
 * postgres_connect.c: from a URL to a session that is ready for use.
 *
 * libpq makes the connection: DNS, TLS, authentication, target_session_attrs. Only the loop over
 * several hosts is ours: libpq's asynchronous mode never gives up on a host that does not answer,
 * so one dead host would use up the time of all. Each host gets an equal share of the remaining
 * time.
 *
 * Looking up a host name can block in the resolver beyond our deadline; its own limits
 * (resolv.conf: timeout, attempts) apply there.
 */

#include "store/postgres_connect.h"

#include "base/clock.h"
#include "embedded.h"
#include "store/dialect.h"
#include "store/postgres.h"
#include "store/postgres_error.h"
#include "store/postgres_wire.h"

#include <assert.h>
#include <poll.h>

#define HOSTS_MAX 16
#define PARAMETERS_MAX 16

/* The parameters for libpq: arrays of names and values that end with NULL. */
struct parameters {
	const char *names[PARAMETERS_MAX + 1];
	const char *values[PARAMETERS_MAX + 1];
	int n;
};

static void parameter(struct parameters *ps, const char *name, const char *value)
{
	assert(ps->n < PARAMETERS_MAX);
	if (value && *value) {
		ps->names[ps->n] = name;
		ps->values[ps->n] = value;
		ps->n++;
	}
}

/* The nth part of a comma-separated list; a list of one part applies to all. */
static char *list_part(const char *list, int nth)
{
	const char *at = list;
	if (!list)
		return NULL;
	for (; nth > 0 && strchr(list, ','); nth--) {
		const char *comma = strchr(at, ',');
		if (!comma)
			return NULL;
		at = comma + 1;
	}
	return strndup(at, strcspn(at, ","));
}

static int list_length(const char *list)
{
	int n = 1;
	for (const char *at = list ? strchr(list, ',') : NULL; at; at = strchr(at + 1, ','))
		n++;
	return n;
}

static const char *option(const PQconninfoOption *options, const char *name)
{
	for (; options->keyword; options++)
		if (text_eq(options->keyword, name))
			return options->val;
	return NULL;
}

static void ignore_notice(void *self, const PGresult *res)
{
	(void)self;
	(void)res;
}

/* PQconnectPoll until connected. */
static defib_err poll_connection(struct pg *p, int64_t deadline_ms, struct failure *f)
{
	PostgresPollingStatusType step = PGRES_POLLING_WRITING;
	while (step != PGRES_POLLING_OK) {
		if (step == PGRES_POLLING_FAILED || PQstatus(p->conn) == CONNECTION_BAD)
			return pg_connect_failure(p->base.name, PQerrorMessage(p->conn), PQpass(p->conn), f);
		if (!pg_wait(p->conn, step == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_ms)) {
			return fail(
				f, DEFIB_TIMEOUT,
				"%s: cannot connect: no answer by the deadline from host %s port %s database %s",
				p->base.name, PQhost(p->conn), PQport(p->conn), PQdb(p->conn));
		}
		step = PQconnectPoll(p->conn);
	}
	return DEFIB_OK;
}

/*
 * Behind a transaction pooler the answering backend is not the one that libpq connected to. If the
 * timeline may not be read, or there is none (a standby), it stays unknown.
 */
static defib_err pg_connect_ask_server(struct pg *p, const struct pg_call *call, struct failure *f)
{
	static const char *const questions[] = {
		sql_postgres_catalog_server,
		sql_postgres_catalog_server_restricted,
	};
	PGresult *res = NULL;
	int64_t pid = 0;
	defib_err err = DEFIB_OK;
	for (int i = 0; i < 2; i++) {
		err = pg_finish(p, call, PQsendQuery(p->conn, questions[i]), &res, f);
		if (!err || !p->conn)
			break;
	}
	if (err)
		return err;
	p->base.pooled = !int_parse(PQgetvalue(res, 0, 0), &pid) || pid != PQbackendPID(p->conn);
	p->base.timeline = timeline_parse(PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 2));
	p->base.state = (struct store_state){.where = p->base.timeline.cluster,
	                                     .what = (uint64_t)p->base.timeline.number};
	/*
	 * Also if it is promoted meanwhile: the session is opened again, and then the timeline is
	 * known.
	 */
	p->base.only_reads = !p->read_only && text_eq(PQgetvalue(res, 0, 3), "t");
	free(p->own_path);
	p->base.own_path = p->own_path = mem_strdup(PQgetvalue(res, 0, 4));
	p->replicates = !text_eq(PQgetvalue(res, 0, 5), "origin");
	PQclear(res);
	return timeline_see(&p->base.timeline, p->base.name, PQhost(p->conn), f);
}

/* Host `nth` of the URL's list, or the URL as libpq interprets it if `nth` is -1. */
static defib_err connect_one(struct pg *p, const char *url, const PQconninfoOption *options,
                             int nth, const char *attrs, int64_t deadline_ms, struct failure *f)
{
	char *host = nth < 0 ? NULL : list_part(option(options, "host"), nth);
	char *addr = nth < 0 ? NULL : list_part(option(options, "hostaddr"), nth);
	char *port = nth < 0 ? NULL : list_part(option(options, "port"), nth);
	struct parameters ps = {.n = 0};
	/* Before the URL: defaults that it may override. After it: settings that it may not. */
	parameter(&ps, "keepalives_idle", "5");
	parameter(&ps, "keepalives_interval", "2");
	parameter(&ps, "keepalives_count", "3");
	parameter(&ps, "tcp_user_timeout", "10000");
	parameter(&ps, "fallback_application_name", "defib");
	parameter(&ps, "dbname", url);
	parameter(&ps, "client_encoding", "UTF8");
	parameter(&ps, "host", host);
	parameter(&ps, "hostaddr", addr);
	parameter(&ps, "port", port);
	parameter(&ps, "target_session_attrs", attrs);
	p->conn = PQconnectStartParams(ps.names, ps.values, 1);
	free(host);
	free(addr);
	free(port);
	if (!p->conn)
		return fail(f, DEFIB_CONNECTION, "%s: out of memory while connecting", p->base.name);
	PQsetErrorVerbosity(p->conn, PQERRORS_VERBOSE);
	PQsetNoticeReceiver(p->conn, ignore_notice, NULL);
	defib_err err = poll_connection(p, deadline_ms, f);
	if (!err) {
		PQsetErrorVerbosity(p->conn, PQERRORS_DEFAULT);
		err = PQsetnonblocking(p->conn, 1) != 0
		          ? fail(f, DEFIB_CONNECTION, "%s: the connection was lost at once", p->base.name)
		          : pg_connect_ask_server(p, &(struct pg_call){.deadline_ms = deadline_ms}, f);
	}
	if (err) {
		pg_drop(p);
		p->base.lost = false; /* the next host may be available */
	}
	return err;
}

/* One loop over all hosts; the failure states the error of each. */
static defib_err connect_any(struct pg *p, const char *url, const PQconninfoOption *options,
                             const char *attrs, int64_t deadline_ms, struct failure *f)
{
	int from_names = list_length(option(options, "host"));
	int from_addrs = list_length(option(options, "hostaddr"));
	int hosts = from_names > from_addrs ? from_names : from_addrs;
	AUTO_BUF said = BUF_INIT;
	defib_err err = DEFIB_OK;
	hosts = hosts > HOSTS_MAX ? HOSTS_MAX : hosts;
	for (int i = 0; i < hosts; i++) {
		int64_t share = (deadline_ms - clock_boot_ms()) / (hosts - i);
		err = connect_one(p, url, options, hosts == 1 ? -1 : i, attrs, clock_boot_ms() + share, f);
		if (!err)
			break;
		buf_addf(&said, "%s%s", said.len ? "; " : "", f->what);
	}
	if (err)
		snprintf(f->what, sizeof(f->what), "%s", buf_text(&said));
	return err;
}

static defib_err parse_failure(const char *name, const char *message, struct failure *f)
{
	AUTO_BUF why = BUF_INIT;
	pg_unquoted(&why, message ? message : "out of memory");
	fail(f, DEFIB_CONFIG, "%s: not a valid PostgreSQL URL: %s", name, buf_text(&why));
	return DEFIB_CONFIG;
}

static defib_err connect_url(struct pg *p, const char *url, int64_t deadline_ms, struct failure *f)
{
	char *message = NULL;
	PQconninfoOption *options = PQconninfoParse(url, &message);
	if (!options) {
		defib_err err = parse_failure(p->base.name, message, f);
		PQfreemem(message);
		return err;
	}
	defib_err err;
	if (text_eq(option(options, "target_session_attrs"), "prefer-standby")) {
		/* As libpq does it: first a standby on any host, then any server. */
		int64_t half = clock_boot_ms() + (deadline_ms - clock_boot_ms()) / 2;
		err = connect_any(p, url, options, "standby", half, f);
		if (err)
			err = connect_any(p, url, options, "any", deadline_ms, f);
	} else {
		err = connect_any(p, url, options, NULL, deadline_ms, f);
	}
	PQconninfoFree(options);
	return err;
}

/* ---- the search path ---- */

/* The path in which the path is found out, and which all have that find none. */
#define SAFE_PATH "pg_catalog, pg_temp"

/*
 * Statements are parsed by a path of schemas in which no other role can create: an operator or
 * function that somebody made there for exactly our types would run with our rights. Other roles
 * are all but superusers, the owner of the database, and the owner of a schema that the role's own
 * path names; "$user" names a schema that anybody may have made.
 */
static defib_err ask_path(struct pg *p, const struct pg_call *call, struct failure *f)
{
	const char *values[] = {p->own_path};
	PGresult *res = NULL;
	int sent = PQsendQueryParams(p->conn, sql_postgres_catalog_trusted_path, 1, NULL, values, NULL,
	                             NULL, 0);
	defib_err err = pg_finish(p, call, sent, &res, f);
	if (err)
		return err;
	AUTO_BUF path = BUF_INIT;
	const char *trusted = PQgetvalue(res, 0, 0);
	/* pg_catalog comes first anyway; named, it would be where objects are created. */
	buf_addf(&path, "%s, pg_temp", *trusted ? trusted : "pg_catalog");
	free(p->path);
	p->path = mem_strdup(buf_text(&path));
	PQclear(res);
	return DEFIB_OK;
}

static defib_err find_path(struct pg *p, const struct pg_call *call, struct failure *f)
{
	const char *begin = p->base.pooled ? "BEGIN READ ONLY; SET LOCAL search_path = " SAFE_PATH
	                                   : "SET search_path = " SAFE_PATH;
	defib_err err = pg_simple(p, call, begin, f);
	if (!err)
		err = ask_path(p, call, f);
	if (!err && p->base.pooled)
		err = pg_simple(p, call, "ROLLBACK", f);
	return err;
}

void pg_settings(const struct pg *p, const char *scope, struct buf *out)
{
	static const char *const fixed[] = {
		/* For single statements; a transaction states its level when it begins. */
		"default_transaction_isolation = 'read committed'",
		"idle_in_transaction_session_timeout = 10000",
	};
	for (const struct dialect_setting *s = dialect_postgres.settings; s->set; s++)
		if (p->base.server_version >= s->since)
			buf_addf(out, "%s %s;", scope, s->set);
	if (p->replicates)
		buf_addf(out, "%s session_replication_role = origin;", scope);
	buf_addf(out, "%s search_path = %s;", scope, p->path);
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		buf_addf(out, "%s %s;", scope, fixed[i]);
	buf_addf(out, "%s plan_cache_mode = force_%s_plan;", scope,
	         p->plan_once ? "generic" : "custom");
	buf_addf(out, "%s statement_timeout = %lld;", scope, (long long)p->statement_ms);
	buf_addf(out, "%s lock_timeout = %lld;", scope, (long long)p->lock_ms);
	if (p->read_only)
		buf_addf(out, "%s default_transaction_read_only = on;", scope);
}

defib_err pg_connect(struct pg *p, const char *url, int64_t connect_ms, struct failure *f)
{
	struct pg_call call = {.deadline_ms = clock_boot_ms() + connect_ms};
	defib_err err = connect_url(p, url, call.deadline_ms, f);
	if (err)
		return err;
	p->base.server_version = PQserverVersion(p->conn);
	p->base.tls = PQsslInUse(p->conn) != 0;
	/*
	 * A SET on a pooled session would affect other clients: there the settings go into each
	 * transaction.
	 */
	err = find_path(p, &call, f);
	if (!err && !p->base.pooled) {
		AUTO_BUF sql = BUF_INIT;
		pg_settings(p, "SET", &sql);
		err = pg_simple(p, &call, buf_text(&sql), f);
		if (err == DEFIB_PERMISSION && p->replicates)
			fail_next(f, "ALTER ROLE … RESET session_replication_role: without their triggers "
			             "defib's tables keep no record");
	}
	return err;
}

void store_user(const char *url, struct buf *out)
{
	PQconninfoOption *options = PQconninfoParse(url, NULL);
	const char *name = options ? option(options, "user") : NULL;
	if (!name || !*name)
		name = getenv("PGUSER");
	buf_add(out, name ? name : "");
	PQconninfoFree(options);
}

/* Only the name: the same database may be reached through a socket, a port or a pooler. */
void postgres_target(const char *url, struct buf *out)
{
	PQconninfoOption *options = PQconninfoParse(url, NULL);
	const char *name = options ? option(options, "dbname") : NULL;
	if (!name || !*name)
		name = getenv("PGDATABASE");
	if ((!name || !*name) && options)
		name = option(options, "user");
	buf_addf(out, "database %s", name ? name : "");
	PQconninfoFree(options);
}

/* ---- a caller's own connection ---- */

struct lent {
	struct store base;
	PGconn *conn;
};

static defib_err pg_connect_answer(const struct lent *l, const PGresult *res, struct failure *f)
{
	ExecStatusType status = PQresultStatus(res);
	AUTO_BUF why = BUF_INIT;
	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
		return DEFIB_OK;
	if (res && PQstatus(l->conn) == CONNECTION_OK)
		return pg_result_failure(res, f);
	pg_one_line(&why, PQerrorMessage(l->conn));
	fail(f, DEFIB_CONNECTION, "the connection was lost: %s", buf_text(&why));
	return DEFIB_CONNECTION;
}

static defib_err lent_exec(struct store *s, const char *sql, const struct store_param *params,
                           int nparams, struct arena *a, struct store_rows *rows, struct failure *f)
{
	const struct lent *l = (const struct lent *)s;
	struct pg_values v = pg_values_of(params, nparams);
	PGresult *res = PQexecParams(l->conn, sql, nparams, NULL, v.texts, NULL, NULL, 0);
	defib_err err = pg_connect_answer(l, res, f);
	if (!err && rows)
		pg_copy_rows(res, a, rows);
	PQclear(res);
	pg_values_release(&v);
	return err;
}

static void pg_connect_lent_close(struct store *s)
{
	free(s);
}

defib_err postgres_borrow(struct pg_conn *conn, struct store **out, struct failure *f)
{
	static const struct store_ops ops = {.exec = lent_exec, .close = pg_connect_lent_close};
	*out = NULL;
	if (!conn || PQtransactionStatus(conn) != PQTRANS_INTRANS) {
		fail(f, DEFIB_USAGE, "the connection has no open transaction");
		fail_next(f, "BEGIN before, COMMIT after");
		return DEFIB_USAGE;
	}
	struct lent *l = mem_alloc(sizeof(*l));
	l->base = (struct store){
		.ops = &ops,
		.engine = STORE_POSTGRES,
		.name = "the caller's session",
		.server_version = PQserverVersion(conn),
		.in_tx = true,
	};
	l->conn = conn;
	*out = &l->base;
	return DEFIB_OK;
}

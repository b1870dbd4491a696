/* SPDX-License-Identifier: Apache-2.0
 * postgres_wire.c: waits for the server, but never beyond a deadline.
 *
 * Packets can vanish and a server process can be stopped; neither keepalives nor the server's own
 * time-outs bound that, only the client's clock does. At the deadline the socket is closed and the
 * session is lost: cancelling would mean one more exchange with a server that does not answer.
 *
 * If the session is lost while an effect is under way (COMMIT, a single write), the outcome is
 * unknown, whatever the server answered last.
 */

#include "store/postgres_wire.h"

#include "base/clock.h"
#include "store/postgres.h"
#include "store/postgres_error.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>

bool pg_wait(PGconn *conn, short events, int64_t deadline_ms)
{
	struct pollfd fd = {.fd = PQsocket(conn), .events = events};
	/* Without a socket libpq has a result at once. */
	if (fd.fd < 0)
		return true;
	for (;;) {
		int64_t left = deadline_ms - clock_boot_ms();
		if (left <= 0)
			return false;
		int ready = poll(&fd, 1, left > INT_MAX ? INT_MAX : (int)left);
		if (ready > 0 || (ready < 0 && errno != EINTR))
			return true;
	}
}

/* It can neither wait nor reach the server. */
static void hang_up(PGconn **conn)
{
	if (*conn && PQsocket(*conn) >= 0)
		shutdown(PQsocket(*conn), SHUT_RDWR);
	PQfinish(*conn);
	*conn = NULL;
}

void pg_drop(struct pg *p)
{
	hang_up(&p->conn);
	hang_up(&p->unanswering);
	p->base.lost = true;
}

/* A session that only answers late: whoever watches its locks would see them vanish. */
static void keep_locks(struct pg *p)
{
	p->unanswering = p->conn;
	p->conn = NULL;
	p->base.lost = true;
}

enum wire { WIRE_OK, WIRE_LATE, WIRE_BROKEN };

static enum wire pg_wire_flush(PGconn *conn, int64_t deadline_ms)
{
	for (;;) {
		int left = PQflush(conn);
		if (left <= 0)
			return left == 0 ? WIRE_OK : WIRE_BROKEN;
		if (!pg_wait(conn, POLLIN | POLLOUT, deadline_ms))
			return WIRE_LATE;
		/* The server may be unable to read until we have read. */
		if (!PQconsumeInput(conn))
			return WIRE_BROKEN;
	}
}

static enum wire next_result(PGconn *conn, int64_t deadline_ms, PGresult **out)
{
	*out = NULL;
	while (PQisBusy(conn)) {
		if (!pg_wait(conn, POLLIN, deadline_ms))
			return WIRE_LATE;
		if (!PQconsumeInput(conn))
			return WIRE_BROKEN;
	}
	*out = PQgetResult(conn);
	return WIRE_OK;
}

static bool pg_wire_is_error(const PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);
	return status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK;
}

static bool is_copy(const PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);
	return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}

/* All results of what was sent; *kept is the first error, or else the last result. */
static enum wire pg_wire_collect(PGconn *conn, int64_t deadline_ms, PGresult **last)
{
	PGresult *res = NULL;
	enum wire wire = pg_wire_flush(conn, deadline_ms);
	*last = NULL;
	while (wire == WIRE_OK) {
		wire = next_result(conn, deadline_ms, &res);
		if (!res)
			break;
		if (*last && pg_wire_is_error(*last)) {
			PQclear(res);
			continue;
		}
		PQclear(*last);
		*last = res;
		if (is_copy(res))
			break;
	}
	return wire == WIRE_OK && PQstatus(conn) == CONNECTION_BAD ? WIRE_BROKEN : wire;
}

static defib_err pg_wire_late(struct pg *p, const struct pg_call *call, struct failure *f)
{
	defib_err code = call->effect ? DEFIB_UNKNOWN_OUTCOME : DEFIB_TIMEOUT;
	fail(f, code, "%s: no answer by the deadline; the session was closed%s", p->base.name,
	     call->effect ? "; the outcome is unknown" : "");
	if (p->keeps_locks && !p->base.in_tx)
		keep_locks(p);
	else
		pg_drop(p);
	return code;
}

static defib_err pg_wire_broken(struct pg *p, const struct pg_call *call, const PGresult *res,
                                struct failure *f)
{
	defib_err code = call->effect ? DEFIB_UNKNOWN_OUTCOME : DEFIB_CONNECTION;
	struct failure cause = {0};
	AUTO_BUF why = BUF_INIT;
	if (res && pg_wire_is_error(res)) {
		pg_result_failure(res, &cause);
		buf_add(&why, cause.what);
	} else {
		pg_one_line(&why, PQerrorMessage(p->conn));
	}
	fail(f, code, "%s: the connection was lost: %s%s", p->base.name, buf_text(&why),
	     call->effect ? "; the outcome is unknown" : "");
	snprintf(f->sqlstate, sizeof(f->sqlstate), "%s", cause.sqlstate);
	f->reason = cause.reason;
	pg_drop(p);
	return code;
}

/* The server answered; the session may have ended with that answer. */
static defib_err judge(struct pg *p, const struct pg_call *call, const PGresult *res,
                       struct failure *f)
{
	if (res && pg_result_ends_session(res))
		return pg_wire_broken(p, call, res, f);
	if (!res || PQresultStatus(res) == PGRES_EMPTY_QUERY)
		return fail(f, DEFIB_BAD_SQL, "%s: the statement is empty", p->base.name);
	if (is_copy(res)) {
		/* Closing the session is the surest way to end a half-open COPY. */
		pg_drop(p);
		return fail(f, DEFIB_BAD_SQL, "%s: COPY is not possible here", p->base.name);
	}
	if (!pg_wire_is_error(res))
		return DEFIB_OK;
	defib_err err = pg_result_failure(res, f);
	fail_prefix(f, "%s", p->base.name);
	return err;
}

defib_err pg_finish(struct pg *p, const struct pg_call *call, int sent, PGresult **out,
                    struct failure *f)
{
	PGresult *res = NULL;
	defib_err err;
	assert(p->conn);
	*out = NULL;
	if (!sent && PQstatus(p->conn) == CONNECTION_OK) {
		AUTO_BUF why = BUF_INIT;
		/* libpq itself refused, for instance more than 65535 parameters. */
		pg_one_line(&why, PQerrorMessage(p->conn));
		return fail(f, DEFIB_BAD_SQL, "%s: %s", p->base.name, buf_text(&why));
	}
	enum wire wire = sent ? pg_wire_collect(p->conn, call->deadline_ms, &res) : WIRE_BROKEN;
	if (wire == WIRE_LATE)
		err = pg_wire_late(p, call, f);
	else if (wire == WIRE_BROKEN)
		err = pg_wire_broken(p, call, res, f);
	else
		err = judge(p, call, res, f);
	if (err)
		PQclear(res);
	else
		*out = res;
	return err;
}

#ifdef LIBPQ_HAS_PIPELINING
/* What comes before the next sync of a pipeline; *kept is its first error, or else its result. */
static enum wire collect_to_sync(PGconn *conn, int64_t deadline_ms, PGresult **last)
{
	enum wire wire = pg_wire_flush(conn, deadline_ms);
	int nothing = 0;
	*last = NULL;
	while (wire == WIRE_OK) {
		PGresult *res = NULL;
		wire = next_result(conn, deadline_ms, &res);
		if (res && PQresultStatus(res) == PGRES_PIPELINE_SYNC) {
			PQclear(res);
			return WIRE_OK;
		}
		/* Each statement's results end with NULL; NULL twice: the server is gone. */
		nothing = res ? 0 : nothing + 1;
		if (PQstatus(conn) == CONNECTION_BAD || nothing > 1)
			wire = WIRE_BROKEN;
		if (res && !(*last && pg_wire_is_error(*last))) {
			PQclear(*last);
			*last = res;
		} else {
			PQclear(res);
		}
	}
	return wire;
}

defib_err pg_finish_both(struct pg *p, const struct pg_call *call, int sent, PGresult **out,
                         struct failure *f)
{
	PGresult *res = NULL, *second = NULL;
	enum wire wire = sent ? collect_to_sync(p->conn, call->deadline_ms, &res) : WIRE_BROKEN;
	defib_err err = wire == WIRE_LATE     ? pg_wire_late(p, call, f)
	                : wire == WIRE_BROKEN ? pg_wire_broken(p, call, res, f)
	                                      : judge(p, call, res, f);
	*out = NULL;
	if (p->conn && (collect_to_sync(p->conn, call->deadline_ms, &second) != WIRE_OK ||
	                !PQexitPipelineMode(p->conn)))
		pg_drop(p);
	PQclear(second);
	if (err)
		PQclear(res);
	else
		*out = res;
	return err;
}
#endif

defib_err pg_simple(struct pg *p, const struct pg_call *call, const char *sql, struct failure *f)
{
	PGresult *res = NULL;
	defib_err err = pg_finish(p, call, PQsendQuery(p->conn, sql), &res, f);
	PQclear(res);
	return err;
}

/* SPDX-License-Identifier: Apache-2.0
 * postgres_error.c: turns PostgreSQL's errors into failures, and its multi-line texts into one line
 * without a password.
 *
 * The class is what the error means if the session survives. If the session ends with it, what was
 * under way decides (postgres_wire.c).
 */

#include "store/postgres_error.h"

#include "store/postgres.h"

#include "store/sqlstate.h"

#include <ctype.h>

static bool pg_error_is_blank(char c)
{
	return (unsigned char)c <= ' ' || c == 0x7f;
}

void pg_one_line(struct buf *out, const char *text)
{
	bool gap = false;
	size_t start = out->len;
	for (; *text != '\0'; text++) {
		if (pg_error_is_blank(*text)) {
			gap = out->len > start;
			continue;
		}
		if (gap) {
			buf_addch(out, ' ');
			gap = false;
		}
		buf_addch(out, *text);
	}
}

static void set_state(struct failure *f, const char *state)
{
	snprintf(f->sqlstate, sizeof(f->sqlstate), "%.5s", state);
}

/*
 * A row that a policy refuses has the SQLSTATE of a missing privilege, and a trigger may RAISE any:
 * the context decides. Codes that a user's code raises on purpose (40001: retry), and our own
 * codes, keep their meaning.
 */
static defib_err result_class(const PGresult *res, const char *state)
{
	const char *function = PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION);
	defib_err class = sqlstate_class(state);
	bool unclear = class == DEFIB_DATABASE || class == DEFIB_BAD_SQL || class == DEFIB_BAD_VALUE ||
	               class == DEFIB_PERMISSION;
	if (text_eq(function, "ExecWithCheckOptions"))
		return DEFIB_CONSTRAINT;
	if (sqlstate_reason(state) == REASON_SEQUENCE_BEHIND)
		return class;
	return unclear && text_eq(function, "exec_stmt_raise") ? DEFIB_CONSTRAINT : class;
}

/*
 * The id from one of our sequences is taken. No user row is at fault, and every row would fail: the
 * next try draws the next id, until the sequence is corrected.
 */
static bool is_sequence_behind(const PGresult *res, const char *state)
{
	const char *schema = PQresultErrorField(res, PG_DIAG_SCHEMA_NAME);
	const char *constraint = PQresultErrorField(res, PG_DIAG_CONSTRAINT_NAME);
	static const char *const keys[] = {"job_pkey", "ledger_pkey", "worker_pkey", "delivery_pkey"};
	if (sqlstate_reason(state) != REASON_TAKEN || !text_eq(schema, "defib"))
		return false;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (text_eq(constraint, keys[i]))
			return true;
	return false;
}

static defib_err sequence_failure(const PGresult *res, struct failure *f)
{
	fail(f, DEFIB_DATABASE, "the sequence of defib.%s is behind its table: the next id is taken",
	     PQresultErrorField(res, PG_DIAG_TABLE_NAME));
	fail_advise(f, ADVISE_MEND_SEQUENCE, NULL);
	f->reason = REASON_SEQUENCE_BEHIND;
	return DEFIB_DATABASE;
}

defib_err pg_result_failure(const PGresult *res, struct failure *f)
{
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *primary = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	const char *hint = PQresultErrorField(res, PG_DIAG_MESSAGE_HINT);
	defib_err code = result_class(res, state);
	AUTO_BUF line = BUF_INIT;
	if (is_sequence_behind(res, state))
		return sequence_failure(res, f);
	pg_one_line(&line, primary ? primary : PQresultErrorMessage(res));
	fail(f, code, "%s", line.len ? buf_text(&line) : defib_err_text(code));
	if (hint) {
		buf_clear(&line);
		pg_one_line(&line, hint);
		fail_next(f, "%s", buf_text(&line));
	}
	set_state(f, state ? state : "");
	/* A trigger that raises the code of another error does not mean it. */
	if (code == sqlstate_class(state))
		f->reason = sqlstate_reason(state);
	return code;
}

bool pg_result_ends_session(const PGresult *res)
{
	const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);
	return text_eq(severity, "FATAL") || text_eq(severity, "PANIC");
}

/* "FATAL:  28P01: text": where "28P01: " begins, or NULL. Severities are translated, this is not.
 */
static const char *pg_error_find_state(const char *line)
{
	for (const char *at = strstr(line, ":  "); at; at = strstr(at + 1, ":  ")) {
		const char *state = at + 3;
		int n = 0;
		while (n < 5 && (isdigit((unsigned char)state[n]) || isupper((unsigned char)state[n])))
			n++;
		if (n == 5 && state[5] == ':' && state[6] == ' ')
			return state;
	}
	return NULL;
}

/* One line of the message, without its SQLSTATE, which is kept in `state`. */
static void add_message_line(struct buf *what, const char *line, char state[6])
{
	const char *at = pg_error_find_state(line);
	buf_add(what, what->len ? "; " : "");
	if (at) {
		snprintf(state, 6, "%.5s", at);
		buf_addn(what, line, (size_t)(at - line));
		line = at + strlen("28P01: ");
	}
	buf_add(what, line);
}

/* libpq does not print passwords; if a server echoes one, it is removed here. */
static void add_without(struct buf *out, const char *text, const char *secret)
{
	size_t n = secret ? strlen(secret) : 0;
	while (*text != '\0') {
		if (n > 0 && strncmp(text, secret, n) == 0) {
			buf_add(out, "***");
			text += n;
		} else {
			buf_addch(out, *text++);
		}
	}
}

defib_err pg_connect_failure(const char *name, const char *message, const char *password,
                             struct failure *f)
{
	struct buf clean = BUF_INIT, what = BUF_INIT, next = BUF_INIT;
	AUTO_BUF one = BUF_INIT;
	char state[6] = "";
	char *rest = NULL;
	add_without(&clean, message, password);
	char *text = buf_detach(&clean);
	for (char *line = strtok_r(text ? text : "", "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (*line == '\t') {
			buf_add(&next, next.len ? " " : "");
			pg_one_line(&next, line);
		} else if (!text_starts(line, "LOCATION:")) {
			add_message_line(&what, line, state);
		}
	}
	pg_one_line(&one, buf_text(&what));
	defib_err code = state[0] ? sqlstate_class(state) : DEFIB_CONNECTION;
	/*
	 * As an answer to a connection attempt, a protocol error is the refusal of a pooler or server.
	 */
	if (sqlstate_reason(state) == REASON_PROTOCOL || code == DEFIB_DATABASE)
		code = DEFIB_CONNECTION;
	fail(f, code, "%s: cannot connect: %s", name, buf_text(&one));
	fail_next(f, "%s", buf_text(&next));
	set_state(f, state);
	f->reason = sqlstate_reason(state);
	free(text);
	buf_release(&what);
	buf_release(&next);
	return code;
}

void pg_unquoted(struct buf *out, const char *message)
{
	const char *quote;
	/* From the first quote to the last: a password may contain quotes itself. */
	if ((quote = strchr(message, '"')) && strrchr(message, '"') > quote) {
		AUTO_BUF cut = BUF_INIT;
		buf_addn(&cut, message, (size_t)(quote - message));
		buf_add(&cut, "…");
		buf_add(&cut, strrchr(message, '"') + 1);
		pg_one_line(out, buf_text(&cut));
	} else {
		pg_one_line(out, message);
	}
}

/* SPDX-License-Identifier: Apache-2.0
 * doctor.c: the tables of checks, the loop over them, and the checks of a database itself: too old,
 * unencrypted, behind a pooler, read-only, with another clock, with transactions that block rows.
 * See doctor.h.
 *
 * A check is a row; it reports what it found, and nothing else depends on its text. Checks of a
 * watch run in order: a check that would only repeat the problem of an earlier one is skipped.
 */
#include "embedded.h"
#include "lib/advice.h"
#include "setup/doctor_check.h"

#include "base/clock.h"
#include "setup/doctor_plan.h"
#include "setup/doctor_rights.h"
#include "setup/doctor_running.h"
#include "setup/doctor_trial.h"
#include "setup/doctor_watch.h"
#include "setup/propose_lines.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/schemas.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#define CLOCK_WARN_US US_PER_S
#define SMALL_FILE_BYTES (64 << 20)

static void check_version(struct examination *x)
{
	int64_t v = x->store->server_version;
	bool pg = x->store->engine == STORE_POSTGRES;
	bool old = v < (pg ? 130000 : 3038000);
	const char *text =
		pg ? arena_printf(&x->arena, "PostgreSQL %lld.%lld", (long long)(v / 10000),
	                      (long long)(v % 10000))
		   : arena_printf(&x->arena, "SQLite %lld.%lld.%lld", (long long)(v / 1000000),
	                      (long long)(v / 1000 % 1000), (long long)(v % 1000));
	if (!old)
		found(x, FINDING_OK, NULL, "%s", text);
	else if (pg)
		found(x, FINDING_FAIL, "upgrade the server to PostgreSQL 13 or newer",
		      "%s is too old: defib needs 13", text);
	else
		found(x, FINDING_FAIL, "install SQLite 3.38 or newer", "%s is too old: defib needs 3.38",
		      text);
}

static void check_tls(struct examination *x)
{
	struct store_rows rows;
	if (x->store->tls) {
		found(x, FINDING_OK, NULL, "the connection is encrypted");
		return;
	}
	if (!asked(x,
	           "SELECT host(inet_server_addr()), inet_server_addr() IS NULL OR "
	           "inet_server_addr() <<= '127.0.0.0/8' OR inet_server_addr() <<= '::1/128', "
	           "current_setting('ssl') = 'on'",
	           NULL, 0, &rows))
		return;
	if (row_bool(&rows, 0, 1)) {
		found(x, FINDING_OK, NULL, "the connection is not encrypted but stays on this host");
		return;
	}
	found(x, FINDING_WARN,
	      row_bool(&rows, 0, 2)
	          ? "add sslmode=require to url:, such as postgres://…/db?sslmode=require"
	          : "set ssl = on with a certificate on the server, and add "
	            "sslmode=require to url:",
	      "the connection to %s is not encrypted: passwords and rows can be read in transit",
	      row_text(&rows, 0, 0));
}

static void check_pooler(struct examination *x)
{
	if (!x->store->pooled) {
		found(x, FINDING_OK, NULL, "no transaction pooler");
		return;
	}
	found(x, FINDING_WARN, "point url: at the server itself, or at a pool in session mode",
	      "connected through a transaction pooler: everything works, but statements are not "
	      "prepared, and dead workers on other hosts are noticed only when their leases end");
}

static void check_timeline(struct examination *x)
{
	if (x->store->timeline.number)
		found(x, FINDING_OK, NULL,
		      "timeline %lld: an old primary that comes back after a failover is refused",
		      (long long)x->store->timeline.number);
	else
		found(x, FINDING_OK, NULL,
		      "its timeline is unknown (a standby, or pg_control_system() and pg_current_wal_lsn() "
		      "may not be called): an old primary that comes back after a failover would not be "
		      "refused");
}

static void check_writable(struct examination *x)
{
	struct store_rows rows;
	if (!asked(x,
	           "SELECT pg_is_in_recovery(), (SELECT reset_val = 'on' FROM pg_settings "
	           "WHERE name = 'default_transaction_read_only')",
	           NULL, 0, &rows))
		return;
	if (row_bool(&rows, 0, 0))
		found(x, FINDING_FAIL,
		      "point url: at the primary, or list all hosts with target_session_attrs=read-write",
		      "this server is a standby: scans work, but nothing can be recovered");
	else if (row_bool(&rows, 0, 1))
		found(x, FINDING_FAIL,
		      arena_printf(&x->arena,
		                   "ALTER ROLE %s IN DATABASE %s SET default_transaction_read_only = off;",
		                   x->role, x->dbname),
		      "transactions are read-only by default: nothing can be recovered");
	else
		found(x, FINDING_OK, NULL, "is writable");
}

/* The database's clock compared with the middle of the time that the query took. */
static void check_clock(struct examination *x)
{
	struct store_rows rows;
	struct failure f = {0};
	defib_err err = store_begin(x->store, TX_READ, &f);
	if (err) {
		unclear(x, &f);
		return;
	}
	int64_t before = clock_wall_us();
	err = store_exec(x->store, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
	                 NULL, 0, &x->arena, &rows, &f);
	int64_t after = clock_wall_us();
	store_rollback(x->store);
	if (err) {
		unclear(x, &f);
		return;
	}
	int64_t ahead = row_int(&rows, 0, 0, 0) - (before + (after - before) / 2);
	int64_t doubt = (after - before) / 2;
	if (llabs(ahead) - doubt <= CLOCK_WARN_US)
		found(x, FINDING_OK, NULL, "its clock agrees with this host's to within a second");
	else
		found(x, FINDING_WARN, "run time synchronisation (chrony, systemd-timesyncd) on both hosts",
		      "its clock is %s %s this host's: defib judges by the database's clock, but workers "
		      "here that write their own time look %s",
		      span(x, llabs(ahead)), ahead > 0 ? "ahead of" : "behind",
		      ahead > 0 ? "older than they are" : "younger than they are");
}

static void watched_tables(const struct doctor *d, struct buf *out)
{
	AUTO_BUF table = BUF_INIT;
	int n = 0;
	buf_add(out, "[");
	for (int i = 0; i < d->nwatches; i++) {
		if (!d->watches[i]->enabled)
			continue;
		buf_clear(&table);
		sql_table(&table, d->watches[i]->table);
		buf_add(out, n++ ? "," : "");
		buf_add_json(out, buf_text(&table));
	}
	buf_add(out, "]");
}

static void check_idle(struct examination *x)
{
	struct store_rows rows, sees;
	AUTO_BUF tables = BUF_INIT;
	watched_tables(x->doctor, &tables);
	struct store_param params[] = {P_TEXT(buf_text(&tables)), P_INT(x->doctor->idle_us)};
	bool good = asked(x, sql_postgres_doctor_idle, params, 2, &rows) &&
	            asked(x, "SELECT pg_has_role('pg_read_all_stats', 'USAGE')", NULL, 0, &sees);
	if (!good)
		return;
	for (int i = 0; i < rows.nrows; i++)
		found(x, FINDING_WARN,
		      arena_printf(&x->arena, "SELECT pg_terminate_backend(%s);", row_text(&rows, i, 0)),
		      "session %s (%s) has been idle in a transaction for %s and may lock rows of %s, "
		      "which cannot be recovered until it ends",
		      row_text(&rows, i, 0), row_text(&rows, i, 1),
		      span(x, row_int(&rows, i, 2, 0) * US_PER_S), row_text(&rows, i, 3));
	if (rows.nrows == 0)
		found(x, FINDING_OK, NULL, "no session is idle in a transaction on a watched table%s",
		      row_bool(&sees, 0, 0)
		          ? ""
		          : ", as far as this role may see (pg_read_all_stats shows all sessions)");
}

/* The file must be writable, and so must its directory, where SQLite keeps the journal. */
static void doctor_check_file(struct examination *x)
{
	struct store_rows rows;
	if (!asked(x, "PRAGMA database_list", NULL, 0, &rows))
		return;
	const char *path = rows.nrows ? row_text(&rows, 0, 2) : NULL;
	if (!path || !*path) {
		found(x, FINDING_OK, NULL, "is writable");
		return;
	}
	const char *slash = strrchr(path, '/');
	const char *folder =
		slash > path ? arena_strndup(&x->arena, path, (size_t)(slash - path)) : (slash ? "/" : ".");
	const char *closed = access(path, W_OK) ? path : access(folder, W_OK) ? folder : NULL;
	if (closed)
		found(x, FINDING_FAIL,
		      arena_printf(&x->arena, "give user %u the right to write %s", (unsigned)geteuid(),
		                   closed),
		      "%s cannot be written by this user: scans work, but nothing can be recovered",
		      closed);
	else
		found(x, FINDING_OK, NULL, "is writable");
}

static void check_journal(struct examination *x)
{
	struct store_rows rows;
	if (!asked(x, "PRAGMA journal_mode", NULL, 0, &rows))
		return;
	const char *mode = rows.nrows ? row_text(&rows, 0, 0) : "?";
	if (!strcasecmp(mode, "wal"))
		found(x, FINDING_OK, NULL,
		      "journal mode is wal: readers and the writer do not block each other");
	else
		found(x, FINDING_WARN, "PRAGMA journal_mode = WAL;",
		      "journal mode is %s: a scan and a writer block each other", mode);
}

static void check_integrity(struct examination *x)
{
	struct store_rows rows;
	if (!asked(x, "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
	           NULL, 0, &rows))
		return;
	if (row_int(&rows, 0, 0, 0) > SMALL_FILE_BYTES) {
		found(x, FINDING_OK, NULL,
		      "the file is large; PRAGMA quick_check tells whether it is sound");
		return;
	}
	if (!asked(x, "PRAGMA quick_check(1)", NULL, 0, &rows))
		return;
	const char *result = rows.nrows ? row_text(&rows, 0, 0) : "nothing";
	if (!strcmp(result, "ok"))
		found(x, FINDING_OK, NULL, "the file is sound (quick_check)");
	else
		found(x, FINDING_FAIL, "restore a backup, or save what can be saved with sqlite3 .recover",
		      "the file is damaged: %s", result);
}

/* Without a watch every check is "ok", and nothing is watched. */
static void check_watches(struct examination *x)
{
	struct failure f = {0};
	bool queue = false;
	if (x->doctor->configured)
		return;
	defib_err err = store_begin(x->store, TX_READ, &f);
	if (!err) {
		err = dialect_own_table(x->store, "job", &queue, &f);
		store_rollback(x->store); /* nothing was written */
	}
	if (err)
		unclear(x, &f);
	else if (queue)
		found(
			x, FINDING_OK, NULL,
			"no watch is configured; the jobs of the built-in queue are recovered by its workers");
	else
		found(x, FINDING_WARN,
		      "describe a table (defib init --detect finds candidates), or name the configuration "
		      "with -c",
		      "no watch is configured: nothing is found or recovered");
}

enum { ON_SERVER = 1, ON_FILE = 2, ON_BOTH = 3 };

struct doctor_check {
	const char *id;
	int engines;
	enum examined least; /* of a watch */
	void (*run)(struct examination *x);
};

static const struct doctor_check database_checks[] = {
	{"version", ON_BOTH, STAGE_NONE, check_version},
	{"tls", ON_SERVER, STAGE_NONE, check_tls},
	{"pooler", ON_SERVER, STAGE_NONE, check_pooler},
	{"timeline", ON_SERVER, STAGE_NONE, check_timeline},
	{"writable", ON_SERVER, STAGE_NONE, check_writable},
	{"writable", ON_FILE, STAGE_NONE, doctor_check_file},
	{"clock", ON_SERVER, STAGE_NONE, check_clock},
	{"idle", ON_SERVER, STAGE_NONE, check_idle},
	{"journal", ON_FILE, STAGE_NONE, check_journal},
	{"integrity", ON_FILE, STAGE_NONE, check_integrity},
	{"schema", ON_SERVER, STAGE_NONE, check_schema},
	{"ledger", ON_BOTH, STAGE_NONE, check_ledger},
	{"sequences", ON_SERVER, STAGE_NONE, check_sequences},
	{"daemon", ON_SERVER, STAGE_NONE, check_daemon_tables},
	{"work", ON_SERVER, STAGE_NONE, check_work_tables},
	{"watches", ON_BOTH, STAGE_NONE, check_watches},
};

static const struct doctor_check watch_checks[] = {
	{"fits", ON_BOTH, STAGE_NONE, check_fits},
	{"types", ON_BOTH, STAGE_FITS, check_types},
	{"key", ON_BOTH, STAGE_FITS, check_key},
	{"read", ON_BOTH, STAGE_FITS, check_read},
	{"write", ON_SERVER, STAGE_FITS, check_write},
	{"policy", ON_SERVER, STAGE_FITS, check_policies},
	{"running", ON_BOTH, STAGE_READS, check_running},
	{"index", ON_SERVER, STAGE_READS, check_plan},
	{"index", ON_FILE, STAGE_READS, check_plan_sqlite},
	{"look", ON_BOTH, STAGE_BOUNDED, check_look},
	{"sign", ON_BOTH, STAGE_BOUNDED, check_signs},
	{"overlap", ON_BOTH, STAGE_BOUNDED, check_overlap},
	{"remedy", ON_BOTH, STAGE_BOUNDED, check_remedies},
	{"lists", ON_BOTH, STAGE_BOUNDED, check_lists},
	{"threshold", ON_BOTH, STAGE_NONE, check_threshold},
	{"owner", ON_BOTH, STAGE_NONE, check_owner},
	{"loop", ON_BOTH, STAGE_NONE, check_loop},
	{"hold", ON_BOTH, STAGE_FITS, check_hold},
	{"attach", ON_SERVER, STAGE_FITS, check_attached},
};

void found(struct examination *x, enum finding_level level, const char *fix, const char *fmt, ...)
{
	char text[1280];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	assert(x->check != NULL);
	struct finding finding = {
		.check = x->check,
		.level = level,
		.database = x->doctor->database->name,
		.watch = x->watch ? x->watch->name : NULL,
		.text = text,
		.fix = fix && *fix ? fix : NULL,
	};
	x->doctor->found(x->doctor->ctx, &finding);
}

void unclear(struct examination *x, struct failure *f)
{
	/* A lost session is reported once, by the loop. */
	if (!x->store->lost)
		found(x, FINDING_WARN, failure_next(f), "could not be checked: %s", f->what);
}

defib_err ask(struct examination *x, const char *sql, const struct store_param *params, int nparams,
              struct store_rows *rows, struct failure *f)
{
	defib_err err = store_begin(x->store, TX_READ, f);
	if (err)
		return err;
	err = store_exec(x->store, sql, params, nparams, &x->arena, rows, f);
	store_rollback(x->store); /* nothing was written */
	return err;
}

defib_err ask_within(struct examination *x, const char *sql, struct store_rows *rows,
                     struct failure *f)
{
	defib_err err = store_begin_within(x->store, WITHIN_MS, f);
	if (err)
		return err;
	err = store_exec(x->store, sql, NULL, 0, &x->arena, rows, f);
	store_rollback(x->store);
	return err;
}

bool asked(struct examination *x, const char *sql, const struct store_param *params, int nparams,
           struct store_rows *rows)
{
	struct failure f = {0};
	if (!ask(x, sql, params, nparams, rows, &f))
		return true;
	unclear(x, &f);
	return false;
}

const char *span(struct examination *x, int64_t us)
{
	AUTO_BUF text = BUF_INIT;
	duration_text(us, &text);
	return arena_strdup(&x->arena, buf_text(&text));
}

const char *grouped(struct examination *x, int64_t n)
{
	AUTO_BUF text = BUF_INIT;
	buf_add_count(&text, n);
	return arena_strdup(&x->arena, buf_text(&text));
}

const char *bare_table(struct examination *x)
{
	char *name = arena_strdup(&x->arena, x->table), *to = name;
	/* Parts are quoted: "a"."b""c" ends as b"c. */
	for (const char *at = x->table; *at; at++)
		if (at[0] == '"' && at[1] == '"' && at > x->table && at[-1] != '.')
			*to++ = *at++;
		else if (at[0] == '"' && at[1] == '.' && at[2] == '"') {
			at += 2;
			to = name;
		} else if (*at != '"')
			*to++ = *at;
	*to = '\0';
	return name;
}

static void run_checks(struct examination *x, const struct doctor_check *checks, size_t n)
{
	for (size_t i = 0; i < n && !x->store->lost; i++) {
		const struct doctor_check *c = &checks[i];
		if (!(c->engines & (store_dialect(x->store)->is_file ? ON_FILE : ON_SERVER)) ||
		    x->stage < c->least)
			continue;
		x->check = c->id;
		c->run(x);
	}
}

static void examine_watch(struct examination *x, const struct watch *w)
{
	AUTO_BUF table = BUF_INIT;
	struct failure ignored = {0}; /* it is reported when the watch is bound */
	x->stage = STAGE_NONE;
	x->check = "enabled";
	if (watch_home(x->store, w, &x->arena, &x->watch, &ignored))
		x->watch = w;
	sql_table(&table, x->watch->table);
	x->table = arena_strdup(&x->arena, buf_text(&table));
	if (!w->enabled)
		found(x, FINDING_OK, NULL, "off: %s", w->off_because);
	else if (check_code(x))
		run_checks(x, watch_checks, sizeof watch_checks / sizeof *watch_checks);
	if (x->stage == STAGE_BOUNDED) {
		struct binding *b = ARENA_ARRAY(&x->arena, struct binding, 1);
		*b = x->binding;
		x->before[x->nbefore++] = b;
	}
	x->watch = NULL;
}

static const char *reach_fix(const struct doctor *d, struct failure *f)
{
	if (*failure_next(f))
		return failure_next(f);
	return dialect_of(d->database->engine)->is_file
	           ? "check the path after sqlite:, and that this user may read the file"
	           : "check that the server runs, the host, port and user in url:, and pg_hba.conf";
}

static bool reach(struct examination *x)
{
	struct failure f = {0};
	int64_t start = clock_boot_us();
	x->check = "reachable";
	if (x->doctor->open(&x->doctor->store, &x->store, &f)) {
		found(x, FINDING_FAIL, reach_fix(x->doctor, &f), "%s", f.what);
		return false;
	}
	found(x, FINDING_OK, NULL, "reachable; opening a session took %s",
	      span(x, clock_boot_us() - start));
	return true;
}

/* Our role, as GRANT writes it. */
static void learn_names(struct examination *x)
{
	struct store_rows rows;
	x->role = x->dbname = "?";
	if (!store_dialect(x->store)->has_grants ||
	    !asked(x, "SELECT quote_ident(current_user), quote_ident(current_database())", NULL, 0,
	           &rows))
		return;
	x->role = row_text(&rows, 0, 0);
	x->dbname = row_text(&rows, 0, 1);
}

static void report_lost(struct examination *x)
{
	x->watch = NULL; /* it concerns the database, whatever was being checked */
	if (x->store->lost)
		found(x, FINDING_FAIL, "check the server and the network, then run doctor again",
		      "the connection was lost during this check; later checks were skipped");
}

void doctor_examine(const struct doctor *d)
{
	struct examination x = {.doctor = d};
	assert(d->store.read_only && d->found);
	if (reach(&x)) {
		x.before = ARENA_ARRAY(&x.arena, const struct binding *, d->nwatches + 1);
		learn_names(&x);
		run_checks(&x, database_checks, sizeof database_checks / sizeof *database_checks);
		for (int i = 0; i < d->nwatches && !x.store->lost; i++)
			examine_watch(&x, d->watches[i]);
		report_lost(&x);
	}
	store_close(x.store);
	arena_release(&x.arena);
}

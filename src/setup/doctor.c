/* SPDX-License-Identifier: Apache-2.0
 * doctor.c: the tables of checks, and the walk over them. See doctor.h.
 *
 * A check is a row; it says what it found and nothing else depends on its
 * words. Checks of a watch go in order: one that would only repeat the
 * trouble of one before it is left out.
 */
#include "setup/doctor_check.h"

#include "base/clock.h"
#include "store/dialect.h"

#include <assert.h>
#include <stdarg.h>

enum { ON_SERVER = 1, ON_FILE = 2, ON_BOTH = 3 };

struct check {
	const char *id;
	int engines;
	enum stage least; /* of a watch */
	void (*run)(struct examination *x);
};

static const struct check database_checks[] = {
	{"version", ON_BOTH, STAGE_NONE, check_version},
	{"tls", ON_SERVER, STAGE_NONE, check_tls},
	{"pooler", ON_SERVER, STAGE_NONE, check_pooler},
	{"timeline", ON_SERVER, STAGE_NONE, check_timeline},
	{"writable", ON_SERVER, STAGE_NONE, check_writable},
	{"writable", ON_FILE, STAGE_NONE, check_file},
	{"clock", ON_SERVER, STAGE_NONE, check_clock},
	{"idle", ON_SERVER, STAGE_NONE, check_idle},
	{"journal", ON_FILE, STAGE_NONE, check_journal},
	{"integrity", ON_FILE, STAGE_NONE, check_integrity},
	{"ledger", ON_BOTH, STAGE_NONE, check_ledger},
	{"sequences", ON_SERVER, STAGE_NONE, check_sequences},
	{"daemon", ON_SERVER, STAGE_NONE, check_daemon_tables},
	{"work", ON_SERVER, STAGE_NONE, check_work_tables},
};

static const struct check watch_checks[] = {
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
	{"remedy", ON_BOTH, STAGE_BOUNDED, check_remedies},
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

void unclear(struct examination *x, const struct failure *f)
{
	/* A lost session is told once, by the walk. */
	if (!x->store->lost)
		found(x, FINDING_WARN, f->next, "could not be checked: %s", f->what);
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
	struct buf text = BUF_INIT;
	duration_text(us, &text);
	const char *kept = arena_strdup(&x->arena, buf_text(&text));
	buf_release(&text);
	return kept;
}

const char *grouped(struct examination *x, int64_t n)
{
	struct buf text = BUF_INIT;
	char digits[24];
	int len = snprintf(digits, sizeof digits, "%lld", (long long)n);
	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0 && digits[i - 1] != '-')
			buf_addch(&text, ',');
		buf_addch(&text, digits[i]);
	}
	const char *kept = arena_strdup(&x->arena, buf_text(&text));
	buf_release(&text);
	return kept;
}

const char *bare_table(struct examination *x)
{
	char *name = arena_strdup(&x->arena, x->table), *to = name;
	/* Parts are quoted: "a"."b""c" ends as b"c. */
	for (const char *at = x->table; *at; at++) {
		if (at[0] == '"' && at[1] == '"' && at > x->table && at[-1] != '.')
			*to++ = *at++;
		else if (at[0] == '"' && at[1] == '.' && at[2] == '"') {
			at += 2;
			to = name;
		} else if (*at != '"')
			*to++ = *at;
	}
	*to = '\0';
	return name;
}

static void run_checks(struct examination *x, const struct check *checks, size_t n)
{
	for (size_t i = 0; i < n && !x->store->lost; i++) {
		const struct check *c = &checks[i];
		if (!(c->engines & (store_dialect(x->store)->is_file ? ON_FILE : ON_SERVER)) ||
		    x->stage < c->least)
			continue;
		x->check = c->id;
		c->run(x);
	}
}

static void examine_watch(struct examination *x, const struct watch *w)
{
	struct buf table = BUF_INIT;
	x->watch = w;
	x->stage = STAGE_NONE;
	x->check = "enabled";
	sql_table(&table, w->table);
	x->table = arena_strdup(&x->arena, buf_text(&table));
	buf_release(&table);
	if (w->enabled)
		run_checks(x, watch_checks, sizeof watch_checks / sizeof *watch_checks);
	else
		found(x, FINDING_OK, NULL, "off: %s", w->off_because);
	x->watch = NULL;
}

static const char *reach_fix(const struct doctor *d, const struct failure *f)
{
	if (f->next[0])
		return f->next;
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

/* Who we are, as GRANT writes it. */
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

static void tell_lost(struct examination *x)
{
	x->watch = NULL; /* it is the database's trouble, whatever was looked at */
	if (x->store->lost)
		found(x, FINDING_FAIL, "check the server and the network, then run doctor again",
		      "the connection was lost during this check; later checks were skipped");
}

void doctor_examine(const struct doctor *d)
{
	struct examination x = {.doctor = d};
	assert(d->store.read_only && d->found);
	if (reach(&x)) {
		learn_names(&x);
		run_checks(&x, database_checks, sizeof database_checks / sizeof *database_checks);
		for (int i = 0; i < d->nwatches && !x.store->lost; i++)
			examine_watch(&x, d->watches[i]);
		tell_lost(&x);
	}
	store_close(x.store);
	arena_release(&x.arena);
}

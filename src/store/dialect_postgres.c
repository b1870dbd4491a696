/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_postgres.c: the dialect of PostgreSQL; see dialect.h. */
#include "store/dialect.h"

#include "embedded.h"
#include "store/sql.h"

#define EPOCH_US(x) "(extract(epoch FROM " x ") * 1000000)::bigint"

/*
 * Times in our own tables are read as if they were between these: one row that says "infinity", or
 * a time whose microseconds a bigint cannot hold, would fail the statement that reads all of them.
 */
#define FIRST "timestamptz '0001-01-01 00:00:00+00'"
#define LAST "timestamptz '100000-01-01 00:00:00+00'"

static const struct dialect_piece pieces[] = {
	{"now", "clock_timestamp()"},
	{"now_statement", "statement_timestamp()"},
	{"now_transaction", "now()"},
	{"us", EPOCH_US("CASE WHEN \1 > " LAST " THEN " LAST " WHEN \1 < " FIRST " THEN " FIRST
                    " ELSE \1 END")},
	{"instant", "timestamptz 'epoch' + \1 * interval '1 microsecond'"},
	{"instant_after", "timestamptz 'epoch' + \1 * interval '1 microsecond'"},
	{"span", "\1 * interval '1 microsecond'"},
	{"span_ms", "\1 * interval '1 millisecond'"},
	{"iso", "to_char(\1 AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"},
	{"stamp_ago", "statement_timestamp() - \1::float8 * interval '1 microsecond'"},
	{"stamp_us", EPOCH_US("\1")},
	{"stamp_age_us", EPOCH_US("statement_timestamp() - \1")},
	{"stamp_instant", "\1"},
	{"stamp_day", "(\1 AT TIME ZONE 'UTC')::date"},
	{"stamp_minute", "date_trunc('minute', \1)"},
	{"stamp_seconds", "floor(extract(epoch FROM \1 - \2))::bigint"},
	{"day_text", "to_char(\1, 'YYYY-MM-DD')"},
	{"stamp_point", "\1"},
	{"iso_point", "(\1)::timestamptz"},
	{"elapsed_s", "CASE WHEN \1 > \2 THEN 0 ELSE round(extract(epoch FROM \2 - \1)::numeric, 3) "
                  "END"},
	{"server_up_less", "clock_timestamp() < pg_postmaster_start_time() + (\1) * interval '1 ms'"},
	{"member", "\1->>'\2'"},
	{"not_true", "\1->'\2' IS DISTINCT FROM 'true'::jsonb"},
	{"list_json", "to_jsonb(\1)"},
	{"bytes", "\1 COLLATE \"C\""},
	{"percentile", "percentile_disc(0.\1) WITHIN GROUP (ORDER BY \2)"},
	{"between_bytes", "\1 ~>=~ \2 AND \1 ~<~ \3"},
	{"differs", "\1 IS DISTINCT FROM \2"},
	{"among", "= ANY (\1::bigint[])"},
	{"among_text", "= ANY ((\1::bigint[])::text[])"},
	{"in_query", "= ANY (ARRAY(\1))"},
	{"skip_locked", " FOR UPDATE SKIP LOCKED"},
	{"lock_row", " FOR NO KEY UPDATE"},
	{"row", "ctid"},
	{NULL, NULL},
};

static const struct dialect_setting settings[] = {
	{"TimeZone = 'UTC'", true, 0},
	{"DateStyle = 'ISO'", true, 0}, /* not its order, in which the user's own text is read */
	{"IntervalStyle = 'iso_8601'", true, 0},
	{"bytea_output = 'hex'", true, 0},
	{"extra_float_digits = 1", true, 0},
	{"standard_conforming_strings = on", false, 0},
	{"array_nulls = on", false, 0},
	{"transform_null_equals = off", false, 0},
	{"quote_all_identifiers = off", false, 0},
	{"row_security = on", false, 0},
	{"gin_fuzzy_search_limit = 0", false, 0}, /* a search would leave out rows at random */
	{"exit_on_error = off", false, 0},
	/* Our own limits are stricter where it matters; a session that waits for work is idle. */
	{"idle_session_timeout = 0", false, 140000},
	{"transaction_timeout = 0", false, 170000},
	{"jit = off", false, 0}, /* compilation costs more than any statement of ours */
	{NULL, false, 0},
};

/* The server resolves quoted text. */
static void postgres_catalog_name(struct buf *out, const char *table)
{
	sql_table(out, table);
}

static void postgres_undo_column(struct buf *out, const char *column)
{
	buf_add(out, "(jsonb_populate_record(t, defib_s.defib_undo)).");
	sql_ident(out, column);
}

const struct dialect dialect_postgres = {
	.name = "postgres",
	.title = "PostgreSQL",
	.mark = '$',
	.own = "defib.",
	.json_text = "to_json",
	.list = "{}",
	.has_types = true,
	.as_text = "::text",
	.words = {.nests_comments = true, .has_escape_strings = true, .marks = "$"},
	.least = "least",
	.same = " IS NOT DISTINCT FROM ",
	.differs = " IS DISTINCT FROM ",
	.find_text = "strpos",
	.json_object = "jsonb_build_object",
	.row_json = "to_jsonb(t.*)::text",
	.list_json = {"to_jsonb((SELECT ", "))::text"}, /* there a plain literal has a type */
	.json_takes_bytes = true,
	.undo_column = postgres_undo_column,
	.catalog_name = postgres_catalog_name,
	.now_us = EPOCH_US("clock_timestamp()"),
	.has_time_types = true,
	.has_time_zones = true,
	.has_hash = true,
	.has_page_samples = true,
	.returning_is_whole = true,
	.has_row_locks = true,
	.has_session_locks = true,
	.can_notify = true,
	.has_functions = true,
	.has_sequences = true,
	.seals_itself = true,
	.can_attach = true,
	.can_install = true,
	.has_grants = true,
	.shell = {.start = "", .set = "\\set p%d '%s'\n", .variable = ":'p%.*s'"},
	.settings = settings,
	.by_key = "SET LOCAL enable_seqscan = off",
	.ask =
		{
			.own_table = sql_postgres_catalog_own_table,
			.ledger = sql_postgres_catalog_ledger,
			.may_create = "SELECT has_database_privilege(current_database(), 'CREATE')",
			.own_schema = sql_postgres_catalog_own_schema,
			.others_code = sql_postgres_catalog_others_code,
			.tables = sql_postgres_catalog_all_tables,
			.home = sql_postgres_catalog_home,
			.hidden = sql_postgres_catalog_hidden,
			.needed = sql_postgres_catalog_needed,
			.readable = "SELECT n FROM unnest($2::text[]) n WHERE "
						"has_column_privilege(to_regclass($1), n, 'SELECT')",
			.ways = sql_postgres_catalog_ways,
			.row_security = "SELECT row_security_active(to_regclass($1))",
			.writes_barred = sql_postgres_catalog_writes_barred,
			.server_start = "SELECT " EPOCH_US("pg_postmaster_start_time()"),
			.unique_key = sql_postgres_catalog_unique_key,
			.index_online = "SELECT relkind <> 'p' FROM pg_class WHERE oid = to_regclass($1)",
			.outlasts = sql_postgres_catalog_outlasts,
			.ddl_triggers = "SELECT EXISTS (SELECT FROM pg_event_trigger WHERE evtenabled <> 'D')",
			.same_index = sql_postgres_catalog_same_index,
			.rows_of_index = "SELECT c.reltuples::bigint FROM pg_class c WHERE c.relname = $1 AND "
							 "c.relnamespace = 'defib'::regnamespace",
		},
	.catalog =
		{
			.relation = "SELECT c.relkind = 'v', greatest(c.reltuples, 0)::bigint FROM pg_class c "
						"WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
			.columns = sql_postgres_catalog_columns,
			.key = sql_postgres_catalog_key,
			.declared = sql_postgres_catalog_declared,
			.foreign_keys = sql_postgres_catalog_foreign_keys,
			.tables = sql_postgres_catalog_tables,
		},
	.pieces = pieces,
};

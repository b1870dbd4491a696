/* SPDX-License-Identifier: Apache-2.0 */
/* seal_test.c: the chain over the ledger's entries, and what breaks it, on both engines. */
#include "ledger/prune.h"
#include "ledger/seal.h"

#include "ledger/ledger_test.h"
#include "ledger/retention.h"
#include "ledger/schema.h"

static struct seal_report verified(struct place *p, const char *expected)
{
	struct seal_report r;
	struct failure f = {0};
	if (seal_verify(p->store, expected, (struct on_count){0}, &p->arena, &r, &f))
		fail_msg("%s", f.what);
	return r;
}

/* Statements of one, two and three entries; the rest depends on `more`. */
static void fill(struct place *p)
{
	static const struct ledger_entry e[] = {
		{.job = "1", .event = "REQUEUED", .evidence = "{\"n\": 1}"},
		{.job = "zwei\nü",
	     .event = "HELD",
	     .reason = "so, \"it\" was",
	     .epoch = 7,
	     .has_epoch = true},
		{.job = "3", .event = "FAILED", .before = "{\"a\": null}", .after = "{\"a\": 2}"}};
	for (int n = 1; n <= 3; n++)
		append(p, e, n, true);
}

/* What an owner of the tables could do, with the guards disabled. */
static void tamper(struct place *p, const char *postgres, const char *sqlite)
{
	bool pg = p->engine == STORE_POSTGRES;
	run(p, pg ? "ALTER TABLE defib.ledger DISABLE TRIGGER USER"
	          : "DROP TRIGGER IF EXISTS defib_ledger_no_update");
	if (!pg)
		run(p, "DROP TRIGGER IF EXISTS defib_ledger_kept");
	run(p, pg ? postgres : sqlite);
	if (pg)
		run(p, "ALTER TABLE defib.ledger ENABLE TRIGGER USER");
}

static void assert_broken(struct place *p, const char *words)
{
	struct seal_report r = verified(p, NULL);
	if (!r.broken || !strstr(r.broken, words))
		fail_msg("\"%s\" does not say \"%s\"", r.broken ? r.broken : "not broken", words);
}

static void what_nobody_touched_is_whole(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	assert_null(verified(&p, NULL).broken);
	fill(&p);
	struct seal_report r = verified(&p, NULL);
	assert_null(r.broken);
	assert_int_equal(r.entries, 6);
	assert_int_equal(r.seals, 3);
	assert_int_equal(r.first_id, 1);
	assert_int_equal(r.last_id, 6);
	assert_int_equal(strlen(r.seal), 64);
	close_place(&p);
}

static void what_was_rolled_back_leaves_no_gap(enum store_engine engine)
{
	struct ledger_entry e = {.job = "1", .event = "REQUEUED"};
	struct place p;
	open_place(&p, engine);
	append(&p, &e, 1, true);
	append(&p, &e, 1, false);
	append(&p, &e, 1, true);
	assert_null(verified(&p, NULL).broken);
	close_place(&p);
}

static void a_change_is_found(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p);
	tamper(&p, "UPDATE defib.ledger SET actor = 'nobody' WHERE id = 2",
	       "UPDATE defib_ledger SET actor = 'nobody' WHERE id = 2");
	assert_broken(&p, "differ from what was sealed");
	close_place(&p);
}

static void a_gap_is_found(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p);
	tamper(&p, "DELETE FROM defib.ledger WHERE id = 5", "DELETE FROM defib_ledger WHERE id = 5");
	assert_broken(&p, "some were removed or added");
	close_place(&p);
}

static void a_statement_that_is_gone_with_its_seal_is_found(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p);
	tamper(&p, "DELETE FROM defib.ledger WHERE id IN (2, 3)",
	       "DELETE FROM defib_ledger WHERE id IN (2, 3)");
	run(&p, engine == STORE_POSTGRES ? "DELETE FROM defib.ledger_seal WHERE last_id = 3"
	                                 : "DELETE FROM defib_ledger_seal WHERE last_id = 3");
	assert_broken(&p, "between 1 and 6 is missing");
	close_place(&p);
}

static void an_end_that_is_cut_off_is_found(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p);
	char kept[SHA256_HEX];
	snprintf(kept, sizeof kept, "%s", verified(&p, NULL).seal);
	tamper(&p, "DELETE FROM defib.ledger WHERE id > 3", "DELETE FROM defib_ledger WHERE id > 3");
	run(&p, engine == STORE_POSTGRES ? "DELETE FROM defib.ledger_seal WHERE last_id > 3"
	                                 : "DELETE FROM defib_ledger_seal WHERE last_id > 3");
	assert_broken(&p, "the end was cut off");
	/* If the chain is repaired too, only a seal that was kept elsewhere reveals it. */
	run(&p, engine == STORE_POSTGRES
	            ? "UPDATE defib.ledger_seal SET next_id = NULL WHERE last_id = 3"
	            : "UPDATE defib_ledger_seal SET next_id = NULL WHERE last_id = 3");
	assert_null(verified(&p, NULL).broken);
	assert_non_null(verified(&p, kept).broken);
	close_place(&p);
}

static void entries_without_a_seal_are_found(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p);
	tamper(&p,
	       "INSERT INTO defib.ledger (id, batch, watch, job, event, actor) VALUES "
	       "(nextval('defib.ledger_id'), 'b', 'w', 'j', 'HELD', 'a')",
	       "INSERT INTO defib_ledger (batch, watch, job, event, actor) VALUES "
	       "('b', 'w', 'j', 'HELD', 'a')");
	assert_broken(&p, "have no seal");
	close_place(&p);
}

static const struct ledger_context pruner = {"", "prune-1", "cli:test"};

static int64_t prune(struct place *p, int64_t limit)
{
	struct prune_plan plan;
	struct failure f = {0};
	int64_t removed = 0;
	bool over = false;
	if (prune_plan(p->store, 90 * DAY, &p->arena, &plan, &f) ||
	    prune_part(p->store, &plan, &pruner, limit, &removed, &over, &f))
		fail_msg("%s", f.what);
	return removed;
}

static void pruning_keeps_the_chain(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p);
	char kept[SHA256_HEX];
	snprintf(kept, sizeof kept, "%s", verified(&p, NULL).seal);
	make_older(&p, 100, "id <= 5");
	/* One entry of the last statement is new: the whole statement stays. */
	assert_int_equal(prune(&p, 2), 1);
	assert_int_equal(prune(&p, 2), 2);
	assert_int_equal(prune(&p, 2), 0);
	assert_string_equal(cell(&p, "SELECT count(*) FROM %s WHERE event = 'PRUNED'"), "2");
	/* The test forged the entries' age; apart from that the rest is unchanged. */
	tamper(&p, "UPDATE defib.ledger SET at = at + interval '100 days' WHERE id IN (4, 5)",
	       "UPDATE defib_ledger SET at = strftime('%Y-%m-%dT%H:%M:%fZ', at, '+100 days') WHERE id "
	       "IN (4, 5)");
	assert_null(verified(&p, kept).broken);
	assert_int_equal(verified(&p, NULL).entries, 5);
	close_place(&p);
}

static void a_start_that_went_without_its_entry_is_found(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p);
	run(&p, engine == STORE_POSTGRES ? "DELETE FROM defib.ledger_seal WHERE last_id < 3"
	                                 : "DELETE FROM defib_ledger_seal WHERE last_id < 3");
	run(&p, on_table(&p, "DELETE FROM %s WHERE id <= 3"));
	assert_broken(&p, "without a PRUNED entry");
	/* Nor is it the first anchor, which needs none. */
	run(&p, on_table(&p, "UPDATE %s_seal SET entries = 0, first_id = 0 WHERE last_id = 3"));
	assert_broken(&p, "without a PRUNED entry");
	close_place(&p);
}

static void entries_whose_seals_were_dropped_stay_without(enum store_engine engine)
{
	struct failure f = {0};
	struct place p;
	open_place(&p, engine);
	fill(&p);
	tamper(&p, "DROP TABLE defib.ledger_seal", "DROP TABLE defib_ledger_seal");
	assert_broken(&p, "table of the seals is missing");
	assert_int_equal(schema_install(p.store, SCHEMA_LEDGER, &f), DEFIB_OK);
	assert_broken(&p, "before the start of the chain");
	fill(&p);
	assert_broken(&p, "before the start of the chain");
	close_place(&p);
}

static void what_moves_to_the_next_column_is_found(enum store_engine engine)
{
	static const struct ledger_entry e = {.job = "a", .event = "b\nc", .verdict = "d"};
	static const char *const moves[][2] = {
		{"job = 'a' || chr(10) || 'b', event = 'c'", "job = 'a' || char(10) || 'b', event = 'c'"},
		{"event = 'b', actor = 'c' || chr(10) || actor",
	     "event = 'b', actor = 'c' || char(10) || actor"},
		{"verdict = NULL, rule = 'd'", "verdict = NULL, rule = 'd'"},
		{"evidence = '{}'", "evidence = '{}'"},
		{"at = at + interval '1 microsecond'", "at = '2026-01-01T00:00:00.000Z'"},
	};
	for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
		struct place p;
		open_place(&p, engine);
		append(&p, &e, 1, true);
		assert_null(verified(&p, NULL).broken);
		tamper(&p, arena_printf(&p.arena, "UPDATE defib.ledger SET %s", moves[i][0]),
		       arena_printf(&p.arena, "UPDATE defib_ledger SET %s", moves[i][1]));
		assert_broken(&p, "differ from what was sealed");
		close_place(&p);
	}
}

#define BEHAVIOURS(X)                                                                              \
	X(what_nobody_touched_is_whole)                                                                \
	X(what_was_rolled_back_leaves_no_gap)                                                          \
	X(a_change_is_found)                                                                           \
	X(what_moves_to_the_next_column_is_found)                                                      \
	X(a_gap_is_found)                                                                              \
	X(a_statement_that_is_gone_with_its_seal_is_found)                                             \
	X(an_end_that_is_cut_off_is_found)                                                             \
	X(entries_without_a_seal_are_found)                                                            \
	X(pruning_keeps_the_chain)                                                                     \
	X(a_start_that_went_without_its_entry_is_found)                                                \
	X(entries_whose_seals_were_dropped_stay_without)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {BEHAVIOURS(ROWS_OF)};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}

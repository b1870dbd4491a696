/* SPDX-License-Identifier: Apache-2.0 */
/* top/model_test.c: what is shown, tagged and selected, and the lines of a screen, without one. */

#include "base/test.h"

#include "base/text.h"
#include "cli/top/model.h"
#include "cli/top/read.h"
#include "insight/series.h"

#include <locale.h>

/* A reading of a database with these jobs. */
static struct top_part *part_with(const char *const *jobs, int n)
{
	struct top_part *p = mem_alloc(sizeof *p);
	p->database = "main";
	p->rows[TOP_JOBS] = ARENA_ARRAY(&p->arena, struct top_row, n + 1);
	for (int i = 0; i < n; i++)
		p->rows[TOP_JOBS][p->n[TOP_JOBS]++] = (struct top_row){
			.id = jobs[i], .job = jobs[i], .cells = {{jobs[i], COLOR_NONE}, {"silent", COLOR_RED}}};
	return p;
}

static void model_with(struct top_model *m, const char *const *jobs, int n)
{
	top_model_init(m, 1);
	top_model_put(m, 0, part_with(jobs, n));
}

static const char *const three[] = {"jobs/1", "jobs/2", "jobs/3"};

static void the_cursor_stays_on_its_job_when_others_come_and_go(void **state)
{
	static const char *const later[] = {"jobs/0", "jobs/2", "jobs/9"};
	struct top_model m;
	(void)state;
	model_with(&m, three, 3);
	top_move(&m, 1);
	top_model_put(&m, 0, part_with(later, 3));
	assert_string_equal(top_at(&m, TOP_JOBS)->id, "jobs/2");
	top_model_put(&m, 0, part_with(later, 1));
	assert_string_equal(top_at(&m, TOP_JOBS)->id, "jobs/0");
	top_model_release(&m);
}

static void an_act_is_about_the_tagged_jobs_else_the_one_under_the_cursor(void **state)
{
	const struct top_row *rows[8];
	struct top_model m;
	(void)state;
	model_with(&m, three, 3);
	assert_int_equal(top_targets(&m, rows, 8), 1);
	assert_string_equal(rows[0]->id, "jobs/1");
	top_tag(&m, m.shown[TOP_JOBS][1]);
	top_tag(&m, m.shown[TOP_JOBS][2]);
	assert_int_equal(top_targets(&m, rows, 8), 2);
	assert_string_equal(rows[1]->id, "jobs/3");
	top_model_release(&m);
}

static void a_tag_ends_with_its_job_but_not_with_its_database(void **state)
{
	struct top_model m;
	struct top_part *away = part_with(NULL, 0);
	(void)state;
	model_with(&m, three, 3);
	top_tag(&m, m.shown[TOP_JOBS][0]);
	top_tag(&m, m.shown[TOP_JOBS][2]);
	away->error = "away";
	top_model_put(&m, 0, away);
	assert_int_equal(m.ntags, 2);
	top_model_put(&m, 0, part_with(three, 1));
	assert_int_equal(m.ntags, 1);
	assert_true(top_tagged(&m, m.shown[TOP_JOBS][0]));
	top_model_release(&m);
}

static void what_the_filter_hides_is_not_meant(void **state)
{
	const struct top_row *rows[8];
	struct top_model m;
	(void)state;
	model_with(&m, three, 3);
	top_tag(&m, m.shown[TOP_JOBS][0]);
	top_filter(&m, "BS/3");
	assert_int_equal(m.nshown[TOP_JOBS], 1);
	assert_int_equal(top_targets(&m, rows, 8), 1);
	assert_string_equal(rows[0]->id, "jobs/3");
	top_model_release(&m);
}

static void a_text_fits_its_columns_and_obeys_no_control(void **state)
{
	static const struct {
		const char *text;
		int width;
		bool ascii;
		const char *fitted;
	} cases[] = {
		{"abc", 5, false, "abc  "},
		{"abcdef", 4, false, "abc…"},
		{"abcdef", 4, true, "abc~"},
		{"a\033[31mb", 7, false, "a?[31mb"},
		{"größe", 5, true, "gr??e"},
		{"größe", 5, false, "größe"},
		{"日本語", 4, false, "日… "},
		{"abc", 0, false, ""},
		{"no daemon leads it", 16, false, "no daemon leads…"},
		{"worker 7 was lost in the night", 22, false, "worker 7 was lost in …"},
		{"a\xff"
	     "b",
	     3, false, "a?b"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf out = BUF_INIT;
		top_fit(&out, cases[i].text, cases[i].width, cases[i].ascii);
		assert_string_equal(buf_text(&out), cases[i].fitted);
		assert_int_equal(out_width(buf_text(&out)), cases[i].width);
		buf_release(&out);
	}
}

static void every_line_is_as_wide_as_the_screen_or_narrower(void **state)
{
	static const struct top_size sizes[] = {
		{80, 24, false}, {60, 20, true}, {200, 50, false}, {20, 8, false}, {1, 3, true}};
	struct top_model m;
	(void)state;
	model_with(&m, three, 3);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct arena a = ARENA_INIT;
		struct top_line *lines = ARENA_ARRAY(&a, struct top_line, sizes[i].height);
		top_lines(&m, "staging", "title", &sizes[i], &a, lines);
		for (int k = 0; k < sizes[i].height - 1; k++) {
			int width = 0;
			for (int s = 0; s < lines[k].n; s++)
				width += out_width(lines[k].spans[s].text);
			assert_true(width <= sizes[i].width);
		}
		arena_release(&a);
	}
	top_model_release(&m);
}

/* A watch with a number in every cell. */
static struct top_part *one_watch(void)
{
	struct top_part *p = part_with(NULL, 0);
	p->rows[TOP_WATCHES] = ARENA_ARRAY(&p->arena, struct top_row, 1);
	struct top_row *row = &p->rows[TOP_WATCHES][p->n[TOP_WATCHES]++];
	*row = (struct top_row){.id = "w", .cells = {{"pages", COLOR_NONE}}};
	for (int i = 1; i < WATCH_STATE; i++)
		row->cells[i].text = "12,345";
	row->cells[WATCH_STATE].text = "no leader";
	return p;
}

static void a_narrow_screen_leaves_columns_out_and_cuts_none(void **state)
{
	struct top_model m;
	(void)state;
	top_model_init(&m, 1);
	top_model_put(&m, 0, one_watch());
	for (int width = 44; width <= 160; width++) {
		const struct top_size size = {width, 24, false};
		struct arena a = ARENA_INIT;
		struct top_line *lines = ARENA_ARRAY(&a, struct top_line, size.height);
		int titles = 0;
		top_lines(&m, NULL, "title", &size, &a, lines);
		const char *head = lines[1].spans[0].text;
		assert_null(strstr(head, "…"));
		assert_non_null(strstr(head, "STATUS"));
		for (int i = 0; top_columns[TOP_WATCHES][i].title; i++)
			titles += strstr(head, top_columns[TOP_WATCHES][i].title) != NULL;
		assert_true(titles >= (width < 80 ? 3 : width < 140 ? 7 : 12));
		arena_release(&a);
	}
	top_model_release(&m);
}

static void the_last_hour_is_scaled_to_its_highest_and_has_gaps(void **state)
{
	struct series_point points[60];
	const struct series hour = {.about = &series_ranges[SERIES_HOUR], .points = points};
	AUTO_BUF out = BUF_INIT;
	(void)state;
	for (int i = 0; i < 60; i++)
		points[i] = series_none;
	top_spark(&hour, WATCH_WAITING_HOUR, false, &out);
	assert_string_equal(buf_text(&out), "");
	points[50].waiting = 0;
	points[55].waiting = 4;
	points[59].waiting = 5;
	top_spark(&hour, WATCH_WAITING_HOUR, false, &out);
	assert_string_equal(buf_text(&out), "··········▁█");
	buf_clear(&out);
	top_spark(&hour, WATCH_WAITING_HOUR, true, &out);
	assert_string_equal(buf_text(&out), "          _#");
}

static void events_of_several_databases_are_in_order_of_time(void **state)
{
	const struct top_size size = {80, 30, false};
	struct top_part *a = part_with(NULL, 0), *b = part_with(NULL, 0);
	struct arena arena = ARENA_INIT;
	struct top_line lines[30];
	struct top_model m;
	(void)state;
	a->events[0] = "third", a->event_at[0] = "2026-01-01T00:00:03Z";
	a->events[1] = "first", a->event_at[1] = "2026-01-01T00:00:01Z";
	a->nevents = 2;
	b->events[0] = "second", b->event_at[0] = "2026-01-01T00:00:02Z";
	b->nevents = 1;
	top_model_init(&m, 2);
	top_model_put(&m, 0, a);
	top_model_put(&m, 1, b);
	top_lines(&m, NULL, "title", &size, &arena, lines);
	static const char *const order[] = {"third ", "second ", "first "};
	for (int i = 0; i < 3; i++)
		assert_memory_equal(lines[24 + i].spans[0].text, order[i], strlen(order[i]));
	arena_release(&arena);
	top_model_release(&m);
}

static void a_page_wraps_long_lines_and_begins_where_it_is_told(void **state)
{
	const struct top_size size = {4, 3, false};
	struct top_line lines[3];
	struct arena a = ARENA_INIT;
	(void)state;
	assert_int_equal(top_page_lines("abcdefgh\nij\n", 1, &size, &a, lines), 3);
	assert_string_equal(lines[0].spans[0].text, "efgh");
	assert_string_equal(lines[1].spans[0].text, "ij  ");
	arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_cursor_stays_on_its_job_when_others_come_and_go),
		cmocka_unit_test(an_act_is_about_the_tagged_jobs_else_the_one_under_the_cursor),
		cmocka_unit_test(a_tag_ends_with_its_job_but_not_with_its_database),
		cmocka_unit_test(what_the_filter_hides_is_not_meant),
		cmocka_unit_test(a_text_fits_its_columns_and_obeys_no_control),
		cmocka_unit_test(every_line_is_as_wide_as_the_screen_or_narrower),
		cmocka_unit_test(a_narrow_screen_leaves_columns_out_and_cuts_none),
		cmocka_unit_test(the_last_hour_is_scaled_to_its_highest_and_has_gaps),
		cmocka_unit_test(events_of_several_databases_are_in_order_of_time),
		cmocka_unit_test(a_page_wraps_long_lines_and_begins_where_it_is_told),
	};
	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}

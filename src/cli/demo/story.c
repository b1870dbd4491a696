/* SPDX-License-Identifier: Apache-2.0
 * demo/story.c: how the demonstration is told: what will happen, one line per act that fills as it
 * happens, a bar, and what to try next. --record keeps the same as an asciicast (version 2).
 *
 * On a terminal the acts are drawn anew in place. Elsewhere the list is printed once, and then a
 * line for each act that has ended. A recording is always that of a terminal.
 */
#include "cli/demo/story.h"

#include "cli/demo/acts.h"
#include "cli/demo/crew.h"
#include "cli/demo/demo.h"

#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define BAR_CELLS 24
#define BAR_MS 150
#define LINE_MS 5000
#define ROWS_LEAST (DEMO_ACTS + 8) /* of a terminal on which the acts are drawn in place */
#define CAST_COLUMNS 100
#define CAST_ROWS 30

/* ---- where it goes ---- */

static struct winsize terminal(const struct demo *d)
{
	struct winsize size = {0};
	if (ioctl(fileno(d->out), TIOCGWINSZ, &size) != 0 || !size.ws_col)
		size = (struct winsize){.ws_col = 80, .ws_row = 24};
	return size;
}

defib_err demo_story_open(struct demo *d, const char *record, struct failure *f)
{
	const char *term = getenv("TERM");
	d->out = d->cli->json ? stderr : stdout;
	d->live = (d->cli->json ? d->cli->tty_err : d->cli->tty_out) && !d->cli->quiet && term &&
	          !text_eq(term, "dumb") && terminal(d).ws_row >= ROWS_LEAST;
	d->utf8 = text_eq(nl_langinfo(CODESET), "UTF-8");
	if (!record)
		return DEFIB_OK;
	d->cast = fopen(record, "we");
	if (!d->cast)
		return fail(f, DEFIB_USAGE, "cannot write %s: %s", record, strerror(errno));
	d->cast_ms = clock_boot_ms();
	fprintf(d->cast,
	        "{\"version\": 2, \"width\": %d, \"height\": %d, \"timestamp\": %lld, \"title\": "
	        "\"defib demo\", \"env\": {\"TERM\": \"xterm-256color\"}}\n",
	        CAST_COLUMNS, CAST_ROWS, (long long)time(NULL));
	return DEFIB_OK;
}

void demo_story_close(struct demo *d)
{
	if (d->cast && fclose(d->cast) != 0)
		cli_message("the recording is incomplete", NULL);
	d->cast = NULL;
}

/* The text of our own colours without them. */
static void add_plain(struct buf *out, const char *text)
{
	for (; *text; text++)
		if (*text == '\033' && text[1] == '[')
			text += strcspn(text, "m");
		else
			buf_addch(out, *text);
}

static void to_terminal(struct demo *d, const char *text)
{
	AUTO_BUF plain = BUF_INIT;
	bool colored = d->cli->json ? d->cli->color_err : d->cli->color_out;
	if (!colored)
		add_plain(&plain, text);
	fputs(colored ? text : buf_text(&plain), d->out);
	(void)fflush(d->out);
}

/* A terminal needs a carriage return with each new line. */
static void to_cast(struct demo *d, const char *text)
{
	AUTO_BUF raw = BUF_INIT, json = BUF_INIT;
	for (; *text; text++) {
		if (*text == '\n')
			buf_addch(&raw, '\r');
		buf_addch(&raw, *text);
	}
	buf_add_json(&json, buf_text(&raw));
	fprintf(d->cast, "[%.3f, \"o\", %s]\n", (double)(clock_boot_ms() - d->cast_ms) / 1000.0,
	        buf_text(&json));
}

/* Back over the lines that were drawn. */
static void add_erase(struct buf *out, int lines)
{
	if (lines)
		buf_addf(out, "\033[%dA\r\033[J", lines);
}

static void erase(struct demo *d)
{
	AUTO_BUF codes = BUF_INIT;
	add_erase(&codes, d->drawn);
	fputs(buf_text(&codes), d->out);
	buf_clear(&codes);
	add_erase(&codes, d->cast_drawn);
	if (d->cast && d->cast_drawn)
		to_cast(d, buf_text(&codes));
	d->drawn = d->cast_drawn = 0;
	if (d->live)
		d->shown_ms = 0;
}

void demo_write(struct demo *d, const char *text)
{
	erase(d);
	to_terminal(d, text);
	if (d->cast)
		to_cast(d, text);
}

static void demo_story_print_line(struct demo *d, enum color color, const char *fmt, va_list args)
{
	AUTO_BUF line = BUF_INIT;
	char text[1024];
	if (d->cli->quiet)
		return;
	vsnprintf(text, sizeof text, fmt, args);
	if (d->begun_ms)
		buf_addf(&line, "%6.2f s  ", (double)(clock_boot_ms() - d->begun_ms) / 1000.0);
	out_color(&line, true, color, text);
	buf_add(&line, "\n");
	demo_write(d, buf_text(&line));
}

void demo_print(struct demo *d, enum color color, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	demo_story_print_line(d, color, fmt, args);
	va_end(args);
}

void demo_event(struct demo *d, enum color color, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	if (d->cli->verbose)
		demo_story_print_line(d, color, fmt, args);
	va_end(args);
}

/* ---- the acts ---- */

#define TITLE_CELLS 32
#define WHO_CELLS 9
#define RECOVERED_CELLS 18

/* Text with its colours, cut to a display width. */
static void add_cut(struct buf *out, const char *text, int cells)
{
	while (*text) {
		size_t n = utf8_len(text);
		if (*text == '\033')
			n = strcspn(text, "m") + 1;
		else if (cells-- <= 0)
			break;
		buf_addn(out, text, n ? n : 1);
		text += n ? n : 1;
	}
	buf_add(out, *text ? "\033[0m\n" : "\n");
}

static void demo_story_add_cell(struct buf *out, enum color color, const char *text, int cells)
{
	AUTO_BUF padded = BUF_INIT;
	out_padded(&padded, text, cells);
	out_color(out, true, color, buf_text(&padded));
	buf_add(out, cells ? " " : "");
}

static void demo_story_add_header(struct buf *out)
{
	AUTO_BUF line = BUF_INIT;
	buf_addf(&line, "     %-*s %-*s %-*s %s", TITLE_CELLS, "fault", WHO_CELLS, "hit",
	         RECOVERED_CELLS, "recovered", "and");
	out_color(out, true, COLOR_DIM, buf_text(&line));
}

static void demo_story_add_act(const struct demo *d, int act, bool utf8, struct buf *out)
{
	AUTO_BUF recovered = BUF_INIT, more = BUF_INIT;
	const struct demo_act *a = &d->acts[act];
	bool open = a->begun_ms && !a->over;
	const char *mark = a->over ? (utf8 ? "✔" : "+") : open ? (utf8 ? "▸" : ">") : " ";
	demo_act_outcome(d, act, &recovered, &more);
	out_color(out, true, open ? COLOR_RED : COLOR_GREEN, mark);
	buf_addf(out, " %d  ", act + 1);
	demo_story_add_cell(out,
	                    open      ? COLOR_BOLD
	                    : a->over ? COLOR_NONE
	                              : COLOR_DIM,
	                    demo_act_title(d, act), TITLE_CELLS);
	demo_story_add_cell(out, COLOR_RED, a->who, WHO_CELLS);
	demo_story_add_cell(out, COLOR_GREEN, buf_text(&recovered), more.len ? RECOVERED_CELLS : 0);
	out_color(out, true, COLOR_GREEN, buf_text(&more));
}

static void demo_story_add_bar(const struct demo *d, bool utf8, struct buf *out)
{
	int64_t total = d->nids + d->npages;
	int full = total ? (int)((d->finished + d->pages_done) * BAR_CELLS / total) : 0;
	buf_add(out, utf8 ? "" : "[");
	for (int i = 0; i < BAR_CELLS; i++)
		buf_add(out, i < full ? (utf8 ? "█" : "#") : (utf8 ? "░" : "."));
	buf_add(out, utf8 ? "" : "]");
}

static void demo_story_add_numbers(const struct demo *d, struct buf *out)
{
	buf_add_count(out, d->finished);
	buf_add(out, "/");
	buf_add_count(out, d->nids);
	buf_addf(out, " jobs, %lld/%d pages, %d/%d workers, %lld recovered", (long long)d->pages_done,
	         d->npages, demo_alive(d, DEMO_WORKER), DEMO_WORKERS, (long long)d->recovered);
}

/* Returns the number of lines. */
static int add_picture(const struct demo *d, bool utf8, bool bar, int columns, struct buf *out)
{
	AUTO_BUF line = BUF_INIT;
	demo_story_add_header(&line);
	add_cut(out, buf_text(&line), columns - 1);
	for (int i = 0; i < DEMO_ACTS; i++) {
		buf_clear(&line);
		demo_story_add_act(d, i, utf8, &line);
		add_cut(out, buf_text(&line), columns - 1);
	}
	if (!bar)
		return DEMO_ACTS + 1;
	buf_clear(&line);
	buf_add(&line, "  ");
	demo_story_add_bar(d, utf8, &line);
	buf_add(&line, " ");
	demo_story_add_numbers(d, &line);
	buf_add(out, "\n");
	add_cut(out, buf_text(&line), columns - 1);
	return DEMO_ACTS + 3;
}

static void demo_story_draw(struct demo *d, bool bar)
{
	AUTO_BUF picture = BUF_INIT;
	erase(d);
	if (d->live) {
		d->drawn = add_picture(d, d->utf8, bar, bar ? terminal(d).ws_col : INT_MAX, &picture);
		to_terminal(d, buf_text(&picture));
	}
	if (d->cast) {
		buf_clear(&picture);
		d->cast_drawn = add_picture(d, true, bar, bar ? CAST_COLUMNS : INT_MAX, &picture);
		to_cast(d, buf_text(&picture));
	}
}

void demo_show_progress(struct demo *d, int64_t now)
{
	AUTO_BUF numbers = BUF_INIT;
	if (d->cli->quiet || now - d->shown_ms < (d->live || d->cast ? BAR_MS : LINE_MS))
		return;
	if (d->live || d->cast) {
		demo_story_draw(d, true);
	} else {
		demo_story_add_numbers(d, &numbers);
		fprintf(d->out, "%6.2f s  %s\n", (double)(now - d->begun_ms) / 1000.0, buf_text(&numbers));
		(void)fflush(d->out);
	}
	d->shown_ms = now;
}

void demo_act_over(struct demo *d, int act)
{
	AUTO_BUF line = BUF_INIT;
	if (d->live || d->cli->quiet)
		return; /* it is in the picture */
	buf_addf(&line, "%6.2f s  ", (double)(clock_boot_ms() - d->begun_ms) / 1000.0);
	demo_story_add_act(d, act, d->utf8, &line);
	buf_add(&line, "\n");
	to_terminal(d, buf_text(&line));
}

void demo_end_progress(struct demo *d)
{
	if (!d->cli->quiet && d->begun_ms)
		demo_story_draw(d, false);
	d->drawn = d->cast_drawn = 0;
}

/* ---- opening and end ---- */

void demo_tell_opening(struct demo *d)
{
	AUTO_BUF text = BUF_INIT;
	if (d->cli->quiet)
		return;
	out_color(&text, true, COLOR_BOLD, "defib demo");
	buf_addf(&text,
	         ": real workers run real jobs, and %d faults hit them within about %lld seconds.\n"
	         "At the end, the files that the jobs left are compared with the database:\n"
	         "was a job lost, is one stuck, was one settled twice?\n\n",
	         DEMO_ACTS, (long long)d->seconds);
	demo_write(d, buf_text(&text));
	if (d->live)
		return;
	buf_clear(&text);
	for (int i = 0; i < DEMO_ACTS; i++)
		buf_addf(&text, "  %d  %s\n", i + 1, demo_act_title(d, i));
	buf_add(&text, "\n");
	to_terminal(d, buf_text(&text));
}

void demo_tell_place(struct demo *d, const char *address)
{
	AUTO_BUF text = BUF_INIT;
	if (d->cli->quiet)
		return;
	buf_addf(&text, "%d workers, ", DEMO_WORKERS);
	buf_add_count(&text, d->nids);
	buf_addf(&text,
	         " jobs, and %d pages in a table whose workers know nothing of defib.\n"
	         "page: ",
	         d->npages);
	AUTO_BUF url = BUF_INIT;
	buf_addf(&url, "%s/", address);
	out_color(&text, true, COLOR_BOLD, buf_text(&url));
	buf_addf(&text, "   files: %s\n\n", d->folder);
	demo_write(d, buf_text(&text));
}

/* How a person calls this program from here. */
static void program_name(const struct demo *d, char *out, size_t size)
{
	char here[PATH_MAX], found[PATH_MAX], *rest = NULL;
	AUTO_BUF paths = BUF_INIT;
	const char *path = getenv("PATH");
	buf_add(&paths, path ? path : "");
	for (char *p = strtok_r(paths.data, ":", &rest); p; p = strtok_r(NULL, ":", &rest)) {
		AUTO_BUF file = BUF_INIT;
		buf_addf(&file, "%s/defib", p);
		if (realpath(buf_text(&file), found) && text_eq(found, d->program)) {
			snprintf(out, size, "defib");
			return;
		}
	}
	const char *program = d->program;
	if (getcwd(here, sizeof here) && text_starts(program, here) && program[strlen(here)] == '/')
		program += strlen(here) + 1;
	snprintf(out, size, "%s", program);
}

void demo_tell_next(struct demo *d)
{
	static const struct {
		const char *arguments, *does;
	} next[] = {
		{"demo --keep", "the same again, and the page stays"},
		{"init --detect --db URL", "finds the tables of yours that look like a queue; only reads"},
		{"help", "the commands to begin with"},
	};
	char program[PATH_MAX];
	AUTO_BUF text = BUF_INIT;
	if (d->cli->quiet)
		return;
	program_name(d, program, sizeof program);
	buf_add(&text, "\nNext:\n");
	for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
		AUTO_BUF command = BUF_INIT;
		buf_addf(&command, "%s %s", program, next[i].arguments);
		buf_add(&text, "  ");
		demo_story_add_cell(&text, COLOR_BOLD, buf_text(&command), (int)strlen(program) + 24);
		buf_addf(&text, "%s\n", next[i].does);
	}
	demo_write(d, buf_text(&text));
}

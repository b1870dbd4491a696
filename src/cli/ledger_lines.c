/* ledger_lines.c: see ledger_lines.h. */
#include "cli/ledger_lines.h"

#include "base/text.h"
#include "view/json_ledger.h"

/* Beyond this a column's text runs over, so that one long reason does not push all others out. */
#define WIDTH_MAX 60

static void json_line(const struct ledger_lines *l, const struct ledger_line *line)
{
	const struct watch *w = settings_watch(&l->cli->settings, line->row->watch);
	struct buf out = BUF_INIT;
	entry_json(w, line->database->name, line->row, &out);
	out_json(buf_text(&out));
	buf_release(&out);
}

/* "silent: no sign of life for 2h", or the half that is there. */
static void add_why(struct buf *out, const struct watch *w, const struct ledger_row *r)
{
	if (r->verdict)
		buf_add(out, r->verdict);
	if (r->verdict && r->reason)
		buf_add(out, ": ");
	entry_reason(w, r, out);
}

static const char *or_dash(const char *text)
{
	return text && *text ? text : "-";
}

/* The columns that are padded; the batch ends the line. */
static void cells_of(const struct ledger_lines *l, const struct ledger_line *line, struct buf *why,
                     const char *cells[LEDGER_COLUMNS])
{
	const struct ledger_row *r = line->row;
	bool several = l->cli->settings.ndatabases > 1;
	buf_clear(why);
	add_why(why, settings_watch(&l->cli->settings, r->watch), r);
	const char *const all[LEDGER_COLUMNS] = {r->at,
	                                         several ? line->database->name : NULL,
	                                         or_dash(r->watch),
	                                         or_dash(r->job),
	                                         r->event,
	                                         or_dash(buf_text(why)),
	                                         or_dash(r->actor)};
	memcpy(cells, all, sizeof all);
}

void ledger_lines_print(struct ledger_lines *l, const struct ledger_line *lines, int n)
{
	const char *cells[LEDGER_COLUMNS];
	struct buf why = BUF_INIT, out = BUF_INIT;
	for (int i = 0; i < n && !l->cli->json; i++) {
		cells_of(l, &lines[i], &why, cells);
		for (int k = 0; k < LEDGER_COLUMNS; k++) {
			int width = cells[k] ? out_width(cells[k]) : 0;
			if (width > l->widths[k] && width <= WIDTH_MAX)
				l->widths[k] = width;
		}
	}
	for (int i = 0; i < n; i++) {
		if (l->cli->json) {
			json_line(l, &lines[i]);
			continue;
		}
		cells_of(l, &lines[i], &why, cells);
		buf_clear(&out);
		for (int k = 0; k < LEDGER_COLUMNS; k++) {
			if (!cells[k])
				continue;
			out_padded(&out, cells[k], l->widths[k]);
			buf_add(&out, "  ");
		}
		out_padded(&out, or_dash(lines[i].row->batch), 0);
		puts(buf_text(&out));
	}
	buf_release(&why);
	buf_release(&out);
}

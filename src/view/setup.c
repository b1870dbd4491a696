/* SPDX-License-Identifier: Apache-2.0 */
/* setup.c: see setup.h. */
#include "view/setup.h"

#include "view/output.h"

static const struct {
	const char *name;
	enum color color;
} levels[FINDING_LEVELS] = {
	[FINDING_OK] = {"ok", COLOR_GREEN},
	[FINDING_WARN] = {"warn", COLOR_YELLOW},
	[FINDING_FAIL] = {"FAIL", COLOR_RED},
};

void finding_json(const struct finding *f, struct buf *out)
{
	buf_addf(out, "{\"level\":\"%s\"", levels[f->level].name);
	json_text(out, "check", f->check);
	json_text(out, "database", f->database);
	json_text(out, "watch", f->watch);
	json_text(out, "text", f->text);
	json_text(out, "fix", f->fix);
	buf_add(out, "}");
}

void finding_text(const struct finding *f, bool color, struct buf *out)
{
	struct buf level = BUF_INIT;
	out_padded(&level, levels[f->level].name, 6);
	out_color(out, color, levels[f->level].color, buf_text(&level));
	out_padded(out, f->text, 0);
	if (f->fix) {
		buf_add(out, "\n      fix: ");
		out_padded(out, f->fix, 0);
	}
	buf_add(out, "\n");
	buf_release(&level);
}

void config_json(const struct cfg_shown *shown, int n, struct buf *out)
{
	buf_add(out, "[");
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? ",\n  {\"path\":" : "\n  {\"path\":");
		buf_add_json(out, shown[i].path);
		json_text(out, "value", shown[i].value);
		json_text(out, "origin", shown[i].origin);
		buf_add(out, "}");
	}
	buf_add(out, n ? "\n]" : "]");
}

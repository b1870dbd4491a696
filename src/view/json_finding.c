/* json_finding.c: see json_finding.h. */
#include "view/json_finding.h"

#include "view/json.h"

void finding_json(const struct finding *f, struct buf *out)
{
	static const char *const levels[FINDING_LEVELS] = {
		[FINDING_OK] = "ok", [FINDING_WARN] = "warn", [FINDING_FAIL] = "FAIL"};
	buf_addf(out, "{\"level\":\"%s\"", levels[f->level]);
	json_text(out, "check", f->check);
	json_text(out, "database", f->database);
	json_text(out, "watch", f->watch);
	json_text(out, "text", f->text);
	json_text(out, "fix", f->fix);
	buf_add(out, "}");
}

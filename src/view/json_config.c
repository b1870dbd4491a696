/* json_config.c: see json_config.h. */
#include "view/json_config.h"

#include "view/json.h"

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

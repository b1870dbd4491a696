/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: see json.h. */
#include "view/json.h"

#include "base/clock.h"

void json_text(struct buf *out, const char *name, const char *value)
{
	buf_addf(out, ",\"%s\":", name);
	if (value)
		buf_add_json(out, value);
	else
		buf_add(out, "null");
}

void json_number(struct buf *out, const char *name, bool has, int64_t value)
{
	if (has)
		buf_addf(out, ",\"%s\":%lld", name, (long long)value);
	else
		buf_addf(out, ",\"%s\":null", name);
}

void json_seconds(struct buf *out, const char *name, bool has, int64_t us)
{
	if (has)
		buf_addf(out, ",\"%s\":%.3f", name, (double)us / 1e6);
	else
		buf_addf(out, ",\"%s\":null", name);
}

void json_bool(struct buf *out, const char *name, bool value)
{
	buf_addf(out, ",\"%s\":%s", name, value ? "true" : "false");
}

void json_time(struct buf *out, const char *name, bool has, int64_t us)
{
	struct buf iso = BUF_INIT;
	if (has)
		time_iso(us, &iso);
	json_text(out, name, has ? buf_text(&iso) : NULL);
	buf_release(&iso);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* series.c: see series.h. */
#include "view/series.h"

#include "base/clock.h"
#include "view/output.h"

/* Whether anybody looked during a step, or something was recorded for it. */
static bool is_known(const struct series_point *p)
{
	return p->waiting != SERIES_UNKNOWN || p->running != SERIES_UNKNOWN ||
	       p->done != SERIES_UNKNOWN || series_recovered(p) > 0 || series_detection(p, 1) >= 0;
}

static void add_value(struct buf *out, bool first, bool known, double value)
{
	buf_add(out, first ? "" : ",");
	if (known)
		buf_addf(out, "%.10g", value);
	else
		buf_add(out, "null");
}

/* The value of a point in one list of the document; below 0: none. */
typedef double value_of(const struct series_point *p, int which);

static void add_list(struct buf *out, const char *name, const struct series *s, value_of *value,
                     int which)
{
	buf_addf(out, "\"%s\":[", name);
	for (int i = 0; i < s->about->steps; i++) {
		double v = value(&s->points[i], which);
		add_value(out, i == 0, v >= 0, v);
	}
	buf_add(out, "]");
}

static double waiting_of(const struct series_point *p, int which)
{
	(void)which;
	return (double)p->waiting;
}

static double oldest_of(const struct series_point *p, int which)
{
	(void)which;
	return p->oldest_ms == SERIES_UNKNOWN ? SERIES_UNKNOWN : (double)p->oldest_ms / 1e3;
}

static double running_of(const struct series_point *p, int which)
{
	(void)which;
	return (double)p->running;
}

static double done_of(const struct series_point *p, int which)
{
	(void)which;
	return (double)p->done;
}

static double failed_of(const struct series_point *p, int which)
{
	(void)which;
	return (double)p->failed;
}

static double recovered_of(const struct series_point *p, int verdict)
{
	return is_known(p) ? (double)p->recovered[verdict] : SERIES_UNKNOWN;
}

static double detection_of(const struct series_point *p, int percent)
{
	return series_detection(p, percent / 100.0);
}

static const struct {
	const char *name;
	value_of *value;
	int which;
} lists[] = {
	{"waiting", waiting_of, 0},
	{"oldest_s", oldest_of, 0},
	{"running", running_of, 0},
	{"done", done_of, 0},
	{"failed", failed_of, 0},
	{"detection_p50_s", detection_of, 50},
	{"detection_p95_s", detection_of, 95},
};
#define NLISTS (int)(sizeof lists / sizeof *lists)

/* Of the whole range: counts, and how long detection took in all of it. */
static void add_totals(const struct series *s, struct buf *out)
{
	struct series_point all = series_none;
	for (int i = 0; i < s->about->steps; i++)
		series_add(&all, &s->points[i]);
	json_number(out, "done", all.done != SERIES_UNKNOWN, all.done);
	json_number(out, "failed", all.failed != SERIES_UNKNOWN, all.failed);
	json_number(out, "recovered", true, series_recovered(&all));
	for (int percent = 50; percent <= 95; percent += 45) {
		double v = series_detection(&all, percent / 100.0);
		buf_addf(out, ",\"detection_p%d_s\":", percent);
		add_value(out, true, v >= 0, v);
	}
}

void series_view(const char *database, const char *watch, const struct series *s, struct buf *out)
{
	int64_t to_s = s->from_s + s->about->steps * s->about->step_s;
	buf_add(out, "{\"database\":");
	buf_add_json(out, database);
	json_text(out, "watch", watch);
	json_text(out, "since", s->about->name);
	json_time(out, "from", true, s->from_s * US_PER_S);
	json_time(out, "to", true, to_s * US_PER_S);
	buf_addf(out, ",\"step_s\":%lld", (long long)s->about->step_s);
	for (int i = 0; i < NLISTS; i++) {
		buf_add(out, ",\n");
		add_list(out, lists[i].name, s, lists[i].value, lists[i].which);
	}
	buf_add(out, ",\n\"recovered\":{");
	for (int v = VERDICT_NONE + 1; v < VERDICT_COUNT; v++) {
		buf_add(out, v > VERDICT_NONE + 1 ? ",\n" : "");
		add_list(out, verdict_names[v], s, recovered_of, v);
	}
	buf_add(out, "},\n\"totals\":{\"step_s\":");
	buf_addf(out, "%lld", (long long)(to_s - s->from_s));
	add_totals(s, out);
	buf_add(out, "}}\n");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "view/status.h"

#include "base/clock.h"
#include "recover/census.h"
#include "recover/mistakes.h"
#include "view/job.h"
#include "view/scan.h"

#include <assert.h>

static const struct {
	enum color color;
	const char *words;
} kinds[] = {
	[WATCH_STATUS_NO_LEADER] = {COLOR_RED, "no daemon leads this watch"},
	[WATCH_STATUS_SILENT] = {COLOR_RED, "its leader has finished no scan for too long"},
	[WATCH_STATUS_FAILED] = {COLOR_RED, "the last scan failed"},
	[WATCH_STATUS_HELD] = {COLOR_YELLOW, "a guard holds stuck jobs back"},
	[WATCH_STATUS_ALERTING] = {COLOR_RED, "alerts are firing"},
	[WATCH_STATUS_STUCK] = {COLOR_RED, "jobs are stuck, or not started, and nothing recovers them"},
	[WATCH_STATUS_DOUBT] = {COLOR_YELLOW,
                            "in doubt: the daemon was away, so silence proves nothing yet"},
	[WATCH_STATUS_PAUSED] = {COLOR_YELLOW, "paused; nothing is stuck"},
	[WATCH_STATUS_WELL] = {COLOR_GREEN, "well"},
};

static int64_t status_number(const json_t *info, const char *name)
{
	return json_integer_value(json_object_get(info, name));
}

static const char *status_text_of(const struct watch_status *st, const char *name)
{
	return json_string_value(json_object_get(st->led.info, name));
}

static bool is_true(const struct watch_status *st, const char *name)
{
	return json_is_true(json_object_get(st->led.info, name));
}

/* "12:05:00Z" of an ISO time, without the day. */
static void add_clock(struct buf *out, const char *iso)
{
	if (iso && strlen(iso) >= 19)
		buf_addf(out, "%.8sZ", iso + 11);
}

/* ---- one line each; nothing if there is nothing to report ---- */

static bool leader_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	if (st->led.leads) {
		buf_addf(text, "%s, for ", st->led.leader->holder);
		duration_text(st->led.leader->led_us, text);
		return text->len > 0;
	}
	if (st->led.leader)
		buf_addf(text, "none; the last was %s: find out there why it ended. ",
		         st->led.leader->holder);
	else if (st->led.status)
		buf_addf(text, "none; the last was %s. ", st->led.status->holder);
	else
		buf_add(text, "none so far. ");
	buf_add(text, "Start one: defib daemon");
	return text->len > 0;
}

static bool scan_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	int64_t every = status_number(st->led.info, "every_s");
	if (st->led.scanned)
		when_text(-st->led.ago_us, 0, text);
	else
		buf_add(text, "none has finished yet");
	if (every) {
		buf_add(text, ", every ");
		duration_text(every * US_PER_S, text);
	}
	if (status_number(st->led.info, "failed_passes"))
		buf_addf(text, "; %lld of %lld failed",
		         (long long)status_number(st->led.info, "failed_passes"),
		         (long long)status_number(st->led.info, "passes"));
	return text->len > 0;
}

static bool attached_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	const struct attachment *at = st->attached;
	if (!at)
		return text->len > 0;
	if (at->disabled)
		buf_addf(text, "its trigger is disabled, so claims are not recorded: defib db attach %s; ",
		         st->watch);
	buf_add_count(text, at->programs);
	buf_addf(text, " program%s under defib run now", at->programs == 1 ? "" : "s");
	return text->len > 0;
}

static bool failure_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	const char *failure = status_text_of(st, "failure");
	buf_add(text, failure ? failure : "");
	return text->len > 0;
}

static bool jobs_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	if (!st->led.info)
		return text->len > 0;
	if (!st->led.scanned) {
		buf_add(text, "not known: no scan has finished");
		return text->len > 0;
	}
	buf_add_count(text, status_number(st->led.info, "running"));
	buf_add(text, status_number(st->led.info, "running") >= ROWS_COUNT_MAX ? " or more running, "
	                                                                       : " running, ");
	buf_add_count(text, json_object_get(st->led.info, "stuck")
	                        ? status_number(st->led.info, "stuck")
	                        : status_number(st->led.info, "found"));
	buf_add(text, " of them stuck at the last scan");
	if (json_is_true(json_object_get(st->led.info, "never_seen_running"))) {
		buf_add(text, ", and ");
		unseen_hint(json_is_true(json_object_get(st->led.info, "row_security")), text);
	}
	if (status_number(st->led.info, "left_stuck")) {
		buf_add(text, ", ");
		buf_add_count(text, status_number(st->led.info, "left_stuck"));
		buf_add(text, " not changed");
	}
	return text->len > 0;
}

static bool late_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	const char *says = status_text_of(st, "late_says");
	(void)v;
	buf_add(text, says ? says : "");
	return text->len > 0;
}

static bool alerts_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	if (!st->firing)
		return text->len > 0;
	buf_add_count(text, st->firing);
	buf_addf(text, " fire%s: %s%s", st->firing == 1 ? "s" : "", st->alert,
	         st->firing > 1 ? "; all of them: defib alert list" : "");
	return text->len > 0;
}

static bool on_hold_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	int64_t n = status_number(st->led.info, "on_hold");
	if (!n)
		return text->len > 0;
	buf_add_count(text, n);
	buf_addf(text, " waiting for an operator at the last scan: defib list --watch %s --where held",
	         st->watch);
	return text->len > 0;
}

static bool excused_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	int64_t n = status_number(st->led.info, "excused");
	if (!n)
		return text->len > 0;
	buf_add_count(text, n);
	buf_addf(text, " at the last scan: defib list --watch %s --where excused", st->watch);
	return text->len > 0;
}

static bool guard_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	const char *guard = status_text_of(st, "guard");
	json_t *guarded = json_object_get(st->led.info, "guarded");
	if (guard && json_integer_value(json_object_get(guarded, "total")))
		buf_add(text, guard);
	return text->len > 0;
}

static bool doubt_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	const char *cause = status_text_of(st, "doubt_cause");
	if (!is_true(st, "doubting"))
		return text->len > 0;
	buf_addf(text, "the daemon itself was away (%s): silence since then proves nothing until ",
	         cause ? cause : "unknown");
	add_clock(text, status_text_of(st, "doubt_until"));
	return text->len > 0;
}

static bool brake_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	const char *ended = status_text_of(st, "brake_ended");
	int64_t brakes = status_number(st->led.info, "brakes");
	if (is_true(st, "braking")) {
		buf_add(text, "is on, until ");
		add_clock(text, status_text_of(st, "brake_until"));
		buf_add(text, " at the latest");
	} else if (brakes) {
		buf_add(text, "is off");
	}
	if (brakes)
		buf_addf(text, "; held %lld time%s so far", (long long)brakes, brakes == 1 ? "" : "s");
	if (brakes && ended)
		buf_addf(text, ", last released by: %s", ended);
	return text->len > 0;
}

static bool suspects_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	int64_t suspects = status_number(st->led.info, "suspects"),
			near = status_number(st->led.info, "near_misses_total");
	if (suspects)
		buf_addf(text, "%lld seen silent", (long long)suspects);
	if (near)
		buf_addf(text, "%s%lld near miss%s: silent once, then heard again", suspects ? "; " : "",
		         (long long)near, near == 1 ? "" : "es");
	return text->len > 0;
}

static bool status_waiting_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	int64_t waiting = status_number(st->led.info, "waiting"),
			eta = status_number(st->led.info, "eta_s");
	if (!waiting)
		return text->len > 0;
	buf_add_count(text, waiting);
	if (!eta)
		return text->len > 0;
	buf_addf(text, ", at %.3g per second, the last in about ",
	         json_number_value(json_object_get(st->led.info, "rate")));
	duration_text(eta * US_PER_S, text);
	return text->len > 0;
}

static bool false_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	json_t *all = json_object_get(st->led.info, "false_positives");
	if (!all)
		return text->len > 0;
	buf_add(text, "false positives: ");
	mistakes_text(json_integer_value(json_object_get(all, "day")),
	              json_integer_value(json_object_get(all, "day_recovered")), text);
	buf_add(text, " in 24h");
	return text->len > 0;
}

static bool total_line(const void *row, const struct viewer *v, struct buf *text)
{
	const struct watch_status *st = row;
	(void)v;
	if (!st->led.info)
		return text->len > 0;
	buf_add_count(text, status_number(st->led.info, "recovered_total"));
	buf_add(text, " recovered, ");
	buf_add_count(text, status_number(st->led.info, "held_total"));
	buf_add(text, " held, ");
	buf_add_count(text, status_number(st->led.info, "retried_total"));
	buf_add(text, " retried since that daemon started");
	return text->len > 0;
}

/* Overrides, and the watch's own hours, which the leader only stores as a factor. */
static void override_lines(const struct watch_status *st, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	double factor = json_number_value(json_object_get(st->led.info, "factor")), said = 1;
	for (int i = 0; i < st->noverrides; i++) {
		const struct override *t = st->overrides[i];
		bool raise = text_eq(t->name, "raise");
		buf_clear(&text);
		if (raise)
			buf_addf(&text, "thresholds multiplied by %s, ", t->value);
		else if (text_eq(t->name, OVERRIDE_GUARDS))
			buf_add(&text, "the next scan ignores the guards, ");
		override_text(t, &text);
		out_line(out,
		         raise                       ? "raised"
		         : text_eq(t->name, "pause") ? "paused"
		                                     : "override",
		         12, buf_text(&text));
		if (raise && strtod(t->value, NULL) > said)
			said = strtod(t->value, NULL);
	}
	buf_clear(&text);
	buf_addf(&text, "thresholds multiplied by %g at the last scan, by the watch's own hours",
	         factor);
	if (factor > said && st->is != WATCH_STATUS_NO_LEADER)
		out_line(out, "raised", 12, buf_text(&text));
}

/* ---- its fields ---- */

static const struct field leader_fields[] = {
	{"leads", FIELD_BOOL, FIELD_AT(struct leader_row, leads)},
	{"holder", FIELD_AT(struct leader_row, holder), .about = "the name of the daemon"},
	{"since", FIELD_TIME, FIELD_AT(struct leader_row, since_us)},
	{0},
};
static const struct record leader_record = {.fields = leader_fields,
                                            .size = sizeof(struct leader_row)};

static const struct field attached_fields[] = {
	{"disabled", FIELD_BOOL, FIELD_AT(struct attachment, disabled),
     .about = "its trigger is disabled: claims are not recorded"},
	{"programs", FIELD_NUMBER, FIELD_AT(struct attachment, programs),
     .about = "that run under `defib run` now"},
	{0},
};
static const struct record attached_record = {.fields = attached_fields,
                                              .size = sizeof(struct attachment)};

#define AT(member) FIELD_AT(struct override, member)
static const struct field override_fields[] = {
	{"name", AT(name), .schema = "{enum: [pause, raise, override]}"},
	{"watch", AT(watch), .about = "* is all watches of the database"},
	{"value", AT(value), .about = "of raise: the factor"},
	{"actor", AT(actor)},
	{"reason", AT(reason), .null = true},
	{"at", FIELD_TIME, AT(at_us), .zero_null = true},
	{"until", FIELD_TIME, AT(until_us), .zero_null = true, .about = "null: until it is cleared"},
	{0},
};
#undef AT

const struct record override_record = {
	.name = "Override",
	.about = "what an operator told the daemons",
	.fields = override_fields,
	.size = sizeof(struct override),
};

static bool status_trouble(const void *row, int64_t *out)
{
	*out = watch_status_trouble(row);
	return true;
}

static const void *status_leader(const void *row, int i)
{
	(void)i;
	return ((const struct watch_status *)row)->led.leader;
}

static const void *status_attached(const void *row, int i)
{
	(void)i;
	return ((const struct watch_status *)row)->attached;
}

static const void *status_override(const void *row, int i)
{
	const struct watch_status *st = row;
	return i < st->noverrides ? st->overrides[i] : NULL;
}

static const char *status_info(const void *row)
{
	const struct watch_status *st = row;
	return st->led.info ? st->led.status->info : NULL;
}

#define AT(member) FIELD_AT(struct watch_status, member)
static const struct field status_fields[] = {
	{"watch", AT(watch)},
	{"database", AT(database)},
	{"status", FIELD_WORD, AT(is), .names = watch_status_names,
     .about = "the worst of what is known"},
	{"trouble", FIELD_BOOL, .number = status_trouble, .about = "somebody should look at it"},
	{"alerts_firing", FIELD_INT, AT(firing), .about = "of the watch and of its database"},
	{"alert", AT(alert), .null = true, .about = "the text of the first"},
	{"leader", FIELD_RECORD, .part = status_leader, .of = &leader_record,
     .about = "null: there never was one, or it stepped down"},
	{"attached", FIELD_RECORD, .part = status_attached, .of = &attached_record},
	{"last_scan_s", FIELD_SECONDS, AT(led.ago_us), FIELD_HAS(struct watch_status, led.scanned),
     .about = "since the last scan that finished"},
	{"overrides", FIELD_LIST, .part = status_override, .of = &override_record},
	{"info", FIELD_DATA, .text = status_info, .null = true,
     .about = "what its leader stored about it"},
	{"numbers", FIELD_DATA, AT(numbers), .optional = true, .schema = SCHEMA_REF("Stats"),
     .about = "of `defib status`: what its table has now; null: not counted"},
	{.words = leader_line, .label = "leader"},
	{.words = scan_line, .label = "last scan"},
	{.words = attached_line, .label = "attached"},
	{.words = failure_line, .label = "failure"},
	{.words = alerts_line, .label = "alerts"},
	{.words = jobs_line, .label = "jobs"},
	{.words = late_line, .label = "not started"},
	{.words = on_hold_line, .label = "on hold"},
	{.words = excused_line, .label = "excused"},
	{.words = guard_line, .label = "guard"},
	{.words = doubt_line, .label = "doubt"},
	{.words = brake_line, .label = "brake"},
	{.words = suspects_line, .label = "suspects"},
	{.words = status_waiting_line, .label = "waiting"},
	{.words = total_line, .label = "so far"},
	{.words = false_line, .label = "mistakes"},
	{0},
};
#undef AT

const struct record watch_status_record = {
	.name = "WatchStatus",
	.about = "the state of a watch, whichever daemon leads it",
	.fields = status_fields,
	.size = sizeof(struct watch_status),
};

void watch_status_text(const struct watch_status *st, bool color, struct buf *out)
{
	struct viewer v = viewer_local(NULL, st->database);
	out_title(out, color, st->database, st->watch);
	buf_add(out, ": ");
	out_color(out, color, kinds[st->is].color, kinds[st->is].words);
	buf_add(out, "\n");
	record_sheet(&watch_status_record, st, &v, 12, out);
	override_lines(st, out);
}

/* ---- operator overrides ---- */

#define ANSWER(row) ((const struct override_answer *)(row))

static const void *answer_override(const void *row, int i)
{
	(void)i;
	return ANSWER(row)->in_force;
}

static bool answer_in_force(const void *row, int64_t *out)
{
	*out = ANSWER(row)->in_force != NULL;
	return true;
}

static const char *answer_watch(const void *row)
{
	return ANSWER(row)->in_force ? NULL : ANSWER(row)->watch;
}

static const char *answer_name(const void *row)
{
	return ANSWER(row)->in_force ? NULL : ANSWER(row)->name;
}

static bool answer_was(const void *row, int64_t *out)
{
	*out = ANSWER(row)->was;
	return !ANSWER(row)->in_force;
}

static const struct field answer_fields[] = {
	{"database", .words = field_database},
	{"watch", .text = answer_watch, .optional = true, .about = "if it was cleared"},
	{"name", .text = answer_name, .optional = true, .about = "if it was cleared"},
	{"in_force", FIELD_BOOL, .number = answer_in_force},
	{"was", FIELD_BOOL, .number = answer_was, .optional = true, .about = "there was one to clear"},
	{"override", FIELD_RECORD, .part = answer_override, .of = &override_record, .optional = true},
	{0},
};

const struct record override_answer_record = {
	.name = "OverrideAnswer",
	.about = "an override that was set or cleared",
	.fields = answer_fields,
	.size = sizeof(struct override_answer),
};

void override_answers_json(const char *answers, struct buf *out)
{
	buf_addf(out, "{\"overrides\":[%s]}\n", answers);
}

/* "2026-01-02T03:04:05Z", without milliseconds. */
static void moment_text(int64_t us, struct buf *out)
{
	AUTO_BUF iso = BUF_INIT;
	time_iso(us, &iso);
	assert(iso.len >= 19);
	buf_addf(out, "%.19sZ", buf_text(&iso));
}

void override_text(const struct override *t, struct buf *out)
{
	buf_addf(out, "by %s at ", t->actor);
	moment_text(t->at_us, out);
	buf_add(out, text_eq(t->watch, "*") ? ", for all watches" : "");
	if (t->until_us) {
		buf_add(out, ", until ");
		moment_text(t->until_us, out);
	} else {
		buf_add(out, ", until it is cleared");
	}
	if (t->reason)
		buf_addf(out, ", because: %s", t->reason);
}

static void add_pause_line(const struct override *t, const char *watch, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	buf_addf(&text, "recovery of %s is paused ", watch);
	override_text(t, &text);
	out_padded(out, buf_text(&text), 0);
	buf_add(out, "\n");
}

void pause_text(const struct override *all, int n, const char *watch, struct buf *out)
{
	for (int i = 0; i < n; i++)
		if (text_eq(all[i].name, "pause") &&
		    (text_eq(all[i].watch, watch) || text_eq(all[i].watch, "*")))
			add_pause_line(&all[i], watch, out);
}

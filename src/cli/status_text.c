/*
 * status_text.c: how a watch stands, for somebody who was woken up by it: what is
 * wrong first, then why, who, and until when. What is zero or not so is left out.
 */
#include "cli/status_text.h"

#include "base/clock.h"
#include "base/text.h"
#include "cli/told_words.h"
#include "recover/late.h"
#include "recover/unseen.h"
#include "view/job_words.h"
#include "watch/compile.h"

static const char *const in_words[] = {
#define X(id, name, trouble, words) words,
	WATCH_STATUS_LIST(X)
#undef X
};

static const enum color colors[] = {
	[WATCH_STATUS_NO_LEADER] = COLOR_RED, [WATCH_STATUS_SILENT] = COLOR_RED,
	[WATCH_STATUS_FAILED] = COLOR_RED,    [WATCH_STATUS_HELD] = COLOR_YELLOW,
	[WATCH_STATUS_ALERTING] = COLOR_RED,  [WATCH_STATUS_STUCK] = COLOR_RED,
	[WATCH_STATUS_DOUBT] = COLOR_YELLOW,  [WATCH_STATUS_PAUSED] = COLOR_YELLOW,
	[WATCH_STATUS_WELL] = COLOR_GREEN,
};

static int64_t number(const struct watch_status *st, const char *name)
{
	return json_integer_value(json_object_get(st->info, name));
}

static const char *text_of(const struct watch_status *st, const char *name)
{
	return json_string_value(json_object_get(st->info, name));
}

static bool is_true(const struct watch_status *st, const char *name)
{
	return json_is_true(json_object_get(st->info, name));
}

static void line(struct buf *out, const char *name, const struct buf *text)
{
	buf_add(out, "  ");
	out_padded(out, name, 12);
	buf_add(out, " ");
	out_padded(out, buf_text(text), 0);
	buf_add(out, "\n");
}

/* "12:05:00Z" of an ISO time: people know the day. */
static void add_clock(struct buf *out, const char *iso)
{
	if (iso && strlen(iso) >= 19)
		buf_addf(out, "%.8sZ", iso + 11);
}

/* ---- one line each; nothing where there is nothing to say */

static void say_leader(const struct watch_status *st, struct buf *text)
{
	if (st->leader && st->leader->leads) {
		buf_addf(text, "%s, for ", st->leader->holder);
		duration_text(st->leader->led_us, text);
		return;
	}
	if (st->leader)
		buf_addf(text, "none; the last was %s: look for its end there. ", st->leader->holder);
	else if (st->status)
		buf_addf(text, "none; the last was %s. ", st->status->holder);
	else
		buf_add(text, "none, and there never was one. ");
	buf_add(text, "Start one: defib daemon");
}

static void say_scan(const struct watch_status *st, struct buf *text)
{
	int64_t every = number(st, "every_s");
	if (st->scanned) {
		when_words(-st->ago_us, 0, text);
	} else {
		buf_add(text, "none has finished yet");
	}
	if (every) {
		buf_add(text, ", every ");
		duration_text(every * US_PER_S, text);
	}
	if (number(st, "failed_passes"))
		buf_addf(text, "; %lld of %lld failed", (long long)number(st, "failed_passes"),
		         (long long)number(st, "passes"));
}

static void say_attached(const struct watch_status *st, struct buf *text)
{
	const struct attachment *at = st->attached;
	if (!at)
		return;
	if (at->disabled)
		buf_addf(text, "its trigger is disabled, so nothing is written down: defib attach %s; ",
		         st->watch);
	out_count(text, at->programs);
	buf_addf(text, " program%s under defib run now", at->programs == 1 ? "" : "s");
}

static void say_failure(const struct watch_status *st, struct buf *text)
{
	const char *failure = text_of(st, "failure");
	buf_add(text, failure ? failure : "");
}

static void say_jobs(const struct watch_status *st, struct buf *text)
{
	if (!st->info)
		return;
	if (!st->scanned) {
		buf_add(text, "not known: no scan has finished");
		return;
	}
	out_count(text, number(st, "running"));
	buf_add(text, number(st, "running") >= ROWS_COUNT_MAX ? " or more running, " : " running, ");
	out_count(text, json_object_get(st->info, "stuck") ? number(st, "stuck") : number(st, "found"));
	buf_add(text, " of them stuck at the last scan");
	if (json_is_true(json_object_get(st->info, "never_seen_running"))) {
		buf_add(text, ", and ");
		unseen_hint(json_is_true(json_object_get(st->info, "row_security")), text);
	}
	if (number(st, "left_stuck")) {
		buf_add(text, ", ");
		out_count(text, number(st, "left_stuck"));
		buf_add(text, " left as they are");
	}
}

static void say_alerts(const struct watch_status *st, struct buf *text)
{
	if (!st->firing)
		return;
	out_count(text, st->firing);
	buf_addf(text, " fire%s: %s%s", st->firing == 1 ? "s" : "", st->alert,
	         st->firing > 1 ? "; all of them: defib alert list" : "");
}

static void say_on_hold(const struct watch_status *st, struct buf *text)
{
	int64_t n = number(st, "on_hold");
	if (!n)
		return;
	out_count(text, n);
	buf_addf(text, " wait%s for a person at the last scan: defib list --watch %s --where held",
	         n == 1 ? "s" : "", st->watch);
}

static void say_guard(const struct watch_status *st, struct buf *text)
{
	const char *guard = text_of(st, "guard");
	json_t *guarded = json_object_get(st->info, "guarded");
	if (guard && json_integer_value(json_object_get(guarded, "total")))
		buf_add(text, guard);
}

static void say_doubt(const struct watch_status *st, struct buf *text)
{
	const char *cause = text_of(st, "doubt_cause");
	if (!is_true(st, "doubting"))
		return;
	buf_addf(text, "the daemon was away itself (%s): silence since then proves nothing until ",
	         cause ? cause : "unknown");
	add_clock(text, text_of(st, "doubt_until"));
}

static void say_brake(const struct watch_status *st, struct buf *text)
{
	const char *ended = text_of(st, "brake_ended");
	int64_t brakes = number(st, "brakes");
	if (is_true(st, "braking")) {
		buf_add(text, "is on, until ");
		add_clock(text, text_of(st, "brake_until"));
		buf_add(text, " at the latest");
	} else if (brakes) {
		buf_add(text, "is off");
	}
	if (brakes)
		buf_addf(text, "; held %lld time%s so far", (long long)brakes, brakes == 1 ? "" : "s");
	if (brakes && ended)
		buf_addf(text, ", last let go by: %s", ended);
}

static void say_suspects(const struct watch_status *st, struct buf *text)
{
	int64_t suspects = number(st, "suspects"), near = number(st, "near_misses_total");
	if (suspects)
		buf_addf(text, "%lld seen silent", (long long)suspects);
	if (near)
		buf_addf(text, "%s%lld near miss%s: seen silent once, beat again", suspects ? "; " : "",
		         (long long)near, near == 1 ? "" : "es");
}

static void say_waiting(const struct watch_status *st, struct buf *text)
{
	int64_t waiting = number(st, "waiting"), eta = number(st, "eta_s");
	if (!waiting)
		return;
	out_count(text, waiting);
	if (!eta)
		return;
	buf_addf(text, ", %.3g a second at the moment, the last in about ",
	         json_number_value(json_object_get(st->info, "rate")));
	duration_text(eta * US_PER_S, text);
}

static void say_false(const struct watch_status *st, struct buf *text)
{
	json_t *all = json_object_get(st->info, "false_positives");
	if (!all)
		return;
	buf_add(text, "false positives: ");
	mistakes_words(json_integer_value(json_object_get(all, "day")),
	               json_integer_value(json_object_get(all, "day_recovered")), text);
	buf_add(text, " in 24h");
}

static void say_total(const struct watch_status *st, struct buf *text)
{
	if (!st->info)
		return;
	out_count(text, number(st, "recovered_total"));
	buf_add(text, " recovered, ");
	out_count(text, number(st, "held_total"));
	buf_add(text, " held for a person, ");
	out_count(text, number(st, "retried_total"));
	buf_add(text, " retried, since that daemon began");
}

/* What persons said, and the watch's own hours, which the leader only tells as a factor. */
static void word_lines(const struct watch_status *st, struct buf *out)
{
	struct buf text = BUF_INIT;
	double factor = json_number_value(json_object_get(st->info, "factor")), said = 1;
	for (int i = 0; i < st->nwords; i++) {
		const struct override *t = st->words[i];
		bool raise = text_eq(t->name, "raise");
		buf_clear(&text);
		if (raise)
			buf_addf(&text, "thresholds times %s, ", t->value);
		else if (text_eq(t->name, TOLD_OVERRIDE))
			buf_add(&text, "the next pass goes past its guards, ");
		override_words(t, &text);
		line(out, raise ? "raised" : text_eq(t->name, "pause") ? "paused" : "told", &text);
		if (raise && strtod(t->value, NULL) > said)
			said = strtod(t->value, NULL);
	}
	buf_clear(&text);
	buf_addf(&text, "thresholds times %g at the last scan, by the watch's own hours", factor);
	if (factor > said && st->is != WATCH_STATUS_NO_LEADER)
		line(out, "raised", &text);
	buf_release(&text);
}

void watch_status_text(const struct watch_status *st, bool color, struct buf *out)
{
	static const struct {
		const char *name;
		void (*say)(const struct watch_status *st, struct buf *text);
	} lines[] = {
		{"leader", say_leader},   {"last scan", say_scan},    {"attached", say_attached},
		{"failure", say_failure}, {"alerts", say_alerts},     {"jobs", say_jobs},
		{"on hold", say_on_hold}, {"guard", say_guard},       {"doubt", say_doubt},
		{"brake", say_brake},     {"suspects", say_suspects}, {"waiting", say_waiting},
		{"so far", say_total},    {"mistakes", say_false},
	};
	struct buf text = BUF_INIT;
	buf_addf(&text, "%s/%s", st->database, st->watch);
	out_color(out, color, COLOR_BOLD, buf_text(&text));
	buf_add(out, ": ");
	out_color(out, color, colors[st->is], in_words[st->is]);
	buf_add(out, "\n");
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		buf_clear(&text);
		lines[i].say(st, &text);
		if (text.len)
			line(out, lines[i].name, &text);
	}
	word_lines(st, out);
	buf_release(&text);
}

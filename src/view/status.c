/* SPDX-License-Identifier: Apache-2.0 */
#include "view/status.h"

#include "base/clock.h"
#include "recover/census.h"
#include "recover/mistakes.h"
#include "view/job.h"

#include <assert.h>

const char *const watch_status_names[] = {
#define X(id, name, trouble, color, words) name,
	WATCH_STATUS_LIST(X)
#undef X
};

defib_err stored_status_read(struct store *s, struct arena *a, struct stored_status *out,
                             struct failure *f)
{
	bool there;
	int64_t now_us;
	*out = (struct stored_status){0};
	defib_err err = daemon_table_open(s, "leader", false, &out->there, f);
	if (err || !out->there)
		return err;
	err = leader_rows_read(s, a, &out->led, f);
	if (!err)
		err = override_read(s, a, &out->overrides, &out->noverrides, f);
	if (!err)
		err = outbox_ready(s, false, &there, f);
	if (!err && there)
		err = states_read(s, a, &out->alerts, &out->nalerts, &now_us, f);
	return err;
}

defib_err stored_status_attachments(struct store *s, struct arena *a, struct stored_status *l,
                                    struct failure *f)
{
	return attachments_read(s, a, &l->attachments, &l->nattachments, f);
}

static int64_t number(const json_t *info, const char *name)
{
	return json_integer_value(json_object_get(info, name));
}

enum watch_state watch_status_judge(const struct watch_status_facts *f)
{
	const struct {
		bool so;
		enum watch_state is;
	} worst_first[] = {
		{!f->leads, WATCH_STATUS_NO_LEADER},
		{f->silent, WATCH_STATUS_SILENT},
		{f->failed, WATCH_STATUS_FAILED},
		{number(json_object_get(f->info, "guarded"), "total") > 0, WATCH_STATUS_HELD},
		{f->firing > 0, WATCH_STATUS_ALERTING},
		{number(f->info, "left_stuck") > 0, WATCH_STATUS_STUCK},
		{json_is_true(json_object_get(f->info, "doubting")), WATCH_STATUS_DOUBT},
		{f->paused, WATCH_STATUS_PAUSED},
	};
	for (size_t i = 0; i < sizeof worst_first / sizeof *worst_first; i++)
		if (worst_first[i].so)
			return worst_first[i].is;
	return WATCH_STATUS_WELL;
}

static void find_alerts(struct watch_status *st, const struct stored_status *l)
{
	for (int i = 0; i < l->nalerts; i++) {
		const struct alert_row *row = &l->alerts[i];
		if (row->alert.state != STATE_FIRING ||
		    (!text_eq(row->watch, st->watch) && !text_eq(row->watch, ALERT_ANY)))
			continue;
		st->alert = st->firing++ ? st->alert : row->sentence;
	}
}

static enum watch_state judge_standing(const struct watch_status *st)
{
	struct watch_status_facts f = {.leads = st->led.leads,
	                               .silent = st->led.silent,
	                               .failed = json_object_get(st->led.info, "failure") != NULL,
	                               .firing = st->firing,
	                               .info = st->led.info};
	for (int i = 0; i < st->noverrides; i++)
		f.paused = f.paused || text_eq(st->overrides[i]->name, "pause");
	return watch_status_judge(&f);
}

void watch_status_init(struct watch_status *st, const struct database *d, const char *watch,
                       const struct stored_status *l)
{
	const int most = sizeof st->overrides / sizeof *st->overrides;
	*st = (struct watch_status){
		.database = d->name, .watch = watch, .led = leader_status_of(&l->led, watch)};
	for (int i = 0; i < l->noverrides && st->noverrides < most; i++)
		if (text_eq(l->overrides[i].watch, watch) || text_eq(l->overrides[i].watch, "*"))
			st->overrides[st->noverrides++] = &l->overrides[i];
	for (int i = 0; i < l->nattachments; i++)
		if (text_eq(l->attachments[i].watch, watch))
			st->attached = &l->attachments[i];
	find_alerts(st, l);
	st->is = judge_standing(st);
}

void watch_status_release(struct watch_status *st)
{
	json_decref(st->led.info);
	st->led.info = NULL;
}

static const struct {
	bool trouble;
	enum color color;
	const char *words;
} kinds[] = {
#define X(id, name, trouble, color, words) {trouble, COLOR_##color, words},
	WATCH_STATUS_LIST(X)
#undef X
};

bool watch_status_trouble(const struct watch_status *st)
{
	return kinds[st->is].trouble;
}

static const char *text_of(const struct watch_status *st, const char *name)
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

static void add_leader(const struct watch_status *st, struct buf *text)
{
	if (st->led.leads) {
		buf_addf(text, "%s, for ", st->led.leader->holder);
		duration_text(st->led.leader->led_us, text);
		return;
	}
	if (st->led.leader)
		buf_addf(text, "none; the last was %s: find out there why it ended. ",
		         st->led.leader->holder);
	else if (st->led.status)
		buf_addf(text, "none; the last was %s. ", st->led.status->holder);
	else
		buf_add(text, "none so far. ");
	buf_add(text, "Start one: defib daemon");
}

static void add_scan(const struct watch_status *st, struct buf *text)
{
	int64_t every = number(st->led.info, "every_s");
	if (st->led.scanned)
		when_text(-st->led.ago_us, 0, text);
	else
		buf_add(text, "none has finished yet");
	if (every) {
		buf_add(text, ", every ");
		duration_text(every * US_PER_S, text);
	}
	if (number(st->led.info, "failed_passes"))
		buf_addf(text, "; %lld of %lld failed", (long long)number(st->led.info, "failed_passes"),
		         (long long)number(st->led.info, "passes"));
}

static void add_attached(const struct watch_status *st, struct buf *text)
{
	const struct attachment *at = st->attached;
	if (!at)
		return;
	if (at->disabled)
		buf_addf(text, "its trigger is disabled, so claims are not recorded: defib attach %s; ",
		         st->watch);
	buf_add_count(text, at->programs);
	buf_addf(text, " program%s under defib run now", at->programs == 1 ? "" : "s");
}

static void add_failure(const struct watch_status *st, struct buf *text)
{
	const char *failure = text_of(st, "failure");
	buf_add(text, failure ? failure : "");
}

static void add_jobs(const struct watch_status *st, struct buf *text)
{
	if (!st->led.info)
		return;
	if (!st->led.scanned) {
		buf_add(text, "not known: no scan has finished");
		return;
	}
	buf_add_count(text, number(st->led.info, "running"));
	buf_add(text, number(st->led.info, "running") >= ROWS_COUNT_MAX ? " or more running, "
	                                                                : " running, ");
	buf_add_count(text, json_object_get(st->led.info, "stuck") ? number(st->led.info, "stuck")
	                                                           : number(st->led.info, "found"));
	buf_add(text, " of them stuck at the last scan");
	if (json_is_true(json_object_get(st->led.info, "never_seen_running"))) {
		buf_add(text, ", and ");
		unseen_hint(json_is_true(json_object_get(st->led.info, "row_security")), text);
	}
	if (number(st->led.info, "left_stuck")) {
		buf_add(text, ", ");
		buf_add_count(text, number(st->led.info, "left_stuck"));
		buf_add(text, " not changed");
	}
}

static void add_alerts(const struct watch_status *st, struct buf *text)
{
	if (!st->firing)
		return;
	buf_add_count(text, st->firing);
	buf_addf(text, " fire%s: %s%s", st->firing == 1 ? "s" : "", st->alert,
	         st->firing > 1 ? "; all of them: defib alert list" : "");
}

static void add_on_hold(const struct watch_status *st, struct buf *text)
{
	int64_t n = number(st->led.info, "on_hold");
	if (!n)
		return;
	buf_add_count(text, n);
	buf_addf(text, " waiting for an operator at the last scan: defib list --watch %s --where held",
	         st->watch);
}

static void add_guard(const struct watch_status *st, struct buf *text)
{
	const char *guard = text_of(st, "guard");
	json_t *guarded = json_object_get(st->led.info, "guarded");
	if (guard && json_integer_value(json_object_get(guarded, "total")))
		buf_add(text, guard);
}

static void add_doubt(const struct watch_status *st, struct buf *text)
{
	const char *cause = text_of(st, "doubt_cause");
	if (!is_true(st, "doubting"))
		return;
	buf_addf(text, "the daemon itself was away (%s): silence since then proves nothing until ",
	         cause ? cause : "unknown");
	add_clock(text, text_of(st, "doubt_until"));
}

static void add_brake(const struct watch_status *st, struct buf *text)
{
	const char *ended = text_of(st, "brake_ended");
	int64_t brakes = number(st->led.info, "brakes");
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
		buf_addf(text, ", last released by: %s", ended);
}

static void add_suspects(const struct watch_status *st, struct buf *text)
{
	int64_t suspects = number(st->led.info, "suspects"),
			near = number(st->led.info, "near_misses_total");
	if (suspects)
		buf_addf(text, "%lld seen silent", (long long)suspects);
	if (near)
		buf_addf(text, "%s%lld near miss%s: silent once, then heard again", suspects ? "; " : "",
		         (long long)near, near == 1 ? "" : "es");
}

static void add_waiting(const struct watch_status *st, struct buf *text)
{
	int64_t waiting = number(st->led.info, "waiting"), eta = number(st->led.info, "eta_s");
	if (!waiting)
		return;
	buf_add_count(text, waiting);
	if (!eta)
		return;
	buf_addf(text, ", at %.3g per second, the last in about ",
	         json_number_value(json_object_get(st->led.info, "rate")));
	duration_text(eta * US_PER_S, text);
}

static void add_false(const struct watch_status *st, struct buf *text)
{
	json_t *all = json_object_get(st->led.info, "false_positives");
	if (!all)
		return;
	buf_add(text, "false positives: ");
	mistakes_text(json_integer_value(json_object_get(all, "day")),
	              json_integer_value(json_object_get(all, "day_recovered")), text);
	buf_add(text, " in 24h");
}

static void add_total(const struct watch_status *st, struct buf *text)
{
	if (!st->led.info)
		return;
	buf_add_count(text, number(st->led.info, "recovered_total"));
	buf_add(text, " recovered, ");
	buf_add_count(text, number(st->led.info, "held_total"));
	buf_add(text, " held, ");
	buf_add_count(text, number(st->led.info, "retried_total"));
	buf_add(text, " retried since that daemon started");
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

void watch_status_text(const struct watch_status *st, bool color, struct buf *out)
{
	static const struct {
		const char *name;
		void (*add)(const struct watch_status *st, struct buf *text);
	} lines[] = {
		{"leader", add_leader},   {"last scan", add_scan},    {"attached", add_attached},
		{"failure", add_failure}, {"alerts", add_alerts},     {"jobs", add_jobs},
		{"on hold", add_on_hold}, {"guard", add_guard},       {"doubt", add_doubt},
		{"brake", add_brake},     {"suspects", add_suspects}, {"waiting", add_waiting},
		{"so far", add_total},    {"mistakes", add_false},
	};
	AUTO_BUF text = BUF_INIT;
	out_title(out, color, st->database, st->watch);
	buf_add(out, ": ");
	out_color(out, color, kinds[st->is].color, kinds[st->is].words);
	buf_add(out, "\n");
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		buf_clear(&text);
		lines[i].add(st, &text);
		if (text.len)
			out_line(out, lines[i].name, 12, buf_text(&text));
	}
	override_lines(st, out);
}

static void json_leader(const struct watch_status *st, struct buf *out)
{
	const struct leader_row *l = st->led.leader;
	buf_add(out, ",\"leader\":");
	if (!l) {
		buf_add(out, "null");
		return;
	}
	buf_addf(out, "{\"leads\":%s", l->leads ? "true" : "false");
	json_text(out, "holder", l->holder);
	json_time(out, "since", true, l->since_us);
	buf_add(out, "}");
}

static void json_attached(const struct watch_status *st, struct buf *out)
{
	const struct attachment *at = st->attached;
	buf_add(out, ",\"attached\":");
	if (at)
		buf_addf(out, "{\"disabled\":%s,\"programs\":%lld}", at->disabled ? "true" : "false",
		         (long long)at->programs);
	else
		buf_add(out, "null");
}

/* Complete objects. */
static void override_json(const struct override *t, struct buf *out)
{
	buf_add(out, "{\"name\":");
	buf_add_json(out, t->name);
	json_text(out, "word", t->name); /* its old name */
	json_text(out, "watch", t->watch);
	json_text(out, "value", t->value);
	json_text(out, "actor", t->actor);
	json_text(out, "reason", t->reason);
	json_time(out, "at", t->at_us != 0, t->at_us);
	json_time(out, "until", t->until_us != 0, t->until_us);
	buf_add(out, "}");
}

void watch_status_json(const struct watch_status *st, struct buf *out)
{
	AUTO_BUF overrides = BUF_INIT;
	buf_add(out, "{\"watch\":");
	buf_add_json(out, st->watch);
	json_text(out, "database", st->database);
	json_text(out, "status", watch_status_names[st->is]);
	json_text(out, "standing", watch_status_names[st->is]); /* its old name */
	buf_addf(out, ",\"trouble\":%s", watch_status_trouble(st) ? "true" : "false");
	json_number(out, "alerts_firing", true, st->firing);
	json_text(out, "alert", st->alert);
	json_leader(st, out);
	json_attached(st, out);
	json_seconds(out, "last_scan_s", st->led.scanned, st->led.ago_us);
	for (int i = 0; i < st->noverrides; i++) {
		buf_add(&overrides, i ? "," : "");
		override_json(st->overrides[i], &overrides);
	}
	/* `told` is the old name of `overrides`. */
	buf_addf(out, ",\"overrides\":[%s],\"told\":[%s],\"info\":%s}", buf_text(&overrides),
	         buf_text(&overrides), st->led.info ? st->led.status->info : "null");
}

/* ---- operator overrides ---- */

defib_err override_set(struct store *s, const struct override *said, int64_t for_us,
                       struct arena *a, struct override_answer *out, struct failure *f)
{
	struct override *all = NULL;
	int n = 0;
	bool there;
	*out = (struct override_answer){.watch = said->watch, .name = said->name};
	defib_err err = daemon_table_open(s, "setting", true, &there, f);
	if (!err)
		err = override_write(s, said, for_us, f);
	if (!err)
		err = override_read(s, a, &all, &n, f);
	for (int i = 0; !err && i < n; i++)
		if (text_eq(all[i].watch, said->watch) && text_eq(all[i].name, said->name))
			out->in_force = &all[i];
	return err;
}

static const struct override *set_for_all(const struct override *all, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (text_eq(all[i].name, name) && text_eq(all[i].watch, "*"))
			return &all[i];
	return NULL;
}

static defib_err clear_one(struct store *s, struct override_answer *w, const char *watch,
                           const char *name, struct failure *f)
{
	*w = (struct override_answer){.watch = watch, .name = name};
	return override_remove(s, watch, name, &w->was, f);
}

defib_err override_clear(struct store *s, const char *watch, const char *name, struct arena *a,
                         struct override_answer **out, int *n, const struct override **still,
                         struct failure *f)
{
	struct override *all = NULL;
	int nall = 0;
	bool there, every = text_eq(watch, "*");
	*still = NULL;
	*n = 1;
	defib_err err = daemon_table_open(s, "setting", false, &there, f);
	if (!err && there)
		err = override_read(s, a, &all, &nall, f);
	*out = ARENA_ARRAY(a, struct override_answer, nall + 1);
	(*out)[0] = (struct override_answer){.watch = watch, .name = name};
	if (err || !there)
		return err;
	err = clear_one(s, *out, watch, name, f);
	if (!every)
		*still = set_for_all(all, nall, name);
	for (int i = 0; !err && every && i < nall; i++)
		if (text_eq(all[i].name, name) && !text_eq(all[i].watch, "*"))
			err = clear_one(s, &(*out)[(*n)++], all[i].watch, name, f);
	return err;
}

void override_answer_json(const struct database *d, const struct override_answer *w,
                          struct buf *out)
{
	buf_add(out, "{\"database\":");
	buf_add_json(out, d->name);
	if (w->in_force) {
		AUTO_BUF override = BUF_INIT;
		override_json(w->in_force, &override);
		/* `told` is the old name of `override`. */
		buf_addf(out, ",\"in_force\":true,\"override\":%s,\"told\":%s", buf_text(&override),
		         buf_text(&override));
	} else {
		json_text(out, "watch", w->watch);
		json_text(out, "name", w->name);
		json_text(out, "word", w->name); /* its old name */
		json_bool(out, "in_force", false);
		json_bool(out, "was", w->was);
	}
	buf_add(out, "}");
}

void override_answers_json(const char *answers, struct buf *out)
{
	/* `words` is the old name of `overrides`. */
	buf_addf(out, "{\"overrides\":[%s],\"words\":[%s]}\n", answers, answers);
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

void pause_line(struct store *s, const char *watch, struct buf *out)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure ignored = {0};
	struct override *all = NULL;
	bool there = false;
	int n = 0;
	if (daemon_table_open(s, "setting", false, &there, &ignored) == DEFIB_OK && there &&
	    override_read(s, &a, &all, &n, &ignored) == DEFIB_OK)
		for (int i = 0; i < n; i++)
			if (text_eq(all[i].name, "pause") &&
			    (text_eq(all[i].watch, watch) || text_eq(all[i].watch, "*")))
				add_pause_line(&all[i], watch, out);
}

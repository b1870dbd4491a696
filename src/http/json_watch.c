/* json_watch.c: see json_watch.h. */
#include "http/json_watch.h"

#include "base/clock.h"
#include "base/text.h"
#include "recover/acts.h"
#include "view/json.h"
#include "view/setup.h"
#include "view/watch.h"

/* ---- how it is ---- */

/*
 * The word of watch_status.h, as far as the leader itself knows it; NULL: it does not lead, and
 * only the database knows who does.
 */
static const char *watch_status_word(const struct watch_view *v, const json_t *info)
{
	const struct overview_watch *b = v->overview;
	if (!b || !b->leads)
		return NULL;
	int64_t since_ms = b->passed_ms ? b->passed_ms : v->started_ms;
	int64_t owed_ms = watch_status_owed_us(v->watch->every_us) / 1000;
	return watch_status_names[watch_status_judge(
		&(struct watch_status_facts){.leads = true,
	                                 .silent = v->now_ms - since_ms > owed_ms,
	                                 .failed = b->failed != NULL,
	                                 .firing = b->firing,
	                                 .paused = b->paused,
	                                 .info = info})];
}

static void add_board(const struct watch_view *v, struct buf *out)
{
	const struct overview_watch *b = v->overview;
	json_t *info = b && b->info ? json_loads(b->info, 0, NULL) : NULL;
	json_bool(out, "leads", b && b->leads);
	json_text(out, "standing", watch_status_word(v, info));
	json_bool(out, "paused", b && b->paused);
	json_bool(out, "braking", b && b->braking);
	json_bool(out, "doubting", b && b->doubting);
	json_number(out, "alerts_firing", b && b->leads, b ? b->firing : 0);
	json_time(out, "last_scan", b && b->passed_us, b ? b->passed_us : 0);
	json_text(out, "failure", b ? b->failed : NULL);
	buf_addf(out, ",\"info\":%s", info ? b->info : "null");
	json_decref(info);
}

static void add_list(const char *name, const struct text_list *list, struct buf *out)
{
	buf_addf(out, ",\"%s\":[", name);
	for (int i = 0; i < list->n; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, list->items[i]);
	}
	buf_add(out, "]");
}

void watch_json(const struct watch_view *v, struct buf *out)
{
	const struct watch *w = v->watch;
	buf_add(out, "{\"watch\":");
	buf_add_json(out, w->name);
	json_text(out, "database", v->database->name);
	json_text(out, "table", w->table);
	json_text(out, "label", w->label);
	json_text(out, "group", w->group);
	json_bool(out, "builtin", v->builtin);
	json_bool(out, "enabled", w->enabled);
	add_list("key", &w->key, out);
	add_list("show", &w->show, out);
	add_board(v, out);
}

/* ---- what it is told to do ---- */

static void add_threshold(const char *name, const struct threshold *t, struct buf *out)
{
	if (!t->given) {
		buf_addf(out, ",\"%s\":null", name);
		return;
	}
	buf_addf(out, ",\"%s\":{\"standard_s\":%.3f,\"kinds\":{", name, (double)t->standard_us / 1e6);
	for (int i = 0; i < t->n; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, t->kinds[i]);
		buf_addf(out, ":%.3f", (double)t->us[i] / 1e6);
	}
	buf_add(out, "}}");
}

static void add_states(const struct state_names *s, struct buf *out)
{
	buf_add(out, ",\"states\":{");
	for (int i = 0; i < s->n; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, s->codes[i]);
		buf_add(out, ":");
		buf_add_json(out, s->names[i]);
	}
	buf_add(out, "}");
}

static void add_remedies(const struct watch *w, struct buf *out)
{
	static const char *const attempts[] = {
		[ATTEMPTS_ANY] = NULL, [ATTEMPTS_LEFT] = "left", [ATTEMPTS_EXHAUSTED] = "exhausted"};
	buf_add(out, ",\"remedies\":[");
	for (int i = 0; i < w->nrules; i++) {
		const struct rule *r = &w->rules[i];
		buf_addf(out, "%s{\"do\":\"%s\"", i ? "," : "", remedy_names[r->remedy]);
		json_text(out, "verdict", r->verdict ? verdict_names[r->verdict] : NULL);
		json_text(out, "kind", r->kind);
		json_text(out, "attempts", attempts[r->attempts]);
		json_number(out, "crashes", r->crashes > 0, r->crashes);
		json_text(out, "when", r->when.text);
		buf_add(out, "}");
	}
	buf_add(out, "]");
}

/* What a person can do to its jobs. */
static void add_acts(const struct watch *w, struct buf *out)
{
	static const char *const verbs[] = {"retry",   "requeue",  "fail",  "hold",
	                                    "release", "rollback", "cancel"};
	struct failure f = {0};
	int n = 0;
	buf_add(out, ",\"acts\":[");
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (act_configured(act_kind_named(verbs[i]), w, &f) == DEFIB_OK)
			buf_addf(out, "%s\"%s\"", n++ ? "," : "", verbs[i]);
	if (w->actions[ACT_END].form != ACTION_NONE)
		buf_addf(out, "%s\"end\"", n++ ? "," : "");
	buf_add(out, "]");
}

void watch_rules_json(const struct watch *w, struct buf *out)
{
	add_threshold("stuck_after", &w->stuck_after, out);
	add_threshold("overdue_after", &w->overdue_after, out);
	json_seconds(out, "beat_s", w->beat_us > 0, w->beat_us);
	json_seconds(out, "every_s", true, w->every_us);
	json_text(out, "running", w->running.text);
	add_states(&w->states, out);
	add_list("mask", &w->mask, out);
	add_remedies(w, out);
	add_acts(w, out);
}

void watch_config_json(const struct watch *w, const struct settings *s, struct buf *out)
{
	struct buf prefix = BUF_INIT;
	int from = 0, n = 0;
	buf_addf(&prefix, "watches.%s.", w->name);
	while (from < s->nshown && !text_starts(s->shown[from].path, buf_text(&prefix)))
		from++;
	while (from + n < s->nshown && text_starts(s->shown[from + n].path, buf_text(&prefix)))
		n++;
	buf_add(out, ",\"config\":");
	config_json(s->shown + from, n, out);
	buf_release(&prefix);
}

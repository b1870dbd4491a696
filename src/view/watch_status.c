/* watch_status.c: see watch_status.h. */
#include "view/watch_status.h"

#include "alert/outbox.h"
#include "base/clock.h"
#include "base/text.h"

/* So many intervals, and some time for the scan itself, may pass without a finished one. */
#define INTERVALS 3
#define SOME_TIME_US (30 * US_PER_S)

const char *const watch_status_names[] = {
#define X(id, name, trouble, words) name,
	WATCH_STATUS_LIST(X)
#undef X
};

defib_err left_read(struct store *s, struct arena *a, struct left *out, struct failure *f)
{
	bool there;
	int64_t now_us;
	*out = (struct left){0};
	defib_err err = told_open(s, "leader", false, &out->there, f);
	if (err || !out->there)
		return err;
	err = leader_read(s, a, &out->leaders, &out->nleaders, f);
	if (!err)
		err = status_read(s, a, &out->statuses, &out->nstatuses, f);
	if (!err)
		err = override_read(s, a, &out->words, &out->nwords, f);
	if (!err)
		err = outbox_ready(s, false, &there, f);
	if (!err && there)
		err = states_read(s, a, &out->alerts, &out->nalerts, &now_us, f);
	return err;
}

defib_err left_attachments(struct store *s, struct arena *a, struct left *l, struct failure *f)
{
	return attachments_read(s, a, &l->attachments, &l->nattachments, f);
}

static const struct leader_row *leader_of(const struct left *l, const char *watch)
{
	for (int i = 0; i < l->nleaders; i++)
		if (text_eq(l->leaders[i].watch, watch))
			return &l->leaders[i];
	return NULL;
}

static const struct status_row *status_of(const struct left *l, const char *watch)
{
	for (int i = 0; i < l->nstatuses; i++)
		if (text_eq(l->statuses[i].watch, watch))
			return &l->statuses[i];
	return NULL;
}

bool left_knows(const struct left *l, const char *watch)
{
	return leader_of(l, watch) || status_of(l, watch);
}

static void find_last_scan(struct watch_status *st)
{
	const char *text = json_string_value(json_object_get(st->info, "last_finished_scan"));
	int64_t at_us;
	st->scanned = st->status && time_parse(text, &at_us);
	if (!st->scanned)
		return;
	st->ago_us = st->status->age_us + st->status->at_us - at_us;
	st->ago_us = st->ago_us > 0 ? st->ago_us : 0;
}

int64_t watch_status_owed_us(int64_t every_us)
{
	return INTERVALS * every_us + SOME_TIME_US;
}

/* A leader that has only just begun owes no scan yet. */
static bool is_silent(const struct watch_status *st)
{
	int64_t every_us = json_integer_value(json_object_get(st->info, "every_s")) * US_PER_S;
	int64_t owed_us = watch_status_owed_us(every_us);
	int64_t since_us =
		st->scanned && st->ago_us < st->leader->led_us ? st->ago_us : st->leader->led_us;
	return since_us > owed_us;
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

static void find_alerts(struct watch_status *st, const struct left *l)
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
	bool leads = st->leader && st->leader->leads;
	struct watch_status_facts f = {.leads = leads,
	                               .silent = leads && is_silent(st),
	                               .failed = json_object_get(st->info, "failure") != NULL,
	                               .firing = st->firing,
	                               .info = st->info};
	for (int i = 0; i < st->nwords; i++)
		f.paused = f.paused || text_eq(st->words[i]->name, "pause");
	return watch_status_judge(&f);
}

void watch_status_init(struct watch_status *st, const struct database *d, const char *watch,
                       const struct left *l)
{
	const int most = sizeof st->words / sizeof *st->words;
	*st = (struct watch_status){.database = d->name,
	                            .watch = watch,
	                            .leader = leader_of(l, watch),
	                            .status = status_of(l, watch)};
	if (st->status)
		st->info = json_loads(st->status->info, 0, NULL);
	for (int i = 0; i < l->nwords && st->nwords < most; i++)
		if (text_eq(l->words[i].watch, watch) || text_eq(l->words[i].watch, "*"))
			st->words[st->nwords++] = &l->words[i];
	for (int i = 0; i < l->nattachments; i++)
		if (text_eq(l->attachments[i].watch, watch))
			st->attached = &l->attachments[i];
	find_last_scan(st);
	find_alerts(st, l);
	st->is = judge_standing(st);
}

void watch_status_release(struct watch_status *st)
{
	json_decref(st->info);
	st->info = NULL;
}

bool watch_status_trouble(const struct watch_status *st)
{
	static const bool trouble[] = {
#define X(id, name, trouble, words) trouble,
		WATCH_STATUS_LIST(X)
#undef X
	};
	return trouble[st->is];
}

bool watch_status_brakes(const struct watch_status *st)
{
	bool leads = st->leader && st->leader->leads;
	return leads && st->is != WATCH_STATUS_SILENT &&
	       json_is_true(json_object_get(st->info, "braking"));
}

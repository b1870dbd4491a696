/* SPDX-License-Identifier: Apache-2.0 */
#include "alert/watch_status.h"

const char *const watch_status_names[] = {
#define X(id, name, trouble) name,
	WATCH_STATUS_LIST(X)
#undef X
		NULL,
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
		{number(f->info, "unstarted") > 0, WATCH_STATUS_STUCK},
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

static enum watch_state watch_state_of(const struct watch_status *st)
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
	st->is = watch_state_of(st);
}

void watch_status_release(struct watch_status *st)
{
	json_decref(st->led.info);
	st->led.info = NULL;
}

bool watch_status_trouble(const struct watch_status *st)
{
	static const bool trouble[] = {
#define X(id, name, trouble) trouble,
		WATCH_STATUS_LIST(X)
#undef X
	};
	return trouble[st->is];
}

void explain_guard(struct store *s, const struct database *d, const struct watch *w,
                   struct arena *a, struct explained *x)
{
	struct stored_status stored;
	struct watch_status st;
	struct failure ignored = {0};
	/* A role that may not read the daemons' tables gets the rest. */
	if (stored_status_read(s, a, &stored, &ignored))
		return;
	watch_status_init(&st, d, w->name, &stored);
	const char *guard = json_string_value(json_object_get(st.led.info, "guard"));
	if (st.is == WATCH_STATUS_HELD && guard && x->cand.judgement.verdict != VERDICT_NONE)
		x->guard = arena_strdup(a, guard);
	if (st.is != WATCH_STATUS_NO_LEADER)
		x->factor = json_number_value(json_object_get(st.led.info, "factor"));
	watch_status_release(&st);
}

/* SPDX-License-Identifier: Apache-2.0
 * api_watches.c: watches: from memory what the daemon itself knows, and from the database what
 * commands read there: numbers, run times, explanations, findings, states.
 */
#include "http/api_watches.h"

#include "base/clock.h"
#include "http/api.h"
#include "http/api_act.h"
#include "http/api_values.h"
#include "http/thread_sessions.h"
#include "insight/learn.h"
#include "insight/tally.h"
#include "recover/by_hand.h"
#include "setup/doctor.h"
#include "view/installation.h"
#include "view/job.h"
#include "view/stats.h"
#include "view/status.h"

#define IDLE_US (60 * US_PER_S) /* of a transaction that doctor warns about */

/* ---- its state ---- */

/*
 * The status of alert/watch_status.h, as far as the leader itself knows it; NULL: this daemon does
 * not lead, and only the database knows who does.
 */
static const char *watch_status_word(const struct watch_view *v, const json_t *info)
{
	const struct overview_watch *b = v->overview;
	if (!b || !b->leads)
		return NULL;
	int64_t since_ms = b->passed_ms ? b->passed_ms : v->started_ms;
	int64_t owed_ms = leader_owed_us(v->watch->every_us) / 1000;
	return watch_status_names[watch_status_judge(
		&(struct watch_status_facts){.leads = true,
	                                 .silent = v->now_ms - since_ms > owed_ms,
	                                 .failed = b->failed != NULL,
	                                 .firing = b->firing,
	                                 .paused = b->paused,
	                                 .info = info})];
}

#define SHOWN(row) ((const struct watch_view *)(row))

static const void *view_watch(const void *row, int i)
{
	(void)i;
	return SHOWN(row)->watch;
}

/* A watch that the daemon does not handle is all zero. */
static const void *view_overview(const void *row, int i)
{
	static const struct overview_watch none;
	(void)i;
	return SHOWN(row)->overview ? SHOWN(row)->overview : &none;
}

static const char *view_name(const void *row)
{
	return SHOWN(row)->watch->name;
}

static const char *view_database(const void *row)
{
	return SHOWN(row)->database->name;
}

static const char *view_status(const void *row)
{
	const struct overview_watch *b = SHOWN(row)->overview;
	json_auto_t *info = b && b->info ? json_loads(b->info, 0, NULL) : NULL;
	return watch_status_word(row, info);
}

#define AT(member) FIELD_AT(struct watch, member)
#define N(member) FIELD_N(struct watch, member)
static const struct field named_fields[] = {
	{"table", AT(table)},
	{"label", AT(label), .null = true},
	{"group", AT(group), .null = true},
	{"enabled", FIELD_BOOL, AT(enabled)},
	{"key", FIELD_TEXTS, AT(key.items), N(key.n)},
	{"show", FIELD_TEXTS, AT(show.items), N(show.n)},
	{0},
};
#undef AT
#undef N
static const struct record named_record = {.fields = named_fields, .size = sizeof(struct watch)};

#define AT(member) FIELD_AT(struct overview_watch, member)
static const struct field overview_fields[] = {
	{"leads", FIELD_BOOL, AT(leads), .about = "this daemon leads the watch"},
	{"paused", FIELD_BOOL, AT(paused)},
	{"braking", FIELD_BOOL, AT(braking)},
	{"doubting", FIELD_BOOL, AT(doubting)},
	{"alerts_firing", FIELD_INT, AT(firing), FIELD_HAS(struct overview_watch, leads)},
	{"last_scan", FIELD_TIME, AT(passed_us), .zero_null = true},
	{"failure", AT(failed), .null = true, .about = "of the last scan"},
	{"info", FIELD_DATA, AT(info), .null = true, .schema = "{type: [object, \"null\"]}",
     .about = "numbers of the last scan and since the daemon started"},
	{0},
};
#undef AT
static const struct record overview_record = {.fields = overview_fields,
                                              .size = sizeof(struct overview_watch)};

static const struct field watch_fields[] = {
	{"watch", .text = view_name},
	{"database", .text = view_database},
	{.type = FIELD_MEMBERS, .part = view_watch, .of = &named_record},
	{"builtin", FIELD_BOOL, FIELD_AT(struct watch_view, builtin), .about = "it is in no file"},
	{"status", .text = view_status, .null = true,
     .about = "the worst of what is known, as in /watch-status; null: another daemon leads it"},
	{.type = FIELD_MEMBERS, .part = view_overview, .of = &overview_record},
	{0},
};

const struct record watch_record = {
	.name = "Watch",
	.about = "a watch, as this daemon sees it",
	.fields = watch_fields,
	.size = sizeof(struct watch_view),
};

/* ---- its configuration ---- */

static void durations_json(const char *const *names, const int64_t *us, int n, struct buf *out)
{
	buf_add(out, "{");
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, names[i]);
		buf_addf(out, ":%.3f", (double)us[i] / 1e6);
	}
	buf_add(out, "}");
}

static void api_watches_kinds_json(const void *row, const struct viewer *v, struct buf *out)
{
	const struct threshold *t = row;
	(void)v;
	durations_json(t->kinds, t->us, t->n, out);
}

static void states_json(const void *row, const struct viewer *v, struct buf *out)
{
	const struct threshold *t = row;
	(void)v;
	durations_json(t->states.names, t->states.us, t->states.n, out);
}

static const struct field threshold_fields[] = {
	{"standard_s", FIELD_SECONDS, FIELD_AT(struct threshold, standard_us)},
	{"kinds", FIELD_JSON, .json = api_watches_kinds_json,
     .schema = "{type: object, additionalProperties: {type: number}}", .about = "by kind"},
	{"states", FIELD_JSON, .json = states_json,
     .schema = "{type: object, additionalProperties: {type: number}}", .about = "by state"},
	{"sql", FIELD_AT(struct threshold, own.text), .null = true,
     .about = "the row's own time-out; null: the watch knows none"},
	{0},
};
static const struct record threshold_record = {
	.name = "Threshold",
	.about = "a threshold of a watch",
	.fields = threshold_fields,
	.size = sizeof(struct threshold),
};

static bool state_pair(const void *row, const struct viewer *v, int i, struct field_pair *out)
{
	const struct state_names *s = &((const struct watch *)row)->states;
	(void)v;
	if (i >= s->n)
		return false;
	*out = (struct field_pair){s->codes[i], s->names[i]};
	return true;
}

static const char *const attempts_names[] = {
	[ATTEMPTS_ANY] = NULL, [ATTEMPTS_LEFT] = "left", [ATTEMPTS_EXHAUSTED] = "exhausted"};

#define AT(member) FIELD_AT(struct rule, member)
static const struct field remedy_fields[] = {
	{"do", FIELD_WORD, AT(remedy), .names = remedy_names, .schema = SCHEMA_REF("Remedy")},
	{"verdict", FIELD_WORD, AT(verdict), .names = verdict_names, .zero_null = true,
     .schema = SCHEMA_REF("Verdict"), .about = "null: any"},
	{"kind", AT(kind), .null = true, .about = "null: any"},
	{"state", AT(state), .null = true, .about = "as stored; null: any"},
	{"attempts", FIELD_WORD, AT(attempts), .names = attempts_names, .null = true,
     .schema = "{enum: [left, exhausted, null]}"},
	{"crashes", FIELD_NUMBER, AT(crashes), .zero_null = true, .about = "at least so many"},
	{"when", AT(when.text), .null = true},
	{0},
};
#undef AT
static const struct record remedy_record = {.fields = remedy_fields, .size = sizeof(struct rule)};

/* What an operator can do to its jobs. */
static void acts_json(const void *row, const struct viewer *v, struct buf *out)
{
	const struct watch *w = row;
	struct failure f = {0};
	int n = 0;
	(void)v;
	buf_add(out, "[");
	for (const struct act_kind *k = act_kinds; k < act_kinds + ACT_COUNT; k++)
		if (k->by_hand != BY_HAND_NO && act_configured(k, w, &f) == DEFIB_OK)
			buf_addf(out, "%s\"%s\"", n++ ? "," : "", k->verb);
	buf_add(out, "]");
}

#define AT(member) FIELD_AT(struct watch, member)
#define N(member) FIELD_N(struct watch, member)
static const struct field rules_fields[] = {
	{"stuck_after", FIELD_RECORD, AT(stuck_after), FIELD_HAS(struct watch, stuck_after.given),
     .of = &threshold_record},
	{"overdue_after", FIELD_RECORD, AT(overdue_after), FIELD_HAS(struct watch, overdue_after.given),
     .of = &threshold_record},
	{"stalled_after", FIELD_RECORD, AT(stalled_after), FIELD_HAS(struct watch, stalled_after.given),
     .of = &threshold_record},
	{"beat_s", FIELD_SECONDS, AT(beat_us), .zero_null = true},
	{"every_s", FIELD_SECONDS, AT(every_us)},
	{"running", AT(running.text)},
	{"states", FIELD_MAP, MASK_VALUES, .pair = state_pair, .about = "names of states, by code"},
	{"mask", FIELD_TEXTS, AT(mask.items), N(mask.n), .about = "columns that are masked"},
	{"remedies", FIELD_LIST, AT(rules), N(nrules), .of = &remedy_record},
	{"acts", FIELD_JSON, .json = acts_json, .schema = "{type: array, items: {type: string}}",
     .about = "the actions that the watch configures"},
	{0},
};
#undef AT
#undef N
static const struct record rules_record = {.fields = rules_fields, .size = sizeof(struct watch)};

/* A watch with its effective configuration. */
struct watch_detail {
	struct watch_view view;
	const struct settings *settings;
};

/* With origins. */
static void config_of_json(const void *row, const struct viewer *v, struct buf *out)
{
	const struct watch_detail *x = row;
	const struct settings *s = x->settings;
	AUTO_BUF prefix = BUF_INIT;
	int from = 0, n = 0;
	(void)v;
	buf_addf(&prefix, "watches.%s.", x->view.watch->name);
	while (from < s->nshown && !text_starts(s->shown[from].path, buf_text(&prefix)))
		from++;
	while (from + n < s->nshown && text_starts(s->shown[from + n].path, buf_text(&prefix)))
		n++;
	config_json(s->shown + from, n, out);
}

static const struct field detail_fields[] = {
	{.type = FIELD_MEMBERS, FIELD_AT(struct watch_detail, view), .of = &watch_record},
	{.type = FIELD_MEMBERS, .part = view_watch, .of = &rules_record},
	{"config", FIELD_JSON, .json = config_of_json,
     .schema = "{type: array, items: {$ref: \"#/components/schemas/Setting\"}}",
     .about = "what is in force, with origins"},
	{0},
};

const struct record watch_detail_record = {
	.name = "WatchDetail",
	.about = "a watch and its effective configuration",
	.fields = detail_fields,
	.size = sizeof(struct watch_detail),
};

const struct record *const api_records[] = {
	&watch_record, &watch_detail_record, &threshold_record,
	&trend_record, &claimed_record,      &status_record,
	NULL,
};

/* ---- from memory ---- */

static const struct overview_watch *in_overview(const struct overview_view *v, const char *name,
                                                const char *database)
{
	for (int i = 0; i < v->nwatches; i++)
		if (text_eq(v->watches[i].name, name) && text_eq(v->watches[i].database, database))
			return &v->watches[i];
	return NULL;
}

static struct watch_view view_of(const struct api_call *c, const struct overview_view *v,
                                 const struct watch *w, const struct database *d)
{
	int64_t now_ms = clock_boot_ms();
	return (struct watch_view){
		.watch = w,
		.database = d,
		.builtin = !settings_watch(&c->setup->settings, w->name),
		.overview = in_overview(v, w->name, d->name),
		.now_ms = now_ms,
		.started_ms = now_ms - (clock_wall_us() - c->api->started_us) / 1000,
	};
}

static void api_watches_add_watch(struct api_call *c, const struct watch_view *v, int *n)
{
	struct viewer seen = api_viewer(c, NULL);
	buf_add(&c->out->body, (*n)++ ? ",\n" : "\n");
	record_json(&watch_record, v, &seen, &c->out->body);
}

/* The built-in queue is in no configuration file: it is listed if the daemon has it. */
static void list_watches(struct api_call *c)
{
	const struct settings *s = &c->setup->settings;
	struct overview_view v;
	int n = 0;
	overview_read(c->api->overview, &c->arena, &v);
	buf_add(&c->out->body, "{\"watches\":[");
	for (int i = 0; i < s->nwatches; i++) {
		struct watch_view one =
			view_of(c, &v, &s->watches[i], settings_database(s, &s->watches[i]));
		api_watches_add_watch(c, &one, &n);
	}
	for (int i = 0; i < s->ndatabases && !settings_watch(s, BUILTIN_NAME); i++) {
		const struct database *d = &s->databases[i];
		if (!in_overview(&v, BUILTIN_NAME, d->name))
			continue;
		struct watch_view one = view_of(c, &v, builtin_watch(d->engine, &c->arena), d);
		api_watches_add_watch(c, &one, &n);
	}
	buf_add(&c->out->body, "\n]}\n");
}

static void show_watch(struct api_call *c)
{
	struct overview_view v;
	if (!api_watch_named(c))
		return;
	struct viewer seen = api_viewer(c, NULL);
	overview_read(c->api->overview, &c->arena, &v);
	const struct watch_detail one = {view_of(c, &v, c->watch, c->database), &c->setup->settings};
	record_json(&watch_detail_record, &one, &seen, &c->out->body);
	buf_add(&c->out->body, "\n");
}

static void show_config(struct api_call *c)
{
	config_json(c->setup->settings.shown, c->setup->settings.nshown, &c->out->body);
	buf_add(&c->out->body, "\n");
}

/* ---- in the request pool of its database ---- */

static void show_stats(struct api_call *c)
{
	struct tally *tally = ARENA_NEW(&c->arena, struct tally);
	struct api_watch *w;
	if (!api_bound(c, &w) || tally_watch(c->session->store, &w->sql, &w->ledger, TALLY_QUICK,
	                                     &c->arena, tally, &c->failure))
		return;
	struct viewer v = api_viewer(c, c->watch);
	record_json(&tally_record, tally, &v, &c->out->body);
	buf_add(&c->out->body, "\n");
}

/*
 * A read changes nothing: runs that ended since are learnt for this answer only; the daemon stores
 * them.
 */
static void show_learned(struct api_call *c)
{
	struct learned *learned = learn_why_not(c->watch) ? NULL : ARENA_NEW(&c->arena, struct learned);
	struct api_watch *w;
	if (!api_bound(c, &w) || (learned && learn_observe(c->session->store, &w->binding, false,
	                                                   &c->arena, learned, &c->failure)))
		return;
	struct viewer v = api_viewer(c, c->watch);
	record_json(&learned_record, &(struct learned_view){learned}, &v, &c->out->body);
	buf_add(&c->out->body, "\n");
}

static void explain_job(struct api_call *c)
{
	const struct watch *seen = api_seen(c, c->watch);
	const char *job = api_job_named(c, c->watch, c->parts[1]);
	struct explained *x = ARENA_NEW(&c->arena, struct explained);
	struct api_watch *w;
	bool found = false;
	if (!job || !api_bound(c, &w) ||
	    explain_read(&(struct look){c->session->store, &w->sql, &w->ledger, &c->arena}, seen, job,
	                 c->setup->settings.ledger != LEDGER_OFF, x, &found, &c->failure))
		return;
	if (!found) {
		api_problem(c, 404, "table %s has no row with that key", c->watch->table);
		return;
	}
	explain_guard(c->session->store, c->database, seen, &c->arena, x);
	struct viewer v = api_viewer(c, c->watch);
	record_json(&explained_record, x, &v, &c->out->body);
	buf_add(&c->out->body, "\n");
}

/* ---- a whole database ---- */

struct findings {
	struct api_call *call;
	int count[FINDING_LEVELS], n;
};

static void api_watches_take_finding(void *ctx, const struct finding *f)
{
	struct findings *x = ctx;
	struct viewer v = api_viewer(x->call, NULL);
	buf_add(&x->call->out->body, x->n++ ? ",\n" : "\n");
	record_json(&finding_record, f, &v, &x->call->out->body);
	x->count[f->level]++;
}

static void api_watches_examine(struct api_call *c)
{
	const struct settings *s = &c->setup->settings;
	const struct watch **watches = ARENA_ARRAY(&c->arena, const struct watch *, s->nwatches + 1);
	struct findings x = {.call = c};
	struct doctor doctor = {
		.database = c->database,
		.store = c->session->options,
		.open = store_open,
		.watches = watches,
		.configured = s->nwatches,
		.ledger_off = s->ledger == LEDGER_OFF,
		.idle_us = IDLE_US,
		.found = api_watches_take_finding,
		.ctx = &x,
	};
	if (!api_query_duration(c, "idle_after", &doctor.idle_us))
		return;
	doctor.store.read_only = true;
	for (int i = 0; i < s->nwatches; i++)
		if (settings_database(s, &s->watches[i]) == c->database)
			watches[doctor.nwatches++] = &s->watches[i];
	buf_add(&c->out->body, "{\"findings\":[");
	doctor_examine(&doctor);
	buf_addf(&c->out->body, "\n],\"ok\":%d,\"warn\":%d,\"fail\":%d}\n", x.count[FINDING_OK],
	         x.count[FINDING_WARN], x.count[FINDING_FAIL]);
}

static void add_watch_status(struct api_call *c, const char *watch,
                             const struct stored_status *stored, int *n)
{
	struct watch_status st;
	struct viewer v = api_viewer(c, NULL);
	watch_status_init(&st, c->database, watch, stored);
	buf_add(&c->out->body, (*n)++ ? ",\n" : "\n");
	record_json(&watch_status_record, &st, &v, &c->out->body);
	watch_status_release(&st);
}

static void list_watch_status(struct api_call *c)
{
	const struct settings *s = &c->setup->settings;
	struct stored_status stored;
	int n = 0;
	if (stored_status_read(c->session->store, &c->arena, &stored, &c->failure) ||
	    stored_status_attachments(c->session->store, &c->arena, &stored, &c->failure))
		return;
	buf_add(&c->out->body, "{\"watches\":[");
	for (int i = 0; i < s->nwatches; i++)
		if (s->watches[i].enabled && settings_database(s, &s->watches[i]) == c->database)
			add_watch_status(c, s->watches[i].name, &stored, &n);
	if (!settings_watch(s, BUILTIN_NAME) && leader_known(&stored.led, BUILTIN_NAME))
		add_watch_status(c, BUILTIN_NAME, &stored, &n);
	buf_add(&c->out->body, "\n]}\n");
}

const struct api_route api_watch_routes[] = {
	API_GET("/watches", ROLE_VIEWER, API_MEMORY, "", "all watches, as this daemon sees them",
            list_watches),
	API_GET("/watches/{watch}", ROLE_VIEWER, API_MEMORY, "database",
            "one watch and its effective configuration", show_watch),
	API_GET("/watches/{watch}/stats", ROLE_VIEWER, API_WATCH, "", "its job counts and recoveries",
            show_stats),
	API_GET("/watches/{watch}/learn", ROLE_VIEWER, API_WATCH, "",
            "how long runs take, and what that suggests for its thresholds", show_learned),
	API_GET("/watches/{watch}/explain/{key}", ROLE_VIEWER, API_WATCH, "",
            "whether a job is stuck, by which rule, and what would be done", explain_job),
	API_GET("/doctor", ROLE_OPERATOR, API_DATABASE, "idle_after",
            "what will go wrong in a database, and how to fix it", api_watches_examine),
	API_GET("/watch-status", ROLE_VIEWER, API_DATABASE, "",
            "state of the watches of a database, whichever daemon leads them", list_watch_status),
	API_GET("/config", ROLE_ADMIN, API_MEMORY, "",
            "the effective configuration and where each value came from", show_config),
	{.method = NULL},
};

/* SPDX-License-Identifier: Apache-2.0
 * api_watches.c: watches: from memory what the daemon itself knows, and from the database what
 * commands read there: numbers, run times, explanations, findings, states.
 */
#include "http/api.h"

#include "base/clock.h"
#include "insight/learn.h"
#include "insight/tally.h"
#include "recover/by_hand.h"
#include "setup/doctor.h"
#include "view/installation.h"
#include "view/job.h"
#include "view/output.h"
#include "view/stats.h"
#include "view/status.h"

#define IDLE_US (60 * US_PER_S) /* of a transaction that doctor warns about */

/* ---- its state ---- */

/*
 * The status of view/status.h, as far as the leader itself knows it; NULL: this daemon does not
 * lead, and only the database knows who does.
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

static void add_overview(const struct watch_view *v, struct buf *out)
{
	const struct overview_watch *b = v->overview;
	json_auto_t *info = b && b->info ? json_loads(b->info, 0, NULL) : NULL;
	json_bool(out, "leads", b && b->leads);
	json_text(out, "status", watch_status_word(v, info));
	json_text(out, "standing", watch_status_word(v, info)); /* its old name */
	json_bool(out, "paused", b && b->paused);
	json_bool(out, "braking", b && b->braking);
	json_bool(out, "doubting", b && b->doubting);
	json_number(out, "alerts_firing", b && b->leads, b ? b->firing : 0);
	json_time(out, "last_scan", b && b->passed_us, b ? b->passed_us : 0);
	json_text(out, "failure", b ? b->failed : NULL);
	buf_addf(out, ",\"info\":%s", info ? b->info : "null");
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
	json_texts(out, "key", w->key.items, w->key.n);
	json_texts(out, "show", w->show.items, w->show.n);
	add_overview(v, out);
}

/* ---- its configuration ---- */

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

/* What an operator can do to its jobs. */
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

/* Its rules: members of the same object. */
static void watch_rules_json(const struct watch *w, struct buf *out)
{
	add_threshold("stuck_after", &w->stuck_after, out);
	add_threshold("overdue_after", &w->overdue_after, out);
	json_seconds(out, "beat_s", w->beat_us > 0, w->beat_us);
	json_seconds(out, "every_s", true, w->every_us);
	json_text(out, "running", w->running.text);
	add_states(&w->states, out);
	json_texts(out, "mask", w->mask.items, w->mask.n);
	add_remedies(w, out);
	add_acts(w, out);
}

/* Its configuration with origins: ,"config":[…] */
static void watch_config_json(const struct watch *w, const struct settings *s, struct buf *out)
{
	AUTO_BUF prefix = BUF_INIT;
	int from = 0, n = 0;
	buf_addf(&prefix, "watches.%s.", w->name);
	while (from < s->nshown && !text_starts(s->shown[from].path, buf_text(&prefix)))
		from++;
	while (from + n < s->nshown && text_starts(s->shown[from + n].path, buf_text(&prefix)))
		n++;
	buf_add(out, ",\"config\":");
	config_json(s->shown + from, n, out);
}

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

static void add_watch(struct api_call *c, const struct watch_view *v, int *n)
{
	buf_add(&c->out->body, (*n)++ ? ",\n" : "\n");
	watch_json(v, &c->out->body);
	buf_add(&c->out->body, "}");
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
		add_watch(c, &one, &n);
	}
	for (int i = 0; i < s->ndatabases && !settings_watch(s, BUILTIN_NAME); i++) {
		const struct database *d = &s->databases[i];
		if (!in_overview(&v, BUILTIN_NAME, d->name))
			continue;
		struct watch_view one = view_of(c, &v, builtin_watch(d->engine, &c->arena), d);
		add_watch(c, &one, &n);
	}
	buf_add(&c->out->body, "\n]}\n");
}

static void show_watch(struct api_call *c)
{
	struct overview_view v;
	struct buf *out = &c->out->body;
	if (!api_watch_named(c))
		return;
	overview_read(c->api->overview, &c->arena, &v);
	struct watch_view one = view_of(c, &v, c->watch, c->database);
	watch_json(&one, out);
	watch_rules_json(c->watch, out);
	watch_config_json(c->watch, &c->setup->settings, out);
	buf_add(out, "}\n");
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
	tally_json(c->watch, c->database, w->ledger.ready, tally, &c->out->body);
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
	learned_json(c->watch, c->database, learned, &c->out->body);
	buf_add(&c->out->body, "\n");
}

static void explain_job(struct api_call *c)
{
	const struct watch *seen = api_seen(c, c->watch);
	const char *job = job_named(c, c->watch, c->parts[1]);
	struct explained *x = ARENA_NEW(&c->arena, struct explained);
	struct api_watch *w;
	bool found = false;
	if (!job || !api_bound(c, &w) ||
	    explain_read(c->session->store, &w->sql, &w->ledger, seen, job,
	                 c->setup->settings.ledger != LEDGER_OFF, &c->arena, x, &found, &c->failure))
		return;
	if (!found) {
		api_problem(c, 404, "table %s has no row with that key", c->watch->table);
		return;
	}
	explain_guard(c->session->store, c->database, seen, &c->arena, x);
	explained_json(seen, c->database, x, &c->out->body);
	buf_add(&c->out->body, "\n");
}

/* ---- a whole database ---- */

struct findings {
	struct api_call *call;
	int count[FINDING_LEVELS], n;
};

static void take_finding(void *ctx, const struct finding *f)
{
	struct findings *x = ctx;
	buf_add(&x->call->out->body, x->n++ ? ",\n" : "\n");
	finding_json(f, &x->call->out->body);
	x->count[f->level]++;
}

static void examine(struct api_call *c)
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
		.found = take_finding,
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
	watch_status_init(&st, c->database, watch, stored);
	buf_add(&c->out->body, (*n)++ ? ",\n" : "\n");
	watch_status_json(&st, &c->out->body);
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
            "what will go wrong in a database, and how to fix it", examine),
	API_GET("/watch-status", ROLE_VIEWER, API_DATABASE, "",
            "state of the watches of a database, whichever daemon leads them", list_watch_status),
	API_GET("/standings", ROLE_VIEWER, API_DATABASE, "", "the old name of /watch-status",
            list_watch_status),
	API_GET("/config", ROLE_ADMIN, API_MEMORY, "",
            "the effective configuration and where each value came from", show_config),
	{.method = NULL},
};

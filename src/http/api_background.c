/* SPDX-License-Identifier: Apache-2.0
 * api_background.c: acts on all jobs that match, which a daemon carries out in the background:
 * ordering one, looking at it, cancelling it. What it did is undone as every batch is.
 */
#include "base/text.h"
#include "daemon/background_acts.h"
#include "http/api.h"
#include "view/background.h"
#include "view/output.h"

#define ACTS_PAGE 20
#define ACTS_MOST 200

void call_background(struct api_call *c, const struct background_order *o, const struct bound *b)
{
	struct background_act act;
	struct background_act *stored = NULL;
	int n = 0;
	if (background_plan(c->session, b, c->watch, o, &c->arena, &act, &c->failure) ||
	    background_add(c->session->store, &act, &c->failure))
		return;
	if (background_read(c->session->store, act.id, 1, &c->arena, &stored, &n, &c->failure))
		return;
	c->out->status = 202;
	background_json(n ? stored : &act, c->database, &c->out->body);
	buf_add(&c->out->body, "\n");
}

/* What operators typed may name what is masked for a viewer. */
static void add_act(struct api_call *c, const struct background_act *act)
{
	struct background_act seen = *act;
	if (c->role < ROLE_OPERATOR) {
		seen.terms = "[]";
		seen.reason = seen.refusal = NULL;
	}
	background_json(&seen, c->database, &c->out->body);
}

static void list_acts(struct api_call *c)
{
	struct buf *out = &c->out->body;
	struct background_act *acts = NULL;
	int64_t limit = ACTS_PAGE;
	bool there = false;
	int n = 0;
	if (!api_query_int(c, "limit", 1, ACTS_MOST, &limit) ||
	    background_open(c->session->store, false, &there, &c->failure) ||
	    (there &&
	     background_read(c->session->store, NULL, limit, &c->arena, &acts, &n, &c->failure)))
		return;
	buf_add(out, "{\"database\":");
	buf_add_json(out, c->database->name);
	buf_add(out, ",\"acts\":[");
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? ",\n" : "\n");
		add_act(c, &acts[i]);
	}
	buf_add(out, "\n]}\n");
}

/* False after a problem. */
static bool act_named(struct api_call *c, struct background_act **act)
{
	bool there = false;
	int n = 0;
	if (background_open(c->session->store, false, &there, &c->failure) ||
	    (there &&
	     background_read(c->session->store, c->parts[0], 1, &c->arena, act, &n, &c->failure)))
		return false;
	return n || api_problem(c, 404, "there is no background act %s in database %s", c->parts[0],
	                        c->database->name);
}

static void show_act(struct api_call *c)
{
	struct background_act *act = NULL;
	if (!act_named(c, &act))
		return;
	add_act(c, act);
	buf_add(&c->out->body, "\n");
}

static void cancel_act(struct api_call *c)
{
	struct background_act *act = NULL;
	bool was = false;
	if (!act_named(c, &act) || background_cancel(c->session->store, c->parts[0], &was, &c->failure))
		return;
	if (!was) {
		api_problem(c, 409, "background act %s has ended: %s", act->id, act->state);
		return;
	}
	show_act(c);
}

const struct api_route api_background_routes[] = {
	API_GET("/acts", ROLE_VIEWER, API_DATABASE, "limit",
            "background acts, those that have not ended first", list_acts),
	API_GET("/acts/{id}", ROLE_VIEWER, API_DATABASE, "", "one background act", show_act),
	API_POST("/acts/{id}/cancel", ROLE_OPERATOR, API_DATABASE, "",
             "cancel a background act; what was done stays", cancel_act),
	{.method = NULL},
};

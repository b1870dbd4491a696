/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/workflow.h"

#include <assert.h>
#include <jansson.h>

#define NO_SUCH_STEP "the workflow no longer has such a step"

const char *const step_state_names[] = {
#define X(id, name) name,
	STEP_STATE_LIST(X)
#undef X
		NULL,
};

const char *const step_after_names[] = {
#define X(id, name) name,
	STEP_AFTER_LIST(X)
#undef X
		NULL,
};

/* ---- recorded steps ---- */

static int state_named(const char *name)
{
	for (int i = 0; name && step_state_names[i]; i++)
		if (text_eq(step_state_names[i], name))
			return i;
	return -1;
}

static const char *workflow_copied(const char *text, struct arena *a)
{
	return text ? arena_strdup(a, text) : NULL;
}

bool step_records_parse(const char *json, struct arena *a, struct step_records *out)
{
	*out = (struct step_records){0};
	if (!json)
		return true;
	json_auto_t *array = json_read(json, 0);
	size_t count = json_array_size(array);
	bool good = json_is_array(array);
	out->items = ARENA_ARRAY(a, struct step_record, count);
	for (size_t i = 0; i < count && good; i++) {
		const json_t *one = json_array_get(array, i);
		const char *name = json_string_value(json_object_get(one, "step"));
		int state = state_named(json_string_value(json_object_get(one, "state")));
		good = name && state >= 0;
		if (good)
			out->items[out->n++] = (struct step_record){
				.name = arena_strdup(a, name),
				.state = (enum step_state)state,
				.output = workflow_copied(json_string_value(json_object_get(one, "output")), a),
			};
	}
	return good;
}

static const struct step_record *record_named(const struct step_records *all, const char *name)
{
	for (int i = 0; i < all->n; i++)
		if (text_eq(all->items[i].name, name))
			return &all->items[i];
	return NULL;
}

static const struct workflow_step *step_named(const struct workflow *w, const char *name)
{
	for (int i = 0; i < w->nsteps; i++)
		if (text_eq(w->steps[i].name, name))
			return &w->steps[i];
	return NULL;
}

/* ---- the next step ---- */

static struct step_choice choose_run(const struct workflow *w, const struct step_records *recorded)
{
	struct step_choice c = {.end = {.side = STEP_SIDE_RUN, .saga = w->saga}};
	for (int i = 0; i < w->nsteps; i++) {
		const struct workflow_step *s = &w->steps[i];
		const struct step_record *r = record_named(recorded, s->name);
		if (r && r->state == STEP_DONE) {
			c.result = r->output;
		} else if (!c.step) {
			c.step = s;
			c.end.name = s->name;
			c.end.position = i;
		} else {
			c.end.more = true;
		}
	}
	if (c.step)
		c.result = NULL;
	return c;
}

static void workflow_pass(struct buf *passed, const char *name, enum step_state state,
                          const char *error)
{
	buf_add(passed, passed->len ? ",{\"step\":" : "{\"step\":");
	buf_add_json(passed, name);
	buf_addf(passed, ",\"state\":\"%s\",\"error\":", step_state_names[state]);
	if (error)
		buf_add_json(passed, error);
	else
		buf_add(passed, "null");
	buf_add(passed, "}");
}

/* The last one that can be undone; adjacent steps without an undo end with it. */
static struct step_choice choose_undo(const struct workflow *w, const struct step_records *recorded,
                                      struct arena *a)
{
	struct step_choice c = {.end = {.side = STEP_SIDE_UNDO, .saga = w->saga}};
	AUTO_BUF passed = BUF_INIT;
	for (int i = recorded->n - 1; i >= 0 && !c.end.more; i--) {
		const struct step_record *r = &recorded->items[i];
		if (r->state != STEP_DONE)
			continue;
		const struct workflow_step *s = step_named(w, r->name);
		if (!s) {
			workflow_pass(&passed, r->name, STEP_UNDO_FAILED, NO_SUCH_STEP);
		} else if (!step_has_undo(s)) {
			workflow_pass(&passed, r->name, STEP_UNDONE, NULL);
		} else if (!c.step) {
			c.step = s;
			c.end.name = s->name;
			c.end.position = s - w->steps;
		} else {
			c.end.more = true;
		}
	}
	if (passed.len)
		c.end.passed = arena_printf(a, "[%s]", buf_text(&passed));
	return c;
}

struct step_choice workflow_choose(const struct workflow *w, const struct step_records *recorded,
                                   bool undoing, struct arena *a)
{
	struct step_choice c = undoing ? choose_undo(w, recorded, a) : choose_run(w, recorded);
	assert(c.step || !c.end.more);
	assert((c.step != NULL) == (c.end.name != NULL));
	return c;
}

/* ---- its input ---- */

/* A run sees the outputs of earlier steps; an undo also those of its own step and undone ones. */
static bool is_seen(const struct step_record *r, enum step_side side)
{
	return side == STEP_SIDE_UNDO ? r->state != STEP_AGAIN : r->state == STEP_DONE;
}

const char *workflow_output(const struct step_end *end, const struct step_records *recorded,
                            const char *name)
{
	const struct step_record *r = record_named(recorded, name);
	return r && is_seen(r, end->side) ? r->output : NULL;
}

void workflow_input(const struct step_end *end, const struct step_records *recorded,
                    const char *payload, struct buf *out)
{
	const char *between = "";
	buf_addf(out, "{\"payload\":%s,\"outputs\":{", payload ? payload : "null");
	for (int i = 0; i < recorded->n; i++) {
		const struct step_record *r = &recorded->items[i];
		if (!is_seen(r, end->side))
			continue;
		buf_add(out, between);
		buf_add_json(out, r->name);
		buf_addf(out, ":%s", r->output ? r->output : "null");
		between = ",";
	}
	buf_add(out, "},\"step\":");
	buf_add_json(out, end->name);
	buf_addf(out, ",\"undo\":%s}", end->side == STEP_SIDE_UNDO ? "true" : "false");
}

/* ---- what the end of a step means ---- */

/* An outcome or a fact as a bit, so that a row of the rules is one comparison. */
enum {
#define X(id, name) id = 1 << SETTLE_##id,
	SETTLE_LIST(X)
#undef X
		ANY = (1 << SETTLE_COUNT) - 1
};
enum { CANCELLING = 1, UNDOING = 2, MORE = 4, ATTEMPTS_LEFT = 8, SAGA = 16, ANY_DONE = 32 };

enum step_after step_after(const struct step_facts *f)
{
	static const struct {
		int as, needs, lacks;
		enum step_after after;
	} rules[] = {
#define X(as, needs, lacks, after) {as, needs, lacks, AFTER_##after},
		AFTER_RULES(X)
#undef X
	};
	int facts = (f->cancelling ? CANCELLING : 0) | (f->undoing ? UNDOING : 0) |
	            (f->more ? MORE : 0) | (f->attempts_left ? ATTEMPTS_LEFT : 0) |
	            (f->saga ? SAGA : 0) | (f->any_done ? ANY_DONE : 0);
	int i = 0; /* the last row fits all */
	while (!(rules[i].as & 1 << f->as) || (facts & rules[i].needs) != rules[i].needs ||
	       (facts & rules[i].lacks))
		i++;
	return rules[i].after;
}

/* Of the built-in queue. */
static const char *state_after(enum step_after after)
{
	switch (after) {
	case AFTER_RELEASED:
		return "queued";
	case AFTER_RETRY:
		return "scheduled";
	default:
		return step_after_names[after];
	}
}

struct settle_result settle_after(const struct settle_facts *f)
{
	static const char *const causes[SETTLE_COUNT] = {
		[SETTLE_FAILED] = "error",       [SETTLE_RETRY] = "error",   [SETTLE_PERMANENT] = "error",
		[SETTLE_TIMED_OUT] = "time-out", [SETTLE_CRASHED] = "crash",
	};
	const struct step_facts facts = {
		.as = f->as,
		.cancelling = f->cancelling,
		.attempts_left = f->attempts < f->max_attempts,
	};
	bool keeps_cause = f->as == SETTLE_RELEASED || f->as == SETTLE_STOPPED;
	enum step_after after = step_after(&facts);
	return (struct settle_result){
		.after = after,
		.state = state_after(after),
		.attempts = f->attempts - keeps_cause,
		.crashed = f->as == SETTLE_CRASHED,
		.over = after != AFTER_RELEASED && after != AFTER_RETRY,
		.keeps_cause = keeps_cause,
		.cause = causes[f->as],
		.wait_ms = after == AFTER_RETRY ? f->delay_ms : 0,
	};
}

/* ---- as text ---- */

void step_end_json(const struct step_end *e, struct buf *out)
{
	assert(e->side != STEP_SIDE_NONE);
	buf_add(out, "{\"step\":");
	if (e->name)
		buf_add_json(out, e->name);
	else
		buf_add(out, "null");
	buf_addf(out, ",\"position\":%lld,\"undo\":%s,\"more\":%s,\"saga\":%s", (long long)e->position,
	         e->side == STEP_SIDE_UNDO ? "true" : "false", e->more ? "true" : "false",
	         e->saga ? "true" : "false");
	if (e->passed)
		buf_addf(out, ",\"passed\":%s", e->passed);
	buf_add(out, "}");
}

static const char *dumped(const json_t *value, struct arena *a)
{
	char *text = json_is_array(value) ? json_dumps(value, JSON_COMPACT) : NULL;
	const char *copy = workflow_copied(text, a);
	free(text);
	return copy;
}

bool step_end_parse(const char *json, struct arena *a, struct step_end *out)
{
	*out = (struct step_end){0};
	if (!json)
		return true;
	json_auto_t *o = json_read(json, 0);
	const json_t *undo = json_object_get(o, "undo");
	bool good = json_is_boolean(undo);
	if (good)
		*out = (struct step_end){
			.side = json_is_true(undo) ? STEP_SIDE_UNDO : STEP_SIDE_RUN,
			.name = workflow_copied(json_string_value(json_object_get(o, "step")), a),
			.position = json_integer_value(json_object_get(o, "position")),
			.more = json_is_true(json_object_get(o, "more")),
			.saga = json_is_true(json_object_get(o, "saga")),
			.passed = dumped(json_object_get(o, "passed"), a),
		};
	return good;
}

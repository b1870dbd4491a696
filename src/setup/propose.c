/* SPDX-License-Identifier: Apache-2.0 */
/* propose.c: which columns of a table mean what. The lines are made in propose_lines.c. */
#include "setup/propose.h"

#include "base/text.h"
#include "setup/propose_inside.h"
#include "setup/propose_words.h"
#include "store/dialect.h"

const char *value_word(const struct column_value *v)
{
	return v->label ? v->label : v->value;
}

bool column_is_empty(const struct table_facts *t, const struct table_column *c)
{
	if (!c->counted)
		return false;
	if (t->counted_in_work && t->in_work > 0)
		return 2 * c->in_work < t->in_work;
	return t->rows > 0 && c->filled == 0;
}

/* ---- which rows are being worked on ---- */

static const struct column_value *
value_named(const struct table_column *c, const char *const *words, const struct column_value *but)
{
	const struct column_value *best = NULL;
	int best_rank = 0;
	for (int whole = 1; whole >= 0 && !best; whole--)
		for (int i = 0; i < c->nvalues; i++) {
			const struct column_value *v = &c->values[i];
			/* What rows begin with is hardly what a worker makes of them. */
			if ((but && v == but) || text_eq(v->value, c->standard))
				continue;
			int rank = whole ? word_exact(words, value_word(v)) : word_rank(words, value_word(v));
			if (rank >= 0 && (!best || rank < best_rank)) {
				best = v;
				best_rank = rank;
			}
		}
	return best;
}

/* Rows may begin in these: the column's default counts. */
static const struct column_value *resting_value(const struct table_column *c,
                                                const char *const *words,
                                                const struct column_value *but)
{
	struct table_column open = *c;
	open.standard = NULL;
	return value_named(&open, words, but);
}

#define ASK_STATE "is a row in this state running?"

/* A word that says little alone, beside another: */
enum company {
	COMPANY_NONE,
	COMPANY_OF_WORK,  /* a value that a queue has and an address book has not */
	COMPANY_OF_QUEUE, /* a value for what waits, and a column for who has a row */
};

/* From the surest reading to the least; what is not sure is checked by a person. */
static const struct {
	const char *const *words;
	enum company needs;
	const char *check;
	bool queue;
} running_words[] = {
	{values_running, COMPANY_NONE, NULL, true},
	{values_maybe, COMPANY_OF_WORK, NULL, true},
	{values_pending, COMPANY_OF_QUEUE, ASK_STATE, true},
	{values_stopping, COMPANY_OF_WORK, ASK_STATE, false},
};

static bool has_company(const struct table_facts *t, const struct table_column *c,
                        const struct column_value *v, enum company needs)
{
	if (needs == COMPANY_NONE)
		return true;
	if (needs == COMPANY_OF_QUEUE)
		return resting_value(c, values_queued, v) && column_named(t, words_owner, fits_owner);
	return resting_value(c, values_ready, v) || resting_value(c, values_failed, v) ||
	       resting_value(c, values_over, v);
}

static bool may_hold_state(const struct table_column *c)
{
	return c->class == CLASS_TEXT || c->class == CLASS_NUMBER || c->class == CLASS_OTHER;
}

static void find_state(struct finding *f)
{
	size_t n = sizeof running_words / sizeof *running_words;
	for (size_t w = 0; w < n && !f->running; w++)
		for (int i = 0; i < f->t->ncolumns && !f->running; i++) {
			const struct table_column *c = &f->t->columns[i];
			const struct column_value *v =
				may_hold_state(c) ? value_named(c, running_words[w].words, NULL) : NULL;
			if (!v || !has_company(f->t, c, v, running_words[w].needs))
				continue;
			f->state = c;
			f->running = v;
			f->running_check = running_words[w].check;
			f->running_sure = running_words[w].queue;
			f->by = BY_STATE;
		}
}

static bool fits_flag(const struct table_facts *t, const struct table_column *c)
{
	(void)t;
	return c->class == CLASS_BOOL;
}

static bool fits_state(const struct table_facts *t, const struct table_column *c)
{
	(void)t;
	return may_hold_state(c);
}

static bool fits_nullable_time(const struct table_facts *t, const struct table_column *c)
{
	return c->nullable && column_is_time(c, t->engine);
}

static bool fits_used_lock(const struct table_facts *t, const struct table_column *c)
{
	return fits_nullable_time(t, c) && !(c->counted && c->filled == 0);
}

static bool fits_holder(const struct table_facts *t, const struct table_column *c)
{
	return fits_owner(t, c) && c->nullable && !facts_is_key(t, c);
}

/* A row is there while a worker has it: who has it, and until when, is all it says. */
static bool is_held_by_owner(struct finding *f)
{
	f->owner = column_named(f->t, words_holder, fits_holder);
	return f->owner && (column_named(f->t, words_lease, fits_time) ||
	                    column_named(f->t, words_deadline, fits_time));
}

/* One that is used before one that is not, and what means something else outside a queue last. */
static void find_lock(struct finding *f)
{
	f->lock = column_named(f->t, words_lock, fits_used_lock);
	if (!f->lock)
		f->lock = column_named(f->t, words_lock, fits_nullable_time);
	if (!f->lock && column_named(f->t, words_queue, fits_any))
		f->lock = column_named(f->t, words_handed, fits_nullable_time);
}

static void find_running(struct finding *f)
{
	find_state(f);
	find_lock(f);
	if (f->by != BY_NOTHING)
		return;
	f->flag = column_named(f->t, words_flag, fits_flag);
	f->running_sure = true;
	if (f->flag) {
		f->by = BY_FLAG;
	} else if (f->lock) {
		f->by = BY_LOCK;
	} else if (is_held_by_owner(f)) {
		f->by = BY_OWNER;
		f->running_check = "is a row with an owner running?";
	} else {
		/* A state in codes that nobody has named is shown to the person who knows them. */
		f->state = column_named(f->t, words_state, fits_state);
		f->running_sure = false;
		if (f->started && f->started->nullable && f->finished && f->finished->nullable)
			f->by = BY_TIMES;
	}
}

static void find_rest(struct finding *f)
{
	if (f->by != BY_STATE)
		return;
	f->ready = resting_value(f->state, values_ready, f->running);
	f->ready_sure = f->ready != NULL;
	for (int i = 0; !f->ready && i < f->state->nvalues; i++)
		if (text_eq(f->state->values[i].value, f->state->standard))
			f->ready = &f->state->values[i];
	f->failed = resting_value(f->state, values_failed, f->running);
}

/* ---- the sign of life ---- */

static bool fits_used_time(const struct table_facts *t, const struct table_column *c)
{
	return fits_time(t, c) && !column_is_empty(t, c);
}

static bool fits_time_by_name(const struct table_facts *t, const struct table_column *c)
{
	bool shown = c->counted && t->counted_in_work && t->in_work > 0;
	return fits_time(t, c) && !(shown && c->in_work == 0);
}

static bool fits_count(const struct table_facts *t, const struct table_column *c)
{
	return fits_number(t, c) && !facts_is_key(t, c);
}

static void find_sign(struct finding *f)
{
	const struct {
		const char *const *words;
		enum sign_of what;
	} own[] = {
		{words_beat, SIGN_OF_BEAT},     {words_lease, SIGN_OF_LEASE},
		{words_lock, SIGN_OF_LOCK},     {words_updated, SIGN_OF_UPDATE},
		{words_started, SIGN_OF_START}, {words_deadline, SIGN_OF_DEADLINE},
	};
	/* By their contents, then, where nothing is in work that could show them, by their names. */
	for (int named = 0; named < 2 && !f->sign; named++)
		for (size_t i = 0; i < sizeof own / sizeof *own && !f->sign; i++) {
			column_fits fits = named ? fits_time_by_name : fits_used_time;
			f->sign = column_named(f->t, own[i].words, fits);
			if (!f->sign && own[i].what == SIGN_OF_LOCK && f->lock && fits(f->t, f->lock))
				f->sign = f->lock;
			f->sign_of = f->sign ? own[i].what : SIGN_OF_NOTHING;
			/* A beat in a table beside it says more than a time that is written once. */
			if (i == 0 && !f->sign && f->t->nrelated > 0) {
				f->related = &f->t->related[0];
				f->sign_of = SIGN_OF_BEAT;
				return;
			}
		}
}

const char *time_type_of(const struct table_facts *t, const struct table_column *c)
{
	char *end = NULL;
	if (c->class == CLASS_INSTANT ||
	    (c->class == CLASS_NAIVE && dialect_of(t->engine)->has_time_types))
		return "";
	double number = c->newest ? strtod(c->newest, &end) : 0;
	if (c->newest && *end == '\0')
		return number >= 1e11 ? "epoch_ms" : "epoch";
	return c->class == CLASS_NUMBER ? "epoch" : "text";
}

void propose(const struct table_facts *t, struct arena *a, struct proposal *out)
{
	struct finding f = {.t = t, .a = a, .out = out};
	*out = (struct proposal){.table = t->table};
	f.started = column_named(t, words_started, fits_time);
	f.finished = column_named(t, words_finished, fits_time);
	find_running(&f);
	find_rest(&f);
	find_sign(&f);
	f.updated = column_named(t, words_updated, fits_time);
	if (!f.owner)
		f.owner = column_named(t, words_owner, fits_owner);
	f.error = column_named(t, words_error, fits_text);
	f.max = column_named(t, words_max, fits_number);
	f.attempts = column_named(t, words_attempts, fits_count);
	if (f.attempts == f.max)
		f.attempts = NULL;
	f.kind = column_named(t, words_kind, fits_text);
	propose_lines(&f);
}

struct proposed_line *proposal_line(struct proposal *p, const char *key)
{
	for (int i = 0; i < p->nlines; i++)
		if (text_eq(p->lines[i].key, key))
			return &p->lines[i];
	return NULL;
}

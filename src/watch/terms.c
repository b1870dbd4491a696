/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/terms.h"

#include "base/clock.h"

#define OP(op) (1U << (op))
#define COMPARES (OP(TERM_IS) | OP(TERM_IS_NOT) | OP(TERM_HAS))

/*
 * The words that every watch knows; `start` is the beginning of a term, `usage` is printed for a
 * typo.
 */
static const struct word {
	const char *name;
	enum term_what what;
	unsigned ops; /* 0: the word takes no operator */
	const char *start, *usage;
} words[] = {
	{"state", TERM_STATE, COMPARES, "state=", "state=NAME, state!=NAME or state~PART"},
	{"kind", TERM_KIND, COMPARES, "kind=", "kind=NAME, kind!=NAME or kind~PART"},
	{"owner", TERM_OWNER, COMPARES, "owner=", "owner=NAME, owner!=NAME or owner~PART"},
	{"text", TERM_TEXT, OP(TERM_HAS), "text~", "text~words"},
	{"any", TERM_ANY, OP(TERM_HAS), "any~", "any~words"},
	{"age", TERM_AGE, OP(TERM_OVER) | OP(TERM_UNDER), "age>", "age>10m or age<1h"},
	{"verdict", TERM_VERDICT, OP(TERM_IS) | OP(TERM_IS_NOT),
     "verdict=", "verdict=NAME or verdict!=NAME"},
	{"stuck", TERM_STUCK, 0, "stuck", "stuck"},
	{"running", TERM_RUNNING, 0, "running", "running"},
	{"held", TERM_HELD, 0, "held", "held"},
	{"excused", TERM_EXCUSED, 0, "excused", "excused"},
	{"recovered", TERM_RECOVERED, 0, "recovered", "recovered"},
};
#define NWORDS ((int)(sizeof words / sizeof *words))

/* Longer ones first, so that != is not read as =. */
static const struct {
	const char *sign;
	enum term_op op;
} operators[] = {
	{"!=", TERM_IS_NOT}, {"=", TERM_IS}, {"~", TERM_HAS}, {">", TERM_OVER}, {"<", TERM_UNDER},
};

/* The position of the first operator; NULL: there is none. */
static const char *find_operator(const char *text, enum term_op *op, size_t *len)
{
	for (; *text; text++)
		for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
			if (text_starts(text, operators[i].sign)) {
				*op = operators[i].op;
				*len = strlen(operators[i].sign);
				return text;
			}
	return NULL;
}

static char *trimmed(struct arena *a, const char *text, size_t n)
{
	for (; n > 0 && *text == ' '; n--)
		text++;
	while (n > 0 && text[n - 1] == ' ')
		n--;
	return arena_strndup(a, text, n);
}

static defib_err unknown_word(const struct watch *w, const char *name, struct failure *f)
{
	const char *names[NWORDS + WATCH_SHOW_MAX + 1];
	int n = 0;
	for (; n < NWORDS; n++)
		names[n] = words[n].name;
	for (int i = 0; i < w->show.n; i++)
		names[n++] = w->show.items[i];
	names[n] = NULL;
	fail(f, DEFIB_USAGE, "watch %s has no \"%s\"", w->name, name);
	if (!fail_nearest(f, name, names))
		fail_next(f, "known are state, kind, owner, age, text, any, verdict, stuck, running, held, "
		             "excused, recovered, and the columns that the watch shows");
	return DEFIB_USAGE;
}

/* What a word requires of the watch. */
static defib_err needs(const struct watch *w, const struct term *t, struct failure *f)
{
	const char *option = NULL;
	if (t->what == TERM_KIND && !w->kind.text)
		option = "kind";
	if (t->what == TERM_OWNER && !w->owner.text)
		option = "owner";
	if (t->what == TERM_TEXT && !w->text.text && w->show.n == 0)
		option = "text";
	if (!option)
		return DEFIB_OK;
	fail(f, DEFIB_USAGE, "watch %s does not say what the %s of a job is", w->name, option);
	fail_next(f, "add %s: to the watch", option);
	return DEFIB_USAGE;
}

/* States that the watch names are known; others only if it does not say that these are all. */
static defib_err take_state(const struct watch *w, const struct term *t, struct failure *f)
{
	const char *const *known = w->states.names;
	int64_t code;
	if (t->op == TERM_HAS || !known || state_named(w, t->value) || int_parse(t->value, &code))
		return DEFIB_OK;
	for (const char *const *name = known; *name; name++)
		if (text_eq(*name, t->value))
			return DEFIB_OK;
	const char *near = text_nearest(t->value, known);
	if (!near && !w->states.all)
		return DEFIB_OK;
	fail(f, DEFIB_USAGE, "there is no state \"%s\" in watch %s", t->value, w->name);
	if (near)
		fail_next(f, "did you mean \"%s\"?", near);
	else
		fail_advise(f, ADVISE_COUNT_STATES, w->name);
	return DEFIB_USAGE;
}

static defib_err take_value(const struct watch *w, struct term *t, struct failure *f)
{
	static const char *const example = "a duration such as 90s, 15m or 1h30m";
	if (t->what == TERM_AGE && !duration_parse(t->value, &t->us))
		return fail(f, DEFIB_USAGE, "age expects %s, not \"%s\"", example, t->value);
	if (t->what == TERM_STATE)
		return take_state(w, t, f);
	if (t->what != TERM_VERDICT)
		return DEFIB_OK;
	int verdict = word_index(verdict_names, t->value);
	if (verdict <= VERDICT_NONE) {
		fail(f, DEFIB_USAGE, "there is no verdict \"%s\"", t->value);
		if (!fail_nearest(f, t->value, verdict_names + 1)) {
			AUTO_BUF known = BUF_INIT;
			words_list(verdict_names + 1, &known);
			fail_next(f, "a verdict is %s", buf_text(&known));
		}
		return DEFIB_USAGE;
	}
	t->verdict = (enum verdict)verdict;
	return DEFIB_OK;
}

static int shown_column(const struct watch *w, const char *name)
{
	for (int i = 0; i < w->show.n; i++)
		if (text_eq(w->show.items[i], name))
			return i;
	return -1;
}

static const struct word *find_word(const char *name)
{
	for (int i = 0; i < NWORDS; i++)
		if (text_eq(words[i].name, name))
			return &words[i];
	return NULL;
}

/* Whether the word takes this operator, or none. */
static defib_err take_operator(const struct word *word, const char *name, bool bare,
                               const struct term *t, struct failure *f)
{
	unsigned ops = word ? word->ops : COMPARES;
	if (bare ? ops == 0 : (ops & OP(t->op)) != 0)
		return DEFIB_OK;
	if (word)
		return fail(f, DEFIB_USAGE, "write %s", word->usage);
	return fail(f, DEFIB_USAGE, "write %s=value, %s!=value or %s~part", name, name, name);
}

defib_err term_parse(const struct watch *w, const char *text, struct arena *a, struct term *out,
                     bool *unknown, struct failure *f)
{
	size_t len = 0;
	bool other = false;
	*out = (struct term){0};
	const char *sign = find_operator(text, &out->op, &len);
	const char *name = trimmed(a, text, sign ? (size_t)(sign - text) : strlen(text));
	const struct word *word = find_word(name);
	defib_err err = DEFIB_OK;
	if (sign)
		out->value = trimmed(a, sign + len, strlen(sign + len));
	out->column = shown_column(w, name);
	out->what = word ? word->what : TERM_COLUMN;
	if (!word && out->column < 0)
		err = unknown_word(w, name, f);
	else
		err = needs(w, out, f);
	other = err != DEFIB_OK;
	if (!err)
		err = take_operator(word, name, !sign, out, f);
	if (!err)
		err = take_value(w, out, f);
	if (unknown)
		*unknown = other;
	return err;
}

const char *term_word(int i, const char **usage)
{
	if (i >= NWORDS)
		return NULL;
	*usage = words[i].usage;
	return words[i].start;
}

const char *state_named(const struct watch *w, const char *raw)
{
	for (int i = 0; raw && i < w->states.n; i++)
		if (text_eq(w->states.codes[i], raw))
			return w->states.names[i];
	return NULL;
}

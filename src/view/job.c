/* SPDX-License-Identifier: Apache-2.0 */
#include "view/job.h"

#include "base/clock.h"
#include "recover/evidence.h"

void job_qualified(const struct watch *w, const char *job, struct buf *out)
{
	buf_addf(out, "%s/%s", w->name, job);
}

void key_value_json(const struct watch *w, const char *job, struct buf *out)
{
	if (w->key.n == 1)
		buf_add_json(out, job);
	else
		buf_add(out, job); /* a composite key is already a JSON array */
}

/* ---- one job of a list ---- */

static bool job_name(const void *row, const struct viewer *v, struct buf *out)
{
	job_qualified(v->watch, ((const struct browsed *)row)->job, out);
	return true;
}

static void job_key_json(const void *row, const struct viewer *v, struct buf *out)
{
	key_value_json(v->watch, ((const struct browsed *)row)->job, out);
}

static bool job_state_name(const void *row, const struct viewer *v, struct buf *out)
{
	const char *name = state_named(v->watch, ((const struct browsed *)row)->state);
	buf_add(out, name ? name : "");
	return name != NULL;
}

static bool job_age(const void *row, int64_t *out)
{
	const struct browsed *b = row;
	*out = b->facts.now_us - b->since_us;
	return b->has_since;
}

static bool job_verdict_words(const void *row, const struct viewer *v, struct buf *out)
{
	(void)v;
	verdict_words(&((const struct browsed *)row)->judgement, out);
	return true;
}

static bool job_attempts_words(const void *row, const struct viewer *v, struct buf *out)
{
	(void)v;
	attempts_words(&((const struct browsed *)row)->facts, out);
	return true;
}

static const char *job_held(const void *row)
{
	const struct facts *f = &((const struct browsed *)row)->facts;
	return hold_in_force(f->hold) ? (f->hold_cause ? f->hold_cause : HOLD_BY_HAND) : NULL;
}

static const char *job_hold_reason(const void *row)
{
	const struct facts *f = &((const struct browsed *)row)->facts;
	return hold_in_force(f->hold) ? f->hold_reason : NULL;
}

static bool job_note(const void *row, const struct viewer *v, struct buf *out)
{
	note_words(v->watch, row, out);
	return true;
}

/* ---- an excuse ---- */

static bool excuse_at(const void *row, int64_t *out)
{
	*out = ((const struct facts *)row)->excused_at_us;
	return true;
}

static void excuse_secrets(const void *row, const struct watch *w, struct secrets *out)
{
	secrets_facts(out, w, row);
}

static const struct field excuse_fields[] = {
	{"verdict", FIELD_WORD, FIELD_AT(struct facts, excused), .names = verdict_names,
     .about = "that it covers"},
	{"by", FIELD_AT(struct facts, excused_by), .null = true},
	{"at", FIELD_TIME, .number = excuse_at},
	{"reason", .mask = MASK_WORDS, FIELD_AT(struct facts, excuse_reason), .null = true},
	{0},
};
static const struct record excuse_record = {
	.fields = excuse_fields, .size = sizeof(struct facts), .secrets = excuse_secrets};

static const void *job_excuse(const void *row, int i)
{
	const struct browsed *b = row;
	(void)i;
	return b && shown_excused(&b->facts, &b->judgement) ? &b->facts : NULL;
}

void excuse_words(const struct watch *w, const struct facts *f, struct buf *out)
{
	AUTO_SECRETS secrets = {0};
	secrets_facts(&secrets, w, f);
	buf_add(out, "by ");
	buf_add(out, f->excused_by ? f->excused_by : "an operator");
	buf_add(out, " ");
	when_text(f->excused_at_us, f->now_us, out);
	if (!f->excuse_reason)
		return;
	buf_add(out, ": ");
	masked_free_text(w, &secrets, f->excuse_reason, out);
}

/* Without a row, the name alone. */
static bool shown_pair(const struct facts *f, const struct watch *w, int i, struct field_pair *out)
{
	if (i >= w->show.n)
		return false;
	*out = (struct field_pair){w->show.items[i], f ? f->show[i] : NULL};
	return true;
}

static bool job_shown(const void *row, const struct viewer *v, int i, struct field_pair *out)
{
	const struct browsed *b = row;
	return shown_pair(b ? &b->facts : NULL, v->watch, i, out);
}

static void job_secrets(const void *row, const struct watch *w, struct secrets *out)
{
	secrets_facts(out, w, &((const struct browsed *)row)->facts);
}

#define AT(member) FIELD_AT(struct browsed, member)
#define HAS(member) FIELD_HAS(struct browsed, member)
static const struct field browsed_fields[] = {
	{"job", .words = job_name, .title = "JOB", .about = "as commands name it: pages/17"},
	{"database", .words = field_database},
	{"watch", .words = field_watch},
	{"key", FIELD_JSON, .json = job_key_json, .schema = KEY_SCHEMA},
	{"state", FIELD_STATE, AT(state), .null = true, .title = "STATE", .about = "as it is stored"},
	{"state_name", .words = job_state_name, .null = true, .about = "from `states:` of the watch"},
	{"kind", AT(facts.kind), .null = true, .title = "KIND"},
	{"age_s", FIELD_SECONDS, .number = job_age, .null = true, .title = "AGE"},
	{.words = job_verdict_words, .title = "VERDICT", .color = COLOR_RED},
	{"running", FIELD_BOOL, AT(facts.running)},
	{"verdict", FIELD_WORD, AT(judgement.verdict), .names = verdict_names, .zero_null = true,
     .about = "null: it is not stuck"},
	{"measured_s", FIELD_SECONDS, AT(judgement.measured_us), HAS(judgement.measured),
     .about = "silence, run time, or time since it was due"},
	{"limit_s", FIELD_SECONDS, AT(judgement.limit_us), HAS(judgement.measured),
     .about = "what it was compared with"},
	{"owner", FIELD_TEXT, MASK_OWNER, AT(facts.owner), .null = true, .title = "OWNER"},
	{"attempts", FIELD_NUMBER, AT(facts.attempts), HAS(facts.has_attempts)},
	{"max_attempts", FIELD_NUMBER, AT(facts.max_attempts), HAS(facts.has_max_attempts)},
	{.words = job_attempts_words, .title = "ATTEMPTS"},
	{"epoch", FIELD_NUMBER, AT(facts.epoch), HAS(facts.has_epoch)},
	{"held", .text = job_held, .null = true,
     .about = "why it is on hold: by hand, undone, poison, attempts, rule or startup"},
	{"hold_reason", .mask = MASK_WORDS, .text = job_hold_reason, .null = true,
     .about = "the reason given with the hold"},
	{"excuse", FIELD_RECORD, .part = job_excuse, .of = &excuse_record,
     .about = "by whom it is excused: it is not stuck until what was judged changes"},
	{"retry_at", FIELD_TIME, AT(retry_us), HAS(has_retry)},
	{.mask = MASK_WORDS, .words = job_note, .title = "NOTE", .color = COLOR_YELLOW},
	{"show", FIELD_MAP, MASK_VALUES, .pair = job_shown, .title = "",
     .about = "the columns of `show:` of the watch"},
	{0},
};
#undef AT
#undef HAS

const struct record browsed_record = {
	.fields = browsed_fields, .size = sizeof(struct browsed), .secrets = job_secrets};

static const void *listed_row(const void *row, int i)
{
	(void)i;
	return ((const struct listed_job *)row)->row;
}

/* What is known of a job that a scan would act on; NULL: it is not stuck, or nobody asked. */
static const struct candidate *listed_stuck(const void *row)
{
	const struct listed_job *x = row;
	return x->judged && x->judged->judgement.verdict ? x->judged : NULL;
}

static bool listed_why(const void *row, const struct viewer *v, struct buf *out)
{
	const struct candidate *c = listed_stuck(row);
	(void)v;
	if (c)
		evidence_sentence(&c->judgement, out);
	return c != NULL;
}

static const char *listed_remedy(const void *row)
{
	const struct candidate *c = listed_stuck(row);
	return c ? remedy_names[c->decision.remedy] : NULL;
}

static const char *listed_rule(const void *row)
{
	const struct candidate *c = listed_stuck(row);
	return c ? c->decision.rule : NULL;
}

static void listed_secrets(const void *row, const struct watch *w, struct secrets *out)
{
	job_secrets(((const struct listed_job *)row)->row, w, out);
}

static const struct field job_fields[] = {
	{.type = FIELD_MEMBERS, .of = &browsed_record, .part = listed_row},
	{"why", .words = listed_why, .optional = true, .about = "with judged"},
	{"remedy", .text = listed_remedy, .optional = true, .schema = SCHEMA_REF("Remedy"),
     .about = "with judged"},
	{"rule", .text = listed_rule, .optional = true,
     .about = "with judged: the rule that chose the remedy"},
	{"cursor", FIELD_AT(struct listed_job, cursor), .optional = true,
     .about = "where the list continues after this job"},
	{0},
};

const struct record job_record = {
	.name = "Job",
	.about = "a job of a list",
	.fields = job_fields,
	.size = sizeof(struct listed_job),
	.secrets = listed_secrets,
};

#define AT(member) FIELD_AT(struct claim, member)
static const struct field claim_fields[] = {
	{"application", AT(application), .about = "the session's application_name"},
	{"pid", FIELD_NUMBER, AT(pid), .about = "of the session, on the database server"},
	{"program", AT(program), .null = true, .about = "the program that runs under `defib run`"},
	{"host", AT(host), .null = true, .about = "the host of that program"},
	{"since", FIELD_TIME, AT(at_us)},
	{0},
};
#undef AT

const struct record claim_record = {
	.name = "Claim",
	.about = "the session that claimed the job, if its table is attached (`defib db attach`)",
	.fields = claim_fields,
	.size = sizeof(struct claim),
};

void waits_words(const struct judgement *j, struct buf *out)
{
	bool stuck = j->verdict != VERDICT_NONE;
	buf_add(out, stuck ? "is not started: it " : "waits to be started: it ");
	evidence_sentence(j, out);
	if (text_eq(j->rule->id, "unstarted"))
		buf_add(out, ", and no job of its kind is being started");
	else if (stuck)
		buf_add(out, ", and no run began since it was due");
	else if (j->measured_us > j->limit_us)
		buf_addf(out, "; %s", j->rule->why);
}

void verdict_words(const struct judgement *j, struct buf *out)
{
	if (j->verdict == VERDICT_NONE)
		return;
	buf_add(out, verdict_names[j->verdict]);
	if (!j->measured)
		return;
	buf_add(out, " ");
	duration_text(j->measured_us, out);
	buf_add(out, " (limit ");
	limit_text(j->limit_us, &j->limit_from, out);
	buf_add(out, ")");
}

void attempts_words(const struct facts *f, struct buf *out)
{
	if (f->has_attempts)
		buf_addf(out, "%lld", (long long)f->attempts);
	if (f->has_attempts && f->has_max_attempts)
		buf_addf(out, " of %lld", (long long)f->max_attempts);
}

void note_words(const struct watch *w, const struct browsed *row, struct buf *out)
{
	const struct facts *f = &row->facts;
	if (shown_excused(f, &row->judgement)) {
		buf_addf(out, "excused from %s ", verdict_names[f->excused]);
		excuse_words(w, f, out);
	}
	if (hold_in_force(f->hold))
		buf_addf(out, "held: %s", f->hold_cause ? f->hold_cause : HOLD_BY_HAND);
	if (hold_in_force(f->hold) && f->hold_reason) {
		AUTO_SECRETS secrets = {0};
		secrets_facts(&secrets, w, f);
		buf_add(out, ", ");
		masked_free_text(w, &secrets, f->hold_reason, out);
	}
	if (!row->has_retry)
		return;
	int64_t wait = row->retry_us - row->facts.now_us;
	buf_add(out, out->len ? ", retry due" : "retry due");
	if (wait > 0) {
		buf_add(out, " in ");
		duration_text(wait, out);
	} else {
		buf_add(out, " now");
	}
}

void fact_line(struct fact_sheet *s, const char *name, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (s->n == FACTS_MAX)
		return;
	s->names[s->n] = name;
	s->values[s->n++] = arena_strdup(s->arena, text);
}

void fact_print(const struct fact_sheet *s, const struct watch *w, const struct secrets *secrets,
                struct buf *out)
{
	AUTO_BUF value = BUF_INIT;
	int width = 13;
	for (int i = 0; i < s->n; i++)
		width = out_width(s->names[i]) > width ? out_width(s->names[i]) : width;
	for (int i = 0; i < s->n; i++) {
		buf_clear(&value);
		masked_free_text(w, secrets, s->values[i], &value);
		out_line(out, s->names[i], width, buf_text(&value));
	}
}

/* "41 %, the same for 12m; the limit is 10m" */
static void remembered_line(struct fact_sheet *sheet, const struct watch *w, const struct facts *f,
                            enum sign s)
{
	const char *value = s == SIGN_STATE ? f->state : f->progress;
	AUTO_BUF text = BUF_INIT;
	struct limit_from from;
	int64_t us;
	bool limited = watch_limit_of(w, s, f, &us, &from);
	buf_add(&text, value ? value : "none");
	if (f->has_sign[s]) {
		buf_add(&text, ", the same for ");
		duration_text(f->now_us - f->sign_us[s], &text);
	} else if (value && limited) {
		buf_add(&text, ", not seen before");
	}
	if (limited) {
		buf_add(&text, "; the limit is ");
		limit_text(us, &from, &text);
	}
	fact_line(sheet, sign_kinds[s].name, "%s", buf_text(&text));
}

static void job_sign_lines(struct fact_sheet *sheet, const struct watch *w, const struct facts *f)
{
	for (int s = 0; s < SIGN_COUNT; s++) {
		AUTO_BUF iso = BUF_INIT, age = BUF_INIT, limit = BUF_INIT;
		struct limit_from from;
		int64_t us = 0;
		if (watch_sign(w, (enum sign)s)->text && f->has_sign[s]) {
			int64_t since = f->now_us - f->sign_us[s];
			time_iso(f->sign_us[s], &iso);
			duration_text(since < 0 ? -since : since, &age);
			if (watch_limit_of(w, (enum sign)s, f, &us, &from)) {
				buf_add(&limit, "the limit is ");
				limit_text(us, &from, &limit);
			} else {
				buf_add(&limit, "no limit in this state");
			}
			fact_line(sheet, sign_kinds[s].option, "%s, %s %s; %s", buf_text(&iso), buf_text(&age),
			          since < 0 ? "ahead" : "ago", buf_text(&limit));
		} else if (watch_sign(w, (enum sign)s)->text) {
			fact_line(sheet, sign_kinds[s].option, "none");
		} else if (watch_remembers(w, (enum sign)s)) {
			remembered_line(sheet, w, f, (enum sign)s);
		}
	}
}

static void owner_lines(struct fact_sheet *s, const struct watch *w, const struct facts *f)
{
	static const char *const known[] = {"unknown", "no", "yes"};
	AUTO_BUF owner = BUF_INIT;
	if (f->owner)
		shown_owner(w, f->owner, &owner);
	if (w->owner.text)
		fact_line(s, "owner", "%s", f->owner ? buf_text(&owner) : "none");
	if (w->owner_alive.text)
		fact_line(s, "owner_alive", "%s", known[f->owner_alive - KNOWN_NOT]);
}

static void time_line(struct fact_sheet *s, const char *option, bool has, int64_t us,
                      int64_t now_us)
{
	AUTO_BUF iso = BUF_INIT, age = BUF_INIT;
	int64_t since_us = now_us - us;
	if (!has) {
		fact_line(s, option, "none");
		return;
	}
	time_iso(us, &iso);
	duration_text(since_us < 0 ? -since_us : since_us, &age);
	fact_line(s, option, "%s, %s %s", buf_text(&iso), buf_text(&age),
	          since_us < 0 ? "ahead" : "ago");
}

static void waiting_lines(struct fact_sheet *s, const struct watch *w, const struct facts *f)
{
	fact_line(s, "waiting", "%s (%s)", f->waiting ? "yes" : "no", w->waiting.text);
	time_line(s, "due_at", f->has_due, f->moved_on ? f->next_us : f->due_us, f->now_us);
	if (f->moved_on)
		time_line(s, "was due", true, f->due_us, f->now_us);
	if (w->last_run_at.text)
		time_line(s, "last_run_at", f->has_last_run, f->last_run_us, f->now_us);
}

void fact_lines(struct fact_sheet *s, const struct watch *w, const struct facts *f)
{
	AUTO_BUF value = BUF_INIT;
	if (!w->only_waits) {
		fact_line(s, "running", "%s (%s)", f->running ? "yes" : "no", w->running.text);
		job_sign_lines(s, w, f);
	}
	if (watch_waits(w))
		waiting_lines(s, w, f);
	owner_lines(s, w, f);
	if (w->kind.text)
		fact_line(s, "kind", "%s", f->kind ? f->kind : "none");
	if (f->has_attempts && f->has_max_attempts)
		fact_line(s, "attempts", "%lld of %lld", (long long)f->attempts,
		          (long long)f->max_attempts);
	else if (f->has_attempts)
		fact_line(s, "attempts", "%lld", (long long)f->attempts);
	if (f->has_epoch)
		fact_line(s, "epoch", "%lld", (long long)f->epoch);
	if (f->crashes)
		fact_line(s, "recovered", "%lld %s before", (long long)f->crashes,
		          f->crashes == 1 ? "time" : "times");
	for (int i = 0; i < w->show.n; i++) {
		buf_clear(&value);
		if (f->show[i])
			shown_value(w, w->show.items[i], f->show[i], &value);
		fact_line(s, w->show.items[i], "%s", f->show[i] ? buf_text(&value) : "none");
	}
}

void fact_claim(struct fact_sheet *s, const struct claim *c, int64_t now_us)
{
	AUTO_BUF iso = BUF_INIT, age = BUF_INIT;
	time_iso(c->at_us, &iso);
	duration_text(now_us > c->at_us ? now_us - c->at_us : 0, &age);
	fact_line(s, "claimed", "by session %s (pid %lld)%s%s%s%s at %s, %s ago",
	          c->application[0] ? c->application : "without a name", (long long)c->pid,
	          c->program ? " of " : "", c->program ? c->program : "", c->host ? " on " : "",
	          c->host ? c->host : "", buf_text(&iso), buf_text(&age));
}

/* ---- where a list continues ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void encode(const char *text, struct buf *out)
{
	size_t len = strlen(text);
	for (size_t i = 0; i < len; i += 3) {
		uint32_t three = 0;
		size_t have = len - i < 3 ? len - i : 3;
		for (size_t k = 0; k < 3; k++)
			three = three << 8 | (k < have ? (unsigned char)text[i + k] : 0);
		for (size_t k = 0; k <= have; k++)
			buf_addch(out, digits[three >> (18 - 6 * k) & 63]);
	}
}

static bool job_decode(const char *text, struct buf *out)
{
	uint32_t bits = 0;
	int n = 0;
	for (; *text; text++) {
		const char *digit = strchr(digits, *text);
		if (!digit)
			return false;
		bits = bits << 6 | (uint32_t)(digit - digits);
		n += 6;
		if (n >= 8) {
			n -= 8;
			buf_addch(out, (char)(bits >> n & 0xff));
		}
	}
	return true;
}

static void job_add_text(struct buf *json, const char *text)
{
	buf_add(json, ",");
	json_value(json, text);
}

static void add_position(struct buf *json, const struct browse_position *at, int nkeys)
{
	json_value(json, at->sort);
	for (int k = 0; k < nkeys; k++)
		job_add_text(json, at->key[k]);
}

/* [watch, order, desc, sort value, key…]; in key order instead of this one: and [rest_of…]. */
void cursor_text(const struct cursor *x, struct buf *out)
{
	AUTO_BUF json = BUF_INIT;
	buf_add(&json, "[");
	buf_add_json(&json, x->watch);
	buf_addf(&json, ",\"%s\",%s,", list_sort_names[x->sort], x->desc ? "true" : "false");
	add_position(&json, &x->at, x->nkeys);
	if (x->at.by_key) {
		buf_add(&json, ",[");
		if (x->at.rest_of)
			add_position(&json, x->at.rest_of, x->nkeys);
		buf_add(&json, "]");
	}
	buf_add(&json, "]");
	encode(buf_text(&json), out);
}

static const char *job_part(const json_t *list, size_t i, struct arena *a)
{
	const char *text = json_string_value(json_array_get(list, i));
	return text ? arena_strdup(a, text) : NULL;
}

static struct browse_position read_position(const json_t *list, size_t first, int nkeys,
                                            struct arena *a)
{
	struct browse_position at = {.sort = job_part(list, first, a)};
	for (int k = 0; k < nkeys; k++)
		at.key[k] = job_part(list, first + 1 + (size_t)k, a);
	return at;
}

/* False if it is not of a list with keys of `nkeys` parts. */
static bool read_rest_of(const json_t *rest, int nkeys, struct arena *a,
                         struct browse_position *out)
{
	size_t n = json_array_size(rest);
	if (n > 0) {
		struct browse_position *at = ARENA_NEW(a, struct browse_position);
		*at = read_position(rest, 0, nkeys, a);
		out->rest_of = at;
	}
	out->by_key = true;
	return n == 0 || (n == (size_t)nkeys + 1 && out->rest_of->key[0]);
}

bool cursor_parse(const char *text, struct arena *a, struct cursor *out)
{
	AUTO_BUF plain = BUF_INIT;
	json_auto_t *list = job_decode(text, &plain) ? json_loads(buf_text(&plain), 0, NULL) : NULL;
	size_t n = json_array_size(list);
	const json_t *rest = n ? json_array_get(list, n - 1) : NULL;
	*out = (struct cursor){0};
	n -= json_is_array(rest);
	bool good = n > 4 && n <= 4 + WATCH_KEYS_MAX;
	if (good) {
		const char *sort = job_part(list, 1, a);
		int index = sort ? word_index(list_sort_names, sort) : -1;
		*out = (struct cursor){.watch = job_part(list, 0, a),
		                       .sort = index < 0 ? LIST_BY_KEY : (enum list_sort)index,
		                       .desc = json_is_true(json_array_get(list, 2)),
		                       .nkeys = (int)n - 4,
		                       .at = read_position(list, 3, (int)n - 4, a)};
		good = out->watch && index >= 0;
		good = good && (json_is_array(rest) ? read_rest_of(rest, out->nkeys, a, &out->at)
		                                    : out->at.key[0] != NULL);
	}
	return good;
}

/* ---- one job, judged ---- */

#define CAND(row) (&((const struct explained *)(row))->cand)

static void explained_key(const void *row, const struct viewer *v, struct buf *out)
{
	key_value_json(v->watch, CAND(row)->facts.job, out);
}

static bool explained_is_stuck(const void *row, int64_t *out)
{
	*out = CAND(row)->judgement.verdict != VERDICT_NONE;
	return true;
}

static const char *explained_rule(const void *row)
{
	return CAND(row)->judgement.rule->id;
}

static const char *explained_why(const void *row)
{
	return CAND(row)->judgement.rule->why;
}

static bool explained_is_held(const void *row, int64_t *out)
{
	*out = hold_in_force(CAND(row)->facts.hold);
	return true;
}

static const char *explained_hold_cause(const void *row)
{
	const struct facts *f = &CAND(row)->facts;
	return hold_in_force(f->hold) ? f->hold_cause : NULL;
}

static const void *explained_excuse(const void *row, int i)
{
	const struct candidate *c = CAND(row);
	(void)i;
	return shown_excused(&c->facts, &c->judgement) ? &c->facts : NULL;
}

static bool explained_factor(const void *row, double *out)
{
	*out = ((const struct explained *)row)->factor;
	return *out > 0;
}

static const char *explained_remedy(const void *row)
{
	const struct candidate *c = CAND(row);
	return c->judgement.verdict ? remedy_names[c->decision.remedy] : NULL;
}

static const char *explained_remedy_rule(const void *row)
{
	const struct candidate *c = CAND(row);
	return c->judgement.verdict ? c->decision.rule : NULL;
}

static bool explained_acts(const void *row, int64_t *out)
{
	*out = CAND(row)->decision.act;
	return CAND(row)->judgement.verdict != VERDICT_NONE;
}

static void explained_secrets(const void *row, const struct watch *w, struct secrets *out)
{
	secrets_facts(out, w, &CAND(row)->facts);
}

#define AT(member) FIELD_AT(struct explained, member)
#define HAS(member) FIELD_HAS(struct explained, member)
static const struct field explained_fields[] = {
	{"database", .words = field_database},
	{"watch", .words = field_watch},
	{"key", FIELD_JSON, .json = explained_key, .schema = KEY_SCHEMA},
	{"running", FIELD_BOOL, AT(cand.facts.running)},
	{"stuck", FIELD_BOOL, .number = explained_is_stuck},
	{"verdict", FIELD_WORD, AT(cand.judgement.verdict), .names = verdict_names,
     .schema = SCHEMA_REF("Verdict")},
	{"verdict_rule", .text = explained_rule, .about = "the rule that fires"},
	{"why", .text = explained_why, .about = "the rule in words"},
	{"evidence", FIELD_DOCUMENT, MASK_VALUES, AT(cand.evidence), .null = true,
     .about = "what was compared with what"},
	{"held", FIELD_BOOL, .number = explained_is_held},
	{"hold_cause", .text = explained_hold_cause, .null = true},
	{"excuse", FIELD_RECORD, .part = explained_excuse, .of = &excuse_record,
     .about = "by whom it is excused"},
	{"retry_at", FIELD_TIME, AT(retry.due_us), HAS(has_retry)},
	{"claim", FIELD_RECORD, AT(claim), HAS(has_claim), .of = &claim_record},
	{"guard", .mask = MASK_WORDS, AT(guard), .null = true,
     .about = "what the daemon that leads the watch holds back, and why"},
	{"factor", FIELD_REAL, .real = explained_factor, .optional = true,
     .about = "by which that daemon multiplies thresholds"},
	{"remedy", .text = explained_remedy, .optional = true, .schema = SCHEMA_REF("Remedy"),
     .about = "of a stuck job: what a scan would do"},
	{"rule", .text = explained_remedy_rule, .optional = true,
     .about = "the rule that chose the remedy"},
	{"acts", FIELD_BOOL, .number = explained_acts, .optional = true,
     .about = "false: nothing is written"},
	{0},
};
#undef AT
#undef HAS

const struct record explained_record = {
	.name = "Explained",
	.about = "one job, judged",
	.fields = explained_fields,
	.size = sizeof(struct explained),
	.secrets = explained_secrets,
};

/* What keeps scans away, or comes next. */
static void guard_lines(const struct watch *w, const struct explained *x, struct fact_sheet *s)
{
	const struct facts *f = &x->cand.facts;
	AUTO_BUF when = BUF_INIT;
	if (hold_in_force(f->hold) && x->has_hold)
		fact_line(s, "held", "since %s: %s%s%s; release it with: defib release %s/%s", x->hold.at,
		          x->hold.cause, x->hold.reason ? ", " : "", x->hold.reason ? x->hold.reason : "",
		          w->name, f->job);
	else if (x->has_hold && !x->hold.excuse.verdict)
		fact_line(s, "held", "no longer: its owner, sign of life or state changed since %s",
		          x->hold.at);
	if (shown_excused(f, &x->cand.judgement)) {
		excuse_words(w, f, &when);
		fact_line(s, "excused", "from %s %s; end it with: defib release %s/%s",
		          verdict_names[f->excused], buf_text(&when), w->name, f->job);
		buf_clear(&when);
	} else if (x->has_hold && x->hold.excuse.verdict) {
		fact_line(s, "excused",
		          "no longer, since %s: it was for %s, and that or what was judged changed",
		          x->hold.at, x->hold.excuse.verdict);
	}
	if (x->has_retry) {
		when_text(x->retry.due_us, f->now_us, &when);
		fact_line(s, "retry", "%s %s (%s)", x->retry.due_us > f->now_us ? "due" : "was due",
		          buf_text(&when), x->retry.reason ? x->retry.reason : "scheduled");
	}
	if (x->guard)
		fact_line(s, "guard", "the daemon that leads %s %s", w->name, x->guard);
	if (x->factor > 1)
		fact_line(s, "raised", "the daemon that leads %s multiplies its thresholds by %g", w->name,
		          x->factor);
}

void verdict_lines(const struct watch *w, const struct explained *x, struct fact_sheet *s)
{
	const struct judgement *j = &x->cand.judgement;
	const struct decision *d = &x->cand.decision;
	const char *watch = w->name;
	if (j->verdict == VERDICT_NONE) {
		fact_line(s, "verdict", "%s: %s [%s]",
		          shown_excused(&x->cand.facts, j) ? "not stuck, excused" : "not stuck",
		          j->rule->why, j->rule->id);
		guard_lines(w, x, s);
		if (x->has_retry)
			fact_line(s, "next", "the retry is carried out by defib scan %s --fix, when it is due",
			          watch);
		return;
	}
	fact_line(s, "verdict", "%s: %s [%s]", verdict_names[j->verdict], j->rule->why, j->rule->id);
	guard_lines(w, x, s);
	fact_line(s, "remedy", "%s: %s [%s]%s", remedy_names[d->remedy], d->why, d->rule,
	          d->act ? "" : "; nothing is written");
	if (d->act && d->remedy != REMEDY_REPORT)
		fact_line(s, "reason", "%s", x->cand.reason);
	if (d->act)
		fact_line(s, "next", "defib scan %s --fix", watch);
	else if (hold_in_force(x->cand.facts.hold))
		fact_line(s, "next", "nothing, until an operator releases it");
}

void explained_text(const struct watch *w, const struct database *d, const struct explained *x,
                    struct arena *a, bool color, struct buf *out)
{
	const struct judgement *j = &x->cand.judgement;
	AUTO_BUF because = BUF_INIT, title = BUF_INIT;
	struct fact_sheet sheet = {.arena = a};
	AUTO_SECRETS secrets = {0};
	if (j->waited) {
		waits_words(j, &because);
	} else {
		buf_add(&because, shown_excused(&x->cand.facts, j) ? "is excused: "
		                  : j->verdict == VERDICT_NONE     ? "is not stuck: "
		                                                   : "is stuck: ");
		evidence_sentence(j, &because);
	}
	buf_addf(&title, "%s/%s ", d->name, w->name);
	out_padded(&title, x->cand.facts.job, 0);
	out_color(out, color, COLOR_BOLD, buf_text(&title));
	buf_addf(out, " %s.\n", buf_text(&because));
	fact_lines(&sheet, w, &x->cand.facts);
	if (x->has_claim)
		fact_claim(&sheet, &x->claim, x->cand.facts.now_us);
	verdict_lines(w, x, &sheet);
	secrets_facts(&secrets, w, &x->cand.facts);
	fact_print(&sheet, w, &secrets, out);
}

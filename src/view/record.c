/* SPDX-License-Identifier: Apache-2.0 */
#include "view/record.h"

#include "base/clock.h"
#include "recover/evidence.h"

/* ---- reading a field ---- */

static const void *record_place(const void *row, size_t at)
{
	return (const char *)row + at;
}

static bool record_is_known(const struct field *f, const void *row)
{
	if (f->has && !*(const bool *)record_place(row, f->has - 1))
		return false;
	return !f->unless || !((const struct failure *)record_place(row, f->unless - 1))->code;
}

static bool is_hidden(const struct field *f, const struct viewer *v)
{
	return f->mask == MASK_OPERATORS && !viewer_sees_all(v->role);
}

/* Numbers, times, flags and words. False: null. */
static bool record_number_of(const struct field *f, const void *row, int64_t *out)
{
	if (!record_is_known(f, row))
		return false;
	if (f->number)
		return f->number(row, out);
	switch (f->type) {
	case FIELD_BOOL:
		*out = *(const bool *)record_place(row, f->at);
		break;
	case FIELD_INT:
	case FIELD_WORD:
		*out = *(const int *)record_place(row, f->at);
		break;
	default:
		*out = *(const int64_t *)record_place(row, f->at);
	}
	return *out || !f->zero_null;
}

static bool real_of(const struct field *f, const void *row, double *out)
{
	if (!record_is_known(f, row))
		return false;
	if (f->real)
		return f->real(row, out);
	*out = *(const double *)record_place(row, f->at);
	return true;
}

/* As it is stored, before it is masked; NULL: null. `own` is where a computed text is kept. */
static const char *record_text_of(const struct field *f, const void *row, const struct viewer *v,
                                  struct buf *own)
{
	int64_t word;
	if (!record_is_known(f, row))
		return NULL;
	if (f->text)
		return f->text(row);
	if (f->words)
		return f->words(row, v, own) ? buf_text(own) : NULL;
	if (f->type == FIELD_WORD)
		return record_number_of(f, row, &word) ? f->names[word] : NULL;
	if (f->type == FIELD_FAILURE) {
		const struct failure *failure = record_place(row, f->at);
		return failure->code ? failure->what : NULL;
	}
	if (f->type != FIELD_CHARS)
		return *(const char *const *)record_place(row, f->at);
	const char *text = record_place(row, f->at);
	return *text ? text : NULL;
}

/* What this viewer sees of a text. */
static void mask_text(const struct field *f, const char *name, const char *text,
                      const struct viewer *v, struct buf *out)
{
	const struct watch *w = v->watch;
	if (f->mask == MASK_IDENTITY)
		viewer_text(text, v->role, out);
	else if (f->mask == MASK_OWNER && w)
		shown_owner(w, text, out);
	else if (f->mask == MASK_VALUES && w)
		masked_text(w, v->secrets, name, text, out);
	else if (f->mask == MASK_WORDS)
		masked_free_text(w, v->secrets, text, out);
	else
		buf_add(out, text);
}

/* False: null. */
static bool seen_text(const struct field *f, const void *row, const struct viewer *v,
                      struct buf *out)
{
	AUTO_BUF own = BUF_INIT;
	const char *text = is_hidden(f, v) ? NULL : record_text_of(f, row, v, &own);
	if (!text)
		return false;
	if (f->type == FIELD_DOCUMENT)
		masked_document(v->watch, v->secrets, text, out);
	else if (f->type == FIELD_DATA && v->watch)
		masked_exactly(v->watch, v->secrets, f->name, text, out);
	else if (f->type == FIELD_DATA)
		buf_add_document(out, text);
	else
		mask_text(f, f->name, text, v, out);
	return true;
}

/* The nested record, or the i-th of a list; NULL: none. */
static const void *record_part_of(const struct field *f, const void *row, int i)
{
	if (!record_is_known(f, row))
		return NULL;
	if (f->part)
		return f->part(row, i);
	if (f->type != FIELD_LIST)
		return record_place(row, f->at);
	if (i >= *(const int *)record_place(row, f->count))
		return NULL;
	return *(const char *const *)record_place(row, f->at) + (size_t)i * f->of->size;
}

/* The same viewer, who knows which values of this record are masked. */
static struct viewer knowing(const struct record *r, const void *row, const struct viewer *v,
                             struct secrets *own)
{
	struct viewer out = *v;
	if (r->of)
		r->of(row, &out);
	if (!v->secrets && out.watch && r->secrets) {
		r->secrets(row, out.watch, own);
		out.secrets = own;
	}
	return out;
}

bool field_database(const void *row, const struct viewer *v, struct buf *out)
{
	(void)row;
	buf_add(out, v->database ? v->database : "");
	return v->database != NULL;
}

bool field_watch(const void *row, const struct viewer *v, struct buf *out)
{
	(void)row;
	buf_add(out, v->watch ? v->watch->name : "");
	return v->watch != NULL;
}

static const struct field database_fields[] = {{"database", .words = field_database}, {0}};
static const struct field place_fields[] = {
	{"watch", .words = field_watch},
	{"database", .words = field_database},
	{0},
};
const struct record database_record = {.fields = database_fields};
const struct record place_record = {.fields = place_fields};

/* ---- JSON ---- */

static void add_members(const struct record *r, const void *row, const struct viewer *v, bool first,
                        struct buf *out);

static void add_object(const struct record *r, const void *row, const struct viewer *v,
                       struct buf *out)
{
	AUTO_SECRETS own = {0};
	struct viewer seen = knowing(r, row, v, &own);
	buf_add(out, "{");
	add_members(r, row, &seen, true, out);
	buf_add(out, "}");
}

static void record_add_list(const struct field *f, const void *row, const struct viewer *v,
                            struct buf *out)
{
	const void *part;
	buf_add(out, "[");
	for (int i = 0; (part = record_part_of(f, row, i)) != NULL; i++) {
		buf_add(out, i ? "," : "");
		add_object(f->of, part, v, out);
	}
	buf_add(out, "]");
}

static const char *item_of(const struct field *f, const void *row, int i)
{
	if (f->item)
		return f->item(row, i);
	if (i >= *(const int *)record_place(row, f->count))
		return NULL;
	return (*(const char *const *const *)record_place(row, f->at))[i];
}

static void add_texts(const struct field *f, const void *row, const struct viewer *v,
                      struct buf *out)
{
	const char *one;
	AUTO_BUF text = BUF_INIT;
	buf_add(out, "[");
	for (int i = 0; (one = item_of(f, row, i)) != NULL; i++) {
		buf_clear(&text);
		mask_text(f, f->name, one, v, &text);
		buf_add(out, i ? "," : "");
		buf_add_json(out, buf_text(&text));
	}
	buf_add(out, "]");
}

static void record_add_map(const struct field *f, const void *row, const struct viewer *v,
                           struct buf *out)
{
	struct field_pair pair;
	AUTO_BUF text = BUF_INIT;
	buf_add(out, "{");
	for (int i = 0; f->pair(row, v, i, &pair); i++) {
		buf_clear(&text);
		buf_add(out, i ? "," : "");
		buf_add_json(out, pair.name);
		buf_add(out, ":");
		if (pair.text)
			mask_text(f, pair.name, pair.text, v, &text);
		json_value(out, pair.text ? buf_text(&text) : NULL);
	}
	buf_add(out, "}");
}

static void record_add_counts(const struct field *f, const void *row, bool first, struct buf *out)
{
	const int64_t *counts = record_place(row, f->at);
	for (int i = f->first; i < f->n; i++)
		buf_addf(out, "%s\"%s\":%lld", first && i == f->first ? "" : ",", f->names[i],
		         (long long)counts[i]);
}

static bool add_number(const struct field *f, const void *row, struct buf *out)
{
	int64_t n;
	AUTO_BUF iso = BUF_INIT;
	if (!record_number_of(f, row, &n))
		return false;
	switch (f->type) {
	case FIELD_BOOL:
		buf_add(out, n ? "true" : "false");
		break;
	case FIELD_SECONDS:
		buf_addf(out, "%.3f", (double)n / 1e6);
		break;
	case FIELD_MS:
		buf_addf(out, "%.3f", (double)n / 1e3);
		break;
	case FIELD_TIME:
		time_iso(n, &iso);
		buf_add_json(out, buf_text(&iso));
		break;
	default:
		buf_addf(out, "%lld", (long long)n);
	}
	return true;
}

/* False: null. */
static bool record_add_value(const struct field *f, const void *row, const struct viewer *v,
                             struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	double real;
	if (is_hidden(f, v) || !record_is_known(f, row))
		return false;
	switch (f->type) {
	case FIELD_TEXT:
	case FIELD_CHARS:
	case FIELD_FAILURE:
	case FIELD_STATE:
	case FIELD_WORD:
		if (!seen_text(f, row, v, &text))
			return false;
		buf_add_json(out, buf_text(&text));
		return true;
	case FIELD_DOCUMENT:
	case FIELD_DATA:
		return seen_text(f, row, v, out);
	case FIELD_BOOL:
	case FIELD_NUMBER:
	case FIELD_INT:
	case FIELD_SECONDS:
	case FIELD_MS:
	case FIELD_TIME:
		return add_number(f, row, out);
	case FIELD_REAL:
		if (!real_of(f, row, &real))
			return false;
		buf_addf(out, "%.10g", real);
		return true;
	case FIELD_TEXTS:
		add_texts(f, row, v, out);
		return true;
	case FIELD_COUNTS:
		buf_add(out, "{");
		record_add_counts(f, row, true, out);
		buf_add(out, "}");
		return true;
	case FIELD_MAP:
		record_add_map(f, row, v, out);
		return true;
	case FIELD_RECORD:
		if (!record_part_of(f, row, 0))
			return false;
		add_object(f->of, record_part_of(f, row, 0), v, out);
		return true;
	case FIELD_LIST:
		record_add_list(f, row, v, out);
		return true;
	case FIELD_JSON:
		f->json(row, v, out);
		return true;
	case FIELD_MEMBERS:
		break;
	}
	return false;
}

/* What is optional is left out if it is not known, or has no `has` that says so and is null. */
static void record_add_member(const struct field *f, const void *row, const struct viewer *v,
                              bool first, struct buf *out)
{
	size_t before = out->len;
	buf_addf(out, "%s\"%s\":", first ? "" : ",", f->name);
	if (record_add_value(f, row, v, out))
		return;
	if (f->instead && is_hidden(f, v))
		buf_add(out, f->instead);
	else if (f->optional && (!f->has || !record_is_known(f, row)))
		buf_cut(out, before);
	else
		buf_add(out, "null");
}

bool field_is_last(const struct field *f)
{
	return !f->name && !f->title && !f->label && f->type == FIELD_TEXT;
}

static void add_members(const struct record *r, const void *row, const struct viewer *v, bool first,
                        struct buf *out)
{
	for (const struct field *f = r->fields; !field_is_last(f); f++) {
		size_t before = out->len;
		const void *part = f->type == FIELD_MEMBERS ? record_part_of(f, row, 0) : NULL;
		if (part)
			add_members(f->of, part, v, first, out);
		else if (f->type == FIELD_COUNTS && !f->name)
			record_add_counts(f, row, first, out);
		else if (f->name)
			record_add_member(f, row, v, first, out);
		first = first && out->len == before;
	}
}

void record_json(const struct record *r, const void *row, const struct viewer *v, struct buf *out)
{
	record_json_open(r, row, v, out);
	buf_add(out, "}");
}

void record_json_open(const struct record *r, const void *row, const struct viewer *v,
                      struct buf *out)
{
	AUTO_SECRETS own = {0};
	struct viewer seen = knowing(r, row, v, &own);
	buf_add(out, "{");
	add_members(r, row, &seen, true, out);
}

void record_json_members(const struct record *r, const void *row, const struct viewer *v,
                         struct buf *out)
{
	AUTO_SECRETS own = {0};
	struct viewer seen = knowing(r, row, v, &own);
	add_members(r, row, &seen, false, out);
}

/* ---- CSV ---- */

/* A spreadsheet would take a text that begins so for a formula; an apostrophe prevents that. */
static bool is_formula(const char *text)
{
	return *text && strchr("=+-@\t\r", *text);
}

static void csv_text(const char *text, struct buf *out)
{
	buf_add(out, is_formula(text) ? "\"'" : "\"");
	for (; *text; text++) {
		buf_addch(out, *text);
		if (*text == '"')
			buf_addch(out, '"');
	}
	buf_add(out, "\"");
}

static void csv_names(const struct record *r, bool first, struct buf *out)
{
	for (const struct field *f = r->fields; !field_is_last(f); f++) {
		if (f->type == FIELD_MEMBERS)
			csv_names(f->of, first, out);
		else if (f->name)
			buf_addf(out, "%s%s", first ? "" : ",", f->name);
		first = first && !f->name && f->type != FIELD_MEMBERS;
	}
}

void record_csv_names(const struct record *r, struct buf *out)
{
	csv_names(r, true, out);
	buf_add(out, "\r\n");
}

static void csv_values(const struct record *r, const void *row, const struct viewer *v, bool first,
                       struct buf *out)
{
	AUTO_BUF value = BUF_INIT;
	for (const struct field *f = r->fields; !field_is_last(f); f++) {
		bool is_text = f->type <= FIELD_WORD || f->type == FIELD_DOCUMENT || f->type == FIELD_DATA;
		if (f->type == FIELD_MEMBERS)
			csv_values(f->of, record_part_of(f, row, 0), v, first, out);
		else if (f->name) {
			buf_clear(&value);
			buf_add(out, first ? "" : ",");
			if (is_text && seen_text(f, row, v, &value))
				csv_text(buf_text(&value), out);
			else if (!is_text && record_add_value(f, row, v, &value))
				buf_add(out, buf_text(&value));
		}
		first = first && !f->name && f->type != FIELD_MEMBERS;
	}
}

void record_csv(const struct record *r, const void *row, const struct viewer *v, struct buf *out)
{
	AUTO_SECRETS own = {0};
	struct viewer seen = knowing(r, row, v, &own);
	csv_values(r, row, &seen, true, out);
	buf_add(out, "\r\n");
}

/* ---- words: tables and sheets ---- */

static bool number_words(const struct field *f, const void *row, const struct viewer *v,
                         struct buf *out)
{
	int64_t n;
	if (!record_number_of(f, row, &n))
		return false;
	if (f->type == FIELD_SECONDS && n < 0)
		return false;
	if (f->type == FIELD_BOOL)
		buf_add(out, n ? "yes" : "no");
	else if (f->type == FIELD_SECONDS || f->type == FIELD_MS)
		duration_text(n, out);
	else if (f->type == FIELD_TIME && v->now_us)
		when_text(n, v->now_us, out);
	else if (f->type == FIELD_TIME)
		time_iso(n, out);
	else
		buf_add_count(out, n);
	return true;
}

static bool add_words(const struct field *f, const void *row, const struct viewer *v,
                      struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	if (is_hidden(f, v))
		return false;
	if (f->type == FIELD_STATE) {
		if (!seen_text(f, row, v, &text))
			return false;
		state_words(v->watch, buf_text(&text), out);
		return true;
	}
	if (f->type >= FIELD_BOOL && f->type <= FIELD_TIME && f->type != FIELD_REAL)
		return number_words(f, row, v, out);
	if (f->type <= FIELD_WORD || f->type == FIELD_DOCUMENT)
		return seen_text(f, row, v, out);
	return record_add_value(f, row, v, out);
}

bool field_words(const struct record *r, const struct field *f, const void *row,
                 const struct viewer *v, struct buf *out)
{
	AUTO_SECRETS own = {0};
	struct viewer seen = knowing(r, row, v, &own);
	return add_words(f, row, &seen, out);
}

/* Each column of a map is a column of the table. */
void record_columns(const struct record *r, const struct viewer *v, struct table *t)
{
	struct field_pair pair;
	for (const struct field *f = r->fields; !field_is_last(f); f++) {
		if (f->title && f->type != FIELD_MAP)
			table_column(t, f->title);
		for (int i = 0; f->title && f->type == FIELD_MAP && f->pair(NULL, v, i, &pair); i++)
			table_column(t, pair.name);
	}
}

/* A value of a column: masked, or a coded state with its name: "OCR_PROCESSING (6)". */
static void pair_words(const struct field *f, const struct field_pair *pair, const struct viewer *v,
                       struct buf *out)
{
	mask_text(f, pair->name, pair->text, v, out);
	if (!text_eq(buf_text(out), pair->text))
		return;
	buf_clear(out);
	shown_value(v->watch, pair->name, pair->text, out);
}

void record_row(const struct record *r, const void *row, const struct viewer *v, struct table *t)
{
	AUTO_SECRETS own = {0};
	struct viewer seen = knowing(r, row, v, &own);
	AUTO_BUF text = BUF_INIT;
	struct field_pair pair;
	for (const struct field *f = r->fields; !field_is_last(f); f++) {
		if (f->title && f->type != FIELD_MAP) {
			(void)add_words(f, row, &seen, &text);
			table_take(t, f->paint ? f->paint(row) : f->color, &text);
		}
		for (int i = 0; f->title && f->type == FIELD_MAP && f->pair(row, v, i, &pair); i++) {
			if (pair.text)
				pair_words(f, &pair, &seen, &text);
			table_take(t, f->color, &text);
		}
	}
}

void record_sheet(const struct record *r, const void *row, const struct viewer *v, int width,
                  struct buf *out)
{
	AUTO_SECRETS own = {0};
	struct viewer seen = knowing(r, row, v, &own);
	AUTO_BUF text = BUF_INIT;
	for (const struct field *f = r->fields; !field_is_last(f); f++) {
		buf_clear(&text);
		if (f->label && add_words(f, row, &seen, &text) && text.len)
			out_line(out, f->label, width, buf_text(&text));
	}
}

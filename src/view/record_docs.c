/* SPDX-License-Identifier: Apache-2.0 */
#include "view/record_docs.h"

#include "view/alert.h"
#include "view/installation.h"
#include "view/job.h"
#include "view/ledger.h"
#include "view/report.h"
#include "view/report_forms.h"
#include "view/scan.h"
#include "view/stats.h"
#include "view/status.h"
#include "view/story.h"
#include "view/story_steps.h"

#include <ctype.h>

const struct record *const view_records[] = {
	&job_record,
	&story_record,
	&step_record,
	&attempt_record,
	&claim_record,
	&explained_record,
	&entry_record,
	&history_entry_record,
	&incident_record,
	&candidate_record,
	&scan_record,
	&waiting_record,
	&acted_record,
	&background_record,
	&watch_status_record,
	&override_record,
	&override_answer_record,
	&alert_record,
	&delivery_record,
	&sink_record,
	&tally_record,
	&learned_record,
	&report_record,
	&held_record,
	&worker_record,
	&worker_spool_record,
	&retention_record,
	&finding_record,
	&setting_record,
	NULL,
};

/* ---- schemas ---- */

static void add_properties(const struct record *r, int indent, struct buf *out);

static bool may_be_null(const struct field *f)
{
	return f->null || f->zero_null || f->type == FIELD_FAILURE ||
	       (!f->optional && (f->has || f->unless || f->mask == MASK_OPERATORS ||
	                         (f->type == FIELD_RECORD && f->part)));
}

/* A word as it is, anything else in quotes. */
static void add_word(const char *word, struct buf *out)
{
	bool plain = islower((unsigned char)*word);
	for (const char *c = word; *c; c++)
		plain = plain && (islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '_');
	if (plain && !text_eq(word, "null") && !text_eq(word, "on") && !text_eq(word, "off"))
		buf_add(out, word);
	else
		buf_add_json(out, word);
}

static void record_docs_add_names(const struct record *r, bool required, int *n, struct buf *out)
{
	for (const struct field *f = r->fields; !field_is_last(f); f++) {
		if (f->type == FIELD_MEMBERS && !(required && f->optional))
			record_docs_add_names(f->of, required, n, out);
		for (int i = f->first; f->type == FIELD_COUNTS && !f->name && i < f->n; i++)
			buf_addf(out, "%s%s", (*n)++ ? ", " : "", f->names[i]);
		if (f->name && !(required && f->optional))
			buf_addf(out, "%s%s", (*n)++ ? ", " : "", f->name);
	}
}

static void add_required(const struct record *r, struct buf *out)
{
	int n = 0;
	buf_add(out, "required: [");
	record_docs_add_names(r, true, &n, out);
	buf_add(out, "]");
}

/* On one line: {type: object, …} */
static void add_object_schema(const struct record *r, bool null, struct buf *out)
{
	if (r->name) {
		buf_addf(out,
		         null ? "oneOf: [{$ref: \"#/components/schemas/%s\"}, {type: \"null\"}]"
		              : "$ref: \"#/components/schemas/%s\"",
		         r->name);
		return;
	}
	buf_add(out, null ? "type: [object, \"null\"], " : "type: object, ");
	add_required(r, out);
	buf_add(out, ", properties: {");
	add_properties(r, -1, out);
	buf_add(out, "}");
}

static void add_counts_schema(const struct field *f, bool null, struct buf *out)
{
	buf_add(out, null ? "type: [object, \"null\"], properties: {" : "type: object, properties: {");
	for (int i = f->first; i < f->n; i++)
		buf_addf(out, "%s%s: {type: integer}", i > f->first ? ", " : "", f->names[i]);
	buf_add(out, "}");
}

static void add_enum(const struct field *f, bool null, struct buf *out)
{
	int n = 0;
	buf_add(out, "enum: [");
	for (int i = f->zero_null; f->names[i]; i++) {
		buf_add(out, n++ ? ", " : "");
		add_word(f->names[i], out);
	}
	buf_add(out, null ? ", null]" : "]");
}

static void add_simple(const char *type, bool null, struct buf *out)
{
	buf_addf(out, null ? "type: [%s, \"null\"]" : "type: %s", type);
}

/* What is written by hand, without its braces. */
static void record_docs_add_given(const char *schema, bool null, struct buf *out)
{
	bool whole = !null || text_starts(schema, "{oneOf") || text_eq(schema, ANY_SCHEMA) ||
	             strstr(schema, "\"null\"");
	if (whole)
		buf_addn(out, schema + 1, strlen(schema) - 2);
	else
		buf_addf(out, "oneOf: [%s, {type: \"null\"}]", schema);
}

/* Without braces and description. */
static void record_docs_add_type(const struct field *f, struct buf *out)
{
	bool null = may_be_null(f);
	if (f->schema) {
		record_docs_add_given(f->schema, null, out);
		return;
	}
	switch (f->type) {
	case FIELD_TEXT:
	case FIELD_CHARS:
	case FIELD_FAILURE:
	case FIELD_STATE:
		add_simple("string", null, out);
		break;
	case FIELD_WORD:
		add_enum(f, null, out);
		break;
	case FIELD_BOOL:
		add_simple("boolean", null, out);
		break;
	case FIELD_NUMBER:
	case FIELD_INT:
		add_simple("integer", null, out);
		break;
	case FIELD_REAL:
	case FIELD_SECONDS:
	case FIELD_MS:
		add_simple("number", null, out);
		break;
	case FIELD_TIME:
		record_docs_add_given(SCHEMA_REF("Time"), null, out);
		break;
	case FIELD_DOCUMENT:
		add_simple("object", null, out);
		break;
	case FIELD_TEXTS:
		buf_add(out, "type: array, items: {type: string}");
		break;
	case FIELD_COUNTS:
		add_counts_schema(f, null, out);
		break;
	case FIELD_MAP:
		buf_add(out, "type: object, additionalProperties: {type: [string, \"null\"]}");
		break;
	case FIELD_RECORD:
		add_object_schema(f->of, null, out);
		break;
	case FIELD_LIST:
		buf_add(out, "type: array, items: {");
		add_object_schema(f->of, false, out);
		buf_add(out, "}");
		break;
	case FIELD_DATA:
	case FIELD_JSON:
	case FIELD_MEMBERS:
		break;
	}
}

static void add_schema(const struct field *f, struct buf *out)
{
	size_t before = out->len;
	buf_add(out, "{");
	record_docs_add_type(f, out);
	if (f->about) {
		buf_add(out, out->len > before + 1 ? ", description: " : "description: ");
		buf_add_json(out, f->about);
	}
	buf_add(out, "}");
}

/* A line each, or (`indent` below 0) on one line. */
static void add_property(const char *name, int indent, struct buf *out)
{
	if (indent < 0)
		buf_addf(out, "%s%s: ", out->data[out->len - 1] == '{' ? "" : ", ", name);
	else
		buf_addf(out, "%*s%s: ", indent, "", name);
}

static void add_properties(const struct record *r, int indent, struct buf *out)
{
	const char *end = indent < 0 ? "" : "\n";
	for (const struct field *f = r->fields; !field_is_last(f); f++) {
		if (f->type == FIELD_MEMBERS)
			add_properties(f->of, indent, out);
		for (int i = f->first; f->type == FIELD_COUNTS && !f->name && i < f->n; i++) {
			add_property(f->names[i], indent, out);
			buf_addf(out, "{type: integer}%s", end);
		}
		if (f->name) {
			add_property(f->name, indent, out);
			add_schema(f, out);
			buf_add(out, end);
		}
	}
}

void words_schema(const char *name, const char *const *words, struct buf *out)
{
	buf_addf(out, "    %s: {enum: [", name);
	for (int i = 0; words[i]; i++) {
		buf_add(out, i ? ", " : "");
		add_word(words[i], out);
	}
	buf_add(out, "]}\n");
}

void records_schemas(const struct record *const *records, struct buf *out)
{
	for (const struct record *const *r = records; *r; r++) {
		buf_addf(out, "    %s:\n      description: ", (*r)->name);
		buf_add_json(out, (*r)->about);
		buf_add(out, "\n      type: object\n      ");
		add_required(*r, out);
		buf_add(out, "\n      properties:\n");
		add_properties(*r, 8, out);
	}
}

/* ---- tables for people ---- */

static const char *type_words(const struct field *f)
{
	static const char *const words[] = {
		[FIELD_TEXT] = "text",       [FIELD_CHARS] = "text",      [FIELD_FAILURE] = "text",
		[FIELD_STATE] = "text",      [FIELD_WORD] = "word",       [FIELD_BOOL] = "true or false",
		[FIELD_NUMBER] = "integer",  [FIELD_INT] = "integer",     [FIELD_REAL] = "number",
		[FIELD_SECONDS] = "seconds", [FIELD_MS] = "milliseconds", [FIELD_TIME] = "time",
		[FIELD_DOCUMENT] = "object", [FIELD_DATA] = "JSON",       [FIELD_TEXTS] = "list of texts",
		[FIELD_COUNTS] = "object",   [FIELD_MAP] = "object",      [FIELD_RECORD] = "object",
		[FIELD_LIST] = "list",       [FIELD_JSON] = "JSON",
	};
	return words[f->type];
}

static const char *mask_words(const struct field *f)
{
	static const char *const words[] = {
		[MASK_NOTHING] = "",
		[MASK_OWNER] = "owner",
		[MASK_WORDS] = "values in the text",
		[MASK_VALUES] = "columns and members",
		[MASK_IDENTITY] = "for viewers",
		[MASK_OPERATORS] = "hidden from viewers",
	};
	return words[f->mask];
}

/* [Claim](#claim) */
static void add_link(const struct field *f, struct buf *out)
{
	buf_addf(out, "%s[%s](#", f->type == FIELD_LIST ? "list of " : "", f->of->name);
	for (const char *c = f->of->name; *c; c++)
		buf_addch(out, (char)tolower((unsigned char)*c));
	buf_add(out, ")");
}

static void add_rows(const struct record *r, const char *within, struct buf *out)
{
	for (const struct field *f = r->fields; !field_is_last(f); f++) {
		if (f->type == FIELD_MEMBERS)
			add_rows(f->of, within, out);
		for (int i = f->first; f->type == FIELD_COUNTS && !f->name && i < f->n; i++)
			buf_addf(out, "| `%s%s` | integer | | |\n", within, f->names[i]);
		if (!f->name)
			continue;
		bool named = f->of && f->of->name;
		buf_addf(out, "| `%s%s` | ", within, f->name);
		if (named)
			add_link(f, out);
		else
			buf_add(out, type_words(f));
		buf_addf(out, "%s | %s | %s |\n",
		         f->optional      ? ", if known"
		         : may_be_null(f) ? " or null"
		                          : "",
		         mask_words(f), f->about ? f->about : "");
		if (f->of && !named) {
			char inside[128];
			snprintf(inside, sizeof inside, "%s%s%s.", within, f->name,
			         f->type == FIELD_LIST ? "[]" : "");
			add_rows(f->of, inside, out);
		}
	}
}

void records_docs(const struct record *const *records, struct buf *out)
{
	for (const struct record *const *r = records; *r; r++) {
		buf_addf(out, "\n## %s\n\n%c%s.\n\n| member | type | masked | |\n|---|---|---|---|\n",
		         (*r)->name, toupper((unsigned char)*(*r)->about), (*r)->about + 1);
		add_rows(*r, "", out);
	}
}

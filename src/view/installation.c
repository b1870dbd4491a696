/* SPDX-License-Identifier: Apache-2.0 */
#include "view/installation.h"

#include "base/clock.h"

static const struct {
	const char *name;
	enum color color;
} levels[FINDING_LEVELS] = {
	[FINDING_OK] = {"ok", COLOR_GREEN},
	[FINDING_WARN] = {"warn", COLOR_YELLOW},
	[FINDING_FAIL] = {"FAIL", COLOR_RED},
};

static const char *finding_level(const void *row)
{
	return levels[((const struct finding *)row)->level].name;
}

#define AT(member) FIELD_AT(struct finding, member)
static const struct field finding_fields[] = {
	{"level", .text = finding_level, .schema = "{enum: [ok, warn, FAIL]}"},
	{"check", AT(check), .about = "the id of the check"},
	{"database", AT(database)},
	{"watch", AT(watch), .null = true, .about = "null: about the database itself"},
	{"text", AT(text)},
	{"fix", AT(fix), .null = true, .about = "SQL that ends with ;, or an action in words"},
	{0},
};
#undef AT

const struct record finding_record = {
	.name = "Finding",
	.about = "what doctor found",
	.fields = finding_fields,
	.size = sizeof(struct finding),
};

void finding_text(const struct finding *f, bool color, struct buf *out)
{
	AUTO_BUF level = BUF_INIT;
	out_padded(&level, levels[f->level].name, 6);
	out_color(out, color, levels[f->level].color, buf_text(&level));
	out_padded(out, f->text, 0);
	if (f->fix) {
		buf_add(out, "\n      fix: ");
		out_padded(out, f->fix, 0);
	}
	buf_add(out, "\n");
}

#define AT(member) FIELD_AT(struct cfg_shown, member)
static const struct field setting_fields[] = {
	{"path", AT(path), .about = "such as watches.pages.stuck_after"},
	{"value", AT(value), .null = true, .about = "in force; secrets are masked"},
	{"origin", AT(origin), .about = "where it comes from: a line of a file, default, --db"},
	{0},
};
#undef AT

const struct record setting_record = {
	.name = "Setting",
	.about = "a value of the effective configuration",
	.fields = setting_fields,
	.size = sizeof(struct cfg_shown),
};

void config_json(const struct cfg_shown *shown, int n, struct buf *out)
{
	const struct viewer v = viewer_local(NULL, NULL);
	buf_add(out, "[");
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? ",\n  " : "\n  ");
		record_json(&setting_record, &shown[i], &v, out);
	}
	buf_add(out, n ? "\n]" : "]");
}

/* ---- retention ---- */

/* What retention keeps and has removed in one database; "" if there is nothing. */
void retention_text(const struct database *d, const struct retention_state *st, struct buf *out)
{
	for (int i = 0; i < RETENTION_COUNT; i++) {
		const struct retention_count *k = &st->counts[i];
		if (k->rows <= 0 && k->removed <= 0)
			continue;
		buf_addf(out, "  kept         %s: ", d->name);
		buf_addf(out, "%s: ", retention_words[i]);
		buf_add_count(out, k->rows);
		if (k->oldest_us >= 0) {
			buf_add(out, ", the oldest ");
			duration_text(k->oldest_us / US_PER_S * US_PER_S, out);
			buf_add(out, " old");
		}
		buf_add(out, "; ");
		buf_add_count(out, k->removed);
		buf_add(out, " removed so far\n");
	}
}

static bool count_of_rows(const void *row, int64_t *out)
{
	int64_t rows = ((const struct retention_count *)row)->rows;
	*out = rows > 0 ? rows : 0;
	return true;
}

static bool count_oldest(const void *row, int64_t *out)
{
	*out = ((const struct retention_count *)row)->oldest_us;
	return *out >= 0;
}

static const struct field count_fields[] = {
	{"rows", FIELD_NUMBER, .number = count_of_rows},
	{"removed", FIELD_NUMBER, FIELD_AT(struct retention_count, removed), .about = "so far"},
	{"oldest_s", FIELD_SECONDS, .number = count_oldest, .null = true},
	{0},
};
static const struct record count_record = {.fields = count_fields,
                                           .size = sizeof(struct retention_count)};

static void retention_counts_json(const void *row, const struct viewer *v, struct buf *out)
{
	buf_add(out, "{");
	for (int i = 0; i < RETENTION_COUNT; i++) {
		buf_addf(out, "%s\"%s\":", i ? "," : "", retention_names[i]);
		record_json(&count_record, &((const struct retention_state *)row)->counts[i], v, out);
	}
	buf_add(out, "}");
}

static const struct field retention_fields[] = {
	{"database", .words = field_database},
	{"last_round_s", FIELD_SECONDS, FIELD_AT(struct retention_state, ago_us)},
	{"kept", FIELD_JSON, .json = retention_counts_json, .schema = "{type: object}",
     .about = "by kind of row: how many rows there are, and how many were removed"},
	{0},
};

const struct record retention_record = {
	.name = "Retention",
	.about = "what retention keeps and has removed in a database",
	.fields = retention_fields,
	.size = sizeof(struct retention_state),
};

/* ---- workers ---- */

/* The lines as an array; null if they are unknown. */
static void add_serves(const char *serves, struct buf *out)
{
	buf_add(out, serves ? "[" : "null");
	for (int n = 0; serves && *serves; n++) {
		size_t len = strcspn(serves, "\n");
		char *name = strndup(serves, len);
		buf_add(out, n ? "," : "");
		buf_add_json(out, name ? name : "");
		free(name);
		serves += len + (serves[len] == '\n');
	}
	buf_add(out, serves ? "]" : "");
}

static void json_serves(const void *row, const struct viewer *v, struct buf *out)
{
	(void)v;
	add_serves(((const struct roster_row *)row)->serves, out);
}

#define AT(member) FIELD_AT(struct roster_row, member)
static const struct field roster_fields[] = {
	{"id", FIELD_NUMBER, AT(id)},
	{"name", .mask = MASK_IDENTITY, AT(name)},
	{"host", FIELD_CHARS, MASK_IDENTITY, AT(who.host), FIELD_HAS(struct roster_row, known)},
	{"pid", FIELD_INT, MASK_OPERATORS, AT(who.pid), FIELD_HAS(struct roster_row, known)},
	{"state", AT(state), .schema = "{enum: [alive, left, dead]}"},
	{"expired", FIELD_BOOL, AT(expired), .about = "its lease is over"},
	{"started_at", FIELD_TIME, AT(started_us)},
	{"renewed_at", FIELD_TIME, AT(renewed_us)},
	{"expires_at", FIELD_TIME, AT(expires_us)},
	{"lease_s", FIELD_SECONDS, AT(lease_us)},
	{"ended_at", FIELD_TIME, AT(ended_us), FIELD_HAS(struct roster_row, has_ended)},
	{"cause", AT(cause), .null = true, .about = "why it ended"},
	{"holding", FIELD_NUMBER, AT(holding), .about = "jobs that it has"},
	{"serves", FIELD_JSON, .json = json_serves,
     .schema = "{type: [array, \"null\"], items: {type: string}}",
     .about = "queues and watches; null: not known"},
	{"info", FIELD_DOCUMENT, MASK_VALUES, AT(info), .null = true,
     .about = "its description of itself"},
	{0},
};
#undef AT

static const struct record roster_record = {.fields = roster_fields,
                                            .size = sizeof(struct roster_row)};

static const void *roster_part(const void *row, int i)
{
	(void)i;
	return ((const struct worker_view *)row)->row;
}

static const struct field worker_fields[] = {
	{.type = FIELD_MEMBERS, .of = &roster_record, .part = roster_part},
	{"beats", FIELD_DATA, FIELD_AT(struct worker_view, beats), .optional = true,
     .schema = "{type: array, maxItems: 60, items: {type: [number, \"null\"]}}",
     .about = "seconds since each renewal that this daemon saw, oldest first; null: it did not "
              "look at that time"},
	{0},
};

const struct record worker_record = {
	.name = "Worker",
	.about = "a worker of the registry",
	.fields = worker_fields,
	.size = sizeof(struct worker_view),
};

void worker_spool_text(const struct database *d, const char *name, const json_t *spool,
                       struct buf *out)
{
	int64_t aside = json_integer_value(json_object_get(spool, "set_aside"));
	const char *why = json_string_value(json_object_get(spool, "why"));
	const char *unserved = json_string_value(json_object_get(spool, "unserved"));
	AUTO_BUF text = BUF_INIT;
	if (aside) {
		buf_add_count(&text, aside);
		buf_addf(&text, " result%s set aside, the database refuses to record %s: %s",
		         aside == 1 ? " is" : "s are", aside == 1 ? "it" : "them", why ? why : "?");
	}
	if (unserved)
		buf_addf(&text, "%sresults in its spool wait for a worker that serves %s",
		         aside ? "; " : "", unserved);
	buf_addf(out, "  worker       %s: %s: ", d->name, name);
	out_padded(out, buf_text(&text), 0);
	buf_add(out, "\n");
}

static const struct field worker_spool_fields[] = {
	{"database", .words = field_database},
	{"worker", FIELD_AT(struct worker_spool, worker)},
	{"spool", FIELD_DATA, FIELD_AT(struct worker_spool, spool), .schema = "{type: object}"},
	{0},
};

const struct record worker_spool_record = {
	.name = "WorkerSpool",
	.about = "results that a worker keeps on disk because the database refuses them",
	.fields = worker_spool_fields,
	.size = sizeof(struct worker_spool),
};

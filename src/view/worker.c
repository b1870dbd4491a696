/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c: see worker.h. */
#include "view/worker.h"

#include "recover/masked.h"
#include "view/json.h"
#include "view/terminal.h"
#include "view/viewer.h"

/* The lines as an array; null where they are not known. */
static void add_serves(const char *serves, struct buf *out)
{
	buf_add(out, serves ? ",\"serves\":[" : ",\"serves\":null");
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

void worker_json(const struct roster_row *w, enum role role, struct arena *a, struct buf *out)
{
	bool process = w->known && role >= ROLE_OPERATOR;
	buf_addf(out, "{\"id\":%lld", (long long)w->id);
	json_text(out, "name", viewer_text(w->name, role, a));
	json_text(out, "host", w->known ? viewer_text(w->who.host, role, a) : NULL);
	json_number(out, "pid", process, w->who.pid);
	json_text(out, "state", w->state);
	json_bool(out, "expired", w->expired);
	json_time(out, "started_at", true, w->started_us);
	json_time(out, "renewed_at", true, w->renewed_us);
	json_time(out, "expires_at", true, w->expires_us);
	json_seconds(out, "lease_s", true, w->lease_us);
	json_time(out, "ended_at", w->has_ended, w->ended_us);
	json_text(out, "cause", w->cause);
	json_number(out, "holding", true, w->holding);
	add_serves(w->serves, out);
	buf_add(out, ",\"info\":");
	masked_document(NULL, NULL, w->info, out);
}

void worker_spool_text(const struct database *d, const char *name, const json_t *spool,
                       struct buf *out)
{
	int64_t aside = json_integer_value(json_object_get(spool, "set_aside"));
	const char *why = json_string_value(json_object_get(spool, "why"));
	const char *unserved = json_string_value(json_object_get(spool, "unserved"));
	struct buf text = BUF_INIT;
	if (aside) {
		out_count(&text, aside);
		buf_addf(&text, " result%s set aside, the database refuses to record %s: %s",
		         aside == 1 ? " is" : "s are", aside == 1 ? "it" : "them", why ? why : "?");
	}
	if (unserved)
		buf_addf(&text, "%sresults in its spool wait for a worker that serves %s",
		         aside ? "; " : "", unserved);
	buf_addf(out, "  worker       %s: %s: ", d->name, name);
	out_padded(out, buf_text(&text), 0);
	buf_add(out, "\n");
	buf_release(&text);
}

void worker_spool_json(const struct database *d, const char *name, const json_t *spool,
                       struct buf *out)
{
	char *text = json_dumps(spool, JSON_COMPACT);
	buf_add(out, "{\"database\":");
	buf_add_json(out, d->name);
	buf_add(out, ",\"worker\":");
	buf_add_json(out, name);
	buf_addf(out, ",\"spool\":%s}", text ? text : "{}");
	free(text);
}

/* json_watch_status.c: see json_watch_status.h. */
#include "view/json_watch_status.h"

#include "view/json.h"

void override_json(const struct override *t, struct buf *out)
{
	buf_add(out, "{\"word\":");
	buf_add_json(out, t->name);
	json_text(out, "watch", t->watch);
	json_text(out, "value", t->value);
	json_text(out, "actor", t->actor);
	json_text(out, "reason", t->reason);
	json_time(out, "at", t->at_us != 0, t->at_us);
	json_time(out, "until", t->until_us != 0, t->until_us);
	buf_add(out, "}");
}

static void json_leader(const struct watch_status *st, struct buf *out)
{
	const struct leader_row *l = st->leader;
	buf_add(out, ",\"leader\":");
	if (!l) {
		buf_add(out, "null");
		return;
	}
	buf_addf(out, "{\"leads\":%s", l->leads ? "true" : "false");
	json_text(out, "holder", l->holder);
	json_time(out, "since", true, l->since_us);
	buf_add(out, "}");
}

static void json_attached(const struct watch_status *st, struct buf *out)
{
	const struct attachment *at = st->attached;
	buf_add(out, ",\"attached\":");
	if (at)
		buf_addf(out, "{\"disabled\":%s,\"programs\":%lld}", at->disabled ? "true" : "false",
		         (long long)at->programs);
	else
		buf_add(out, "null");
}

void watch_status_json(const struct watch_status *st, struct buf *out)
{
	buf_add(out, "{\"watch\":");
	buf_add_json(out, st->watch);
	json_text(out, "database", st->database);
	json_text(out, "standing", watch_status_names[st->is]);
	buf_addf(out, ",\"trouble\":%s", watch_status_trouble(st) ? "true" : "false");
	json_number(out, "alerts_firing", true, st->firing);
	json_text(out, "alert", st->alert);
	json_leader(st, out);
	json_attached(st, out);
	json_seconds(out, "last_scan_s", st->scanned, st->ago_us);
	buf_add(out, ",\"told\":[");
	for (int i = 0; i < st->nwords; i++) {
		buf_add(out, i ? "," : "");
		override_json(st->words[i], out);
	}
	buf_addf(out, "],\"info\":%s}", st->info ? st->status->info : "null");
}

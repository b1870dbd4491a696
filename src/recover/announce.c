/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/announce.h"

#include "base/clock.h"
#include "base/log.h"
#include "ledger/events.h"

#define ANNOUNCED "*" /* the job of entries that are about a watch */

/* Not about a single job. */
static void announce_entry(struct session *session, const struct watch *w, int64_t now_us,
                           struct ledger_entry *entry, const char *actor)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	char batch[64];
	struct ledger_context ctx = {w->name, batch, actor};
	entry->job = ANNOUNCED;
	snprintf(batch, sizeof batch, "%s-%lld", entry->rule, (long long)now_us);
	defib_err err = session_ready(session, &f);
	if (!err)
		err = store_begin(session->store, TX_WRITE, &f);
	if (!err) {
		err = ledger_append(session->store, &ctx, entry, 1, &a, &f);
		err = store_end(session->store, err, &f);
	}
	if (err)
		log_event(LOG_WARN, f.what);
}

static void announce_record(struct session *session, const struct watch *w,
                            const struct scan_result *last, const char *rule, const char *sentence,
                            const char *actor)
{
	struct ledger_entry entry = {.event = ENTRY_GUARD_HELD, .rule = rule, .reason = sentence};
	announce_entry(session, w, last->now_us, &entry, actor);
}

void guard_log_changes(struct guard_logged *logged, const struct guard *g, struct session *session,
                       const struct watch *w, const struct scan_result *last, const char *actor)
{
	struct guard_report r;
	guard_report(g, &r);
	/* An outage that held back no job is only shown in the status. */
	bool doubting = r.held[GUARD_DOUBT] > 0 || (logged->doubting && r.doubting);
	const struct {
		bool *logged, is;
		const char *holds, *lets_go;           /* in the log … */
		const char *rule_holds, *rule_lets_go; /* … and in the ledger */
		const char *over, *because;
	} guards[] = {
		{&logged->braking, r.braking, "the brake holds", "the brake was released", "brake-holds",
	     "brake-lets-go", "the brake was released: ", r.brake_ended ? r.brake_ended : ""},
		{&logged->doubting, last->failure.code ? logged->doubting : doubting, "doubt holds",
	     "doubt has ended", "doubt-holds", "doubt-lets-go",
	     "doubt has ended: every live worker had time to be heard", ""},
	};
	for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
		AUTO_BUF sentence = BUF_INIT;
		if (*guards[i].logged == guards[i].is)
			continue;
		*guards[i].logged = guards[i].is;
		if (guards[i].is)
			guard_sentence(g, &sentence);
		else
			buf_addf(&sentence, "%s%s", guards[i].over, guards[i].because);
		log_event(LOG_WARN, guards[i].is ? guards[i].holds : guards[i].lets_go,
		          LOG_STR("watch", w->name), LOG_STR("because", buf_text(&sentence)));
		if (last->ledger)
			announce_record(session, w, last,
			                guards[i].is ? guards[i].rule_holds : guards[i].rule_lets_go,
			                buf_text(&sentence), actor);
	}
}

/* ---- jobs that nobody starts ---- */

#define RULE_UNSTARTED "unstarted"

/* Whether the ledger has an incident that is not over. */
static bool incident_open(struct session *session, const struct watch *w)
{
	static const char *const events[] = {ENTRY_UNSTARTED, ENTRY_STARTED_AGAIN};
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	int64_t newest[2] = {0};
	for (int i = 0; i < 2; i++) {
		struct ledger_filter filter = {.watch = w->name,
		                               .job = ANNOUNCED,
		                               .event = events[i],
		                               .limit = 1,
		                               .newest_first = true};
		struct ledger_row *rows = NULL;
		int n = 0;
		if (session_ready(session, &f) || ledger_read(session->store, &filter, &a, &rows, &n, &f))
			return false;
		newest[i] = n ? rows[0].id : 0;
	}
	return newest[0] > newest[1];
}

static const char *unstarted_evidence(const struct waiting_result *r, struct arena *a)
{
	AUTO_BUF out = BUF_INIT;
	buf_addf(&out, "{\"waiting\":%lld,\"waited_s\":%lld,\"limit_s\":%lld,\"running\":%lld",
	         (long long)r->unstarted, (long long)(r->waited_us / US_PER_S),
	         (long long)(r->limit_us / US_PER_S), (long long)r->running);
	if (r->kind[0]) {
		buf_add(&out, ",\"kind\":");
		buf_add_json(&out, r->kind);
	}
	if (r->last_us) {
		AUTO_BUF iso = BUF_INIT;
		time_iso(r->last_us, &iso);
		buf_addf(&out, ",\"last_claim\":\"%s\"", buf_text(&iso));
	}
	if (r->workers >= 0)
		buf_addf(&out, ",\"workers\":%lld", (long long)r->workers);
	buf_add(&out, "}");
	return arena_strdup(a, buf_text(&out));
}

void late_log_changes(struct late_logged *logged, struct session *session, const struct watch *w,
                      const struct scan_result *last, const char *actor)
{
	const struct waiting_result *r = &last->waiting;
	AUTO_ARENA a = ARENA_INIT;
	AUTO_BUF sentence = BUF_INIT;
	bool is = r->unstarted > 0;
	/* What is not known now changes nothing. */
	if (last->failure.code || !r->asked || (!is && r->unknown))
		return;
	if (!logged->known && last->ledger)
		logged->unstarted = incident_open(session, w);
	logged->known = true;
	if (logged->unstarted == is)
		return;
	logged->unstarted = is;
	late_sentence(r, &sentence);
	if (!sentence.len)
		buf_add(&sentence, "nothing is late any more");
	log_event(LOG_WARN, is ? "jobs are due and nobody starts them" : "jobs are being started again",
	          LOG_STR("watch", w->name), LOG_STR("because", buf_text(&sentence)));
	struct ledger_entry entry = {.event = is ? ENTRY_UNSTARTED : ENTRY_STARTED_AGAIN,
	                             .rule = RULE_UNSTARTED,
	                             .reason = buf_text(&sentence),
	                             .evidence = is ? unstarted_evidence(r, &a) : NULL};
	if (last->ledger)
		announce_entry(session, w, r->now_us, &entry, actor);
}

/* ---- groups ---- */

#define PARTS_MAX 24 /* watches of a group that have a field of their own */

void group_tell(const char *group, const struct group_part *parts, int n)
{
	struct log_field fields[PARTS_MAX + 4];
	char *names[PARTS_MAX];
	int64_t total = 0, rest = 0;
	int k = 0, named = n < PARTS_MAX ? n : PARTS_MAX;
	for (int i = 0; i < n; i++) {
		total += parts[i].recovered;
		rest += i < named ? 0 : parts[i].recovered;
	}
	fields[k++] = LOG_STR("group", group);
	fields[k++] = LOG_INT("total", total);
	for (int i = 0; i < named; i++) {
		const struct watch *w = parts[i].watch;
		names[i] = mem_strdup(w->label ? w->label : w->name);
		log_key(names[i]);
		fields[k++] = LOG_INT(names[i], parts[i].recovered);
	}
	if (named < n)
		fields[k++] = LOG_INT("others", rest);
	fields[k] = (struct log_field){NULL, NULL, 0};
	log_write(total ? LOG_WARN : LOG_DEBUG, total ? "stuck jobs reset" : "no stuck jobs", fields);
	for (int i = 0; i < named; i++)
		free(names[i]);
}

void groups_tell(struct group_part *parts, int n)
{
	for (int from = 0, to; from < n; from = to) {
		const char *group = parts[from].watch->group;
		to = from + 1;
		for (int i = to; group && i < n; i++)
			if (text_eq(parts[i].watch->group, group)) {
				struct group_part moved = parts[i];
				for (int k = i; k > to; k--)
					parts[k] = parts[k - 1];
				parts[to++] = moved;
			}
		if (group)
			group_tell(group, &parts[from], to - from);
	}
}

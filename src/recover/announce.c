/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/announce.h"

#include "base/log.h"
#include "ledger/events.h"

/* Not about a single job. */
static void announce_record(struct session *session, const struct watch *w,
                            const struct scan_result *last, const char *rule, const char *sentence,
                            const char *actor)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	char batch[64];
	struct ledger_entry entry = {
		.job = "*", .event = ENTRY_GUARD_HELD, .rule = rule, .reason = sentence};
	struct ledger_context ctx = {w->name, batch, actor};
	snprintf(batch, sizeof batch, "%s-%lld", rule, (long long)last->now_us);
	defib_err err = session_ready(session, &f);
	if (!err)
		err = store_begin(session->store, TX_WRITE, &f);
	if (!err) {
		err = ledger_append(session->store, &ctx, &entry, 1, &a, &f);
		err = store_end(session->store, err, &f);
	}
	if (err)
		log_event(LOG_WARN, f.what);
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

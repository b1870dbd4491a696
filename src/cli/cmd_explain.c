/*
 * cmd_explain.c: `defib explain WATCH KEY…`: every fact about one job, what
 * it was compared with, which rule fires or why none does.
 */
#include "cli/pick.h"

#include "base/clock.h"
#include "base/text.h"
#include "recover/evidence.h"
#include "recover/look.h"

#include <stdarg.h>

const struct cli_option explain_options[] = {{NULL, NULL, NULL}};

static void line(struct buf *out, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void line(struct buf *out, const char *name, const char *fmt, ...)
{
	char text[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	buf_add(out, "  ");
	out_padded(out, name, 13);
	buf_add(out, " ");
	out_padded(out, text, 0);
	buf_add(out, "\n");
}

static void sign_lines(const struct watch *w, const struct facts *f, struct buf *out)
{
	static const char *const names[] = {"alive_at", "expires_at", "started_at"};
	for (int s = 0; s < SIGN_COUNT; s++) {
		struct buf iso = BUF_INIT, age = BUF_INIT, limit = BUF_INIT;
		const struct threshold *t = s == SIGN_STARTED ? &w->overdue_after : &w->stuck_after;
		int64_t us = 0;
		if (watch_sign(w, (enum sign)s)->text && f->has_sign[s]) {
			int64_t since = f->now_us - f->sign_us[s];
			time_iso(f->sign_us[s], &iso);
			duration_text(since < 0 ? -since : since, &age);
			threshold_for(t, f->kind, &us);
			duration_text(us, &limit);
			line(out, names[s], "%s, %s %s; the limit is %s", buf_text(&iso), buf_text(&age),
			     since < 0 ? "ahead" : "ago", buf_text(&limit));
		} else if (watch_sign(w, (enum sign)s)->text) {
			line(out, names[s], "null");
		}
		buf_release(&iso);
		buf_release(&age);
		buf_release(&limit);
	}
}

static void fact_lines(const struct watch *w, const struct facts *f, struct buf *out)
{
	struct buf value = BUF_INIT;
	line(out, "running", "%s (%s)", f->running ? "yes" : "no", w->running.text);
	sign_lines(w, f, out);
	if (f->owner)
		shown_owner(w, f->owner, &value);
	if (w->owner.text)
		line(out, "owner", "%s", f->owner ? buf_text(&value) : "null");
	if (w->owner_alive.text)
		line(out, "owner_alive", "%s",
		     f->owner_alive == KNOWN_NOT   ? "unknown"
		     : f->owner_alive == KNOWN_YES ? "yes"
		                                   : "no");
	if (w->kind.text)
		line(out, "kind", "%s", f->kind ? f->kind : "null");
	if (f->has_attempts && f->has_max_attempts)
		line(out, "attempts", "%lld of %lld", (long long)f->attempts, (long long)f->max_attempts);
	else if (f->has_attempts)
		line(out, "attempts", "%lld", (long long)f->attempts);
	if (f->crashes)
		line(out, "recovered", "%lld times before", (long long)f->crashes);
	for (int i = 0; i < w->show.n; i++) {
		buf_clear(&value);
		if (f->show[i])
			shown_value(w, w->show.items[i], f->show[i], &value);
		line(out, w->show.items[i], "%s", f->show[i] ? buf_text(&value) : "null");
	}
	buf_release(&value);
}

static void verdict_lines(const struct watch *w, const struct candidate *cand, struct buf *out)
{
	const struct judgement *j = &cand->judgement;
	const struct decision *d = &cand->decision;
	if (j->verdict == VERDICT_NONE) {
		line(out, "verdict", "not stuck: %s [%s]", j->rule->why, j->rule->id);
		return;
	}
	line(out, "verdict", "%s: %s [%s]", verdict_names[j->verdict], j->rule->why, j->rule->id);
	line(out, "remedy", "%s: %s [%s]%s", remedy_names[d->remedy], d->why, d->rule,
	     d->act ? "" : "; nothing is written");
	if (d->act && d->remedy != REMEDY_REPORT)
		line(out, "reason", "%s", cand->reason);
	if (d->act)
		line(out, "next", "defib scan %s --fix", w->name);
}

static void print_text(struct cli *c, const struct picked *p, const struct candidate *cand)
{
	struct buf out = BUF_INIT, because = BUF_INIT, title = BUF_INIT;
	const struct judgement *j = &cand->judgement;
	evidence_sentence(j, &because);
	buf_addf(&title, "%s/%s %s", p->database->name, p->watch->name, cand->facts.job);
	out_color(&out, c->color_out, COLOR_BOLD, buf_text(&title));
	buf_add(&out, j->verdict == VERDICT_NONE ? " is not stuck: " : " is stuck: ");
	buf_addf(&out, "%s.\n", buf_text(&because));
	fact_lines(p->watch, &cand->facts, &out);
	verdict_lines(p->watch, cand, &out);
	fputs(buf_text(&out), stdout);
	buf_release(&out);
	buf_release(&because);
	buf_release(&title);
}

static void print_json(const struct picked *p, const struct candidate *cand)
{
	const struct judgement *j = &cand->judgement;
	struct buf out = BUF_INIT;
	bool stuck = j->verdict != VERDICT_NONE;
	buf_add(&out, "{\"database\":");
	buf_add_json(&out, p->database->name);
	buf_add(&out, ",\"watch\":");
	buf_add_json(&out, p->watch->name);
	buf_add(&out, ",\"key\":");
	if (p->watch->key.n == 1)
		buf_add_json(&out, cand->facts.job);
	else
		buf_add(&out, cand->facts.job);
	buf_addf(&out, ",\"running\":%s,\"stuck\":%s,\"verdict\":\"%s\",\"law\":\"%s\",\"why\":",
	         cand->facts.running ? "true" : "false", stuck ? "true" : "false",
	         verdict_names[j->verdict], j->rule->id);
	buf_add_json(&out, j->rule->why);
	buf_addf(&out, ",\"evidence\":%s,\"held\":%s", cand->evidence,
	         cand->facts.held ? "true" : "false");
	if (stuck)
		buf_addf(&out, ",\"remedy\":\"%s\",\"rule\":\"%s\",\"acts\":%s",
		         remedy_names[cand->decision.remedy], cand->decision.rule,
		         cand->decision.act ? "true" : "false");
	buf_add(&out, "}\n");
	fputs(buf_text(&out), stdout);
	buf_release(&out);
}

/* A job that is not stuck has no decision; only its facts are filled in. */
static void prepare(struct cli *c, const struct picked *p, const struct facts *f, bool ledger,
                    struct candidate *out)
{
	struct judgement j = judge(p->watch, f);
	struct scan_options o = {0};
	if (j.verdict != VERDICT_NONE) {
		candidate_prepare(p->watch, f, &j, &o, ledger, &c->arena, out);
		return;
	}
	struct buf evidence = BUF_INIT;
	evidence_json(p->watch, f, &j, &evidence);
	*out = (struct candidate){
		.facts = *f, .judgement = j, .evidence = arena_strdup(&c->arena, buf_text(&evidence))};
	buf_release(&evidence);
}

static int explain(struct cli *c, struct picked *p)
{
	struct failure f = {0};
	struct ledger ledger = {0};
	struct facts facts;
	struct candidate cand;
	bool found = false;
	defib_err err = DEFIB_OK;
	if (c->settings.ledger != LEDGER_OFF)
		err = ledger_open(p->store, false, &ledger, &f);
	if (!err)
		err = look_one(p->store, &p->sql, &ledger, c->words + 1, &c->arena, &facts, &found, &f);
	/* A word that the key's type cannot take is the caller's slip, not the database's trouble. */
	if (err && strncmp(f.sqlstate, "22", 2) == 0)
		f.code = DEFIB_USAGE;
	if (err)
		return cli_fail(&f);
	if (!found)
		return cli_usage("table %s has no row with that key", p->watch->table);
	/* Before the first fix there is no ledger; what would happen then is what one wants to know. */
	bool will_have = ledger.ready || c->settings.ledger != LEDGER_OFF;
	prepare(c, p, &facts, will_have, &cand);
	if (c->json)
		print_json(p, &cand);
	else
		print_text(c, p, &cand);
	return cand.judgement.verdict == VERDICT_NONE ? EXIT_CLEAN : EXIT_STUCK;
}

int cmd_explain(struct cli *c)
{
	struct picked p;
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->nwords < 2)
		return cli_usage("defib explain takes a watch and the key of a job");
	code = pick_watch(c, c->words[0], &p);
	if (code != EXIT_CLEAN)
		return code;
	if (c->nwords != 1 + p.watch->key.n)
		code = cli_usage("the key of watch %s has %d parts", p.watch->name, p.watch->key.n);
	else
		code = explain(c, &p);
	store_close(p.store);
	return code;
}

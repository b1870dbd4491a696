/* job_facts.c: see job_facts.h. */
#include "cli/job_facts.h"

#include "base/clock.h"
#include "recover/evidence.h"

#include <stdarg.h>

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

void fact_print(const struct fact_sheet *s, struct buf *out)
{
	int width = 13;
	for (int i = 0; i < s->n; i++)
		width = out_width(s->names[i]) > width ? out_width(s->names[i]) : width;
	for (int i = 0; i < s->n; i++) {
		buf_add(out, "  ");
		out_padded(out, s->names[i], width);
		buf_add(out, " ");
		out_padded(out, s->values[i], 0);
		buf_add(out, "\n");
	}
}

static void sign_lines(struct fact_sheet *sheet, const struct watch *w, const struct facts *f)
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
			fact_line(sheet, names[s], "%s, %s %s; the limit is %s", buf_text(&iso), buf_text(&age),
			          since < 0 ? "ahead" : "ago", buf_text(&limit));
		} else if (watch_sign(w, (enum sign)s)->text) {
			fact_line(sheet, names[s], "null");
		}
		buf_release(&iso);
		buf_release(&age);
		buf_release(&limit);
	}
}

static void owner_lines(struct fact_sheet *s, const struct watch *w, const struct facts *f)
{
	static const char *const known[] = {"unknown", "no", "yes"};
	struct buf owner = BUF_INIT;
	if (f->owner)
		shown_owner(w, f->owner, &owner);
	if (w->owner.text)
		fact_line(s, "owner", "%s", f->owner ? buf_text(&owner) : "null");
	if (w->owner_alive.text)
		fact_line(s, "owner_alive", "%s", known[f->owner_alive - KNOWN_NOT]);
	buf_release(&owner);
}

void fact_lines(struct fact_sheet *s, const struct watch *w, const struct facts *f)
{
	struct buf value = BUF_INIT;
	fact_line(s, "running", "%s (%s)", f->running ? "yes" : "no", w->running.text);
	sign_lines(s, w, f);
	owner_lines(s, w, f);
	if (w->kind.text)
		fact_line(s, "kind", "%s", f->kind ? f->kind : "null");
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
		fact_line(s, w->show.items[i], "%s", f->show[i] ? buf_text(&value) : "null");
	}
	buf_release(&value);
}

void fact_claim(struct fact_sheet *s, const struct claim *c, int64_t now_us)
{
	struct buf iso = BUF_INIT, age = BUF_INIT;
	time_iso(c->at_us, &iso);
	duration_text(now_us > c->at_us ? now_us - c->at_us : 0, &age);
	fact_line(s, "claimed", "by session %s (pid %lld)%s%s%s%s at %s, %s ago",
	          c->application[0] ? c->application : "without a name", (long long)c->pid,
	          c->program ? " of " : "", c->program ? c->program : "", c->host ? " on " : "",
	          c->host ? c->host : "", buf_text(&iso), buf_text(&age));
	buf_release(&iso);
	buf_release(&age);
}

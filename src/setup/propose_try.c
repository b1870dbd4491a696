/* SPDX-License-Identifier: Apache-2.0
 * propose_try.c: a proposal as YAML, and what the watch finds in its database. The YAML itself is
 * read back and bound, so that the user gets exactly what was tried.
 */

#include "setup/propose_try.h"

#include "base/clock.h"
#include "insight/learn.h"
#include "insight/run_times.h"
#include "recover/decide.h"
#include "recover/judge.h"
#include "recover/look.h"
#include "setup/propose.h"
#include "setup/propose_lines.h"
#include "setup/trust.h"
#include "watch/check.h"
#include "watch/compile_write.h"
#include "watch/options.h"

#include <ctype.h>

/* ---- YAML ---- */

#define WIDTH 92

/* Whether YAML, or people, would take it for anything but text. */
static bool plain_is_safe(const char *text)
{
	if (!*text || text[strlen(text) - 1] == ' ' || text[strlen(text) - 1] == ':')
		return false;
	if (!isalnum((unsigned char)*text) && *text != '_' && *text != '(' && *text != '/')
		return false;
	for (const char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || (unsigned char)*at >= 0x7f ||
		    (*at == ':' && at[1] == ' ') || (*at == ' ' && at[1] == '#') ||
		    (*at == '$' && at[1] == '{'))
			return false;
	return true;
}

/* JSON's escapes are valid in YAML, which also requires DEL and U+0080 to U+009F to be escaped. */
static void proposal_try_add_quoted(const char *text, struct buf *out)
{
	AUTO_BUF json = BUF_INIT;
	buf_add_json(&json, text);
	for (const char *at = buf_text(&json); *at; at++) {
		unsigned char byte = (unsigned char)*at, next = (unsigned char)at[1];
		if (byte == 0x7f || (byte == 0xc2 && next < 0xa0))
			buf_addf(out, "\\u%04x", byte == 0x7f ? byte : next);
		else
			buf_addch(out, *at);
		at += byte == 0xc2 && next < 0xa0;
	}
}

void yaml_scalar(const char *text, struct buf *out)
{
	if (plain_is_safe(text))
		buf_add(out, text);
	else
		proposal_try_add_quoted(text, out);
}

/* One word; unprintable characters would end the comment or confuse the reader. */
static size_t proposal_try_add_word(const char *word, struct buf *out)
{
	size_t n = strcspn(word, " ");
	for (size_t i = 0; i < n;) {
		size_t len = utf8_len(word + i);
		bool plain = len == 1 && (unsigned char)word[i] >= ' ' && word[i] != 0x7f;
		/* U+0080 to U+009F are control characters, too. */
		bool wide =
			len > 1 && !((unsigned char)word[i] == 0xc2 && (unsigned char)word[i + 1] < 0xa0);
		if (plain || wide)
			buf_addn(out, word + i, len);
		else
			buf_addch(out, '?');
		i += len ? len : 1;
	}
	return n;
}

void yaml_comment(const char *indent, const char *text, struct buf *out)
{
	size_t col = 0;
	for (const char *word = text; *word;) {
		size_t n = strcspn(word, " ");
		if (col == 0 || col + n + 1 > WIDTH) {
			buf_addf(out, "%s%s#", col ? "\n" : "", indent);
			col = strlen(indent) + 1;
		}
		buf_addch(out, ' ');
		word += proposal_try_add_word(word, out);
		col += n + 1;
		word += strspn(word, " ");
	}
	buf_add(out, "\n");
}

static void add_line(const struct proposed_line *line, const char *indent, struct buf *out)
{
	if (line->why)
		yaml_comment(indent, line->why, out);
	if (line->check) {
		AUTO_BUF check = BUF_INIT;
		buf_addf(&check, "CHECK: %s", line->check);
		yaml_comment(indent, buf_text(&check), out);
	}
	buf_addf(out, "%s%s: ", indent, line->key);
	if (line->yaml)
		buf_add(out, line->value);
	else
		yaml_scalar(line->value, out);
	buf_add(out, "\n");
	for (int i = 0; i < line->nothers; i++)
		buf_addf(out, "%s# or %s\n", indent, line->others[i]);
}

void proposal_yaml(const struct proposal *p, const char *database, struct buf *out)
{
	const char *first = p->nmissing ? "#  - name: " : "  - name: ";
	const char *indent = p->nmissing ? "#    " : "    ";
	for (int i = 0; i < p->nmissing; i++)
		yaml_comment("  ", p->missing[i], out);
	buf_add(out, first);
	yaml_scalar(p->name, out);
	buf_add(out, "\n");
	if (database) {
		buf_addf(out, "%sdatabase: ", indent);
		yaml_scalar(database, out);
		buf_add(out, "\n");
	}
	for (int i = 0; i < p->nlines; i++)
		add_line(&p->lines[i], indent, out);
}

/* ---- what the watch finds ---- */

#define LOOK_ROWS 10000

void propose_seen(struct store *s, struct table_facts *t, struct arena *a, struct proposal *out)
{
	propose(t, a, out);
	const struct proposed_line *running = proposal_line(out, "running");
	if (!running)
		return;
	table_facts_in_work(s, t, running->value, a);
	if (t->counted_in_work)
		propose(t, a, out);
}

static defib_err read_back(const struct proposal *p, enum store_engine engine, struct arena *a,
                           struct watch *w, struct failure *f)
{
	AUTO_BUF yaml = BUF_INIT;
	struct cfg_node *root = NULL;
	struct cfg_reader reader;
	buf_add(&yaml, "watches:\n");
	proposal_yaml(p, NULL, &yaml);
	const char *text = arena_strdup(a, buf_text(&yaml));
	defib_err err = cfg_parse(text, "the proposal", a, &root, f);
	if (err)
		return err;
	cfg_reader_init(&reader, a);
	watch_read(&reader, cfg_get(root, "watches")->items[0], w);
	if (reader.nerrors == 0)
		watch_check(&reader, w, engine);
	for (int i = 0; i < reader.nproblems && !err; i++)
		if (!reader.problems[i].warning)
			err = fail(f, DEFIB_CONFIG, "%s", reader.problems[i].text);
	cfg_reader_release(&reader);
	return err;
}

void watch_seen(struct store *s, const struct watch_sql *q, struct arena *a,
                struct proposal_seen *seen)
{
	struct ledger none = {.ready = false};
	struct facts *facts = NULL;
	struct failure slow = {0};
	int n = 0;
	if (look_running(s, q, &seen->running, &slow) ||
	    look_page(&(struct look){s, q, &none, a}, NULL, LOOK_ROWS, NULL, &facts, &n, &slow))
		return;
	seen->looked = true;
	seen->running_capped = seen->running >= ROWS_COUNT_MAX;
	seen->stuck_capped = n == LOOK_ROWS;
	for (int i = 0; i < n; i++) {
		if (judge(q->binding->watch, &facts[i]).verdict == VERDICT_NONE)
			continue;
		seen->stuck++;
		for (int sign = 0; sign < SIGN_COUNT && !seen->has_oldest; sign++)
			if (facts[i].has_sign[sign]) {
				seen->has_oldest = true;
				seen->oldest_us = facts[i].now_us - facts[i].sign_us[sign];
			}
	}
}

static void add_why(struct proposed_line *line, struct arena *a, const char *more)
{
	line->why = line->why ? arena_printf(a, "%s; %s", line->why, more) : more;
}

static void report_seen(struct proposal *p, struct arena *a, const struct proposal_seen *seen)
{
	AUTO_BUF oldest = BUF_INIT;
	struct proposed_line *running = proposal_line(p, "running"),
						 *limit = proposal_line(p, p->limit);
	duration_text(seen->oldest_us, &oldest);
	if (seen->has_oldest)
		add_why(running, a, arena_printf(a, "the oldest is %s old", buf_text(&oldest)));
	if (seen->looked)
		add_why(limit, a,
		        arena_printf(a, "with it %s%lld of %s%lld running rows are stuck now",
		                     seen->stuck_capped ? "at least " : "", (long long)seen->stuck,
		                     seen->running_capped ? "at least " : "", (long long)seen->running));
}

const char *seen_would_act(const struct proposal_seen *seen, struct arena *a)
{
	if (!seen->looked)
		return "which rows are stuck now could not be counted in time";
	if (seen->stuck == 0)
		return NULL;
	return arena_printf(a, "the first scan --fix would change %s%lld of %s%lld running rows",
	                    seen->stuck_capped ? "at least " : "", (long long)seen->stuck,
	                    seen->running_capped ? "at least " : "", (long long)seen->running);
}

/* If the watch would act on existing rows, an operator must look at them first. */
static void confirm_first(struct proposal *p, struct arena *a, const struct proposal_seen *seen)
{
	const char *acts = seen_would_act(seen, a);
	struct proposed_line *limit = proposal_line(p, p->limit);
	if (!acts || !proposal_line(p, "requeue"))
		return;
	if (!limit->check)
		p->nchecks++;
	limit->check = arena_printf(a, "%s%s%s: look at them with defib scan",
	                            limit->check ? limit->check : "", limit->check ? "; " : "", acts);
	proposal_report_only(p);
}

/* A line that was to be checked is now known; after the last one the watch may act. */
static void settle_check(struct proposal *p, struct proposed_line *line)
{
	if (line->check)
		p->nchecks--;
	line->check = NULL;
	struct proposed_line *report = proposal_line(p, "remedies");
	if (p->nchecks > 0 || !report)
		return;
	int at = (int)(report - p->lines);
	memmove(report, report + 1, sizeof *report * (size_t)(p->nlines - at - 1));
	p->nlines--;
}

#define KINDS_MOST 8

static long long whole_minutes(int64_t us)
{
	return (us + 60 * US_PER_S - 1) / (60 * US_PER_S);
}

/* "{crawl: 7m, scrape: 2m, default: 7m}" if several kinds are known well enough; else NULL. */
static const char *limits_by_kind(const struct watch *w, const struct learned *l, int64_t most_us,
                                  struct arena *a)
{
	AUTO_BUF out = BUF_INIT;
	int n = 0;
	buf_add(&out, "{");
	for (int i = 0; i < l->n && n < KINDS_MOST; i++) {
		struct suggestion suggested;
		suggest(w, NULL, &l->kinds[i].times, &suggested);
		if (!*l->kinds[i].kind || suggested.us == 0 || suggested.advice == ADVICE_BEYOND)
			continue;
		buf_add_json(&out, l->kinds[i].kind);
		buf_addf(&out, ": %lldm, ", whole_minutes(suggested.us));
		most_us = suggested.us > most_us ? suggested.us : most_us;
		n++;
	}
	buf_addf(&out, "default: %lldm}", whole_minutes(most_us));
	return n > 1 ? arena_strdup(a, buf_text(&out)) : NULL;
}

/* If age decides, run times show what is too long. */
static void learn_limit(struct store *s, const struct binding *b, struct proposal *p,
                        struct arena *a, struct proposal_seen *seen)
{
	struct learned l = {0};
	struct run_times all = {0};
	struct suggestion suggested;
	struct failure slow = {0};
	if (!p->age_judges || learn_observe(s, b, false, a, &l, &slow))
		return;
	for (int i = 0; i < l.n; i++)
		run_times_merge(&all, &l.kinds[i].times);
	suggest(b->watch, NULL, &all, &suggested);
	seen->runs = suggested.n;
	seen->p99_us = suggested.p99_us;
	if (suggested.us == 0 || suggested.advice == ADVICE_BEYOND)
		return;
	struct proposed_line *line = proposal_line(p, p->limit);
	AUTO_BUF p99 = BUF_INIT;
	duration_text(suggested.p99_us, &p99);
	const char *by_kind = limits_by_kind(b->watch, &l, suggested.us, a);
	line->value = by_kind ? by_kind : arena_printf(a, "%lldm", whole_minutes(suggested.us));
	line->yaml = by_kind != NULL;
	line->why = arena_printf(a, "99 %% of %.0f runs took at most %s; this leaves room", suggested.n,
	                         buf_text(&p99));
	settle_check(p, line);
}

static defib_err proposal_try_bind(struct store *s, const struct proposal *p, struct arena *a,
                                   struct watch *w, struct binding *b, struct watch_sql *q,
                                   struct failure *f)
{
	defib_err err = read_back(p, s->engine, a, w, f);
	if (!err)
		err = trust_watch(s, w, true, f);
	if (!err)
		err = watch_bind(w, s, a, b, f);
	if (!err)
		err = watch_compile(b, a, q, f);
	return err ? err : watch_prepare(q, s, a, f);
}

defib_err proposal_try(struct store *s, struct proposal *p, struct arena *a,
                       struct proposal_seen *seen, struct failure *f)
{
	struct watch *w = ARENA_NEW(a, struct watch);
	struct binding *b = ARENA_NEW(a, struct binding);
	struct watch_sql *q = ARENA_NEW(a, struct watch_sql);
	*seen = (struct proposal_seen){0};
	defib_err err = proposal_try_bind(s, p, a, w, b, q, f);
	if (err)
		return err;
	learn_limit(s, b, p, a, seen);
	err = proposal_try_bind(s, p, a, w, b, q, f);
	if (err)
		return err;
	watch_seen(s, q, a, seen);
	report_seen(p, a, seen);
	confirm_first(p, a, seen);
	return DEFIB_OK;
}

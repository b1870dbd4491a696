/* SPDX-License-Identifier: Apache-2.0 */
/* pass_log.c: see pass_log.h. */
#include "daemon/pass_log.h"

#include "base/log.h"
#include "base/text.h"
#include "recover/evidence.h"

#include <ctype.h>
#include <inttypes.h>

#define PARTS_MAX 24 /* watches of a group that have a field of their own */

void cycle_begin(struct cycle *c)
{
	buf_clear(&c->jobs);
	c->named = c->more = 0;
}

void cycle_release(struct cycle *c)
{
	buf_release(&c->jobs);
}

/* The shown columns that have a value, else the key. */
static void add_name(struct buf *out, const struct watch *w, const struct facts *f)
{
	bool any = false;
	for (int i = 0; i < w->show.n; i++) {
		if (!f->show[i])
			continue;
		if (any)
			buf_addch(out, ' ');
		shown_value(w, w->show.items[i], f->show[i], out);
		any = true;
	}
	if (!any)
		buf_add(out, f->job);
}

void cycle_job(struct cycle *c, const struct watch *w, const struct candidate *job)
{
	bool done = job->outcome == OUTCOME_RECOVERED ||
	            (job->outcome == OUTCOME_HELD && !hold_in_force(job->facts.hold));
	if (!done)
		return;
	if (c->named == CYCLE_NAMED) {
		c->more++;
		return;
	}
	if (c->named++)
		buf_add(&c->jobs, ", ");
	add_name(&c->jobs, w, &job->facts);
}

static const char *called(const struct watch *w)
{
	return w->label ? w->label : w->name;
}

void cycle_tell(const struct cycle *c, const struct watch *w, const struct scan_result *r,
                int64_t next_ms)
{
	int64_t guarded = 0;
	for (int i = GUARD_PASS + 1; i < GUARD_COUNT; i++)
		guarded += r->guarded[i];
	if (r->failure.code) {
		log_event(LOG_ERROR, "scan failed", LOG_STR("watch", w->name),
		          LOG_STR("because", r->failure.what), LOG_STR("next", r->failure.next));
		return;
	}
	/* What a person has been told to look at is no news at every pass. */
	bool news = r->found > r->held_before || r->retried;
	struct buf jobs = BUF_INIT;
	buf_add(&jobs, buf_text(&c->jobs));
	if (c->more)
		buf_addf(&jobs, " and %" PRId64 " more", c->more);
	log_event(news ? LOG_WARN : LOG_DEBUG, "scan", LOG_STR("watch", w->name),
	          LOG_STR("label", called(w)), LOG_INT("running", r->running),
	          LOG_INT("found", r->found), LOG_INT("recovered", r->outcomes[OUTCOME_RECOVERED]),
	          LOG_INT("held", r->outcomes[OUTCOME_HELD]), LOG_INT("retried", r->retried),
	          LOG_INT("guarded", guarded), LOG_STR("jobs", buf_text(&jobs)),
	          LOG_INT("took_ms", r->took_us / 1000), LOG_INT("next_check_s", next_ms / 1000));
	buf_release(&jobs);
}

/* A label is anybody's text; the name of a field is one word. */
static char *field_name(const struct watch *w)
{
	char *name = mem_strdup(called(w));
	for (char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && (unsigned char)*p < 0x80)
			*p = '_';
	return name;
}

void cycle_tell_group(const char *group, const struct cycle_part *parts, int n)
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
		names[i] = field_name(parts[i].watch);
		fields[k++] = LOG_INT(names[i], parts[i].recovered);
	}
	if (named < n)
		fields[k++] = LOG_INT("others", rest);
	fields[k] = (struct log_field){NULL, NULL, 0};
	log_write(total ? LOG_WARN : LOG_DEBUG, total ? "stuck jobs reset" : "no stuck jobs", fields);
	for (int i = 0; i < named; i++)
		free(names[i]);
}

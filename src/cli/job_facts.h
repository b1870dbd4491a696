/*
 * job_facts.h: the facts of one job, one a line, as `explain` and `show` print
 * them.
 */
#ifndef CLI_JOB_FACTS_H
#define CLI_JOB_FACTS_H

#include "cli/cli.h"
#include "recover/attach.h"

#define FACTS_MAX 64

/* Names and values, printed in two columns. */
struct fact_sheet {
	int n;
	const char *names[FACTS_MAX], *values[FACTS_MAX];
	struct arena *arena;
};

void fact_line(struct fact_sheet *s, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* What the row says. */
void fact_lines(struct fact_sheet *s, const struct watch *w, const struct facts *f);
/* Which session took it, where its table tells (defib attach). */
void fact_claim(struct fact_sheet *s, const struct claim *c, int64_t now_us);
void fact_print(const struct fact_sheet *s, struct buf *out);

#endif

/*
 * told_words.h: what persons told the daemons, in words for other persons.
 */
#ifndef CLI_TOLD_WORDS_H
#define CLI_TOLD_WORDS_H

#include "cli/cli.h"
#include "ledger/overrides.h"

/* "2026-01-02T03:04:05Z": people need no milliseconds. */
void moment_words(int64_t us, struct buf *out);
/* "by cli:anna at … until …, because …" */
void override_words(const struct override *t, struct buf *out);
/*
 * A line for who looks at jobs of a watch: that nothing of it is given back, because recovery is
 * paused. Nothing where it is not, or where that cannot be read.
 */
void pause_line(struct store *s, const char *watch, struct buf *out);

#endif

/*
 * story_words.h: the story of a job in words that a tired person understands.
 */
#ifndef VIEW_STORY_WORDS_H
#define VIEW_STORY_WORDS_H

#include "insight/story.h"
#include "recover/candidate.h"
#include "recover/masked.h"

/* What of the story must not stand in words either. */
void story_secrets(const struct watch *w, const struct story *s, struct secrets *out);
/* One sentence: how it is with the job, and what comes next. */
void story_sentence(const struct watch *w, const struct story *s, const struct candidate *cand,
                    struct buf *out);
/* "was given back (silent): The worker was lost" */
void entry_words(const struct watch *w, const struct ledger_row *r, struct buf *out);
/*
 * "status: running -> queued": what an entry changed; without `all` only the
 * columns that tell whether a row is running.
 */
void change_words(const struct watch *w, const struct ledger_row *r, bool all, struct buf *out);

#endif

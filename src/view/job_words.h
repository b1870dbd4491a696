/*
 * job_words.h: what is known of one job, in the words that lists, stories and
 * explanations share.
 */
#ifndef VIEW_JOB_WORDS_H
#define VIEW_JOB_WORDS_H

#include "recover/browse.h"

/* "silent 2h 5m (limit 1h)"; nothing when it is not stuck. */
void verdict_words(const struct judgement *j, struct buf *out);
/* "1 of 3" */
void attempts_words(const struct facts *f, struct buf *out);
/* "held: poison, retry due in 2m" */
void note_words(const struct watch *w, const struct browsed *row, struct buf *out);
/* The reason that was given with the job's hold: what is masked beside it is masked in it. */
void hold_reason_words(const struct watch *w, const struct facts *f, struct buf *out);
/* "OCR_PROCESSING (6)", or the state as it is. */
void state_words(const struct watch *w, const char *state, struct buf *out);
/* "in 2m", "3m ago" */
void when_words(int64_t us, int64_t now_us, struct buf *out);

#endif

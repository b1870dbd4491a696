/* SPDX-License-Identifier: Apache-2.0
 * evidence.h: a judgement in words: as JSON for the ledger, as a sentence for
 * a person, and as the reason that is written into the row.
 */
#ifndef RECOVER_EVIDENCE_H
#define RECOVER_EVIDENCE_H

#include "base/text.h"
#include "recover/decide.h"

/*
 * Since when nobody works on it, by what is known of its worker: its end where that was seen,
 * else its last sign of life, or the start of a run that takes too long. Never later than the
 * reading, and never the future end of a lease. False: not known.
 */
bool lost_since(const struct facts *f, const struct judgement *j, int64_t *us);
void evidence_json(const struct watch *w, const struct facts *f, const struct judgement *j,
                   struct buf *out);
/* "silent for 2h 5m (limit 1h)" */
void evidence_sentence(const struct judgement *j, struct buf *out);
/*
 * The watch's reason for a remedy, before it is filled in. Where the user gave none, what is
 * only reported or held does not read as if it had been recovered.
 */
const char *reason_template(const struct watch *w, enum remedy remedy);
/*
 * Why a job is held by its crash budget: the watch's own reason speaks of a recovery, and there
 * was none. In two parts, with the number of times it was stuck between them.
 */
#define POISON_REASON "Held for an operator: stuck "
void poison_reason_end(const struct watch *w, struct buf *out);
/* The watch's reason with {verdict} {silent} {owner} {kind} filled in. */
void reason_text(const struct watch *w, const char *template, const struct facts *f,
                 const struct judgement *j, struct buf *out);
/* A value of a column that the watch masks, down to its last six characters. */
void mask_value(const struct watch *w, const char *column, const char *value, struct buf *out);
/* A column as a person sees it: masked, or a coded state with its name: "OCR_PROCESSING (6)". */
void shown_value(const struct watch *w, const char *column, const char *value, struct buf *out);
/* An owner as a person sees it: masked where the watch's owner is a column that it masks. */
void shown_owner(const struct watch *w, const char *owner, struct buf *out);

#endif

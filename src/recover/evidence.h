/* SPDX-License-Identifier: Apache-2.0
 * evidence.h: a judgement as JSON for the ledger, as a sentence for people, and as the reason that
 * is written into the row.
 */
#ifndef RECOVER_EVIDENCE_H
#define RECOVER_EVIDENCE_H

#include "recover/decide.h"

/*
 * Since when no worker works on the job: the worker's end if it was seen, else its last sign of
 * life, or the start of a run that takes too long. Never later than the reading, and never the
 * future end of a lease. False: not known.
 */
bool lost_since(const struct facts *f, const struct judgement *j, int64_t *us);
void evidence_json(const struct watch *w, const struct facts *f, const struct judgement *j,
                   struct buf *out);
/* "silent for 2h 5m (limit 1h)" */
void evidence_sentence(const struct judgement *j, struct buf *out);
/*
 * The watch's reason for a remedy, before placeholders are filled in. Without a reason from the
 * user, a job that is only reported or held must not read as if it had been recovered.
 */
const char *reason_template(const struct watch *w, enum remedy remedy);
/*
 * The reason for a hold by crash budget. The watch's own reason describes a recovery, which did not
 * happen here. In two parts, around the number of times the job was stuck.
 */
#define POISON_REASON "Held for an operator: stuck "
void poison_reason_end(const struct watch *w, struct buf *out);
/* The watch's reason with {verdict} {silent} {owner} {kind} filled in. */
void reason_text(const struct watch *w, const char *template, const struct facts *f,
                 const struct judgement *j, struct buf *out);
/* A value of a column that the watch masks, reduced to its last six characters. */
void mask_value(const struct watch *w, const char *column, const char *value, struct buf *out);
/* A column for display: masked, or a coded state with its name: "OCR_PROCESSING (6)". */
void shown_value(const struct watch *w, const char *column, const char *value, struct buf *out);
/* An owner for display: masked if the watch's owner is a masked column. */
void shown_owner(const struct watch *w, const char *owner, struct buf *out);

#endif

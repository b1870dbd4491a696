/* SPDX-License-Identifier: Apache-2.0
 * undo.h: undoes recoveries.
 */
#ifndef RECOVER_UNDO_H
#define RECOVER_UNDO_H

#include "recover/by_hand.h"

/*
 * Undo remedies: those of a batch ("20261115-084500-1a2b3c4d", or one part of it with ".2"), or the
 * latest one of a job. If a job was claimed or changed since, its outcome is CHANGED or REFUSED
 * with the reason. Undone jobs are put on hold, so that no scan recovers them again until their
 * owner or sign of life changes or an operator releases them.
 */
struct undo_options {
	const char *batch; /* or … */
	const char *job;   /* … of this watch */
	const char *reason, *actor;
	bool dry_run;
	void (*done)(void *ctx, const struct watch *w, const struct candidate *c);
	void *ctx;
};
defib_err undo(struct session *session, const struct watch *w, const struct undo_options *o,
               struct by_hand_result *result);

#endif

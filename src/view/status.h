/* SPDX-License-Identifier: Apache-2.0
 * status.h: the state of one watch, and operator overrides.
 */
#ifndef VIEW_STATUS_H
#define VIEW_STATUS_H

#include "alert/watch_status.h"
#include "view/record.h"

/* A struct watch_status. */
extern const struct record watch_status_record;
/* The same for people. */
void watch_status_text(const struct watch_status *st, bool color, struct buf *out);

/*
 * ---- operator overrides ----
 * Pause, raise or override, set or cleared, for the commands and their HTTP routes.
 */

/* A struct override, and a struct override_answer. */
extern const struct record override_record, override_answer_record;
/* The document around the objects, which are separated by commas. */
void override_answers_json(const char *answers, struct buf *out);

/* "by cli:anna at … until …, because …" */
void override_text(const struct override *t, struct buf *out);
/*
 * Lines for users who list jobs of a watch: nothing of it is recovered, because recovery is paused.
 * "" if it is not.
 */
void pause_text(const struct override *all, int n, const char *watch, struct buf *out);

#endif

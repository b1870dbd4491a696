/*
 * json_act.h: what was done to jobs by hand, as `defib requeue --json` and its fellows
 * say it: {"act":…,"dry_run":…,"watches":[ group … ]}, a group a watch with its jobs.
 */
#ifndef VIEW_JSON_ACT_H
#define VIEW_JSON_ACT_H

#include "base/buf.h"
#include "recover/by_hand.h"

/* {"act":…,"dry_run":…,"watches":[ */
void act_begin_json(const char *verb, bool dry_run, struct buf *out);
/* {"watch":…,"database":…,"jobs":[ */
void act_group_begin_json(const struct watch *w, const struct database *d, struct buf *out);
/* `good` is the outcome that counts as done; of a dry run OUTCOME_LEFT. */
void act_job_json(const struct watch *w, const struct candidate *c, enum outcome good,
                  struct buf *out);
/* ],"left":…,"batch":…} */
void act_group_end_json(const struct by_hand_result *r, struct buf *out);

/* Everything about the job but why it was refused, which stands with the outcome. */
void act_detail(const struct watch *w, const struct candidate *c, struct buf *out);

#endif

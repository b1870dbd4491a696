/*
 * json_story.h: the story of a job as one JSON document, masked as the watch says.
 */
#ifndef VIEW_JSON_STORY_H
#define VIEW_JSON_STORY_H

#include "insight/story.h"
#include "recover/candidate.h"
#include "watch/settings.h"

void story_json(const struct watch *w, const struct database *d, const struct story *s,
                const struct candidate *cand, struct buf *out);

#endif

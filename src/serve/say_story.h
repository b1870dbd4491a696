/*
 * say_story.h: the story of a job as one JSON document, masked as the watch says.
 */
#ifndef SERVE_SAY_STORY_H
#define SERVE_SAY_STORY_H

#include "recover/candidate.h"
#include "recover/story.h"
#include "watch/settings.h"

void story_json(const struct watch *w, const struct database *d, const struct story *s,
                const struct candidate *cand, struct buf *out);

#endif

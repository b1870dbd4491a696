/*
 * show_json.h: the story of a job as one JSON document, masked as the watch says.
 */
#ifndef CLI_SHOW_JSON_H
#define CLI_SHOW_JSON_H

#include "cli/cli.h"
#include "recover/story.h"

/* Printed to stdout. */
void story_json(const struct watch *w, const struct database *d, const struct story *s,
                const struct candidate *cand);

#endif

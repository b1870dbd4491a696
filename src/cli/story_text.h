/*
 * story_text.h: the story of one job for a person: one sentence about how it is with it, the
 * facts, and what happened in the order of time. `show` prints it, `top` scrolls through it.
 */
#ifndef CLI_STORY_TEXT_H
#define CLI_STORY_TEXT_H

#include "cli/cli.h"
#include "insight/story.h"

struct story_sheet {
	struct arena *arena;
	const struct watch *watch;
	struct story story;
	struct candidate cand;
	bool color;
	bool logs;      /* with the evidence of each entry */
	bool whole_row; /* with every column, and the outputs of steps */
};

/* Control characters are made visible. */
void story_text(struct story_sheet *x, struct buf *out);

#endif

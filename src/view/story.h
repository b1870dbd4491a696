/* SPDX-License-Identifier: Apache-2.0
 * story.h: one job: one sentence on its state and what comes next, its facts, the verdict with the
 * rule behind it and what would be done, and what happened in order of time; as JSON and as text,
 * masked as the watch says.
 */
#ifndef VIEW_STORY_H
#define VIEW_STORY_H

#include "insight/story.h"
#include "view/job.h"
#include "view/record.h"

struct story_sheet {
	struct arena *arena;
	const struct watch *watch;
	struct story story;
	struct explained is; /* why it is stuck or not, and what would be done */
	bool color;
	bool logs;      /* with the evidence of each entry */
	bool whole_row; /* with every column, and the outputs of steps */
	bool explain;   /* as JSON: with the explanation */
};
/* A struct story_sheet, of which the story and `is` are needed. */
extern const struct record story_record;

/*
 * Judge the job of `story`, as explain_read() does it; explain_guard() adds what a daemon holds
 * back. `will_have`: as there.
 */
void story_explain(struct story_sheet *x, bool will_have);
/* Control characters are made visible. */
void story_text(struct story_sheet *x, struct buf *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * top/talk.h: the conversation at `defib top`: which key means what, what is asked before
 * something is changed, and what is on the screen meanwhile.
 *
 * An act goes the way of the commands: a reason, a dry run whose outcome is shown, a question
 * with the number of jobs and the database's name, and only then the act itself. All of it
 * runs at the readers; a key is never waited for behind a database.
 */
#ifndef CLI_TOP_TALK_H
#define CLI_TOP_TALK_H

#include "cli/top/reader.h"
#include "cli/top/screen.h"

enum top_mode { MODE_LIST, MODE_FILTER, MODE_REASON, MODE_WAIT, MODE_ASK, MODE_PAGE };

/* One database and its reader. */
struct top_place {
	const struct database *database;
	const struct watch **watches;
	int n;
	struct top_reader *reader;
};

/* What was done last from here, for an undo. */
#define TOP_LAST_MAX 16
struct top_last {
	int part, watch;
	char batch[64];
};

struct top_talk {
	struct top_model model;
	struct top_place *places;
	int nplaces;
	enum top_mode mode;
	char input[256];
	struct top_action *plan; /* what is being agreed on */
	const char *verb;        /* of the plan */
	int turn;                /* counts what was asked of the readers */
	int waiting;             /* errands of this turn that are out */
	bool acting;             /* they change something */
	struct buf page;
	int page_from, page_lines;
	char message[256];
	struct top_last last[TOP_LAST_MAX];
	int nlast;
	bool quit;
};

void top_talk_init(struct top_talk *t, struct top_place *places, int n);
void top_talk_release(struct top_talk *t);
void top_talk_key(struct top_talk *t, int key, const struct top_size *size);
/* Take what the readers have left. */
void top_talk_hear(struct top_talk *t);
/* All lines of the screen, size->height of them; the column where one types, or -1. */
int top_talk_lines(struct top_talk *t, const struct top_size *size, struct arena *a,
                   struct top_line *out);

#endif

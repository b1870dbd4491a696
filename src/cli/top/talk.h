/* SPDX-License-Identifier: Apache-2.0
 * talk.h: keys, and the dialogue before an act. An act follows the commands: a reason, a dry
 * run whose outcome is shown, a question with the number of jobs and the name of the database, and
 * only then the act itself. The readers do all of it: keys work while a database is slow or
 * unavailable.
 *
 * The parts of `defib top`: reader.h is a thread per database, with sessions of its own, which
 * reads (read.h) and executes acts; model.h is what is shown (pure); screen.h is curses. A request
 * of the user is an action: it is passed to a reader, executed in turn, and returned with its text.
 */
#ifndef CLI_TOP_TALK_H
#define CLI_TOP_TALK_H

#include "cli/top/model.h"
#include "cli/top/reader.h"

enum top_mode { MODE_LIST, MODE_FILTER, MODE_REASON, MODE_WAIT, MODE_ASK, MODE_PAGE };

/* One database and its reader. */
struct top_place {
	const struct database *database;
	const struct watch **watches;
	int n;
	struct top_reader *reader;
};

/* The last acts from here, for an undo. */
#define TOP_LAST_MAX 16
struct top_last {
	int part, watch;
	char batch[64];
};

struct top_talk {
	struct top_model model;
	const char *environment; /* its name; NULL: not given */
	struct top_place *places;
	int nplaces;
	enum top_mode mode;
	char input[256];
	struct top_action *plan; /* the act under discussion */
	const char *verb;        /* of the plan */
	int turn;                /* counts the requests to the readers */
	int waiting;             /* pending actions of this request */
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
/* Take what the readers have finished. */
void top_talk_read(struct top_talk *t);
/* All lines of the screen, size->height of them; returns the input column, or -1. */
int top_talk_lines(struct top_talk *t, const struct top_size *size, struct arena *a,
                   struct top_line *out);

#endif

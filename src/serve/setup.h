/*
 * setup.h: the configuration in force, counted: whoever reads it holds it, and the
 * last to drop it frees it. A reload puts another one in its place; work that is
 * under way ends with the one it began with.
 */
#ifndef SERVE_SETUP_H
#define SERVE_SETUP_H

#include "watch/settings.h"

#include <pthread.h>

/* One configuration, whole. */
struct setup {
	struct settings settings;
	struct arena arena; /* everything in the settings lives here */
	struct arena shown; /* of settings.shown, which only HTTP asks for */
	bool *chosen;       /* one a watch: the daemon scans it */
	bool queue;         /* also the built-in queue, where a database has it */
	/*
	 * One a watch, and one more for the workflows alone: another number means that workers
	 * of the watch cannot take the change while they run.
	 */
	uint64_t *shapes;
	int64_t number; /* 1 at the start, one more with each reload */
	int uses;
};

/* Where the one in force is found. */
struct setup_box {
	pthread_mutex_t lock;
	struct setup *now;
};

/* The first one; the box takes the caller's use of it. */
void setup_box_init(struct setup_box *b, struct setup *first);
/* Another is in force; takes the caller's use of it. */
void setup_box_put(struct setup_box *b, struct setup *next);
void setup_box_release(struct setup_box *b);

struct setup *setup_new(void);    /* one use, all zero */
void setup_free(struct setup *s); /* one that never was in a box */
/* Fills in `shapes`, by what was read. */
void setup_shapes(struct setup *s, const struct cfg_reader *r);
struct setup *setup_hold(struct setup_box *b);
/* Once more one that is held already. */
struct setup *setup_hold_same(struct setup_box *b, struct setup *s);
/* Whether this one, which is held, is still in force. */
bool setup_in_force(struct setup_box *b, const struct setup *s);
void setup_drop(struct setup_box *b, struct setup *s);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * live_settings.h: the configuration in force, counted: whoever reads it holds it, and the
 * last to drop it frees it. A reload puts another one in its place; work that is
 * under way ends with the one it began with.
 */
#ifndef DAEMON_LIVE_SETTINGS_H
#define DAEMON_LIVE_SETTINGS_H

#include "watch/settings.h"

#include <pthread.h>

/* One configuration, whole. */
struct live_settings {
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
struct live_settings_box {
	pthread_mutex_t lock;
	struct live_settings *now;
};

/* The first one; the box takes the caller's use of it. */
void live_settings_box_init(struct live_settings_box *b, struct live_settings *first);
/* Another is in force; takes the caller's use of it. */
void live_settings_box_put(struct live_settings_box *b, struct live_settings *next);
void live_settings_box_release(struct live_settings_box *b);

struct live_settings *live_settings_new(void);    /* one use, all zero */
void live_settings_free(struct live_settings *s); /* one that never was in a box */
/* Fills in `shapes`, by what was read. */
void live_settings_shapes(struct live_settings *s, const struct cfg_reader *r);
struct live_settings *live_settings_hold(struct live_settings_box *b);
/* Once more one that is held already. */
struct live_settings *live_settings_hold_same(struct live_settings_box *b, struct live_settings *s);
/* Whether this one, which is held, is still in force. */
bool live_settings_in_force(struct live_settings_box *b, const struct live_settings *s);
void live_settings_drop(struct live_settings_box *b, struct live_settings *s);

#endif

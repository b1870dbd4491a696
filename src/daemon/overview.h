/* SPDX-License-Identifier: Apache-2.0
 * overview.h: the state of everything, as the database loops last reported it: what is answered
 * without asking a database, and while one is away.
 *
 * Database loops write after each round and each pass, HTTP reads; both copy under one
 * lock that nobody holds for longer than that.
 */
#ifndef DAEMON_OVERVIEW_H
#define DAEMON_OVERVIEW_H

#include "base/mem.h"
#include "base/text.h"

struct overview;
struct overview *overview_new(void);
void overview_free(struct overview *b);

/* A database, as its database loop sees it. */
struct overview_database {
	const char *name;
	bool asked; /* it was asked at all since the start */
	bool up;
	const char *error; /* why not; NULL: it is */
	int64_t since_us;  /* wall clock: up or away since */
	int64_t round_ms;  /* CLOCK_BOOTTIME: when its database loop last went round */
};

/* A watch, as its database loop sees it. */
struct overview_watch {
	const char *name, *database;
	bool leads; /* this daemon */
	bool paused, braking, doubting;
	int firing;         /* alerts of it and of its database; kept by overview_put_watch() */
	int64_t passed_us;  /* the database's clock at the last finished pass of ours; 0: none */
	int64_t passed_ms;  /* the same by CLOCK_BOOTTIME */
	const char *info;   /* JSON object (watch_loop_info()); NULL: no pass yet */
	const char *failed; /* of the last pass; NULL: it went well */
};

/* Texts are copied. What has the same name (and database) is replaced. */
void overview_put_database(struct overview *b, const struct overview_database *d);
void overview_put_watch(struct overview *b, const struct overview_watch *w);
/* How many alerts of a watch fire; one that is not there is passed over. */
void overview_put_firing(struct overview *b, const char *database, const char *name, int firing);
/* Those that a reload took away. */
void overview_drop_watch(struct overview *b, const char *database, const char *name);
void overview_drop_database(struct overview *b, const char *name);

/* A copy of all, in the arena, in the order in which they first came. */
struct overview_view {
	struct overview_database *databases;
	int ndatabases;
	struct overview_watch *watches;
	int nwatches;
};
void overview_read(struct overview *b, struct arena *a, struct overview_view *out);
/* It was asked, and is away. */
bool overview_is_down(struct overview *b, const char *database);

#endif

/*
 * board.h: how everything is, as the stations last said: what is answered without
 * asking a database, and while one is away.
 *
 * Stations write after each round and each pass, HTTP reads; both copy under one
 * lock that nobody holds for longer than that.
 */
#ifndef SERVE_BOARD_H
#define SERVE_BOARD_H

#include "base/buf.h"
#include "base/mem.h"

struct board;
struct board *board_new(void);
void board_free(struct board *b);

/* A database, as its station sees it. */
struct board_database {
	const char *name;
	bool asked; /* it was asked at all since the start */
	bool up;
	const char *error; /* why not; NULL: it is */
	int64_t since_us;  /* wall clock: up or away since */
	int64_t round_ms;  /* CLOCK_BOOTTIME: when its station last went round */
};

/* A watch, as its station sees it. */
struct board_watch {
	const char *name, *database;
	bool leads; /* this daemon */
	bool paused, braking, doubting;
	int firing;         /* alerts of it and of its database; kept by board_put_watch() */
	int64_t passed_us;  /* the database's clock at the last finished pass of ours; 0: none */
	int64_t passed_ms;  /* the same by CLOCK_BOOTTIME */
	const char *info;   /* JSON object (post_info); NULL: no pass yet */
	const char *failed; /* of the last pass; NULL: it went well */
};

/* Texts are copied. What has the same name (and database) is replaced. */
void board_put_database(struct board *b, const struct board_database *d);
void board_put_watch(struct board *b, const struct board_watch *w);
/* How many alerts of a watch fire; one that is not there is passed over. */
void board_put_firing(struct board *b, const char *database, const char *name, int firing);
/* Those that a reload took away. */
void board_drop_watch(struct board *b, const char *database, const char *name);
void board_drop_database(struct board *b, const char *name);

/* A copy of all, in the arena, in the order in which they first came. */
struct board_view {
	struct board_database *databases;
	int ndatabases;
	struct board_watch *watches;
	int nwatches;
};
void board_read(struct board *b, struct arena *a, struct board_view *out);
/* It was asked, and is away. */
bool board_is_down(struct board *b, const char *database);

#endif

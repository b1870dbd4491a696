/* SPDX-License-Identifier: Apache-2.0
 * part.h: who watches whom. Each worker knows who is registered, from one look at the whole list at
 * its start and from what it read since. The workers it watches follow from that, without an
 * election and without communication:
 *
 * - the three before and the three after it in the order of ids, as a ring: their stamps are
 *   read often, and with them the first and the last three, so that newcomers are seen;
 * - the three before and after it among those of its own host: their processes are watched;
 * - the first of those that serve a watch sweeps it; the first three of all and the first two
 *   of each host are candidates for reading the locks.
 *
 * So six workers watch each one, and a worker reads the same number of rows however long the list
 * is. The knowledge may be out of date: a worker that is gone is then checked once more, without
 * effect. An occasional look at the whole list corrects it. Pure.
 */
#ifndef LIFE_PART_H
#define LIFE_PART_H

#include "life/silence.h"

#define PART_SIDE 3

struct part_member {
	int64_t id;
	bool here; /* its process is visible from here */
	struct incarnation who;
	char *serves; /* NULL: not known */
};

struct part {
	struct incarnation self_who;
	int64_t self;
	struct part_member *members; /* sorted by id, including ourselves if we were read */
	int n, cap;
	int64_t highest; /* highest id ever read */
};

void part_init(struct part *p);
void part_release(struct part *p);
/* Our own id and incarnation from now on. */
void part_self(struct part *p, int64_t id, const struct incarnation *who);
struct part_seen {
	int gone;    /* how many of the known workers are gone */
	bool whole;  /* the reading had all workers */
	bool missed; /* there may be newcomers that were not read: read the whole list */
};
/* What was read, sorted by id: all workers, or what registry_near() reads. */
struct part_seen part_look(struct part *p, const struct registered *rows, int n, bool whole);
/* This worker is gone. */
void part_forget(struct part *p, int64_t id);
/* What it said that it works on; NULL: not known. */
const char *part_serves(const struct part *p, int64_t id);
bool part_knows(const struct part *p, int64_t id);
/*
 * The workers whose processes we watch: ids and incarnations, room for 2 * PART_SIDE. Returns how
 * many.
 */
int part_fellows(const struct part *p, int64_t *ids, struct incarnation *who);
/* The workers whose process is not visible from here; room for p->n. Returns how many. */
int part_remote(const struct part *p, int64_t *ids);
bool part_reads_locks(const struct part *p);
/*
 * Are we the first of those that serve this watch (NULL: of all)? Silent workers do not count, nor
 * do workers in other languages, which recover nothing.
 */
bool part_sweeps(const struct part *p, const struct silence *s, const char *watch);

#endif

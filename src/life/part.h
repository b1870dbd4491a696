/* SPDX-License-Identifier: Apache-2.0
 * part.h: who watches whom. Everybody knows who is registered, from one look at all when it
 * started and from what it read since; whom it looks after follows from that, without an
 * election and without asking:
 *
 *  - the three before and the three after it in the order of ids, as a ring: their stamps are
 *    read often, and with them the first and the last three, so that newcomers are seen;
 *  - the three before and after it among those of its own host: their processes are watched;
 *  - the first of those that serve a watch sweeps it, the first three of all and the first two of
 *    each host stand ready to read the locks.
 *
 * So each is watched by six, and a worker reads as many rows of the list however long it is. What
 * is known may be behind: somebody who is gone is asked about once more, in vain. A rare look at
 * all mends that. Pure.
 */
#ifndef LIFE_PART_H
#define LIFE_PART_H

#include "base/mem.h"
#include "life/registered.h"
#include "life/silence.h"

#define PART_SIDE 3

struct part_member {
	int64_t id;
	bool here; /* its process can be seen from here */
	struct incarnation who;
	char *serves; /* NULL: not known */
};

struct part {
	struct incarnation self_who;
	int64_t self;
	struct part_member *members; /* by id, ourselves too if we were read */
	int n, cap;
	int64_t highest; /* id that was ever read */
};

void part_init(struct part *p);
void part_release(struct part *p);
/* We are this one now. */
void part_self(struct part *p, int64_t id, const struct incarnation *who);
struct part_seen {
	int gone;    /* of those whom we knew */
	bool whole;  /* these were all */
	bool missed; /* there may be newcomers that were not read: look at all */
};
/* What was read, by id: all, or what registry_near() reads. */
struct part_seen part_look(struct part *p, const struct registered *rows, int n, bool whole);
/* It is gone. */
void part_forget(struct part *p, int64_t id);
bool part_knows(const struct part *p, int64_t id);
/* Whose processes we watch: ids and who they are, room for 2 * PART_SIDE. How many. */
int part_fellows(const struct part *p, int64_t *ids, struct incarnation *who);
/* Those whose process cannot be seen from here; room for p->n. How many. */
int part_remote(const struct part *p, int64_t *ids);
bool part_reads_locks(const struct part *p);
/*
 * Are we the first of those that serve this watch (NULL: of all), not counting who is silent, nor
 * workers in other languages, which recover nothing?
 */
bool part_sweeps(const struct part *p, const struct silence *s, const char *watch);

#endif

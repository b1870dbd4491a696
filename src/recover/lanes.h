/* SPDX-License-Identifier: Apache-2.0
 * lanes.h: sessions that write batches while the scan reads and judges the next ones.
 *
 * Each lane is a thread with a session and a carrier of its own. Batches are told in the order
 * in which they were put. What is put belongs to a lane until it is taken out.
 */
#ifndef RECOVER_LANES_H
#define RECOVER_LANES_H

#include "recover/carry.h"

struct lane_job {
	struct candidate *batch;
	int stuck;          /* how many they are */
	bool first;         /* of its run */
	struct arena arena; /* of the candidates */
	struct arena page;  /* of their facts: with the last batch of a page; else empty */
	defib_err err;
	struct failure failure;
	struct lane_job *next;
	bool done;
};

struct lane_job *lane_job_new(void);
void lane_job_free(struct lane_job *j);

struct lanes;
/* Sessions like this one, which carry on what `chief` began. NULL: none could be had. */
struct lanes *lanes_open(const struct session *like, struct carrier *chief);
/* Whether as many are under way as are good for the lanes, and for memory. */
bool lanes_full(const struct lanes *l);
void lanes_put(struct lanes *l, struct lane_job *j);
/* The one that was put first, when it is done; NULL: there is none. */
struct lane_job *lanes_take(struct lanes *l);
/* All must have been taken. NULL is allowed. */
void lanes_close(struct lanes *l);

#endif

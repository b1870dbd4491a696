/* SPDX-License-Identifier: Apache-2.0
 * numbers.c: the descriptors of a process. The kernel gives the lowest free number, and forgets
 * what an interest set knew of a number when that is closed. So a driver that remembers numbers
 * believes that it hears a session or a child, and does not.
 */
#include "sim.h"

#include <assert.h>

#define FIRST 3

int number_open(struct sim *s, struct process *p, enum number_is is)
{
	int n = FIRST;
	while (n < NUMBERS && p->descriptors[n].is)
		n++;
	assert(n < NUMBERS);
	struct descriptor *d = &p->descriptors[n];
	bool child = is == NUMBER_CHILD;
	bool trusted = d->known && old(child ? OLD_child_number_kept : OLD_session_number_kept);
	s->marks[MARK_number_again] |= d->was && child != (d->was == NUMBER_CHILD);
	d->is = is;
	/* The others are polled under the number of the moment. */
	d->watched = is != NUMBER_SESSION && !trusted;
	d->known = d->known || is != NUMBER_SESSION;
	return n;
}

void number_close(struct process *p, int number)
{
	struct descriptor *d = &p->descriptors[number];
	assert(d->is);
	d->was = d->is;
	d->is = NUMBER_FREE;
	d->watched = false;
	/* It is taken out of the set before it is closed. */
	d->known = d->known && (old(OLD_session_number_kept) || old(OLD_child_number_kept));
}

bool number_is_heard(const struct process *p, int number)
{
	return p->descriptors[number].watched;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* suspects.c: see suspects.h. */
#include "guard/suspects.h"

#include "base/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int by_job(const void *a, const void *b)
{
	return strcmp(((const struct suspect *)a)->job, ((const struct suspect *)b)->job);
}

static struct suspect *add(struct suspects *s, const struct suspect *from)
{
	struct arena *texts = &s->arenas[1 - s->at];
	if (s->nnext == SUSPECTS_MOST)
		return NULL;
	if (s->nnext == s->cap_next) {
		s->cap_next = s->cap_next ? s->cap_next * 2 : 64;
		s->next = mem_grow(s->next, sizeof *s->next * (size_t)s->cap_next);
	}
	struct suspect *to = &s->next[s->nnext++];
	*to = *from;
	to->job = arena_strdup(texts, from->job);
	to->owner = from->owner ? arena_strdup(texts, from->owner) : NULL;
	to->met = false;
	return to;
}

/* What this pass saw is what is known from now on. */
static void turn_over(struct suspects *s)
{
	struct suspect *spare = s->known;
	int cap_spare = s->cap_known;
	s->known = s->next;
	s->nknown = s->nnext;
	s->cap_known = s->cap_next;
	s->next = spare;
	s->cap_next = cap_spare;
	s->nnext = 0;
	s->at = 1 - s->at;
	s->open = false;
	if (s->nknown)
		qsort(s->known, (size_t)s->nknown, sizeof *s->known, by_job);
}

void suspects_begin(struct suspects *s)
{
	if (s->open) {
		for (int i = 0; i < s->nknown; i++)
			if (!s->known[i].met)
				(void)add(s, &s->known[i]);
		turn_over(s);
	}
	arena_clear(&s->arenas[1 - s->at]);
	s->open = true;
}

static struct suspect *find(const struct suspects *s, const char *job)
{
	struct suspect key = {.job = job};
	return s->nknown ? bsearch(&key, s->known, (size_t)s->nknown, sizeof key, by_job) : NULL;
}

struct suspect *suspects_see(struct suspects *s, const char *job, const char *owner,
                             int64_t sign_us, int64_t now_us, int64_t boot_us)
{
	struct suspect *old = find(s, job);
	struct suspect first = {
		.job = job, .owner = owner, .sign_us = sign_us, .seen_us = now_us, .seen_boot_us = boot_us};
	assert(s->open && job != NULL);
	if (old)
		old->met = true;
	bool again = old && old->sign_us == sign_us && text_eq(old->owner, owner);
	return add(s, again ? old : &first);
}

void suspects_end(struct suspects *s, const char *const **gone, int *ngone)
{
	assert(s->open);
	int n = 0;
	if (s->cap_gone < s->nknown) {
		s->cap_gone = s->nknown;
		s->gone = mem_grow(s->gone, sizeof *s->gone * (size_t)s->cap_gone);
	}
	for (int i = 0; i < s->nknown; i++)
		if (!s->known[i].met && !s->known[i].passed)
			s->gone[n++] = s->known[i].job;
	*gone = s->gone;
	*ngone = n;
	turn_over(s);
}

void suspects_clear(struct suspects *s)
{
	arena_release(&s->arenas[0]);
	arena_release(&s->arenas[1]);
	free(s->known);
	free(s->next);
	free(s->gone);
	*s = (struct suspects){0};
}

/*
 * words.h: a word to the daemons said, or taken back, with what is to be answered: for
 * the commands pause, resume and raise and for their routes alike. The word is left in
 * the database; whoever leads the watch, now or after a restart, reads it within about a
 * second.
 */
#ifndef SERVE_WORDS_H
#define SERVE_WORDS_H

#include "ledger/told.h"
#include "watch/settings.h"

/* What there is to say of one watch, or of all of them ("*"). */
struct word {
	const char *watch, *name;
	const struct told *told; /* in force; NULL: it was taken back … */
	bool was;                /* … and there was one */
};

/* Say it for `for_us` (0: until it is taken back). */
MUST_CHECK defib_err word_say(struct store *s, const struct told *said, int64_t for_us,
                              struct arena *a, struct word *out, struct failure *f);
/*
 * Take it back: of one watch, or of all and then of each. *still is what was said of all
 * and holds for the one watch too: a single watch cannot be taken out of it. NULL: nothing.
 */
MUST_CHECK defib_err word_take_back(struct store *s, const char *watch, const char *name,
                                    struct arena *a, struct word **out, int *n,
                                    const struct told **still, struct failure *f);
/* An object, whole. */
void word_json(const struct database *d, const struct word *w, struct buf *out);

#endif

/* told_words.c: see told_words.h. */
#include "cli/told_words.h"

#include "base/clock.h"
#include "base/text.h"

#include <assert.h>

void moment_words(int64_t us, struct buf *out)
{
	struct buf iso = BUF_INIT;
	time_iso(us, &iso);
	assert(iso.len >= 19);
	buf_addf(out, "%.19sZ", buf_text(&iso));
	buf_release(&iso);
}

void override_words(const struct override *t, struct buf *out)
{
	buf_addf(out, "by %s at ", t->actor);
	moment_words(t->at_us, out);
	buf_add(out, text_eq(t->watch, "*") ? ", with all watches" : "");
	if (t->until_us) {
		buf_add(out, ", until ");
		moment_words(t->until_us, out);
	} else {
		buf_add(out, ", until it is taken back");
	}
	if (t->reason)
		buf_addf(out, ", because: %s", t->reason);
}

static void add_pause_line(const struct override *t, const char *watch, struct buf *out)
{
	struct buf text = BUF_INIT;
	buf_addf(&text, "recovery of %s is paused ", watch);
	override_words(t, &text);
	out_padded(out, buf_text(&text), 0);
	buf_add(out, "\n");
	buf_release(&text);
}

void pause_line(struct store *s, const char *watch, struct buf *out)
{
	struct arena a = ARENA_INIT;
	struct failure ignored = {0};
	struct override *all = NULL;
	bool there = false;
	int n = 0;
	if (told_open(s, "setting", false, &there, &ignored) == DEFIB_OK && there &&
	    override_read(s, &a, &all, &n, &ignored) == DEFIB_OK)
		for (int i = 0; i < n; i++)
			if (text_eq(all[i].name, "pause") &&
			    (text_eq(all[i].watch, watch) || text_eq(all[i].watch, "*")))
				add_pause_line(&all[i], watch, out);
	arena_release(&a);
}

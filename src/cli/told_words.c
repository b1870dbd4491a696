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

void told_words(const struct told *t, struct buf *out)
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

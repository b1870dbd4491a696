/* told_words.c: see told_words.h. */
#include "cli/told_words.h"

#include "base/clock.h"
#include "base/text.h"
#include "serve/say.h"

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

static void json_moment(struct buf *out, const char *name, int64_t us)
{
	struct buf iso = BUF_INIT;
	if (us)
		time_iso(us, &iso);
	json_text(out, name, us ? buf_text(&iso) : NULL);
	buf_release(&iso);
}

void told_json(const struct told *t, struct buf *out)
{
	buf_add(out, "{\"word\":");
	buf_add_json(out, t->name);
	json_text(out, "watch", t->watch);
	json_text(out, "value", t->value);
	json_text(out, "actor", t->actor);
	json_text(out, "reason", t->reason);
	json_moment(out, "at", t->at_us);
	json_moment(out, "until", t->until_us);
	buf_add(out, "}");
}

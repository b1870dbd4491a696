/* say_ledger.c: see say_ledger.h. */
#include "serve/say_ledger.h"

#include "base/text.h"
#include "serve/masked.h"
#include "serve/say.h"
#include "watch/builtin.h"

void entry_json(const struct watch *w, const char *database, const struct ledger_row *r,
                struct buf *out)
{
	const struct {
		const char *name, *text;
	} texts[] = {{"at", r->at},        {"database", database},  {"batch", r->batch},
	             {"watch", r->watch},  {"job", r->job},         {"event", r->event},
	             {"actor", r->actor},  {"verdict", r->verdict}, {"rule", r->rule},
	             {"reason", r->reason}},
	  documents[] = {{"evidence", r->evidence}, {"before", r->before}, {"after", r->after}};
	buf_addf(out, "{\"id\":%lld", (long long)r->id);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		json_text(out, texts[i].name, texts[i].text);
	for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
		buf_addf(out, ",\"%s\":", documents[i].name);
		masked_document(w, documents[i].text, out);
	}
	json_number(out, "epoch", r->has_epoch, r->epoch);
	buf_add(out, "}");
}

void ledger_split_job(const struct settings *s, struct arena *a, struct ledger_filter *filter)
{
	const char *slash = filter->job && !filter->watch ? strchr(filter->job, '/') : NULL;
	if (!slash)
		return;
	const char *name = arena_strndup(a, filter->job, (size_t)(slash - filter->job));
	if (!settings_watch(s, name) && !text_eq(name, BUILTIN_NAME))
		return;
	filter->watch = name;
	filter->job = slash + 1;
}

/* say_ledger.c: see say_ledger.h. */
#include "serve/say_ledger.h"

#include "serve/masked.h"
#include "serve/say.h"

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

/* json_ledger.c: see json_ledger.h. */
#include "view/json_ledger.h"

#include "base/text.h"
#include "recover/masked.h"
#include "view/json.h"
#include "watch/builtin.h"

void entry_secrets(const struct watch *w, const struct ledger_row *r, struct secrets *out)
{
	secrets_document(out, w, r->evidence);
	secrets_document(out, w, r->before);
	secrets_document(out, w, r->after);
}

void entry_reason(const struct watch *w, const struct ledger_row *r, struct buf *out)
{
	struct secrets secrets = {0};
	entry_secrets(w, r, &secrets);
	if (r->reason)
		masked_words(w, &secrets, r->reason, out);
	secrets_release(&secrets);
}

void entry_json(const struct watch *w, const char *database, const struct ledger_row *r,
                struct buf *out)
{
	const struct {
		const char *name, *text;
	} texts[] = {{"at", r->at},       {"database", database},  {"batch", r->batch},
	             {"watch", r->watch}, {"job", r->job},         {"event", r->event},
	             {"actor", r->actor}, {"verdict", r->verdict}, {"rule", r->rule}},
	  documents[] = {{"evidence", r->evidence}, {"before", r->before}, {"after", r->after}};
	struct buf reason = BUF_INIT;
	struct secrets secrets = {0};
	entry_secrets(w, r, &secrets);
	buf_addf(out, "{\"id\":%lld", (long long)r->id);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		json_text(out, texts[i].name, texts[i].text);
	entry_reason(w, r, &reason);
	json_text(out, "reason", r->reason ? buf_text(&reason) : NULL);
	buf_release(&reason);
	for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
		buf_addf(out, ",\"%s\":", documents[i].name);
		masked_document(w, &secrets, documents[i].text, out);
	}
	json_number(out, "epoch", r->has_epoch, r->epoch);
	buf_add(out, "}");
	secrets_release(&secrets);
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

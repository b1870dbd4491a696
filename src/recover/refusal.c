/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/refusal.h"

#include "recover/candidate.h"

void refuse_job(struct candidate *c, enum refusal why, const char *fact)
{
	c->outcome = OUTCOME_REFUSED;
	c->refused = why;
	c->refusal = fact ? fact : "";
	c->decision.act = false;
}

void refusal_sentence(const struct candidate *c, struct buf *out)
{
	static const char *const sentences[REFUSAL_COUNT] = {
#define X(id, sentence) sentence,
		REFUSAL_LIST(X)
#undef X
	};
	const char *sentence = sentences[c->refused], *fact = strstr(sentence, "%s");
	if (!c->refusal)
		return;
	if (fact)
		buf_addf(out, "%.*s%s%s", (int)(fact - sentence), sentence, c->refusal, fact + 2);
	else
		buf_add(out, sentence);
}

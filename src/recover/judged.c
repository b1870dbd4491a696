/* SPDX-License-Identifier: Apache-2.0 */
/* judged.c: one job that was asked about, as a scan would judge it; see scan.h. */
#include "recover/evidence.h"
#include "recover/scan.h"

void judged_candidate(const struct watch *w, const struct facts *f, bool ledger, struct arena *a,
                      struct candidate *out)
{
	struct judgement j = judge(w, f);
	struct scan_options o = {0};
	if (j.verdict != VERDICT_NONE) {
		candidate_prepare(w, f, &j, &o, ledger, a, out);
		return;
	}
	AUTO_BUF evidence = BUF_INIT;
	evidence_json(w, f, &j, &evidence);
	*out = (struct candidate){
		.facts = *f, .judgement = j, .evidence = arena_strdup(a, buf_text(&evidence))};
}

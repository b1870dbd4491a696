/* SPDX-License-Identifier: Apache-2.0 */
/* incident.c: see incident.h. */
#include "view/incident.h"

#include "base/clock.h"

/* As many as are kept, masked. */
static int named(const char *const *names, int n, enum role role, struct arena *a, const char **out)
{
	int kept = n < INCIDENT_NAMES ? n : INCIDENT_NAMES;
	for (int i = 0; i < kept; i++)
		out[i] = viewer_text(names[i], role, a);
	return kept;
}

/* "host b lost 3 workers at 03:12:07Z, 41 jobs recovered in 9ms, 1 held" */
static void add_sentence(const struct incident *i, const char *what, const char *outcome,
                         struct buf *out)
{
	AUTO_BUF at = BUF_INIT, text = BUF_INIT;
	time_iso(i->from_us, &at);
	buf_addf(&text, "%s at %.8sZ%s%s", what, buf_text(&at) + 11, *outcome ? ", " : "", outcome);
	json_text(out, "sentence", buf_text(&text));
}

void incident_json(const struct incident *i, const char *database, enum role role, struct arena *a,
                   struct buf *out)
{
	AUTO_BUF what = BUF_INIT, outcome = BUF_INIT;
	struct incident seen = *i;
	const char *workers[INCIDENT_NAMES];
	seen.host = viewer_text(i->host, role, a);
	int nworkers = named(i->workers, i->nworkers, role, a, workers);
	int nwatches = i->nwatches < INCIDENT_NAMES ? i->nwatches : INCIDENT_NAMES;
	incident_what(&seen, &what);
	incident_outcome(&seen, &outcome);
	buf_add(out, "{\"database\":");
	buf_add_json(out, database);
	json_time(out, "from", true, i->from_us);
	json_time(out, "to", true, i->to_us);
	json_text(out, "what", buf_text(&what));
	json_text(out, "outcome", buf_text(&outcome));
	add_sentence(&seen, buf_text(&what), buf_text(&outcome), out);
	json_text(out, "host", seen.host);
	json_texts(out, "watches", i->watches, nwatches);
	json_texts(out, "workers", workers, nworkers);
	json_number(out, "nworkers", true, i->nworkers);
	json_text(out, "verdict", i->verdict ? verdict_names[i->verdict] : NULL);
	json_number(out, "jobs", true, i->jobs);
	json_number(out, "recovered", true, i->recovered);
	json_number(out, "failed", true, i->failed);
	json_number(out, "held", true, i->held);
	json_number(out, "reported", true, i->left);
	json_seconds(out, "median_s", i->median_us >= 0, i->median_us);
	buf_add(out, "}");
}

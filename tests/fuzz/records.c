/* SPDX-License-Identifier: Apache-2.0
 * records.c: JSON from columns, files and clients: steps of workflows, results in a spool, jobs
 * that wait for the database. A record that was read can be written and read again.
 */
#include "fuzz.h"

#include "worker/spool_results.h"
#include "worker/spools.h"
#include "worker/stored_jobs.h"
#include "worker/workflow.h"

static void results(const char *bytes, size_t n, struct arena *a)
{
	struct spool_result r, again;
	struct buf out = BUF_INIT;
	if (spool_result_decode(bytes, n, a, &r)) {
		spool_result_encode(&r, &out);
		MUST(spool_result_decode(out.data, out.len, a, &again));
		MUST(again.worker == r.worker && again.end.epoch == r.end.epoch);
		MUST(strcmp(again.end.key, r.end.key) == 0 && again.end.as == r.end.as);
	}
	buf_release(&out);
}

static void puts_of(const char *bytes, size_t n, struct arena *a)
{
	struct stored_put put, again;
	struct buf out = BUF_INIT;
	if (stored_put_read(bytes, n, a, &put)) {
		stored_put_count_delays(&put, put.at_ms);
		stored_put_write(&put, &out);
		MUST(stored_put_read(out.data, out.len, a, &again) && again.n == put.n);
	}
	buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	char *text = fuzz_text(bytes, n);
	struct arena a = ARENA_INIT;
	struct step_records records;
	struct step_end end;
	(void)step_records_parse(text, &a, &records);
	(void)step_end_parse(text, &a, &end);
	results((const char *)bytes, n, &a);
	puts_of((const char *)bytes, n, &a);
	arena_release(&a);
	free(text);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * values.c: durations, times, numbers, addresses, names of workers and timelines, as in
 * configuration, arguments and rows. A time that was read can be written and read again.
 */
#include "fuzz.h"

#include "base/address.h"
#include "base/clock.h"
#include "base/text.h"
#include "life/incarnation.h"
#include "store/store.h"
#include "store/timeline.h"
#include "store/url.h"
#include "watch/options_values.h"

static void durations(const char *text)
{
	int64_t us;
	struct buf out = BUF_INIT;
	if (duration_parse(text, &us)) {
		duration_text(us, &out);
		MUST(out.len > 0);
	}
	buf_release(&out);
}

static void times(const char *text)
{
	int64_t us, again;
	struct buf out = BUF_INIT;
	if (time_parse(text, &us)) {
		time_iso(us, &out);
		MUST(time_parse(buf_text(&out), &again));
		MUST(again / 1000 == us / 1000 || again / 1000 == us / 1000 - 1);
	}
	buf_release(&out);
}

static void workers(const char *text)
{
	struct incarnation who, again;
	char back[256];
	if (!incarnation_parse(text, &who))
		return;
	incarnation_text(&who, back, sizeof back);
	MUST(incarnation_parse(back, &again) && again.pid == who.pid && again.start == who.start);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	char *text = fuzz_text(bytes, n);
	struct buf url = BUF_INIT, notes = BUF_INIT;
	struct failure f = {0};
	struct address address;
	enum store_engine engine;
	int64_t number;
	bool yes;
	durations(text);
	times(text);
	workers(text);
	(void)int_parse(text, &number);
	(void)bool_parse(text, &yes);
	(void)daytime_parse(text, &number);
	(void)address_parse(text, &address);
	(void)timeline_parse(text, text);
	(void)store_engine_of(text, &engine, &f);
	(void)store_url_read(text, &url, &notes, &f);
	buf_release(&url);
	buf_release(&notes);
	free(text);
	return 0;
}

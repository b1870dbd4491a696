/* SPDX-License-Identifier: Apache-2.0 */
/* session.c: see session.h. */
#include "store/session.h"

#include "base/clock.h"

#define WRITABLE_AGAIN_MS 1000

static bool is_good(const struct session *s)
{
	if (!s->store || s->store->lost)
		return false;
	/* The server failed over, and this session is with the old primary. */
	if (!s->store->in_tx && timeline_is_behind(&s->store->timeline))
		return false;
	return !s->store->only_reads || s->options.read_only || s->store->in_tx ||
	       clock_boot_ms() - s->opened_ms < WRITABLE_AGAIN_MS;
}

defib_err session_ready(struct session *s, struct failure *f)
{
	if (is_good(s))
		return DEFIB_OK;
	session_close(s);
	defib_err err = s->open(&s->options, &s->store, f);
	if (err)
		return err;
	s->opened++;
	s->opened_ms = clock_boot_ms();
	return DEFIB_OK;
}

void session_close(struct session *s)
{
	store_close(s->store);
	s->store = NULL;
}

void session_rest(struct session *s)
{
	s->opened -= s->store && !s->store->lost;
	session_close(s);
}

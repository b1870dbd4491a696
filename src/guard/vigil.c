/* SPDX-License-Identifier: Apache-2.0 */
/* vigil.c: see vigil.h. */
#include "guard/vigil.h"

#include <stddef.h>

void vigil_tick(struct vigil *v, int64_t boot_us)
{
	if (v->tick_us && boot_us - v->tick_us > VIGIL_GAP_US)
		vigil_lost(v, "this process was stopped or suspended");
	v->tick_us = boot_us;
}

void vigil_server_started(struct vigil *v, int64_t start_us)
{
	if (!v->opened && start_us > 0)
		doubt_outage(&v->doubt, start_us, "the server was started");
}

void vigil_lost(struct vigil *v, const char *cause)
{
	if (!v->away)
		v->away = cause;
}

/* Both clocks should have gone on by as much. */
static int64_t drift_us(const struct vigil *v, int64_t now_us, int64_t boot_us)
{
	int64_t drift = (now_us - v->now_us) - (boot_us - v->boot_us);
	return drift < 0 ? -drift : drift;
}

void vigil_read(struct vigil *v, int64_t opened, int64_t now_us, int64_t boot_us)
{
	vigil_tick(v, boot_us);
	if (v->opened && opened != v->opened)
		vigil_lost(v, "the session was lost");
	if (v->opened && drift_us(v, now_us, boot_us) > VIGIL_JUMP_US) {
		/* Set back: the last reading as the new clock would have shown it. */
		if (now_us - v->now_us < boot_us - v->boot_us)
			doubt_well(&v->doubt, now_us - (boot_us - v->boot_us));
		vigil_lost(v, "the database's clock jumped");
	}
	if (v->away)
		doubt_outage(&v->doubt, now_us, v->away);
	else
		doubt_well(&v->doubt, now_us);
	v->away = NULL;
	v->opened = opened;
	v->now_us = now_us;
	v->boot_us = boot_us;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* absence.c: see absence.h. */
#include "guard/absence.h"

#include <stddef.h>

#define TICK_US 3000000 /* within which a loop shows that it goes on */
#define LATE_US 2000000 /* a loop that goes on so much too late was stopped */
#define JUMP_US 5000000 /* clocks that drift apart by more have jumped */

int64_t absence_jump_us(const struct clocks *last, const struct clocks *now)
{
	/* Both should have gone on by as much. */
	int64_t drift = (now->database_us - last->database_us) - (now->own_us - last->own_us);
	return drift > JUMP_US || drift < -JUMP_US ? drift : 0;
}

bool absence_stopped(int64_t due_us, int64_t now_us)
{
	return now_us - due_us > LATE_US;
}

void absence_tick(struct absence *v, int64_t boot_us)
{
	if (v->tick_us && absence_stopped(v->tick_us + TICK_US, boot_us))
		absence_begins(v, "this process was stopped or suspended");
	v->tick_us = boot_us;
}

void absence_server_started(struct absence *v, int64_t start_us)
{
	if (!v->opened && start_us > 0)
		doubt_outage(&v->doubt, start_us, "the server was started");
}

void absence_begins(struct absence *v, const char *cause)
{
	if (!v->cause)
		v->cause = cause;
}

void absence_read(struct absence *v, int64_t opened, int64_t now_us, int64_t boot_us)
{
	struct clocks now = {boot_us, now_us};
	int64_t jump_us = v->opened ? absence_jump_us(&v->clocks, &now) : 0;
	absence_tick(v, boot_us);
	if (v->opened && opened != v->opened)
		absence_begins(v, "the session was lost");
	/* Set back: the last reading as the new clock would have shown it. */
	if (jump_us < 0)
		doubt_well(&v->doubt, now_us - (boot_us - v->clocks.own_us));
	if (jump_us)
		absence_begins(v, "the database's clock jumped");
	if (v->cause)
		doubt_outage(&v->doubt, now_us, v->cause);
	else
		doubt_well(&v->doubt, now_us);
	v->cause = NULL;
	v->opened = opened;
	v->clocks = now;
}

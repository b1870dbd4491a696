/* SPDX-License-Identifier: Apache-2.0 */
/* facts.c: see facts.h. */
#include "watch/facts.h"

#include "base/text.h"

bool facts_same(const struct watch *w, const struct facts *judged, const struct facts *now)
{
	if (judged->running != now->running || judged->when != now->when ||
	    judged->owner_alive != now->owner_alive)
		return false;
	if (!text_eq(judged->owner, now->owner) || !text_eq(judged->kind, now->kind))
		return false;
	if (judged->has_attempts != now->has_attempts || judged->attempts != now->attempts)
		return false;
	if (judged->has_epoch != now->has_epoch || judged->epoch != now->epoch)
		return false;
	if (judged->has_max_attempts != now->has_max_attempts ||
	    judged->max_attempts != now->max_attempts)
		return false;
	for (int s = 0; s < SIGN_COUNT; s++)
		if (watch_sign(w, (enum sign)s)->text &&
		    (judged->has_sign[s] != now->has_sign[s] || judged->sign_us[s] != now->sign_us[s]))
			return false;
	return true;
}

/* SPDX-License-Identifier: Apache-2.0
 * facts.h: everything that is known about one job at one moment. Judge and
 * decide see nothing else.
 */
#ifndef WATCH_FACTS_H
#define WATCH_FACTS_H

#include "watch/hold.h"
#include "watch/watch.h"

enum known { KNOWN_NOT = -1, KNOWN_NO = 0, KNOWN_YES = 1 };

struct facts {
	const char *job; /* the key as one text; a composite key as a JSON array */
	const char *key[WATCH_KEYS_MAX];
	const char *owner, *kind;
	enum known owner_alive;
	bool has_attempts, has_max_attempts;
	int64_t attempts, max_attempts;
	bool has_epoch;
	int64_t epoch;
	bool has_sign[SIGN_COUNT];
	int64_t sign_us[SIGN_COUNT];
	bool has_lost; /* known: when its worker ended, or renewed its lease for the last time … */
	int64_t lost_us;
	int64_t now_us; /* the database's clock at the reading */
	bool running;
	uint32_t when;        /* bit i: the condition of rule i holds */
	int64_t crashes;      /* recoveries before this one, within the crash budget's time */
	bool mass;            /* many were lost at once, which is not this job's fault */
	bool restart;         /* a gone instance left it: found at the next one's start, and no crash */
	bool clean;           /* its program ended well: a lost job, but nobody's crash */
	enum hold_state hold; /* whether it is on hold … */
	const char *hold_cause, *hold_reason; /* … and why, while the hold is in force */
	bool released; /* a person ended a hold of it, with this owner, sign of life and attempts */
	bool noted;    /* the ledger has it as detected, with this owner and sign of life */
	const char *position;
	const char *show[WATCH_SHOW_MAX];
	const char *steps_done; /* what the row says of finished steps; only where jobs are named */
	const char *before;     /* JSON of the columns that remedies write */
};

/* One line of the law. The id lands in the ledger, `why` in explanations. */
struct judge_rule {
	const char *id;
	enum verdict verdict;
	const char *why;
};

struct judgement {
	enum verdict verdict;
	const struct judge_rule *rule;
	enum sign sign; /* what was measured, where something was */
	bool measured;
	int64_t measured_us; /* silence, run time or time past the deadline */
	int64_t limit_us;    /* what it was compared with */
};

/* Whether a second reading found the job as it was judged. */
bool facts_same(const struct watch *w, const struct facts *judged, const struct facts *now);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * patient_test.h: a session for tests. Ours give up after seconds, which on a slow machine ends
 * statements that only take long; deadlines that a test does not set only end what hangs.
 */
#ifndef STORE_PATIENT_TEST_H
#define STORE_PATIENT_TEST_H

#include "base/test.h"
#include "store/store.h"

static inline struct store_options patient(struct store_options o)
{
	int64_t *limits[] = {&o.connect_ms, &o.call_ms, &o.statement_ms, &o.lock_ms};
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		*limits[i] = *limits[i] ? *limits[i] : TEST_HANGS_MS;
	return o;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * faulty_test.h: sessions of a test that fail as `plan` says, and are retried without a pause.
 */
#ifndef RECOVER_FAULTY_TEST_H
#define RECOVER_FAULTY_TEST_H

#include "store/fault_test.h"

#include <unistd.h>

/* Tests do not wait for the pauses between tries. */
int usleep(useconds_t us)
{
	(void)us;
	return 0;
}

static struct fault_plan *plan; /* NULL: nothing fails */

static defib_err open_faulty(const struct store_options *options, struct store **out,
                             struct failure *f)
{
	defib_err err = store_open(options, out, f);
	if (!err && plan)
		*out = fault_wrap(*out, plan);
	return err;
}

#endif

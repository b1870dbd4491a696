/* SPDX-License-Identifier: Apache-2.0 */
/* scan URL: attaches to a table, finds its stuck jobs, recovers them and reverts it. */
#include <defib.h>
#include <stdio.h>

static void show(void *ctx, const defib_finding *f)
{
	(void)ctx;
	printf("%s %s is %s, %s: %s\n", f->watch, f->job, f->verdict, f->remedy, f->outcome);
}

int main(int argc, char **argv)
{
	static const char *const options[][2] = {
		{"table", "jobs"}, {"key", "id"}, {"running", "status = 'running'"},
		{"alive_at", "updated_at"}, {"stuck_after", "1h"}, {"requeue", "status = 'queued'"},
	};
	defib_act_options act = DEFIB_ACT_OPTIONS_INIT;
	defib_result fixed = DEFIB_RESULT_INIT, undone = DEFIB_RESULT_INIT;
	defib_message m;
	defib_watches *watches;
	defib_err err = defib_watches_new(argc > 1 ? argv[1] : "", &watches, &m);
	for (int i = 0; !err && i < 6; i++)
		err = defib_watches_set(watches, "jobs", options[i][0], options[i][1], &m);
	act.fix = 1, act.finding = show;
	if (!err)
		err = defib_scan(watches, "jobs", &act, &fixed, &m);
	if (!err && fixed.batch[0])
		err = defib_undo(watches, "jobs", fixed.batch, &act, &undone, &m);
	printf("%d recovered, %d undone%s%s\n", (int)fixed.recovered, (int)undone.recovered,
	       err ? ": " : "", m.what);
	defib_watches_free(watches);
	return err != DEFIB_OK;
}

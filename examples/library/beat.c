/* SPDX-License-Identifier: Apache-2.0 */
/* beat URL JOB: beats for a job of your own table while it is worked on (until stdin ends). */
#include <defib.h>
#include <stdio.h>

static void failed(void *ctx, defib_err err, const defib_message *m)
{
	(void)ctx;
	fprintf(stderr, "%s: %s\n", defib_err_name(err), m->what);
}

int main(int argc, char **argv)
{
	defib_beat_options o = DEFIB_BEAT_OPTIONS_INIT;
	const char *params[1] = {argc > 2 ? argv[2] : "1"};
	defib_beat *beat = NULL;
	defib_message m;
	o.url = argc > 1 ? argv[1] : NULL;
	o.statement = "UPDATE jobs SET updated_at = CURRENT_TIMESTAMP WHERE id = $1 "
	              "AND status = 'running'";
	o.params = params;
	o.nparams = 1;
	o.every_ms = 100;
	o.failed = failed;
	defib_err err = defib_beat_start(&o, &beat, &m);
	if (err) {
		fprintf(stderr, "%s: %s\n", defib_err_name(err), m.what);
		return 1;
	}
	puts("beating");
	fflush(stdout);
	while (getchar() != EOF) /* the work */
		;
	defib_beat_stop(beat);
	return 0;
}

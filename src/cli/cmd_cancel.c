/*
 * cmd_cancel.c: `defib cancel JOB…`: a waiting job is cancelled, a running one
 * is asked to stop and its worker told.
 */
#include "cli/cli.h"

#include "base/text.h"
#include "worker/enqueue.h"
#include "worker/wake.h"

static int cancel_all(struct cli *c, struct store *s)
{
	int done = 0;
	for (int i = 0; i < c->nwords; i++) {
		struct failure f = {0};
		char state[16];
		int64_t id;
		if (!int_parse(c->words[i], &id))
			return cli_usage("\"%s\" is not the number of a job", c->words[i]);
		if (cancel_job(s, id, state, &f))
			return cli_queue_fail(&f);
		if (state[0]) {
			printf("%s %s\n", c->words[i], state);
			done++;
		} else {
			fprintf(stderr, "defib: job %s is not there or already over\n", c->words[i]);
		}
	}
	if (done == c->nwords)
		return EXIT_CLEAN;
	return done ? EXIT_PARTLY : EXIT_REFUSED;
}

int cmd_cancel(struct cli *c)
{
	struct failure f = {0};
	struct store *s = NULL;
	if (c->nwords == 0)
		return cli_usage("defib cancel takes the numbers of jobs");
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	const struct database *d = &c->settings.databases[0];
	struct store_options o = cli_store_options(d, NULL, false);
	if (store_open(&o, &s, &f))
		return cli_queue_fail(&f);
	code = cancel_all(c, s);
	wake_send(s, d->url);
	store_close(s);
	return code;
}

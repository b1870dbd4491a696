/* SPDX-License-Identifier: Apache-2.0 */
/* worker URL: works on the queue until nothing is left in it. */
#include <defib.h>
#include <stdio.h>

static defib_outcome send_mail(defib_job *job, void *ctx)
{
	(void)ctx;
	printf("%s\n", defib_job_payload(job));
	return DEFIB_DONE;
}

int main(int argc, char **argv)
{
	defib_worker_options o = DEFIB_WORKER_OPTIONS_INIT;
	defib_pool pool = DEFIB_POOL_INIT;
	defib_worker *worker = NULL;
	defib_message m;
	o.url = argc > 1 ? argv[1] : "";
	o.drain = 1;
	pool.queue = "mail";
	pool.handler = send_mail;
	defib_err err = defib_worker_new(&o, &pool, 1, &worker, &m);
	if (err)
		fprintf(stderr, "%s: %s\n", defib_err_name(err), m.what);
	else
		defib_worker_run(worker);
	defib_worker_free(worker);
	return err != DEFIB_OK;
}

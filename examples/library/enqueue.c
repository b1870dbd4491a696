/* SPDX-License-Identifier: Apache-2.0 */
/* enqueue URL TEXT…: puts a job into the queue for each text. */
#include <defib.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	defib_message m;
	defib_db *db = NULL;
	char payload[256];
	int64_t id;
	defib_err err = defib_open(argc > 1 ? argv[1] : "", DEFIB_OPEN_CREATE, &db, &m);
	if (!err)
		err = defib_init_schema(db, &m);
	job.queue = "mail";
	job.kind = "welcome";
	job.payload = payload;
	for (int i = 2; !err && i < argc; i++) {
		snprintf(payload, sizeof payload, "{\"to\": \"%s\"}", argv[i]);
		err = defib_enqueue(db, &job, &id, &m);
	}
	if (err)
		fprintf(stderr, "%s: %s\n", defib_err_name(err), m.what);
	defib_close(db);
	return err != DEFIB_OK;
}

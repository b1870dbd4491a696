/* SPDX-License-Identifier: Apache-2.0
 * database.c: the session of defib.h, which is opened again by itself when it was lost.
 */
#include "lib/lib.h"

#include "ledger/schema.h"

defib_err defib_open(const char *url, unsigned flags, defib_db **out, defib_message *message)
{
	struct failure f = {0};
	*out = NULL;
	if (lib_begin(&f))
		return lib_answer(f.code, &f, message);
	defib_db *db = mem_alloc(sizeof *db);
	db->url = mem_strdup(url ? url : "");
	/* Jobs are put in and cancelled here, one plan each; a scan needs a session of its own. */
	db->session = (struct session){
		.options = {.url = db->url, .create = (flags & DEFIB_OPEN_CREATE) != 0, .plan_once = true},
		.open = store_open,
	};
	defib_err err = session_ready(&db->session, &f);
	if (err)
		defib_close(db);
	else
		*out = db;
	return lib_answer(err, &f, message);
}

defib_err lib_ready(defib_db *db, struct failure *f)
{
	defib_err err = lib_begin(f);
	return err ? err : session_ready(&db->session, f);
}

void defib_close(defib_db *db)
{
	if (!db)
		return;
	session_close(&db->session);
	free(db->url);
	free(db);
}

defib_err defib_init_schema(defib_db *db, defib_message *message)
{
	struct failure f = {0};
	defib_err err = lib_ready(db, &f);
	if (!err)
		err = schema_install(db->session.store, SCHEMA_QUEUE, &f);
	return lib_answer(err, &f, message);
}

/* database_loop_tables.c: see database_loop_tables.h. */
#include "daemon/database_loop_tables.h"

#include "base/clock.h"
#include "base/log.h"
#include "ledger/overrides.h"

#define TABLES_MS 30000 /* between looks whether a DBA has made our tables */

defib_err database_loop_tables(struct database_loop *s, struct failure *f)
{
	int64_t now = clock_boot_ms();
	if (s->tables || now < s->tables_ms)
		return DEFIB_OK;
	defib_err err = told_open(s->session.store, "leader", true, &s->tables, f);
	if (!err && s->closed) {
		log_event(LOG_INFO, "defib's own tables can be used now",
		          LOG_STR("database", s->database->name));
		s->renew_ms = s->words_ms = 0; /* who leads, and what persons said, at once */
		s->closed = false;
	}
	if (err != DEFIB_PERMISSION)
		return err;
	if (!s->closed)
		log_event(LOG_WARN, "works without defib's own tables",
		          LOG_STR("database", s->database->name), LOG_STR("because", f->what),
		          LOG_STR("off", "one leader of several daemons, pause and raise, status, alerts, "
		                         "scheduled reports, learned run times; without the ledger also "
		                         "hold, undo and the crash budget"),
		          LOG_STR("next", f->next));
	fail_clear(f);
	s->closed = true;
	s->tables_ms = now + TABLES_MS;
	return DEFIB_OK;
}

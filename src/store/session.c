/* session.c: see session.h. */
#include "store/session.h"

defib_err session_ready(struct session *s, struct failure *f)
{
	if (s->store && !s->store->lost)
		return DEFIB_OK;
	session_close(s);
	defib_err err = s->open(&s->options, &s->store, f);
	if (!err)
		s->opened++;
	return err;
}

void session_close(struct session *s)
{
	store_close(s->store);
	s->store = NULL;
}

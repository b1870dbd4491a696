/* SPDX-License-Identifier: Apache-2.0 */
/* worker_secret.c: see worker_secret.h. */
#include "http/worker_secret.h"

#include "base/chance.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/text.h"
#include "daemon/metrics.h"
#include "http/api_worker.h"
#include "ledger/events.h"
#include "store/dialect.h"
#include "watch/builtin.h"

bool worker_secret_make(char out[WORKER_SECRET_BYTES])
{
	unsigned char bytes[(WORKER_SECRET_BYTES - 1) / 2];
	if (!chance_bytes(bytes, sizeof bytes))
		return false;
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

defib_err worker_secret_keep(struct store *s, int64_t worker, const char *secret, struct failure *f)
{
	struct arena a = ARENA_INIT;
	char hash[SHA256_HEX];
	sha256_hex(secret, strlen(secret), hash);
	struct store_param params[] = {P_INT(worker), P_TEXT(hash)};
	defib_err err = dialect_exec(s, "UPDATE defib.worker SET secret = $2 WHERE id = $1", params, 2,
	                             &a, NULL, f);
	arena_release(&a);
	return err;
}

/* In the same time whatever was shown. */
static bool is_its_secret(const char *kept, const char *shown)
{
	char hash[SHA256_HEX];
	unsigned char differ = 0;
	if (!kept || !shown || strlen(kept) != sizeof hash - 1)
		return false;
	sha256_hex(shown, strlen(shown), hash);
	for (size_t i = 0; i < sizeof hash - 1; i++)
		differ |= (unsigned char)(hash[i] ^ kept[i]);
	return differ == 0;
}

static bool refuse(struct api_call *c, int64_t id)
{
	struct failure f = {0};
	metrics_add(c->api->metrics, METRIC_HTTP_DENIED, 1, NO_LABELS);
	log_event(LOG_WARN, "a request for a worker was refused: wrong secret",
	          LOG_STR("actor", c->actor), LOG_INT("worker", id), LOG_STR("route", c->route->path));
	fail(&f, DEFIB_PERMISSION, "worker %lld belongs to another caller", (long long)id);
	fail_next(&f,
	          "send the secret that its registration returned, in the header " WORKER_SECRET_HEADER
	          ", or an admin's token");
	return api_failed_as(c, 403, &f);
}

bool worker_allowed(struct api_call *c, int64_t *id, bool *own)
{
	struct store *s = c->session->store;
	struct failure f = {0};
	struct store_rows rows;
	if (!worker_named(c, id))
		return false;
	struct store_param param = P_INT(*id);
	if (dialect_exec(s, "SELECT secret FROM defib.worker WHERE id = $1", &param, 1, &c->arena,
	                 &rows, &f))
		return worker_failed(c, &f);
	*own = rows.nrows == 0 || is_its_secret(row_text(&rows, 0, 0), c->request->worker_secret);
	return *own || c->role >= ROLE_ADMIN || refuse(c, *id);
}

defib_err worker_note(struct api_call *c, const struct in_its_name *what, struct failure *f)
{
	static const char *const none[] = {"*"};
	const char *const *jobs = what->n ? what->jobs : none;
	int n = what->n ? what->n : 1;
	const struct ledger_context ctx = {what->watch ? what->watch : BUILTIN_NAME, "worker",
	                                   c->actor};
	struct ledger_entry *entries = ARENA_ARRAY(&c->arena, struct ledger_entry, n);
	const char *evidence = arena_printf(&c->arena, "{\"worker\":%lld}", (long long)what->worker);
	if (c->setup->settings.ledger == LEDGER_OFF)
		return DEFIB_OK;
	for (int i = 0; i < n; i++)
		entries[i] = (struct ledger_entry){.job = jobs[i],
		                                   .event = ENTRY_WORKER_OVERRIDDEN,
		                                   .rule = RULE_BY_HAND,
		                                   .reason = what->act,
		                                   .evidence = evidence};
	return ledger_append(c->session->store, &ctx, entries, n, &c->arena, f);
}

defib_err worker_note_alone(struct api_call *c, const struct in_its_name *what, struct failure *f)
{
	struct store *s = c->session->store;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = worker_note(c, what, f);
	if (!err)
		return store_commit(s, f);
	store_rollback(s);
	return err;
}

/* SPDX-License-Identifier: Apache-2.0
 * rows.c: rows that an application wrote, with any contents: the input is the cells of one, each a
 * letter for its type, a length and its bytes. A scan reads, judges and explains it, and changes
 * nothing.
 */
#include "fuzz.h"

#include "defib.h"

#include <sqlite3.h>
#include <unistd.h>

#define CELLS 7
static const char yaml[] =
	"databases: [{name: main, url: 'sqlite:%s'}]\nwatches:\n"
	"  - name: jobs\n    table: jobs\n    key: id\n    running: status <> 'done'\n"
	"    state: status\n    owner: owner\n    kind: kind\n    alive_at: at\n    stuck_after: 1h\n"
	"    started_at: began\n    overdue_after: 2h\n    attempts: attempts\n    max_attempts: 3\n"
	"    show: [note]\n    mask: [token]\n    requeue: status = 'done'\n    fail: status = 'done'\n"
	"    reason: '{owner}: {verdict} {kind}'\n";

static char path[64];
static sqlite3 *own;
static sqlite3_stmt *insert;
static defib_watches *watches;

static void remove_files(void)
{
	static const char *const ends[] = {"", "-wal", "-shm", ".defib-wake"};
	char name[80];
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof name, "%s%s", path, ends[i]);
		unlink(name);
	}
}

static void begin(void)
{
	char text[1024];
	snprintf(path, sizeof path, "%s/defib-rows-%d.db",
	         access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
	atexit(remove_files);
	remove_files();
	MUST(sqlite3_open(path, &own) == SQLITE_OK);
	MUST(sqlite3_exec(own,
	                  "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE jobs (id "
	                  "PRIMARY KEY, status, owner, kind, at, began, attempts, note)",
	                  NULL, NULL, NULL) == SQLITE_OK);
	MUST(sqlite3_prepare_v2(own, "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", -1, &insert,
	                        NULL) == SQLITE_OK);
	snprintf(text, sizeof text, yaml, path);
	MUST(defib_log("critical", 0) == DEFIB_OK);
	MUST(defib_watches_new(NULL, &watches, NULL) == DEFIB_OK);
	MUST(defib_watches_load_string(watches, text, NULL) == DEFIB_OK);
}

/* One cell; returns the position after it. */
static const uint8_t *bind(int column, const uint8_t *p, const uint8_t *end)
{
	int64_t number = 0;
	double real = 0;
	if (end - p < 2)
		return end;
	char type = (char)p[0];
	size_t n = p[1];
	p += 2;
	n = n < (size_t)(end - p) ? n : (size_t)(end - p);
	memcpy(&number, p, n < sizeof number ? n : sizeof number);
	memcpy(&real, p, n < sizeof real ? n : sizeof real);
	if (type == 'i')
		sqlite3_bind_int64(insert, column, number);
	else if (type == 'r')
		sqlite3_bind_double(insert, column, real);
	else if (type == 'b')
		sqlite3_bind_blob(insert, column, p, (int)n, SQLITE_TRANSIENT);
	else if (type != 'n')
		sqlite3_bind_text(insert, column, (const char *)p, (int)n, SQLITE_TRANSIENT);
	return p + n;
}

static void see(void *ctx, const defib_finding *found)
{
	int *n = ctx;
	MUST(found->job && found->verdict && found->outcome);
	(*n)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	const uint8_t *p = bytes, *end = bytes + n;
	int seen = 0;
	defib_act_options o = DEFIB_ACT_OPTIONS_INIT;
	defib_result r = DEFIB_RESULT_INIT;
	defib_message m = {0};
	if (!own)
		begin();
	MUST(sqlite3_exec(own, "DELETE FROM jobs", NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_clear_bindings(insert);
	for (int i = 1; i <= CELLS + 1; i++)
		p = bind(i, p, end);
	(void)sqlite3_step(insert);
	sqlite3_reset(insert);
	o.finding = see;
	o.ctx = &seen;
	/* A value that is not a valid time or number is an error of the row, and reported. */
	if (defib_scan(watches, "jobs", &o, &r, &m))
		MUST(m.what[0] != '\0');
	else
		MUST(seen <= r.found + r.refused);
	char *key = fuzz_text(bytes, n < 64 ? n : 64);
	(void)!defib_explain(watches, "jobs", key, see, &seen, &m);
	free(key);
	return 0;
}

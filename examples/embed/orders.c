/*
 * orders.c: a shop that writes an invoice for every order, exactly once.
 *
 *   orders shop.db place ada 1250      an order, and the job to invoice it: both or neither
 *   orders shop.db work [--drain]      writes invoices until it is stopped (or none are left)
 *
 * Placing an order puts the job into the queue inside the transaction that
 * inserts the order. The handler writes the invoice and settles the job in one
 * transaction too, so that a worker may die at any moment: whoever takes the
 * job over finds either both or neither.
 */
#include <defib.h>

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char schema[] =
	"CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT, cents INTEGER);"
	"CREATE TABLE IF NOT EXISTS invoices (number INTEGER PRIMARY KEY, order_id INTEGER NOT NULL)";

static void die(const char *what, const char *why)
{
	fprintf(stderr, "orders: %s: %s\n", what, why);
	exit(1);
}

static void must(defib_err err, const defib_message *message)
{
	if (err)
		die(defib_err_name(err), message->what);
}

static sqlite3 *shop_open(const char *path)
{
	sqlite3 *shop = NULL;
	if (sqlite3_open(path, &shop) != SQLITE_OK)
		die(path, sqlite3_errmsg(shop));
	sqlite3_busy_timeout(shop, 5000);
	return shop;
}

static int run(sqlite3 *shop, const char *sql)
{
	return sqlite3_exec(shop, sql, NULL, NULL, NULL);
}

/* One INSERT with a text (or NULL) and a number. */
static int insert(sqlite3 *shop, const char *sql, const char *text, long long number)
{
	sqlite3_stmt *stmt = NULL;
	if (sqlite3_prepare_v2(shop, sql, -1, &stmt, NULL) != SQLITE_OK)
		return SQLITE_ERROR;
	if (text)
		sqlite3_bind_text(stmt, 2, text, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 1, number);
	sqlite3_step(stmt);
	return sqlite3_finalize(stmt);
}

/* ---- placing an order ---- */

static void place(const char *path, defib_db *db, const char *customer, long long cents)
{
	sqlite3 *shop = shop_open(path);
	defib_message message;
	char payload[64];
	int64_t id = 0;

	if (run(shop, "BEGIN IMMEDIATE") != SQLITE_OK ||
	    insert(shop, "INSERT INTO orders (cents, customer) VALUES (?1, ?2)", customer, cents))
		die("no order", sqlite3_errmsg(shop));
	snprintf(payload, sizeof payload, "{\"order\": %lld}",
	         (long long)sqlite3_last_insert_rowid(shop));

	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	job.queue = "invoices";
	job.kind = "invoice";
	job.payload = payload;
	must(defib_enqueue_sqlite(shop, &job, &id, &message), &message);

	if (run(shop, "COMMIT") != SQLITE_OK)
		die("no order", sqlite3_errmsg(shop));
	must(defib_notify(db, &message), &message);
	printf("%lld\n", (long long)id);
	sqlite3_close(shop);
}

/* ---- writing invoices ---- */

static defib_outcome write_invoice(defib_job *job, void *ctx)
{
	sqlite3 *shop = shop_open(ctx);
	defib_message message = {"", ""};
	long long order = 0;

	if (sscanf(defib_job_payload(job), "{\"order\":%lld}", &order) != 1) {
		defib_job_error(job, "the payload names no order");
		sqlite3_close(shop);
		return DEFIB_PERMANENT; /* another try cannot mend it */
	}
	defib_outcome outcome = DEFIB_FAILED;
	if (run(shop, "BEGIN IMMEDIATE") == SQLITE_OK &&
	    insert(shop, "INSERT INTO invoices (order_id) VALUES (?1)", NULL, order) == SQLITE_OK) {
		defib_err err = defib_job_settle_sqlite(job, shop, &message);
		if (!err && run(shop, "COMMIT") == SQLITE_OK)
			outcome = DEFIB_SETTLED;
		else if (err == DEFIB_LEASE_LOST)
			outcome = DEFIB_SETTLED; /* not ours any more: closing rolls the invoice back */
	}
	if (outcome == DEFIB_FAILED)
		defib_job_error(job, message.what[0] ? message.what : sqlite3_errmsg(shop));
	sqlite3_close(shop);
	return outcome;
}

/* The library installs no signal handlers: signals are the program's. */
static void *stop_on_signal(void *worker)
{
	sigset_t set;
	int signal = 0;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	while (sigwait(&set, &signal) == 0)
		defib_worker_stop(worker);
	return NULL;
}

static void work(const char *path, const char *url, int drain)
{
	defib_worker_options options = DEFIB_WORKER_OPTIONS_INIT;
	defib_pool pool = DEFIB_POOL_INIT;
	defib_counts counts = DEFIB_COUNTS_INIT;
	defib_worker *worker = NULL;
	defib_message message;
	pthread_t signals;
	sigset_t set;

	/* Before any thread exists, so that all of them leave signals to one. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);

	options.url = url;
	options.drain = drain;
	pool.queue = "invoices";
	pool.handler = write_invoice;
	pool.ctx = (void *)path;
	pool.concurrency = 4;
	must(defib_worker_new(&options, &pool, 1, &worker, &message), &message);
	if (pthread_create(&signals, NULL, stop_on_signal, worker) != 0)
		die("no thread", "for signals");
	defib_worker_run(worker);
	pthread_cancel(signals); /* sigwait() is a cancellation point */
	pthread_join(signals, NULL);
	if (defib_worker_counts(worker, &counts) == DEFIB_OK)
		printf("%lld jobs settled\n", (long long)counts.settled);
	defib_worker_free(worker);
}

int main(int argc, char **argv)
{
	char url[512];
	defib_message message;
	defib_db *db = NULL;

	if (argc < 3) {
		fprintf(stderr, "usage: orders DATABASE place CUSTOMER CENTS | work [--drain]\n");
		return 2;
	}
	snprintf(url, sizeof url, "sqlite:%s", argv[1]);
	must(defib_open(url, DEFIB_OPEN_CREATE, &db, &message), &message);
	must(defib_init_schema(db, &message), &message);
	sqlite3 *shop = shop_open(argv[1]);
	if (run(shop, schema) != SQLITE_OK)
		die("no tables", sqlite3_errmsg(shop));
	sqlite3_close(shop);

	if (strcmp(argv[2], "place") == 0 && argc == 5)
		place(argv[1], db, argv[3], strtoll(argv[4], NULL, 10));
	else if (strcmp(argv[2], "work") == 0)
		work(argv[1], url, argc > 3 && strcmp(argv[3], "--drain") == 0);
	else
		die(argv[2], "not a command");
	defib_close(db);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
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
#include "shop.h"

static const char schema[] =
	"CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT, cents INTEGER);"
	"CREATE TABLE IF NOT EXISTS invoices (number INTEGER PRIMARY KEY, order_id INTEGER NOT NULL)";

static void place(const char *path, defib_db *db, const char *customer, long long cents)
{
	sqlite3 *shop = shop_open(path);
	defib_message message;

	if (run(shop, "BEGIN IMMEDIATE") != SQLITE_OK ||
	    write_one(shop, "INSERT INTO orders (cents, customer) VALUES (?1, ?2)", customer, cents))
		die("no order", sqlite3_errmsg(shop));
	int64_t id = enqueue_order(shop, "invoices", "invoice");
	if (run(shop, "COMMIT") != SQLITE_OK)
		die("no order", sqlite3_errmsg(shop));
	must(defib_notify(db, &message), &message);
	printf("%lld\n", (long long)id);
	sqlite3_close(shop);
}

static defib_outcome write_invoice(defib_job *job, void *ctx)
{
	long long order = order_of(job);
	if (!order) {
		defib_job_error(job, "the payload names no order");
		return DEFIB_PERMANENT; /* another try cannot mend it */
	}
	sqlite3 *shop = shop_open(ctx);
	defib_outcome outcome = DEFIB_FAILED;
	if (run(shop, "BEGIN IMMEDIATE") == SQLITE_OK &&
	    write_one(shop, "INSERT INTO invoices (order_id) VALUES (?1)", NULL, order) == SQLITE_OK)
		outcome = settle_and_commit(job, shop);
	else
		defib_job_error(job, sqlite3_errmsg(shop));
	sqlite3_close(shop);
	return outcome;
}

int main(int argc, char **argv)
{
	char url[512];

	if (argc < 3) {
		fprintf(stderr, "usage: orders DATABASE place CUSTOMER CENTS | work [--drain]\n");
		return 2;
	}
	snprintf(url, sizeof url, "sqlite:%s", argv[1]);
	defib_db *db = shop_queue(argv[1], url, schema);
	defib_pool pool = DEFIB_POOL_INIT;
	pool.queue = "invoices";
	pool.handler = write_invoice;
	pool.ctx = argv[1];
	pool.concurrency = 4;

	if (strcmp(argv[2], "place") == 0 && argc == 5)
		place(argv[1], db, argv[3], strtoll(argv[4], NULL, 10));
	else if (strcmp(argv[2], "work") == 0)
		work(url, &pool, argc > 3 && strcmp(argv[3], "--drain") == 0);
	else
		die(argv[2], "not a command");
	defib_close(db);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * saga.c: a shop whose orders are a workflow in C: charge, reserve, ship.
 *
 *   saga shop.db place home            an order to be shipped to that address
 *   saga shop.db work [--drain]        works on orders until it is stopped (or none are left)
 *
 * The shop has three lamps, and no courier goes to "nowhere". What was done for
 * an order that cannot be shipped is taken back, the last step first.
 *
 * The stock is in our own database: its steps settle in the transaction that
 * changes it, and so happen exactly once. The bank is not: a worker can die
 * between asking it and telling the queue, and then asks again. So the bank is
 * given a key that is the same in every attempt, the order. Here it is two
 * files, shop.db.charges and shop.db.refunds.
 */
#include "shop.h"

static const char schema[] =
	"CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, address TEXT, shipped INTEGER);"
	"CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, number INTEGER CHECK (number >= 0));"
	"CREATE TABLE IF NOT EXISTS moves (order_id INTEGER, number INTEGER);"
	"INSERT OR IGNORE INTO stock VALUES ('lamp', 3)";

static defib_outcome because(defib_job *job, defib_outcome outcome, const char *why)
{
	defib_job_error(job, why);
	return outcome;
}

/* ---- the bank ---- */

static int tell_bank(const char *shop, const char *what, const char *line)
{
	char path[512];
	snprintf(path, sizeof path, "%s.%s", shop, what);
	FILE *bank = fopen(path, "a");
	if (!bank)
		return -1;
	int said = fprintf(bank, "%s\n", line);
	return fclose(bank) == 0 && said > 0 ? 0 : -1;
}

static defib_outcome charge(defib_job *job, void *shop)
{
	char receipt[64];
	snprintf(receipt, sizeof receipt, "{\"receipt\": \"order-%lld\"}", order_of(job));
	if (tell_bank(shop, "charges", receipt) || defib_job_result(job, receipt))
		return because(job, DEFIB_FAILED, "the bank does not answer");
	return DEFIB_DONE;
}

/* An undo finds what its step gave as its result. */
static defib_outcome refund(defib_job *job, void *shop)
{
	if (tell_bank(shop, "refunds", defib_job_output(job, "charge")))
		return because(job, DEFIB_FAILED, "the bank does not answer");
	return DEFIB_DONE;
}

/* ---- the stock ---- */

/* One lamp more or less, and the end of the step: both or neither. */
static defib_outcome move(defib_job *job, const char *path, const char *update, int number)
{
	char noted[96];
	sqlite3 *shop = shop_open(path);
	defib_outcome outcome;
	int moved;
	snprintf(noted, sizeof noted, "INSERT INTO moves VALUES (?1, %d)", number);
	if (run(shop, "BEGIN IMMEDIATE") != SQLITE_OK)
		outcome = because(job, DEFIB_FAILED, sqlite3_errmsg(shop));
	else if ((moved = run(shop, update)) == SQLITE_CONSTRAINT)
		outcome = because(job, DEFIB_PERMANENT, "sold out");
	else if (moved != SQLITE_OK || write_one(shop, noted, NULL, order_of(job)) != SQLITE_OK)
		outcome = because(job, DEFIB_FAILED, sqlite3_errmsg(shop));
	else
		outcome = settle_and_commit(job, shop);
	sqlite3_close(shop); /* rolls back what was not committed */
	return outcome;
}

static defib_outcome reserve(defib_job *job, void *shop)
{
	return move(job, shop, "UPDATE stock SET number = number - 1 WHERE item = 'lamp'", -1);
}

static defib_outcome put_back(defib_job *job, void *shop)
{
	return move(job, shop, "UPDATE stock SET number = number + 1 WHERE item = 'lamp'", 1);
}

/* ---- the courier ---- */

static defib_outcome ship(defib_job *job, void *path)
{
	sqlite3 *shop = shop_open(path);
	const char *sql = "UPDATE orders SET shipped = 1 WHERE id = ?1 AND address <> 'nowhere'";
	defib_outcome outcome;
	if (run(shop, "BEGIN IMMEDIATE") != SQLITE_OK ||
	    write_one(shop, sql, NULL, order_of(job)) != SQLITE_OK)
		outcome = because(job, DEFIB_FAILED, sqlite3_errmsg(shop));
	else if (sqlite3_changes(shop) == 0)
		outcome = because(job, DEFIB_PERMANENT, "there is no such address");
	else
		outcome = settle_and_commit(job, shop);
	sqlite3_close(shop);
	return outcome;
}

static const defib_step steps[] = {
	DEFIB_STEP("charge", charge, refund),
	DEFIB_STEP("reserve", reserve, put_back),
	DEFIB_STEP("ship", ship, NULL),
};

/* ---- orders ---- */

static void place(const char *path, defib_db *db, const char *address)
{
	sqlite3 *shop = shop_open(path);
	defib_message message;

	if (run(shop, "BEGIN IMMEDIATE") != SQLITE_OK ||
	    write_one(shop, "INSERT INTO orders (shipped, address) VALUES (?1, ?2)", address, 0))
		die("no order", sqlite3_errmsg(shop));
	int64_t id = enqueue_order(shop, "orders", "order");
	if (run(shop, "COMMIT") != SQLITE_OK)
		die("no order", sqlite3_errmsg(shop));
	must(defib_notify(db, &message), &message);
	printf("%lld\n", (long long)id);
	sqlite3_close(shop);
}

int main(int argc, char **argv)
{
	char url[512];

	if (argc < 3) {
		fprintf(stderr, "usage: saga DATABASE place ADDRESS | work [--drain]\n");
		return 2;
	}
	snprintf(url, sizeof url, "sqlite:%s", argv[1]);
	defib_db *db = shop_queue(argv[1], url, schema);
	defib_pool pool = DEFIB_POOL_INIT;
	pool.queue = "orders";
	pool.kind = "order";
	pool.steps = steps;
	pool.nsteps = sizeof steps / sizeof *steps;
	pool.saga = 1;
	pool.ctx = argv[1];
	pool.concurrency = 4;

	if (strcmp(argv[2], "place") == 0 && argc == 4)
		place(argv[1], db, argv[3]);
	else if (strcmp(argv[2], "work") == 0)
		work(url, &pool, argc > 3 && strcmp(argv[3], "--drain") == 0);
	else
		die(argv[2], "not a command");
	defib_close(db);
	return 0;
}

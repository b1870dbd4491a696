/* SPDX-License-Identifier: Apache-2.0
 * spooling.c: what it costs to spool results and new jobs, and to drain results.
 *
 *     spooling FOLDER [ROUNDS]
 *
 * In each round, each kind of work is done once, so that a busy machine slows all of them. Prints
 * the median of the rounds: how many a second, the ratio to the same bytes appended to a plain file
 * with a sync after each call, and microseconds of a core for each. Syncs and bytes written do not
 * depend on the machine.
 *
 * To compare with another commit, build this file there, and run both in turn:
 *
 *     ninja -C build spooling && build/spooling /tmp/folder
 */
#include "base/clock.h"
#include "worker/spool_results.h"
#include "worker/spools.h"
#include "worker/stored_jobs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BATCH 100
#define ONES 30    /* in a round, calls with one result each … */
#define BATCHES 10 /* … and with a hundred */
#define ROUNDS_MOST 1000

/* ---- what reaches the disk ---- */

static struct {
	int64_t syncs, bytes;
} disk;

/* Visible, so that SQLite calls them. */
__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *bytes, size_t n,
                                                        off_t at)
{
	disk.bytes += (int64_t)n;
	return syscall(SYS_pwrite64, fd, bytes, n, at);
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
	disk.syncs++;
	return (int)syscall(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
	disk.syncs++;
	return (int)syscall(SYS_fsync, fd);
}

/* ---- the work ---- */

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "spooling: %s\n", what);
	exit(1);
}

static struct spool_result result(char key[24], int i)
{
	snprintf(key, 24, "%d", i);
	return (struct spool_result){.source = "mail",
	                             .worker = 1123456789,
	                             .end = {.key = key,
	                                     .epoch = 1,
	                                     .as = SETTLE_DONE,
	                                     .result = "{\"sent\":true,\"to\":\"ada@example.org\"}",
	                                     .delay_ms = -1}};
}

static struct bench {
	const char *folder;
	struct spools *spools;
	struct stored_jobs queue;
	int plain, next; /* a descriptor; the next key */
} b;

static void append_plain(int calls, int each)
{
	AUTO_BUF bytes = BUF_INIT;
	char key[24];
	for (int i = 0; i < calls; i++) {
		buf_clear(&bytes);
		for (int k = 0; k < each; k++) {
			struct spool_result r = result(key, b.next++);
			spool_result_encode(&r, &bytes);
		}
		if (write(b.plain, buf_text(&bytes), bytes.len) != (ssize_t)bytes.len || fdatasync(b.plain))
			die("the plain file cannot be written");
		disk.bytes += (int64_t)bytes.len;
	}
}

static void keep(int calls, int each)
{
	struct spool_result all[BATCH];
	char keys[BATCH][24];
	struct failure f = {0};
	for (int i = 0; i < calls; i++) {
		for (int k = 0; k < each; k++)
			all[k] = result(keys[k], b.next++);
		if (spools_append_many(b.spools, "mail", all, each, NULL, &f))
			die(f.what);
	}
}

static void drain(int calls, int each)
{
	struct spools_record all[BATCH];
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	for (int i = 0; i < calls; i++) {
		arena_clear(&a);
		int got = spools_peek_many(b.spools, "mail", SPOOLS_WAITING, all, each, &a);
		if (got != each || spools_take_many(b.spools, "mail", SPOOLS_WAITING, all, got, NULL, &f))
			die(f.what[0] ? f.what : "results are missing");
	}
}

static void put(int calls, int each)
{
	struct enqueue jobs[BATCH];
	char token[STORED_TOKEN_SIZE];
	struct failure f = {0};
	for (int k = 0; k < each; k++)
		jobs[k] = (struct enqueue){
			.queue = "mail", .kind = "send", .payload = "{\"to\":\"ada@example.org\"}"};
	for (int i = 0; i < calls; i++) {
		stored_token(token);
		if (stored_jobs_put(&b.queue, token, jobs, each, &f))
			die(f.what);
	}
}

static const struct kind {
	const char *name;
	void (*run)(int calls, int each);
	int calls, each;
} kinds[] = {
	{"plain file, one by one", append_plain, ONES, 1},
	{"spooled one by one", keep, ONES, 1},
	{"drained one by one", drain, ONES, 1},
	{"plain file, by hundreds", append_plain, BATCHES, BATCH},
	{"spooled by hundreds", keep, BATCHES, BATCH},
	{"drained by hundreds", drain, BATCHES, BATCH},
	{"new jobs, one by one", put, ONES, 1},
};
#define NKINDS (int)(sizeof kinds / sizeof *kinds)

/* ---- figures ---- */

static struct figures {
	double rates[ROUNDS_MOST], cpu_s[ROUNDS_MOST];
	int64_t syncs, bytes;
} figures[NKINDS];

static double cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void measure(int kind, int round)
{
	const struct kind *k = &kinds[kind];
	struct figures *to = &figures[kind];
	disk.syncs = disk.bytes = 0;
	double cpu = cpu_s();
	int64_t begun_us = clock_boot_us();
	k->run(k->calls, k->each);
	to->rates[round] = k->calls * k->each * 1e6 / (double)(clock_boot_us() - begun_us);
	to->cpu_s[round] = cpu_s() - cpu;
	to->syncs += disk.syncs;
	to->bytes += disk.bytes;
}

static int by_size(const void *a, const void *c)
{
	double x = *(const double *)a, y = *(const double *)c;
	return (x > y) - (x < y);
}

static double median(double *all, int n)
{
	qsort(all, (size_t)n, sizeof *all, by_size);
	return all[n / 2];
}

static void print(int rounds)
{
	double plain = 1;
	printf("%-24s %10s %8s %9s %12s %9s\n", "", "per s", "of plain", "us of CPU", "syncs a call",
	       "bytes");
	for (int i = 0; i < NKINDS; i++) {
		const struct kind *k = &kinds[i];
		struct figures *of = &figures[i];
		double rate = median(of->rates, rounds), n = k->calls * k->each;
		if (k->run == append_plain)
			plain = rate;
		printf("%-24s %10.0f %8.2f %9.1f %12.3f %9.0f\n", k->name, rate, rate / plain,
		       median(of->cpu_s, rounds) * 1e6 / n, (double)of->syncs / k->calls / rounds,
		       (double)of->bytes / n / rounds);
	}
}

int main(int argc, char **argv)
{
	struct failure f = {0};
	int64_t rounds = 20;
	if (argc < 2 || (argc > 2 && !int_parse(argv[2], &rounds)) || rounds <= 0 ||
	    rounds > ROUNDS_MOST)
		die("usage: spooling FOLDER [ROUNDS]");
	AUTO_BUF spool = BUF_INIT, new = BUF_INIT, plain = BUF_INIT;
	buf_addf(&spool, "%s/spool", argv[1]);
	buf_addf(&new, "%s/" STORED_JOBS_FOLDER, argv[1]);
	buf_addf(&plain, "%s/plain", argv[1]);
	b.queue = (struct stored_jobs){.folder = buf_text(&new), .url = "sqlite:/nowhere/x.db"};
	b.plain = open(buf_text(&plain), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	if (b.plain < 0)
		die("the folder must exist");
	if (spools_open(buf_text(&spool), 0, &b.spools, &f))
		die(f.what);
	for (int round = 0; round < rounds; round++)
		for (int i = 0; i < NKINDS; i++)
			measure(i, round);
	spools_close(b.spools);
	close(b.plain);
	print((int)rounds);
	return 0;
}

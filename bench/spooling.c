/* SPDX-License-Identifier: Apache-2.0
 * spooling.c: how fast results are spooled and drained, as a part of what the disk can do by
 * itself: the same bytes appended to a plain file, with fdatasync after each piece.
 *
 *     spooling FOLDER [RESULTS]
 *
 * Prints per kind of work how many results a second, and the ratio to the plain file in this run.
 */
#include "base/clock.h"
#include "worker/spools.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BATCH 100

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

static double since(int64_t begun_us)
{
	return (double)(clock_boot_us() - begun_us) / 1e6;
}

/* Appended with a sync after every `piece` results; per second. */
static double plain(const char *folder, int n, int piece)
{
	char path[512], key[24];
	AUTO_BUF bytes = BUF_INIT;
	snprintf(path, sizeof path, "%s/plain", folder);
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	int64_t begun_us = clock_boot_us();
	for (int i = 0; i < n; i += piece) {
		buf_clear(&bytes);
		for (int k = 0; k < piece; k++) {
			struct spool_result r = result(key, i + k);
			spool_result_encode(&r, &bytes);
		}
		if (write(fd, buf_text(&bytes), bytes.len) != (ssize_t)bytes.len || fdatasync(fd))
			die("the plain file cannot be written");
	}
	double rate = n / since(begun_us);
	close(fd);
	(void)unlink(path);
	return rate;
}

static double keep(struct spools *s, int first, int n, int piece)
{
	struct spool_result all[BATCH];
	char keys[BATCH][24];
	struct failure f = {0};
	int64_t begun_us = clock_boot_us();
	for (int i = 0; i < n; i += piece) {
		for (int k = 0; k < piece; k++)
			all[k] = result(keys[k], first + i + k);
		if (spools_append_many(s, "mail", all, piece, NULL, &f))
			die(f.what);
	}
	return n / since(begun_us);
}

static double drain(struct spools *s, int n, int piece)
{
	struct spools_record all[BATCH];
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	int64_t begun_us = clock_boot_us();
	for (int i = 0; i < n; i += piece) {
		arena_clear(&a);
		int got = spools_peek_many(s, "mail", SPOOLS_WAITING, all, piece, &a);
		if (got != piece || spools_take_many(s, "mail", SPOOLS_WAITING, all, got, NULL, &f))
			die(f.what[0] ? f.what : "results are missing");
	}
	arena_release(&a);
	return n / since(begun_us);
}

static void print(const char *what, double rate, double plain_rate)
{
	printf("%-22s %9.0f /s   %5.2f of a plain file\n", what, rate, rate / plain_rate);
}

int main(int argc, char **argv)
{
	struct spools *s;
	struct failure f = {0};
	char spool[512];
	int64_t n = 500;
	if (argc < 2 || (argc > 2 && !int_parse(argv[2], &n)) || n <= 0 || n > 100000)
		die("usage: spooling FOLDER [RESULTS]");
	snprintf(spool, sizeof spool, "%s/spool", argv[1]);
	if (spools_open(spool, 0, &s, &f))
		die(f.what);
	int few = (int)n, lots = few * BATCH;
	double one = plain(argv[1], few, 1), many = plain(argv[1], lots, BATCH);
	print("spooled one by one", keep(s, 0, few, 1), one);
	print("drained one by one", drain(s, few, 1), one);
	print("spooled by hundreds", keep(s, few, lots, BATCH), many);
	print("drained by hundreds", drain(s, lots, BATCH), many);
	spools_close(s);
	return 0;
}

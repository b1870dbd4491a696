/* SPDX-License-Identifier: Apache-2.0
 * main.c: runs seeds.
 *
 *     simulator [FIRST [COUNT]]    COUNT seeds from FIRST on; marks that none took fail the run
 *     simulator --show SEED        one seed, event by event
 *
 * DEFIB_SIMULATED is the number of seeds, whatever the arguments say.
 */
#include "sim.h"

#define MARKS_FROM 2000 /* seeds on which every mark must have been taken */

static int show(uint64_t seed)
{
	static struct sim s;
	sim_run(&s, seed, true);
	printf("seed %llu: %lld events, hash %016llx: %s\n", (unsigned long long)seed,
	       (long long)s.events, (unsigned long long)s.hash, s.broken ? s.broken : "all holds");
	int code = s.broken != NULL;
	sim_release(&s);
	return code;
}

static int run(uint64_t first, uint64_t count)
{
	static struct sim s;
	int64_t marks[MARKS] = {0}, events = 0;
	int failed = 0;
	for (uint64_t seed = first; seed < first + count; seed++) {
		sim_run(&s, seed, false);
		events += s.events;
		for (int i = 0; i < MARKS; i++)
			marks[i] += s.marks[i];
		if (s.broken) {
			printf("seed %llu: %s\n  replay: build/simulator --show %llu\n",
			       (unsigned long long)seed, s.broken, (unsigned long long)seed);
			failed++;
		}
		sim_release(&s);
		if (failed >= 10)
			break;
	}
	for (int i = 0; i < MARKS; i++) {
		printf("%s %lld%s", mark_names[i], (long long)marks[i], i + 1 < MARKS ? ", " : "\n");
		if (marks[i] == 0 && count >= MARKS_FROM && !failed) {
			printf("no seed took the path \"%s\"\n", mark_names[i]);
			failed++;
		}
	}
	printf("%llu seeds, %lld events, %d failed\n", (unsigned long long)count, (long long)events,
	       failed);
	printf("[ %s ] seeds_keep_what_must_hold\n", failed ? "FAILED" : "OK");
	return failed > 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && text_eq(argv[1], "--show"))
		return show(strtoull(argv[2], NULL, 10));
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000;
	const char *more = getenv("DEFIB_SIMULATED");
	return run(first, more ? strtoull(more, NULL, 10) : count);
}

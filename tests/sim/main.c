/* SPDX-License-Identifier: Apache-2.0
 * main.c: runs seeds.
 *
 *     simulator [--store sqlite] [--with NAME,…] [FIRST [COUNT]]
 *                                  COUNT seeds from FIRST on; marks that none took fail the run
 *     simulator … --find TEXT [FIRST [COUNT]]
 *                                  the first of them in which this ("any": anything) does not
 *                                  hold; exit 1 if there is none
 *     simulator … --show SEED [--without FAULT,…] [--faults N]
 *                                  one seed, event by event: without these kinds of fault, and
 *                                  with the first N that come
 *
 * --store sqlite executes every statement on SQLite too, and compares. --with makes drivers and
 * statements behave as they did before a fault was found there (OLD_LIST).
 *
 * DEFIB_SIMULATED is the number of seeds of the model, whatever the arguments say.
 */
#include "sim.h"

#define MARKS_FROM 10000 /* number of seeds from which on every mark must have been taken */
#define HASHED_EVERY 100 /* one in this many seeds is run twice: both runs must be the same */
#define FAILED_MOST 10

static struct sim sim;

/* ---- a failing seed, made smaller ---- */

/* As: in the same way; NULL: in any. */
static bool fails(uint64_t seed, const struct cuts *cuts, const char *as)
{
	sim_run(&sim, seed, cuts, false);
	bool same = sim.broken && (!as || text_eq(sim.broken, as));
	sim_release(&sim);
	return same;
}

static void cut_kinds(uint64_t seed, struct cuts *cuts, const char *as)
{
	for (int i = 0; i < FAULTS; i++) {
		struct cuts next = *cuts;
		next.without |= 1U << i;
		if (next.without != cuts->without && fails(seed, &next, as))
			*cuts = next;
	}
}

/* Kinds of fault that it also fails without, then the smallest number of faults it fails with. */
static struct cuts shrink(uint64_t seed, int64_t faults, const char *as)
{
	struct cuts cuts = {.faults = faults};
	cut_kinds(seed, &cuts, as);
	for (int64_t step = cuts.faults; step > 0; step /= 2)
		for (;;) {
			struct cuts next = {cuts.without, cuts.faults - step};
			if (next.faults < 0 || !fails(seed, &next, as))
				break;
			cuts = next;
		}
	cut_kinds(seed, &cuts, as);
	return cuts;
}

static void print_kinds(const char *before, uint32_t kinds, const char *between)
{
	for (int i = 0; i < FAULTS; i++)
		if (kinds >> i & 1) {
			printf("%s%s", before, fault_names[i]);
			before = between;
		}
}

static void print_failed(uint64_t seed, const char *what, int64_t faults)
{
	uint32_t all = (1U << FAULTS) - 1;
	struct cuts cuts = shrink(seed, faults, what);
	printf("seed %llu: %s\n", (unsigned long long)seed, what);
	print_kinds("  needs: ", all & ~cuts.without, ", ");
	printf("; faults: %lld\n  replay: build/simulator%s", (long long)cuts.faults,
	       store_kind == KEEP_MODEL ? "" : " --store sqlite");
	const char *before = " --with ";
	for (int i = 0; i < OLDS; i++)
		if (old((enum old)i)) {
			printf("%s%s", before, old_names[i]);
			before = ",";
		}
	printf(" --show %llu", (unsigned long long)seed);
	print_kinds(" --without ", cuts.without, ",");
	printf(" --faults %lld\n", (long long)cuts.faults);
}

/* ---- seeds ---- */

struct tally {
	int64_t marks[MARKS], events, share; /* thousandths of the bound, at most … */
	uint64_t longest;                    /* … by this seed */
	int failed;
};

static bool is_same_again(uint64_t seed, uint64_t hash)
{
	/* SQLite's results equal those of its model: without SQLite it is the same run. */
	enum store_kind kept = store_kind;
	struct tables db = sim.db;
	store_kind = kept == KEEP_MODEL ? KEEP_MODEL : KEEP_SQLITE_MODEL;
	sim_run(&sim, seed, NULL, false);
	bool same = sim.hash == hash && is_same_end(&sim.db, &db);
	sim_release(&sim);
	store_kind = kept;
	return same;
}

static void run_seed(uint64_t seed, struct tally *t)
{
	sim_run(&sim, seed, NULL, false);
	const char *what = sim.broken;
	int64_t faults = sim.faults;
	uint64_t hash = sim.hash;
	t->events += sim.events;
	for (int i = 0; i < MARKS; i++)
		t->marks[i] += sim.marks[i];
	int64_t share = sim.bound_us ? sim.healed_us * 1000 / sim.bound_us : 0;
	if (share > t->share) {
		t->share = share;
		t->longest = seed;
	}
	sim_release(&sim);
	if (what)
		print_failed(seed, what, faults);
	bool again = store_kind != KEEP_MODEL || seed % HASHED_EVERY == 0;
	bool differs = !what && again && !is_same_again(seed, hash);
	if (differs)
		printf("seed %llu: a second run differs\n", (unsigned long long)seed);
	t->failed += what || differs;
}

static void check_marks(struct tally *t, uint64_t count)
{
	for (int i = 0; i < MARKS; i++) {
		printf("%s %lld%s", mark_names[i], (long long)t->marks[i], i + 1 < MARKS ? ", " : "\n");
		if (t->marks[i] == 0 && count >= MARKS_FROM && !t->failed && store_kind == KEEP_MODEL) {
			printf("no seed took the path \"%s\"\n", mark_names[i]);
			t->failed++;
		}
	}
}

static int run(uint64_t first, uint64_t count)
{
	struct tally t = {0};
	for (uint64_t seed = first; seed < first + count && t.failed < FAILED_MOST; seed++)
		run_seed(seed, &t);
	check_marks(&t, count);
	printf("all was final after %.1f %% of the bound at the latest (seed %llu)\n",
	       (double)t.share / 10, (unsigned long long)t.longest);
	printf("%llu seeds, %lld events, %d failed\n", (unsigned long long)count, (long long)t.events,
	       t.failed);
	printf("[ %s ] seeds_keep_what_must_hold\n", t.failed ? "FAILED" : "OK");
	return t.failed > 0;
}

static int find(const char *what, uint64_t first, uint64_t count)
{
	for (uint64_t seed = first; seed < first + count; seed++)
		if (fails(seed, NULL, what)) {
			printf("seed %llu: %s\n", (unsigned long long)seed, sim.broken);
			return 0;
		}
	printf("none of %llu seeds: %s\n", (unsigned long long)count, what ? what : "any");
	return 1;
}

/* ---- one seed ---- */

/* Names of a list, by bit; "-" stands for "_". */
static bool read_names(char *list, const char *const *names, int n, uint32_t *bits)
{
	char *rest = NULL;
	for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		int i = 0;
		for (char *at = name; *at; at++)
			*at = *at == '-' ? '_' : *at;
		while (i < n && !text_eq(names[i], name))
			i++;
		if (i == n)
			return false;
		*bits |= 1U << i;
	}
	return true;
}

static int show(int argc, char **argv)
{
	struct cuts cuts = {.faults = -1};
	uint64_t seed = strtoull(argv[0], NULL, 10);
	for (int i = 1; i + 1 < argc; i += 2) {
		if (text_eq(argv[i], "--faults")) {
			cuts.faults = strtoll(argv[i + 1], NULL, 10);
		} else if (!text_eq(argv[i], "--without") ||
		           !read_names(argv[i + 1], fault_names, FAULTS, &cuts.without)) {
			printf("not understood: %s %s\n", argv[i], argv[i + 1]);
			return 2;
		}
	}
	sim_run(&sim, seed, &cuts, true);
	printf("seed %llu, %s: %lld events, hash %016llx: %s\n", (unsigned long long)seed,
	       sim.safety ? "never healed" : "healed", (long long)sim.events,
	       (unsigned long long)sim.hash, sim.broken ? sim.broken : "all holds");
	int code = sim.broken != NULL;
	sim_release(&sim);
	return code;
}

int main(int argc, char **argv)
{
	if (argc >= 3 && text_eq(argv[1], "--store")) {
		if (!text_eq(argv[2], "sqlite") && !text_eq(argv[2], "model")) {
			printf("no such store: %s\n", argv[2]);
			return 2;
		}
		store_kind = text_eq(argv[2], "sqlite") ? KEEP_SQLITE : KEEP_MODEL;
		argc -= 2;
		argv += 2;
	}
	if (argc >= 3 && text_eq(argv[1], "--with")) {
		if (!read_names(argv[2], old_names, OLDS, &old_ways)) {
			printf("no such way: %s\n", argv[2]);
			return 2;
		}
		argc -= 2;
		argv += 2;
	}
	if (argc >= 3 && text_eq(argv[1], "--show"))
		return show(argc - 2, argv + 2);
	const char *what = argc >= 3 && text_eq(argv[1], "--find") ? argv[2] : NULL;
	argc -= what ? 2 : 0;
	argv += what ? 2 : 0;
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 20000;
	if (what)
		return find(text_eq(what, "any") ? NULL : what, first, count);
	const char *more = store_kind == KEEP_MODEL ? getenv("DEFIB_SIMULATED") : NULL;
	return run(first, more ? strtoull(more, NULL, 10) : count);
}

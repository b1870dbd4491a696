/* SPDX-License-Identifier: Apache-2.0
 * replay.c: runs a target over every file of the given directories, without libFuzzer.
 */
#include "fuzz.h"

#include <ftw.h>

static int ran;

static int run(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)at;
	if (kind != FTW_F)
		return 0;
	FILE *file = fopen(path, "rb");
	uint8_t *bytes = malloc((size_t)st->st_size + 1);
	MUST(file && bytes);
	size_t n = fread(bytes, 1, (size_t)st->st_size, file);
	fclose(file);
	fprintf(stderr, "%s\n", path); /* the last line names the one that failed */
	LLVMFuzzerTestOneInput(bytes, n);
	free(bytes);
	ran++;
	return 0;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (nftw(argv[i], run, 8, FTW_PHYS) != 0)
			return 2;
	printf("[       OK ] %d_inputs\n", ran);
	return ran > 0 ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0
 * spool.c: a spool whose file was damaged. It opens or reports why not; a record that it shows can
 * be taken, and a record that is appended afterwards is there at the next open.
 */
#include "fuzz.h"

#include "worker/spool.h"

#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

/* A file of the directory, with the bytes of the input at the position that the input says. */
static void damage(const char *folder, const char *name, const uint8_t *bytes, size_t n,
                   off_t place)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	MUST(fd >= 0 && pwrite(fd, bytes, n, place) == (ssize_t)n);
	close(fd);
}

static void use(const struct spool_options *o)
{
	struct spool *s = NULL;
	struct failure f = {0};
	const char *bytes;
	size_t n;
	if (spool_open(o, &s, &f)) {
		MUST(f.what[0] != '\0');
		return;
	}
	for (int i = 0; i < 100 && spool_peek(s, &bytes, &n); i++)
		MUST(spool_take(s, &f) == DEFIB_OK);
	int64_t before = spool_count(s);
	MUST(spool_append(s, "after", 5, &f) == DEFIB_OK);
	spool_close(s);
	MUST(spool_open(o, &s, &f) == DEFIB_OK);
	MUST(spool_count(s) == before + 1);
	spool_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	/* In memory if possible: waiting for a disk tests nothing. */
	char shm[] = "/dev/shm/defib-fuzz-XXXXXX", tmp[] = "/tmp/defib-fuzz-XXXXXX";
	char *folder = access("/dev/shm", W_OK) == 0 ? shm : tmp;
	struct spool *s = NULL;
	struct failure f = {0};
	MUST(mkdtemp(folder));
	struct spool_options o = {.folder = folder};
	MUST(spool_open(&o, &s, &f) == DEFIB_OK);
	MUST(spool_append(s, "first", 5, &f) == DEFIB_OK);
	MUST(spool_append(s, "second", 6, &f) == DEFIB_OK);
	spool_close(s);
	if (n > 2)
		damage(folder, bytes[1] % 4 ? "spool" : "taken", bytes + 2, n - 2, bytes[0]);
	use(&o);
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return 0;
}

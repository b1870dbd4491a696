/* SPDX-License-Identifier: Apache-2.0
 * await.c: await FILE…: ends when one of the files exists; await -n FILE…: when none does.
 *
 * Jobs of tests wait for files. A loop in a shell starts a process for every look, and some
 * hundred jobs that wait cost more than what is tested.
 */
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	bool gone = argc > 1 && strcmp(argv[1], "-n") == 0;
	for (;; nanosleep(&pause, NULL)) {
		bool any = false;
		for (int i = gone ? 2 : 1; i < argc; i++)
			any = any || access(argv[i], F_OK) == 0;
		if (any != gone)
			return 0;
	}
}

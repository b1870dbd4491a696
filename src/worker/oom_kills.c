/* SPDX-License-Identifier: Apache-2.0
 * oom_kills.c: memory.events of our control group counts its processes that any out-of-memory
 * killer chose. The root group and version 1 have no such file; there the machine's count in
 * /proc/vmstat must do.
 */

#include "worker/oom_kills.h"

#include "base/text.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

#define LINE_MAX_BYTES 512
#define LATELY_MS 1000

static const char unified_group[] = "0::";
static const char kill_count[] = "oom_kill ";

/* The rest of the first line that starts with `lead`, without its newline. */
static bool line_after(const char *path, const char *lead, char *out, size_t size)
{
	bool found = false;
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	char line[PATH_MAX + LINE_MAX_BYTES];
	while (!found && fgets(line, sizeof(line), file)) {
		found = text_starts(line, lead);
		if (found) {
			line[strcspn(line, "\n")] = '\0';
			snprintf(out, size, "%s", line + strlen(lead));
		}
	}
	fclose(file);
	return found;
}

int64_t oom_kills_in(const char *path)
{
	char number[32];
	int64_t kills;
	if (!line_after(path, kill_count, number, sizeof(number)) || !int_parse(number, &kills))
		return -1;
	return kills;
}

int64_t oom_kills(void)
{
	char group[PATH_MAX], events[PATH_MAX + 64];
	int64_t kills = -1;
	if (line_after("/proc/self/cgroup", unified_group, group, sizeof(group))) {
		snprintf(events, sizeof(events), "/sys/fs/cgroup%s/memory.events", group);
		kills = oom_kills_in(events);
	}
	return kills >= 0 ? kills : oom_kills_in("/proc/vmstat");
}

int64_t oom_kills_lately(int64_t now_ms)
{
	static _Atomic int64_t kills, until_ms = INT64_MIN;
	if (now_ms >= atomic_load(&until_ms)) {
		atomic_store(&kills, oom_kills());
		atomic_store(&until_ms, now_ms + LATELY_MS);
	}
	return atomic_load(&kills);
}
